"""[jovic2016] sections IV and VII on virtual robots: Tables I and II, Figures 5 to 7, and what its formulation lacks.

New parts in torso, head, feet and hands that the CAD does not know, and a scale that says what all weigh together: 5 kg
on a TALOS; on a G1, whose head is one with its torso, as large a share of its weight as HRP-2's 5 of 58 kg. β is 0.35
for the links that were changed and 0.05 for the others, α 0.1. And 5 kg on the G1 too, of which its hands get more than
35 %: then the masses that are allowed exclude the true ones, and β is left out for the links that were changed.

Most of what the true parameters leave are offsets of the sensors. Four sets of sensors, each with offsets of its own,
measure the same motions, and errors are those over all sets; tables and what lies between are of the first.

Beside the default, the paper's own formulation as literally as can be: plain sums of squares, SI units, least squares
in all directions of the data, ε = 0.01 kg m², no other bound of inertias, sensors taken at their word; and the default
with one of these at a time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.figures import Figure, Study
from benchmarks.papers import hierarchy
from benchmarks.papers.jovic import (
    BARS,
    NUISANCE,
    PHYSICS,
    PRIORS,
    SCALE_STEP,
    SENSORS,
    USUAL,
    Played,
    drawn_too_small,
    in_words_by_axis,
    play,
    pool_validations,
    pooled_ratios,
    ratios,
    raw_fits,
    show,
    show_distances,
    show_fits,
    worst_violation,
)
from benchmarks.papers.jovic_pictures import draw_forces, draw_masses
from benchmarks.peers import consistent
from steelyard import MassWithin, MatterWithin, MirrorWithin, PositiveInertia, TotalMass, identify
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.identification.parameter_sets import choose_parameters
from steelyard.identification.problem import build_problem
from steelyard.laboratory import Payload
from steelyard.model.parameters import rotational_inertia_at_origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard import Estimate, Evidence
    from steelyard.model.constraints import Constraint

SEEDS = {"robot": 1, "motions": 10, "noise": 10, "sensors": 100, "hierarchies": 0}
SPREAD = 0.02
MODIFIED, UNMODIFIED, MIRROR = 0.35, 0.05, 0.1
PAPER_EPSILON = 0.01
MAIN, PAPER = "here", "the paper's formulation"
TOLERANCES = (0.0, 1.0, 2.0, 4.0)


def _both(name: str, mass: float) -> dict[str, float]:
    return {name.format(side): mass for side in ("left", "right")}


TALOS = {
    "torso_2_link": Payload(2.95, (-0.1, 0.0, 0.15)),
    "head_2_link": 0.35,
    **_both("leg_{}_6_link", 0.45),
    **_both("arm_{}_7_link", 0.4),
}
G1 = {
    "torso_link": Payload(1.95, (-0.05, 0.0, 0.18)),
    "d435_link": 0.25,
    **_both("{}_ankle_roll_link", 0.17),
    **_both("{}_wrist_pitch_link", 0.11),
    **_both("{}_wrist_yaw_link", 0.06),
}
HEAVY_G1 = {
    "torso_link": Payload(2.9, (-0.05, 0.0, 0.18)),
    "d435_link": 0.4,
    **_both("{}_ankle_roll_link", 0.35),
    **_both("{}_wrist_pitch_link", 0.2),
    **_both("{}_wrist_yaw_link", 0.3),
}
"""New parts, kg: a computer at the back, cameras, soles, and grippers."""


@dataclass(frozen=True, eq=False)
class Attempt:
    """An estimate, the constraints that it was asked for, and the seconds that it took."""

    estimate: Estimate
    constraints: tuple[Constraint, ...]
    seconds: float


def paper_constraints(played: Played, beta: float | None = MODIFIED) -> tuple[Constraint, ...]:
    """Gives what the paper asks for besides the usual: total mass, symmetry, masses near the CAD's."""
    return (
        TotalMass(played.on_the_scale, SCALE_STEP / 2.0),
        *drawn_too_small(played.model),
        MirrorWithin(MIRROR),
        MassWithin(UNMODIFIED),
        MassWithin(beta, played.modified),
    )


