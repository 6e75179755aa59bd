"""Whether "geometric" is as sure as it should be: 90 % regions over trials whose truth is drawn as it assumes, and not.

The CAD and the motions are fixed (G1's dance, sway and reach, states taken as exact). Each trial draws another true
robot around the CAD, other offsets of the sensors from the data sheets, and other noise; forces follow from these on
the triangular factor, which has the same distribution as rows gathered anew.

Joint regions are ellipsoids of the covariance, by chi squared. The covariance stands and falls with the prior's
weights, which the data tell by as many combinations of parameters as they decide, about fifty: as with a variance that
was found from so many residuals, F is what the squared distance follows, and is shown beside it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import chi2, wishart

from benchmarks.figures import Figure
from benchmarks.papers.jovic import show
from benchmarks.truth.robots import true_robot
from benchmarks.truth.runs import spread_out
from benchmarks.truth.scores import GEOMETRIC, plain
from steelyard import SolverError, identify
from steelyard.identification.estimate.base_parameters import half_width
from steelyard.identification.methods.registry import OPTIONS
from steelyard.laboratory.true_robot import draw_parameters
from steelyard.model.parameters import PARAMETER_COUNT, PARAMETER_SYMBOLS, from_pseudo_inertia, to_pseudo_inertia

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.figures import Study
    from steelyard import Estimate, Evidence, Model
    from steelyard.arrays import FloatArray

ROBOT, ROBOT_SEED = "g1", 0
TRIALS = 200
FIRST_SEED = 70_000
LEVEL = 0.9
LOW, HIGH = 0.85, 0.95
WEIGHT = 25.0
"""Of the divergence by which the truth is drawn: links off by about a fifth, as the laboratory's are."""

SPREAD = 0.2
CLEAR = 15.0
"""Relative standard error, percent, by least squares, up to which a combination of parameters is clear."""

DRAWS, DRAWN = 400, 20
"""Robots drawn from a posterior, and trials in which they are."""

LAWS = {
    "as assumed": "each link drawn from the density that the method assumes",
    "the laboratory's law": "masses log-normal, matter stretched and shifted",
    "one link twice as heavy": "as assumed, then one link is twice what was drawn",
    "CAD 20 % too heavy": "as assumed, then scaled so that all links together weigh a sixth less on average",
}
KINDS = {"m": slice(0, 1), "mc": slice(1, 4), "I": slice(4, 10)}


def draw_truth(model: Model, law: str, generator: np.random.Generator) -> FloatArray:
    """Draws a true robot around a CAD, shape (n_links, 10).

    The density ``exp(−w D(P ‖ P₀))`` over the volume that neither units nor frames change is Wishart's: with
    ``P₀ = L Lᵀ`` and ``P = L X Lᵀ``, ``X`` has 2 w degrees of freedom and the scale ``1/(2 w)``; its mean is the CAD.
    """
    if law == "the laboratory's law":
        return draw_parameters(model, SPREAD, generator)
    lower = np.linalg.cholesky(to_pseudo_inertia(model.parameters))
    drawn = wishart.rvs(2.0 * WEIGHT, np.eye(4) / (2.0 * WEIGHT), size=len(lower), random_state=generator)
    truth = from_pseudo_inertia(lower @ drawn @ np.swapaxes(lower, 1, 2))
    if law == "one link twice as heavy":
        truth[generator.integers(len(truth))] *= 2.0
    if law == "CAD 20 % too heavy":
        truth /= 1.2
    return truth


def measured_again(evidence: Evidence, truth: FloatArray, generator: np.random.Generator) -> Evidence:
    """Gives Evidence of the same states for another true robot, with other offsets of sensors and other noise."""
    priors = np.array(evidence.key.priors, dtype=np.float64)
    offsets = priors * generator.standard_normal(len(priors))
    columns = evidence.full_factor[:-1, :-1] @ np.concatenate([truth.ravel(), offsets])
    factor = evidence.factor.copy()
    factor[:-1, -1] = columns + generator.standard_normal(len(columns))
    factor[-1, -1] = np.sqrt(generator.chisquare(evidence.row_count - len(columns)))
    return replace(evidence, factor=factor)


@cache
def _setting(kind: str) -> tuple[Model, Evidence]:
    robot = true_robot(ROBOT, ROBOT_SEED)
    parts = robot.evidence(kind)
    return robot.model, sum(parts[1:], start=parts[0])


def trial(seed: int, *, law: str, kind: str = "default", draws: bool = False) -> dict[str, Any]:
    """Gives what one trial's regions held; with `draws` also that of robots drawn from the posterior."""
    model, evidence = _setting(kind)
    generator = np.random.default_rng([FIRST_SEED, seed])
    truth = draw_truth(model, law, generator)
    estimate = identify(model, measured_again(evidence, truth, generator), method=GEOMETRIC)
    found = {"status": estimate.status, **regions(estimate, truth)}
    if draws and seed < DRAWN:
        try:
            found["masses jointly, by draws"] = by_draws(estimate, truth, seed)
        except SolverError:
            found["refused"] = True
    return found


