"""How near to the truth each method comes: four robots, ten true ones of each, sensors as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.figures import Figure
from benchmarks.papers.jovic import show
from benchmarks.truth.pictures import draw_methods
from benchmarks.truth.runs import all_runs
from benchmarks.truth.scores import (
    AXES,
    CAD,
    GEOMETRIC,
    SI_PRIOR,
    in_columns,
    names,
    over_runs,
    plain,
    pooled,
    ready,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.figures import Study

    Run = Mapping[str, Mapping[str, Any]]

WHOLE = "truth"
WHY = (
    "; each, the truth too, with the sensors' offsets that the training data say go with its parameters: with flat "
    "feet nothing tells an offset from weight, and sensors taken at their word would compare luck"
)
MASS_BAR, WORSE_BAR, CROSS_BAR = 0.6, 0.1, 1.1


def study_methods(study: Study, robots: Sequence[str], seeds: int) -> None:
    """Measures all methods, and holds "geometric" against what it is asked for."""
    by_robot = all_runs(robots, seeds, "default", ready())
    runs = [run for each in by_robot.values() for run in each]
    for name, each in by_robot.items():
        show(f"{name}, default sensors, {len(each)} true robots: medians over them", *table(each), width=170)
    show(f"all {len(runs)} runs", *table(runs), width=170)
    for label in names(runs):
        if label != CAD:
            study.figures += _figures(label, runs, by_robot)
    study.raw["methods"] = plain({"runs": in_columns(by_robot), "axes": AXES})
    if study.name == WHOLE:
        draw_methods(by_robot)


def _figures(label: str, runs: Sequence[Run], by_robot: Mapping[str, Sequence[Run]]) -> list[Figure]:
    """Gives a method's figures; only "geometric", and the fixed prior in SI units, are asked for anything."""
    asked = label == GEOMETRIC
    affine, mass = over_runs(runs, label, "affine_ratio"), over_runs(runs, label, "mass_ratio")
    if not len(mass):
        return [Figure(f"{label}: runs that it answered, of {len(runs)}", 0, 1.0 if asked else None)]
    away = float(np.mean(mass > 1.0))
    spent = over_runs(runs, label, "seconds")
    figures = [
        Figure(f"{label}: runs nearer to the truth than CAD (affine), of {len(runs)}", int(np.sum(affine < 1.0)),
               len(runs) if asked else None,
               note=f"{_summed_up(affine)}; {_by_robot(by_robot, label, 'affine_ratio')}; "
               f"links that can exist: {over_runs(runs, label, 'possible').mean():.1%}"),
        Figure(f"{label}: mass error over CAD's, median", float(np.median(mass)), MASS_BAR if asked else None,
               at_least=False, note=f"worst {mass.max():.2f}; {_by_robot(by_robot, label, 'mass_ratio')}"
               + (f"; {np.median(spent):.2f} s, most {spent.max():.2f}" if len(spent) else "")),
    ]  # fmt: skip
    if asked or label == SI_PRIOR:
        figures.append(
            Figure(f"{label}: share of runs with masses worse than CAD's", away, WORSE_BAR if asked else 0.5,
                   at_least=not asked, note="" if asked else "the paper's fixed prior moves masses away from the truth")
        )  # fmt: skip
    figures += _predictions(label, runs, by_robot, asked=asked)
    if asked:
        sound = over_runs(runs, label, "affine_sound_ratio")
        figures += [
            Figure(f"{label}: affine distance over CAD's, links that could exist in the CAD, worst run",
                   float(sound.max()), at_least=False,
                   note=f"median {np.median(sound):.2f}; {_by_robot(by_robot, label, 'affine_sound_ratio')}; others "
                   "were made plates 1 mm thick, and the tilt of a plate outweighs all else"),
            Figure(f"{label}: share of links that can exist", float(over_runs(runs, label, "possible").mean()), 1.0),
        ]  # fmt: skip
    return figures


def _predictions(
    label: str, runs: Sequence[Run], by_robot: Mapping[str, Sequence[Run]], *, asked: bool
) -> list[Figure]:
    """Gives the figures about the unseen motion; see `benchmarks.truth.scores` for what has the bar, and why."""

    def spread_of(what: str) -> str:
        values = over_runs(runs, label, what)
        inside = int(np.sum(values <= CROSS_BAR))
        return (f"median {np.median(values):.3f}, within {CROSS_BAR} in {inside} of {len(values)}, worst is "
                f"{_where(by_robot, label, what)}")  # fmt: skip

    own = over_runs(runs, label, "cross_sensors")
    if not len(own):
        return []
    figures = [
        Figure(f"{label}: cross RMSE over the truth's, worst axis, worst run", float(own.max()),
               CROSS_BAR if asked else None, at_least=False,
               note=spread_of("cross_sensors") + (WHY if asked else ""))
    ]  # fmt: skip
    if not asked:
        return figures
    by_axis = {name: pooled(each, label) for name, each in by_robot.items()}
    worst = max(by_axis, key=lambda name: float(by_axis[name].max()))
    return [
        *figures,
        Figure(f"{label}: share of runs within {CROSS_BAR} of it", float(np.mean(own <= CROSS_BAR))),
        Figure(f"{label}: the same, sensors taken at their word", float(over_runs(runs, label, "cross").max()),
               at_least=False, note=spread_of("cross")),
        Figure(f"{label}: the same without what is constant", float(over_runs(runs, label, "cross_centred").max()),
               at_least=False, note=spread_of("cross_centred")),
        Figure(f"{label}: sensors taken at their word, all true robots together, worst axis",
               float(by_axis[worst].max()), at_least=False,
               note=f"{AXES[int(np.argmax(by_axis[worst]))]} of {worst}; mean squares added before roots: one "
               "robot's offsets may happen to be small"),
    ]  # fmt: skip


def _summed_up(values: Any) -> str:
    if not np.isfinite(np.median(values)):
        return "a link cannot exist in most"
    return f"median {np.median(values):.2f} of CAD's, worst {values.max():.2f}"


def _by_robot(by_robot: Mapping[str, Sequence[Run]], label: str, what: str) -> str:
    found = {name: over_runs(each, label, what) for name, each in by_robot.items()}
    return ", ".join(f"{name} {float(np.median(values)):.2f}" for name, values in found.items() if len(values))


def _where(by_robot: Mapping[str, Sequence[Run]], label: str, what: str) -> str:
    """Says which run and axis is the worst."""
    places = [
        (value, f"{AXES[axis]} of {name} {seed}")
        for name, each in by_robot.items()
        for seed, run in enumerate(each)
        for axis, value in enumerate(run.get(label, {}).get(what, []))
    ]
    return max(places)[1]