def attempt(played: Played, parts: Sequence[Evidence], constraints: Sequence[Constraint], **options: Any) -> Attempt:
    """Identifies by the hierarchy, from all motions together."""
    together = sum(parts[1:], parts[0])
    begin = time.perf_counter()
    estimate = identify(played.model, together, method="hierarchical", constraints=constraints, **options)
    return Attempt(estimate, tuple(constraints), time.perf_counter() - begin)


def attempts(played: Played, *, excluded: bool) -> dict[str, Attempt]:
    """Gives the robot's parameters as they are found here, by the paper's formulation, and by what lies between.

    Args:
        played: The robot.
        excluded: Whether the masses that β allows exclude the true ones.
    """
    literal = paper_constraints(played)
    given = paper_constraints(played, None) if excluded else literal
    coarse = PositiveInertia(PAPER_EPSILON, relative=False)
    bare = MatterWithin(None)
    ours, plain = played.evidence, played.plain_evidence
    return {
        MAIN: attempt(played, ours, given),
        **({f"here, but β = {MODIFIED} for changed links": attempt(played, ours, literal)} if excluded else {}),
        "here, but least squares": attempt(played, ours, given, tolerance=0.0),
        "here, but least squares, SI units, all directions": attempt(played, ours, given, scale="none"),
        f"here, but ε = {PAPER_EPSILON:g} kg m²": attempt(played, ours, (*given, coarse)),
        "here, but plain sums, offsets ignored": attempt(played, plain, given),
        PAPER: attempt(played, plain, (*literal, coarse, bare), scale="none"),
    }


def show_left_out(played: Played, constraints: Sequence[Constraint]) -> dict[str, float | None]:
    """Prints what is left per equation of each motion that teaches, by parameters learned from the others."""
    unknowns = choose_parameters(played.model)
    parts = played.evidence
    rows = sum(part.row_count for part in parts)
    tested = [build_problem(part, unknowns) for part in parts]
    left: dict[str, float | None] = {}
    for tolerance in TOLERANCES:
        tries = [
            attempt(played, [*parts[:held], *parts[held + 1 :]], constraints, tolerance=tolerance).estimate
            for held in range(len(parts))
        ]
        costs = [test.cost(each.solution) for test, each in zip(tested, tries, strict=True) if each.status != "failed"]
        left[f"{tolerance:g}"] = sum(costs) / rows if len(costs) == len(parts) else None
    show(
        f"{played.name}: one motion left out, its cost per equation, by the tolerance of the data in standard errors",
        ["tolerance", *left],
        [["cost", *("failed" if value is None else f"{value:.2f}" for value in left.values())]],
    )
    return left


def truth_allowed(played: Played, constraints: Sequence[Constraint]) -> list[str]:
    """Gives the constraints that the true parameters break, in words."""
    system = resolve_constraints(played.model, [*USUAL, *constraints])
    broken = system.rows.violation(played.truth)
    worst = np.argsort(-broken)
    words = [f"{system.rows.names[row]} (by {broken[row]:.2g})" for row in worst if broken[row] > 0.0]
    for family in system.cut_families:
        words += [
            f"{name} (by {value:.2g})"
            for name, value in zip(family.names, family.violation(played.truth), strict=True)
            if value > 0.0
        ]
    return words


def show_masses(played: Played, tried: dict[str, Attempt]) -> dict[str, Any]:
    """Prints Table II: masses in per cent of the CAD's, with the true ones beside."""
    cad, true = played.model.parameters[:, 0], played.truth[:, 0]
    columns = {name: tried[name].estimate.parameters[:, 0] for name in (MAIN, PAPER) if name in tried}
    columns["true"] = true
    rows = [
        [f"{link}{' *' if link in played.modified else ''}", f"{cad[place]:.3f}"]
        + [f"{100.0 * masses[place] / cad[place]:.1f}" for masses in columns.values()]
        for place, link in enumerate(played.model.links)
    ]
    show(f"Table II, {played.name}: masses, % of CAD; * changed", ["link", "CAD kg", *columns], rows)
    return {name: dict(zip(played.model.links, (100.0 * masses / cad).tolist(), strict=True))
            for name, masses in columns.items()}  # fmt: skip