def regions(estimate: Estimate, truth: FloatArray) -> dict[str, Any]:
    """Gives whether 90 % regions hold the truth: of each parameter, the total mass, all masses and all parameters."""
    bounds = estimate.intervals(LEVEL)
    held = (bounds[:, :, 0] <= truth) & (truth <= bounds[:, :, 1])
    error = (estimate.parameters - truth).ravel()
    width = half_width(LEVEL, estimate.freedom)
    found: dict[str, Any] = {name: float(held[:, part].mean()) for name, part in KINDS.items()}
    found |= {
        "all": float(held.mean()),
        "total mass": bool(abs(error[::10].sum()) <= width * estimate.total_mass_error),
        "masses jointly": estimate.in_region(truth, LEVEL),
        "masses jointly, by chi²": _far(error[::10], estimate.covariance[::10, ::10]) <= chi2.ppf(LEVEL, len(truth)),
        "all jointly": estimate.in_region(truth, LEVEL, which="*"),
        "all jointly, by chi²": _far(error, estimate.covariance) <= chi2.ppf(LEVEL, error.size),
        "freedom": estimate.freedom,
        "by link": held.mean(axis=1).tolist(),
        "masses": held[:, 0].tolist(),
        "mass_ratio": float(np.linalg.norm(error[::10])
                            / np.linalg.norm(estimate.model.parameters[:, 0] - truth[:, 0])),
        "determined": float(estimate.determined.mean()),
    }  # fmt: skip
    chosen = estimate.base.rsd < CLEAR
    names = [f"{link}.{symbol}" for link in estimate.model.links for symbol in PARAMETER_SYMBOLS]
    places = [names.index(name) for name in estimate.base.unknowns]
    clear = estimate.base.groupings[chosen]
    covariance = clear @ estimate.covariance[np.ix_(places, places)] @ clear.T
    found["clear combinations"] = int(chosen.sum())
    found["combinations jointly"] = _far(clear @ error[places], covariance) <= chi2.ppf(LEVEL, int(chosen.sum()))
    return found


def by_draws(estimate: Estimate, truth: FloatArray, seed: int) -> bool:
    """Tells whether the masses are nearer to the estimate's than those of a tenth of robots drawn from the posterior.

    Nearness is by the covariance, which the draws did not make: their own would count each of them as too near.
    """
    masses = estimate.sample(DRAWS, seed=seed).parameters[:, :, 0]
    covariance = estimate.covariance[::PARAMETER_COUNT, ::PARAMETER_COUNT]
    distances = [_far(each - estimate.parameters[:, 0], covariance) for each in (truth[:, 0], *masses)]
    return bool(distances[0] <= np.quantile(distances[1:], LEVEL))


def _far(error: FloatArray, covariance: FloatArray) -> float:
    """Gives the squared Mahalanobis distance, with units taken out first."""
    size = np.sqrt(np.diagonal(covariance))
    return float((error / size) @ np.linalg.solve(covariance / np.outer(size, size), error / size))


def study_calibration(study: Study, trials: int = TRIALS, others: int = TRIALS // 4) -> None:
    """Counts how often regions hold the truth, when CAD errors are as assumed, and when they are not."""
    if GEOMETRIC not in OPTIONS:
        return
    raw: dict[str, Any] = {"level": LEVEL, "robot": ROBOT, "weight": WEIGHT}
    rows, found = [], {}
    runs = [("as assumed", "default", trials), ("as assumed", "wrench", others)]
    runs += [(law, "default", others) for law in LAWS if law != "as assumed"]
    for law, kind, count in runs:
        label = law if kind == "default" else f"{law}, wrench noise only"
        asked = label == "as assumed"
        each = spread_out(partial(trial, law=law, kind=kind, draws=asked), list(range(count)), label)
        means = _means(each)
        raw[label] = {"law": LAWS[law], "trials": count, "coverage": means,
                      "mass_ratio": float(np.median([one["mass_ratio"] for one in each])),
                      "by_link": np.mean([one["by link"] for one in each], axis=0),
                      "masses": np.mean([one["masses"] for one in each], axis=0),
                      "draws_refused": [seed for seed, one in enumerate(each) if "refused" in one],
                      "not_solved": sum(one["status"] != "solved" for one in each)}  # fmt: skip
        found[label] = means
        rows.append([label, str(count), *(f"{means[name]:.3f}" if name in means else "" for name in REGIONS)])
    show(f"how often {LEVEL:.0%} regions hold the truth, {ROBOT}", ["CAD's error", "trials", *REGIONS],
         rows, width=170)  # fmt: skip
    study.raw["calibration"] = plain(raw)
    study.figures += _figures(found, trials, others)


REGIONS = ("all", *KINDS, "total mass", "masses jointly", "masses jointly, by chi²", "masses jointly, by draws",
           "combinations jointly", "all jointly", "all jointly, by chi²")  # fmt: skip


def _means(each: Sequence[dict[str, Any]]) -> dict[str, float]:
    values = {name: [one[name] for one in each if name in one] for name in REGIONS}
    return {name: float(np.mean(some)) for name, some in values.items() if some}


def _figures(found: dict[str, dict[str, float]], trials: int, others: int) -> list[Figure]:
    """Gives the figures; what is drawn as assumed has bars on both sides."""
    figures = []
    for label, means in found.items():
        asked = label == "as assumed"
        kinds = ", ".join(f"{name} {means[name]:.3f}" for name in KINDS)
        joint = ", ".join(f"{name} {means[name]:.3f}" for name in REGIONS[1 + len(KINDS) :] if name in means)
        count = trials if asked else others
        figures += [
            Figure(f"CAD's error {label}: {LEVEL:.0%} intervals hold, all parameters", means["all"],
                   LOW if asked else None, note=f"{count} trials; {kinds}; {joint}"),
            Figure(f"CAD's error {label}: {LEVEL:.0%} region of all masses holds", means["masses jointly"],
                   LOW if asked else None),
        ]  # fmt: skip
        if asked:
            figures += [
                Figure(f"CAD's error {label}: intervals hold, not more than", means["all"], HIGH, at_least=False),
                Figure(f"CAD's error {label}: region of all masses holds, not more than", means["masses jointly"],
                       HIGH, at_least=False),
            ]  # fmt: skip
    return figures
