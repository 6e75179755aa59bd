"""How near to the truth an answer is: what every part of this study measures of a method's parameters.

How well an answer predicts an unseen motion is measured three times, as root mean square errors over those of the true
parameters, axis by axis:

- "cross": as sensors read. Their offsets are then most of what the true parameters leave, and where offsets of two feet
  happen to cancel, nothing comes near; where they do not, a wrong weight may make up for them.
- "cross_centred": the same without what is constant.
- "cross_sensors": with what the training data say of the sensors, the truth's too. While feet stay flat nothing tells a
  sensor's offset from weight; an answer is the parameters together with the offsets that go with them. Each candidate,
  the truth among them, therefore predicts with the offsets that are likeliest with its own parameters. This one has the
  bar: neither side gains by luck, nor by knowing more of the sensors than the data tell.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.papers.jovic import NUISANCE
from benchmarks.truth.robots import ON_PLATES
from steelyard import SteelyardError, identify, load_model, project_to_interior, validate
from steelyard.identification.methods.registry import OPTIONS
from steelyard.identification.parameter_sets import choose_parameters
from steelyard.identification.problem import build_problem
from steelyard.model.consistency import is_possible
from steelyard.model.divergence import affine_distance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.truth.robots import TrueRobot
    from steelyard import Estimate, Evidence, Model, Motion, Validation
    from steelyard.arrays import FloatArray

    BoolArray = np.ndarray[tuple[int], np.dtype[np.bool_]]

CAD, CORRECTED, TRUTH = "CAD", "CAD, mass corrected", "truth"
GEOMETRIC = "geometric"
SI_PRIOR = "quadratic, alpha = 1, SI units"
AXES = ("fx", "fy", "fz", "nx", "ny", "nz")


@dataclass(frozen=True)
class Candidate:
    """A method as it is run here.

    Attributes:
        label: What it is called in tables.
        method: The method.
        options: Its options.
        listed: Whether it is given motions one by one, for cross-validation.
    """

    label: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    listed: bool = False


CANDIDATES = (
    Candidate("truncated", "truncated"),
    Candidate("bounded", "bounded"),
    Candidate("base", "base"),
    Candidate("quadratic, alpha = 1", "quadratic", {"alpha": 1.0}),
    Candidate(SI_PRIOR, "quadratic", {"alpha": 1.0, "scale": "none"}),
    Candidate("quadratic, alpha cross-validated", "quadratic", listed=True),
    Candidate("hierarchical", "hierarchical"),
    Candidate("conic", "conic"),
    Candidate(GEOMETRIC, "geometric"),
)
"""All methods; the fixed prior in SI units is [jovic2015]'s."""


def ready(candidates: Sequence[Candidate] = CANDIDATES) -> list[Candidate]:
    """Gives those candidates whose method there is."""
    return [candidate for candidate in candidates if candidate.method in OPTIONS]


def answer(model: Model, evidence: Sequence[Evidence], candidate: Candidate) -> tuple[Estimate | None, float, str]:
    """Gives a candidate's estimate, the seconds from Evidence to Estimate, and how it ended."""
    given = list(evidence) if candidate.listed else sum(evidence[1:], start=evidence[0])
    begin = time.perf_counter()
    try:
        estimate = identify(model, given, method=candidate.method, **candidate.options)
    except SteelyardError as error:
        return None, time.perf_counter() - begin, f"{type(error).__name__}: {error}"
    spent = time.perf_counter() - begin
    return (None if estimate.status == "failed" else estimate), spent, estimate.status


def sound_links(name: str) -> BoolArray:
    """Tells which links of a robot could exist as its CAD ships them; others were made plates 1 mm thick."""
    return np.atleast_1d(is_possible(load_model(name.removesuffix(ON_PLATES)).parameters))


def distance(parameters: FloatArray, truth: FloatArray, sound: BoolArray | None = None) -> dict[str, Any]:
    """Gives how far parameters are from the truth, link by link, free of any data.

    Affine-invariant distances are root mean squares over links, and infinite where a link cannot exist; beside them
    those over the links that can, those of all links after the least change that lets them exist, and those over the
    links that could exist in the CAD, of which alone it makes sense to say that the CAD is off by so much.
    """
    apart = affine_distance(parameters, truth)
    possible = np.isfinite(apart)
    masses = parameters[:, 0] - truth[:, 0]
    return {
        "affine": rms(apart),
        "affine_possible": rms(apart[possible]) if possible.any() else float("inf"),
        "affine_projected": rms(affine_distance(project_to_interior(parameters), truth)),
        "affine_sound": rms(apart if sound is None else apart[sound]),
        "possible": float(possible.mean()),
        "mass": rms(masses),
        "mass_median": float(np.median(np.abs(masses))),
        "total_mass": float(masses.sum()),
    }


def score(robot: TrueRobot, kind: str, candidates: Sequence[Candidate]) -> dict[str, dict[str, Any]]:
    """Gives how near to the truth candidates come with one robot's data of a kind, the CAD beside them."""
    model, truth, evidence, unseen = robot.model, robot.truth, robot.evidence(kind), robot.unseen(kind)
    sound = sound_links(robot.name)
    found: dict[str, dict[str, Any]] = {CAD: distance(model.parameters, truth, sound)}
    least: FloatArray | None = None
    for candidate in candidates:
        estimate, spent, status = answer(model, evidence, candidate)
        row: dict[str, Any] = {"status": status, "seconds": spent}
        found[candidate.label] = row
        if estimate is None:
            continue
        row |= distance(estimate.parameters, truth, sound)
        validation = validate(estimate, unseen, truth=truth)
        row |= _cross(validation)
        if kind == "default":
            least = _true_errors(estimate, evidence, unseen, truth) if least is None else least
            row["cross_sensors"] = (validate(estimate, unseen, nuisance=NUISANCE).world.estimate.rmse / least).tolist()
        if "cross" not in found[CAD]:
            corrected = estimate.mass_scale * model.parameters
            found[CORRECTED] = {**distance(corrected, truth, sound), **_cross(validation, "corrected")}
            found[CAD] |= _cross(validation, "reference")
            found[TRUTH] = _cross(validation, "truth")
    for label, row in found.items():
        if label != CAD and "mass" in row:
            for what in ("affine", "affine_sound", "mass"):
                row[f"{what}_ratio"] = row[what] / found[CAD][what]
    return found


