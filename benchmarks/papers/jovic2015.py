"""[jovic2015] section IV on virtual robots: Tables II, III and IV, Figures 4 and 5.

A G1 stands for HRP-2: 5 kg of new parts in trunk and hands that its CAD does not know. A TALOS stands for HRP-4: nobody
changed it, but its CAD knows nothing of its cables. Both CADs are a few per cent off besides. A scale has weighed them.
Systematic exciting motions (section II-B) are not studied here; the laboratory's library serves.

The weight α of the CAD is one, cross-validated over the motions that teach, or the paper's: in SI units, where a
kilogram counts as much as a kilogram metre squared, with plain sums of squares. The paper does not give its α.

Four sets of sensors, each with offsets of its own, measure the same motions; errors beside the true parameters' are
those over all sets, tables are of the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.figures import Figure, Study
from benchmarks.papers.jovic import (
    BARS,
    SCALE_STEP,
    SENSORS,
    Played,
    distances,
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
from steelyard import MatterWithin, MirrorWithin, PositiveInertia, TotalMass, identify
from steelyard.laboratory import Payload
from steelyard.model.parameters import rotational_inertia_at_origin

if TYPE_CHECKING:
    from steelyard import Estimate, Evidence
    from steelyard.arrays import FloatArray
    from steelyard.model.constraints import Constraint

SEEDS = {"robot": 0, "motions": 0, "noise": 0, "sensors": 100}
SPREAD = 0.02
WIRING = 0.02

HRP2 = {
    "torso_link": Payload(2.8, (-0.05, 0.0, 0.18)),
    "pelvis": Payload(1.0, (-0.02, 0.0, -0.05)),
    **{
        f"{side}_wrist_{part}_link": mass for side in ("left", "right") for part, mass in (("yaw", 0.4), ("pitch", 0.2))
    },
}
"""New parts of the G1, kg: a computer, its supply, and a force sensor and a joint more at each hand."""

TRUNK_AND_LEGS = {
    "g1": ("pelvis", "waist_*", "torso_link", "left_hip_*", "left_knee_link", "left_ankle_*"),
    "talos": ("base_link", "torso_*", "leg_left_*"),
}
PAPER_EPSILON = 0.005
"""kg m²: the least inertia in the paper's Table III, eight times exactly."""

MAIN = "alpha cross-validated"


@dataclass(frozen=True, eq=False)
class Attempt:
    """An estimate, and the constraints that it was asked for."""

    estimate: Estimate
    constraints: tuple[Constraint, ...]


def attempts(played: Played) -> dict[str, Attempt]:
    """Gives the robot's parameters by jovic2015 (4), with one weight of the CAD or another."""
    weighed = (TotalMass(played.on_the_scale, SCALE_STEP / 2.0), *drawn_too_small(played.model))
    literal = (
        TotalMass(played.on_the_scale),
        *drawn_too_small(played.model),
        PositiveInertia(PAPER_EPSILON, relative=False),
        MatterWithin(None),
        MirrorWithin(0.0, of=("m", "mx", "my", "mz")),
    )
    ours, plain = played.evidence, played.plain_evidence
    asked: dict[str, tuple[Any, tuple[Constraint, ...], dict[str, Any]]] = {
        MAIN: (ours, weighed, {}),
        "alpha = 1": (_sum(ours), weighed, {"alpha": 1.0}),
        "alpha = 1, SI units, plain sums": (_sum(plain), weighed, {"alpha": 1.0, "scale": "none"}),
        "the same, the paper's ε and mirror": (_sum(plain), literal, {"alpha": 1.0, "scale": "none"}),
        "the same, alpha cross-validated": (plain, literal, {"scale": "none"}),
    }
    return {
        name: Attempt(
            identify(played.model, evidence, method="quadratic", constraints=constraints, **options), constraints
        )
        for name, (evidence, constraints, options) in asked.items()
    }


def _sum(parts: list[Evidence]) -> Evidence:
    return sum(parts[1:], parts[0])


def show_links(title: str, played: Played, estimate: Estimate) -> list[dict[str, Any]]:
    """Prints Table III: centre of mass and inertia about the joint of trunk and leg links; identified, CAD, true."""
    patterns = TRUNK_AND_LEGS[played.robot]
    rows, stored = [], []
    candidates = {"identified": estimate.parameters, "CAD": played.model.parameters, "true": played.truth}
    for place, link in enumerate(played.model.links):
        if not any(_matches(pattern, link) for pattern in patterns):
            continue
        for name, parameters in candidates.items():
            numbers = _link_numbers(parameters[place])
            stored.append({"link": link, "whose": name, "mass": float(parameters[place, 0]), **numbers})
            rows.append(
                [link if name == "identified" else "", name, f"{parameters[place, 0]:.3f}"]
                + [f"{1e3 * numbers[key]:.0f}" if key.startswith("com") else f"{numbers[key]:.4f}" for key in numbers]
            )
    headings = ["link", "", "m kg", *(key + (" mm" if key.startswith("com") else "") for key in numbers)]
    show(title, headings, rows)
    return stored


