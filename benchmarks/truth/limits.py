"""Where the limit lies: the same robots with wrench noise alone, and with excitation that no motion reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.figures import Figure
from benchmarks.papers.jovic import show
from benchmarks.truth.methods import WHOLE
from benchmarks.truth.pictures import draw_limits
from benchmarks.truth.runs import all_runs
from benchmarks.truth.scores import CANDIDATES, GEOMETRIC, in_columns, over_runs, plain, ready, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.figures import Study

WORDS = {"wrench": "wrench noise only", "ideal": "ideal excitation"}
SHOWN = ("truncated", "quadratic, alpha = 1", "conic", GEOMETRIC)
"""What is measured here: others take long, or say no more."""


def study_limits(study: Study, robots: Sequence[str], seeds: int) -> None:
    """Measures some of the methods where sensors, and then motions, are not what limits them."""
    raw = {}
    for kind, words in WORDS.items():
        candidates = [each for each in ready(CANDIDATES) if each.label in SHOWN]
        by_robot = all_runs(robots, seeds, kind, candidates)
        runs = [run for each in by_robot.values() for run in each]
        for name, each in by_robot.items():
            show(f"{name}, {words}, {len(each)} true robots: medians over them", *table(each), width=170)
        show(f"{words}: all {len(runs)} runs", *table(runs), width=170)
        raw[kind] = in_columns(by_robot)
        for label in (candidate.label for candidate in candidates):
            affine, mass = over_runs(runs, label, "affine_ratio"), over_runs(runs, label, "mass_ratio")
            if not len(mass):
                continue
            near = f"{np.median(affine):.2f} of CAD's" if np.isfinite(np.median(affine)) else "a link cannot exist"
            study.figures.append(
                Figure(f"{words}, {label}: mass error over CAD's, median", float(np.median(mass)), at_least=False,
                       note=f"worst {mass.max():.2f}; affine distance, median: {near}; links that can exist "
                       f"{over_runs(runs, label, 'possible').mean():.1%}")
            )  # fmt: skip
            if label == GEOMETRIC:
                cross, sound = over_runs(runs, label, "cross"), over_runs(runs, label, "affine_sound_ratio")
                study.figures += [
                    Figure(f"{words}, {label}: runs nearer to the truth than CAD (affine), of {len(runs)}",
                           int(np.sum(affine < 1.0)), len(runs),
                           note=f"worst {affine.max():.2f}; links that could exist in the CAD: median "
                           f"{np.median(sound):.2f}, worst {sound.max():.2f}"),
                    Figure(f"{words}, {label}: cross RMSE over the truth's, worst axis, worst run",
                           float(cross.max()), at_least=False, note=f"median {np.median(cross):.3f}"),
                ]  # fmt: skip
    study.raw["limits"] = plain({"runs": raw})
    measured = study.raw.get("methods")
    if study.name == WHOLE and measured:
        draw_limits({"default sensors": measured["runs"], **{words: raw[kind] for kind, words in WORDS.items()}})