def _true_errors(estimate: Estimate, evidence: Sequence[Evidence], unseen: Motion, truth: FloatArray) -> FloatArray:
    """Gives what the true parameters leave of the unseen motion, with the offsets that go with them in training."""
    problem = build_problem(sum(evidence[1:], start=evidence[0]), choose_parameters(estimate.model))
    true = replace(estimate, solution=truth, nuisance=problem.nuisance(truth))
    return np.asarray(validate(true, unseen, nuisance=NUISANCE).world.estimate.rmse)


def _cross(validation: Validation, whose: str = "estimate") -> dict[str, list[float]]:
    """Gives the unseen motion's errors over those of the true parameters as sensors read, axis by axis.

    With and without what is constant of them.
    """
    fit, true = getattr(validation.world, whose), validation.world.truth
    return {
        "cross": (fit.rmse / true.rmse).tolist(),
        "cross_centred": (fit.std / true.std).tolist(),
        "rmse": fit.rmse.tolist(),
    }


def rms(values: FloatArray) -> float:
    """Gives the root mean square."""
    return float(np.sqrt(np.mean(np.square(values))))


# ---- over runs -------------------------------------------------------------------------------------------------------


def names(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Gives the candidates of some runs, CAD first."""
    return [label for label in dict.fromkeys(label for run in runs for label in run) if label != TRUTH]


def over_runs(runs: Sequence[Mapping[str, Mapping[str, Any]]], label: str, what: str) -> FloatArray:
    """Gives one number of each run that a candidate answered, shape (n_answered,); of axes, the worst."""
    values = [run[label][what] for run in runs if what in run.get(label, {})]
    return np.array([max(value) if isinstance(value, list) else value for value in values], dtype=np.float64)


def pooled(runs: Sequence[Mapping[str, Mapping[str, Any]]], label: str) -> FloatArray:
    """Gives root mean square errors over the truth's, axis by axis, mean squares of runs added first, shape (6,).

    One robot's offsets are luck: where they happen to be small, nothing comes near to what the true parameters leave.
    """
    sums = [np.sum(np.square([run[who]["rmse"] for run in runs if "rmse" in run.get(label, {})]), axis=0)
            for who in (label, TRUTH)]  # fmt: skip
    return np.asarray(np.sqrt(sums[0] / sums[1]))


def table(runs: Sequence[Mapping[str, Mapping[str, Any]]]) -> tuple[list[str], list[list[str]]]:
    """Gives headings and rows of a table over runs: medians, and the worst where that is what counts."""
    headings = [
        "", "answered", "affine/CAD", "worst", "over possible", "possible links", "mass/CAD", "worst", "> 1",
        "mass kg", "cross", "worst", "centred", "worst", "own offsets", "worst", "s",
    ]  # fmt: skip
    columns: list[tuple[str, Callable[[FloatArray], Any], str]] = [
        ("affine_ratio", np.median, ".2f"), ("affine_ratio", np.max, ".2f"), ("affine_possible", np.median, ".2f"),
        ("possible", np.mean, ".1%"), ("mass_ratio", np.median, ".2f"), ("mass_ratio", np.max, ".2f"),
        ("mass_ratio", lambda values: np.mean(values > 1.0), ".0%"), ("mass", np.median, ".3f"),
        ("cross", np.median, ".2f"), ("cross", np.max, ".2f"), ("cross_centred", np.median, ".2f"),
        ("cross_centred", np.max, ".2f"), ("cross_sensors", np.median, ".2f"), ("cross_sensors", np.max, ".2f"),
        ("seconds", np.median, ".2f"),
    ]  # fmt: skip
    rows = []
    for label in names(runs):
        cells = [label, f"{len(over_runs(runs, label, 'mass'))}/{len(runs)}"]
        for what, summary, form in columns:
            values = over_runs(runs, label, what)
            cells.append(format(float(summary(values)), form) if len(values) else "")
        rows.append(cells)
    return headings, rows


def in_columns(by_robot: Mapping[str, Sequence[Mapping[str, Mapping[str, Any]]]]) -> dict[str, Any]:
    """Gives the scores by robot, candidate and what was measured, one for each seed: as they are stored."""
    stored: dict[str, Any] = {}
    for name, runs in by_robot.items():
        for label in dict.fromkeys(label for run in runs for label in run):
            rows = [run.get(label, {}) for run in runs]
            stored.setdefault(name, {})[label] = {
                what: [row.get(what) for row in rows] for what in dict.fromkeys(what for row in rows for what in row)
            }
    return stored


def plain(value: Any, digits: int = 4) -> Any:
    """Gives numbers as JSON can hold them, rounded; what is not finite becomes words."""
    if isinstance(value, dict):
        return {str(key): plain(each, digits) for key, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(each, digits) for each in value]
    if isinstance(value, (bool, str, int)) or value is None:
        return value
    number = float(value)
    return float(f"{number:.{digits}g}") if np.isfinite(number) else str(number)