def explain(played: Played, tried: dict[str, Attempt], checked: dict[str, Any], apart: dict[str, Any]) -> list[str]:
    """Says where the paper's formulation falls short, and why, in sentences with numbers."""
    least = np.linalg.eigvalsh(rotational_inertia_at_origin(played.truth))[:, 0]
    below = int(np.count_nonzero(least < PAPER_EPSILON))
    lines = [
        f"ε = {PAPER_EPSILON:g} kg m² is above the true smallest inertia of {below} of {len(least)} links (median "
        f"{np.median(least):.2g}): it makes links larger than they are."
    ]
    for name, each in tried.items():
        worst = {kind: float(np.max(ratios(checks))) for kind, checks in checked[name].items()}
        bound = sum(".m within" in words for words in each.estimate.active)
        lines.append(
            f"{name}: RMSE {worst['direct']:.2f} (direct) and {worst['cross']:.2f} (cross) times the true parameters' "
            f"on the worst axis; masses off by {apart[name]['mass kg']:.3f} kg rms, {bound} of them at a limit of β; "
            f"inertias by {apart[name]['inertia %']:.0f} %; the prediction of the unseen motion by "
            f"{apart[name]['moment N m']:.2f} N m."
        )
    return [f"{played.name}, {line}" for line in lines]


def one_robot(study: Study, played: Played, *, excluded: bool = False) -> dict[str, Attempt]:
    """Makes all tables of one robot."""
    outside = truth_allowed(played, paper_constraints(played))
    print(f"{played.name}: {len(played.modified)} links changed, {sum(played.expected.values()):.2f} kg expected "
          f"of them; constraints that the true robot breaks: {', '.join(outside) or 'none'}")  # fmt: skip
    left = show_left_out(played, paper_constraints(played, None if excluded else MODIFIED))
    everything = attempts(played, excluded=excluded)
    tried = {name: each for name, each in everything.items() if each.estimate.status != "failed"}
    for name in everything.keys() - tried.keys():
        print(f"{played.name}, {name}: failed. {everything[name].estimate.notes[0]}")
    checked = {name: played.validations(each.estimate) for name, each in tried.items()}
    show_fits(f"Table I, {played.name}", checked[MAIN])
    masses = show_masses(played, tried)
    rows = []
    for name, checks in checked.items():
        row = [name]
        for kind in BARS:
            values = ratios(checks[kind])
            row += [f"{values.max():.2f}", " ".join(f"{value:.2f}" for value in values)]
        rows.append(row)
    show(f"{played.name}: RMSE over the true parameters', worst axis, then fx fy fz nx ny nz",
         ["", "direct", "", "cross", ""], rows)  # fmt: skip
    apart = show_distances(
        f"{played.name}, {played.model.total_mass:.1f} kg of CAD, {played.on_the_scale:.2f} kg on the scale",
        played,
        {name: each.estimate for name, each in tried.items()},
    )
    said = explain(played, tried, checked, apart)
    print("\n".join(said))
    broken = {name: worst_violation(each.estimate, each.constraints, PHYSICS) for name, each in tried.items()}
    again = [attempt(other, other.evidence, tried[MAIN].constraints).estimate for other in played.again]
    pooled = pool_validations(played, checked[MAIN], again)
    for kind, bar in BARS.items():
        values, swings = pooled_ratios(pooled[kind]), pooled_ratios(pooled[kind], centred=True)
        study.figures.append(
            Figure(f"{played.name}: RMSE over the true parameters', {kind}, worst axis", float(values.max()), bar,
                   at_least=False, note=f"{in_words_by_axis(values)}; without means {swings.max():.2f}")
        )  # fmt: skip
        if PAPER in checked:
            paper = ratios(checked[PAPER][kind])
            study.figures.append(Figure(f"{played.name}: the same, {kind}, {PAPER}", float(paper.max()),
                                        note=f"{in_words_by_axis(paper)}; the first sensors alone"))  # fmt: skip
    corrected = apart["CAD, mass corrected"]["mass kg"]
    study.figures += [
        Figure(f"{played.name}: rms mass error over mass-corrected CAD's, {name}", apart[name]["mass kg"] / corrected,
               1.0 if name == MAIN else None, at_least=False, note=f"{apart[name]['mass kg']:.3f} kg")
        for name in (MAIN, PAPER)
        if name in apart
    ]  # fmt: skip
    study.figures.append(
        Figure(f"{played.name}: worst violation of physics, all estimates", max(value for value, _ in broken.values()),
               1e-8, at_least=False, note=max(broken.values())[1])
    )  # fmt: skip
    study.raw[played.name] = {
        "events": played.events,
        "scale": played.on_the_scale,
        "constraints that the truth breaks": outside,
        "left out": left,
        "failed": {name: list(each.estimate.notes) for name, each in everything.items() if name not in tried},
        "pooled": {kind: pooled_ratios(each).tolist() for kind, each in pooled.items()},
        "masses, % of CAD": masses,
        "distances": apart,
        "said": said,
        "attempts": {
            name: {"seconds": each.seconds, "status": each.estimate.status, "violation": broken[name],
                   "active": list(each.estimate.active), "notes": list(each.estimate.notes),
                   "levels": [{"name": level.name, "cost": level.cost, "before": list(level.before),
                               "broken": list(level.broken)} for level in each.estimate.levels],
                   "fits": raw_fits(checked[name])}
            for name, each in tried.items()
        },
    }  # fmt: skip
    return tried