def _matches(pattern: str, link: str) -> bool:
    return link == pattern or (pattern.endswith("*") and link.startswith(pattern[:-1]))


def _link_numbers(parameters: FloatArray) -> dict[str, float]:
    tensor = rotational_inertia_at_origin(parameters)
    pairs = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    com = parameters[1:4] / parameters[0]
    return {f"com {axis}": float(com[n]) for n, axis in enumerate("xyz")} | {
        f"I{'xyz'[i]}{'xyz'[j]}": float(tensor[i, j]) for i, j in pairs
    }


def one_robot(study: Study, played: Played, number: str) -> None:
    """Makes all tables of one robot."""
    tried = attempts(played)
    found = {name: attempt.estimate for name, attempt in tried.items()}
    main = found[MAIN]
    broken = {name: worst_violation(attempt.estimate, attempt.constraints) for name, attempt in tried.items()}
    checked = {name: played.validations(estimate) for name, estimate in found.items()}
    show_fits(f"Table {number}, {played.name}, {MAIN}", checked[MAIN])
    rows = [
        [name, *(f"{np.max(ratios(checks[kind], centred=centred)):.3f}" for kind in BARS for centred in (False, True))]
        for name, checks in checked.items()
    ]
    headings = ["RMSE over the true parameters', worst axis", "direct", "without means", "cross", "without means"]
    show(f"{played.name}: which alpha", headings, rows)
    apart = show_distances(f"{played.name}, {played.model.total_mass:.1f} kg of CAD, {played.on_the_scale:.2f} kg "
                           "on the scale", played, found)  # fmt: skip
    links = show_links(f"Table III, {played.name}: about the joint's origin, in its axes", played, main)
    corrected = apart["CAD, mass corrected"]["mass kg"]
    again = [
        identify(other.model, other.evidence, method="quadratic", constraints=tried[MAIN].constraints)
        for other in played.again
    ]
    pooled = pool_validations(played, checked[MAIN], again)
    for kind, bar in BARS.items():
        values, swings = pooled_ratios(pooled[kind]), pooled_ratios(pooled[kind], centred=True)
        study.figures.append(
            Figure(f"{played.name}: RMSE over the true parameters', {kind}, worst axis", float(values.max()), bar,
                   at_least=False, note=f"{in_words_by_axis(values)}; without means {swings.max():.2f}")
        )  # fmt: skip
    study.figures += [
        Figure(f"{played.name}: mass error over mass-corrected CAD's, {name}",
               apart[name]["mass kg"] / corrected, 1.0 if name == MAIN else None, at_least=False,
               note=f"{apart[name]['mass kg']:.3f} kg; CAD {apart['CAD']['mass kg']:.3f}, corrected {corrected:.3f}")
        for name in found
    ]  # fmt: skip
    study.figures.append(
        Figure(f"{played.name}: worst violation of a constraint, all estimates",
               max(value for value, _ in broken.values()), 1e-8, at_least=False,
               note=max(broken.values())[1])
    )  # fmt: skip
    study.raw[played.name] = {
        "events": played.events,
        "scale": played.on_the_scale,
        "modified": {link: {"expected": mass, "true": _mass(played, played.truth, link),
                            "identified": _mass(played, main.parameters, link)}
                     for link, mass in played.expected.items()},
        "distances": apart,
        "pooled": {kind: pooled_ratios(each).tolist() for kind, each in pooled.items()},
        "true": distances(played, played.truth),
        "links": links,
        "estimates": {
            name: {"alpha": _alpha(estimate), "status": estimate.status, "masses": estimate.masses,
                   "violation": broken[name], "active": list(estimate.active),
                   "fits": raw_fits(checked[name])}
            for name, estimate in found.items()
        },
    }  # fmt: skip
    if played.expected:
        show(
            f"{played.name}: masses of the links that were changed, kg",
            ["", "CAD", "expected", "true", *found],
            [
                [link, *(f"{mass:.3f}" for mass in
                         (played.model.masses[link], expected, _mass(played, played.truth, link),
                          *(_mass(played, each.parameters, link) for each in found.values())))]
                for link, expected in played.expected.items()
            ],
        )  # fmt: skip
    draw_forces(played, main.parameters, f"jovic2015_figure4_{played.robot}")
    draw_masses(played, main.parameters, f"jovic2015_figure5_{played.robot}")


def _alpha(estimate: Estimate) -> float | None:
    value = getattr(estimate, "alpha", estimate.options.get("alpha"))
    return None if value is None else float(value)


def _mass(played: Played, parameters: FloatArray, link: str) -> float:
    return float(parameters[played.model.link_index(link), 0])


def study() -> int:
    """Runs the study and gives the exit code."""
    study = Study("papers_jovic2015", SEEDS)
    hrp2 = play("g1", SEEDS, spread=SPREAD, parts=HRP2, label="G1 for HRP-2", sensors=SENSORS)
    one_robot(study, hrp2, "II")
    hrp4 = play("talos", SEEDS, spread=SPREAD, wiring=WIRING, label="TALOS for HRP-4", sensors=SENSORS)
    one_robot(study, hrp4, "IV")
    return study.finish()