def _together(played: Played) -> Evidence:
    return sum(played.evidence[1:], played.evidence[0])


def against_figaroh(study: Study, played: Played) -> None:
    """Holds the hierarchy against figaroh's physically consistent fit: with our Evidence, and with sums like its."""
    given = paper_constraints(played)
    whitened = {"weights": played.weights, "nuisance": NUISANCE, "priors": PRIORS}
    ways = {MAIN: whitened, "plain sums, offsets ignored": {"weights": None}}
    found = {
        name: consistent._identified(played.model, played.training, "hierarchical", gathering, given)
        for name, gathering in ways.items()
    }
    figures, raw = consistent.compare(
        played.model,
        played.training,
        played.unseen,
        played.truth,
        {name: estimate for name, (estimate, _) in found.items()},
        seconds={name: seconds for name, (_, seconds) in found.items()},
        label=played.name,
    )
    consistent.show(played.name, raw)
    study.figures += figures
    study.raw["figaroh"] = raw


def study() -> int:
    """Runs the study and gives the exit code."""
    study = Study("papers_jovic2016", SEEDS)
    talos = play("talos", SEEDS, spread=SPREAD, parts=TALOS, label="TALOS, 5 kg", sensors=SENSORS)
    light = play("g1", SEEDS, spread=SPREAD, parts=G1, label="G1, 2.9 kg", sensors=SENSORS)
    heavy = play("g1", SEEDS, spread=SPREAD, parts=HEAVY_G1, label="G1, 5 kg", sensors=SENSORS)
    found = {played.name: one_robot(study, played, excluded=played is heavy) for played in (talos, light, heavy)}
    for played in (talos, light):
        parameters = found[played.name][MAIN].estimate.parameters
        draw_forces(played, parameters, f"jovic2016_figures5_6_{played.robot}")
        draw_masses(played, parameters, f"jovic2016_figure7_{played.robot}", percent=True)
    robots = {
        played.name: (played.model, _together(played), paper_constraints(played)) for played in (talos, light, heavy)
    }
    hierarchy.study_levels(study, robots, SEEDS["hierarchies"])
    weighed = paper_constraints(light)[:1]
    hierarchy.study_directions(study, light.model, _together(light), weighed, SEEDS["hierarchies"])
    hierarchy.study_times(study, _together(light), light.on_the_scale, light.modified)
    against_figaroh(study, light)
    return study.finish()
