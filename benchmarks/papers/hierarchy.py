"""What [jovic2016] needs of a solver: levels as good as an oracle's, few directions, and little time.

The oracle is a cascade of conic programs by clarabel; see `clarabel_cascade`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import clarabel
import numpy as np
from scipy.sparse import bmat, csc_matrix, diags_array, eye_array, vstack

from benchmarks.figures import Figure, Study
from benchmarks.papers.clarabel_cascade import solve_by_clarabel
from benchmarks.papers.jovic import show
from steelyard import (
    Evidence,
    Model,
    PositiveInertia,
    gather_evidence,
    identify,
    load_model,
    motion_from_generalized,
    project_to_interior,
)
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.identification.solvers.lexicographic import Level, solve_cascade
from steelyard.laboratory.true_robot import draw_parameters
from steelyard.model.setup import Setup
from steelyard.regression.rows import joint_torques

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model.constraints import Constraint

RANDOM_PROBLEMS = 50
AGREE = 1e-6
"""Share of the oracle's cost by which a level may differ."""

NOTHING = 1e-9
"""Share of a level's cost at the start below which it counts as satisfied."""

STRICTNESS: dict[str, dict[str, Any]] = {", least squares": {"tolerance": 0.0, "c_max": 100.0}}
"""Levels in strict order, as in the paper, in directions that are well seen. By default the data level weighs what lies
beyond its tolerance against distance from the model, and is no level of a strict order."""

METHODS = ("truncated", "bounded", "base", "quadratic", "hierarchical")
SUBDIVISIONS = 5
MANY_LINKS = 10
"""From so many links on, residuals are no unknowns of their own when all directions are written down."""


def random_levels(seed: int) -> list[Level]:
    """Gives two to five levels over 4 to 30 unknowns: equations, bounds and both, often of low rank or in conflict."""
    generator = np.random.default_rng(seed)
    count = int(generator.integers(4, 31))
    levels = []
    for number in range(int(generator.integers(2, 6))):
        rows = int(generator.integers(1, count + 4))
        rank = int(generator.integers(1, min(rows, count) + 1)) if generator.random() < 0.5 else min(rows, count)
        matrix = generator.normal(size=(rows, rank)) @ generator.normal(size=(rank, count)) / np.sqrt(rank)
        middle, width = generator.normal(size=rows), generator.uniform(0.0, 1.0, size=rows)
        bounded = generator.random(rows) < generator.choice([0.0, 0.5, 1.0])
        side = generator.integers(3, size=rows)
        lower = np.where(bounded, np.where(side == 0, -np.inf, middle - width), middle)
        upper = np.where(bounded, np.where(side == 1, np.inf, middle + width), middle)
        levels.append(Level(f"level {number}", matrix, lower, upper))
    return levels


def against_oracle(levels: Sequence[Level]) -> dict[str, Any]:
    """Solves levels by the library and by the oracle, and by the library again without the lower ones.

    Returns:
        Costs of both; the greatest difference, beside the oracle's cost or, where that is nothing, beside the cost at
        the start; by how much lower levels changed higher ones at worst, likewise; and seconds.
    """
    start = np.zeros(levels[0].matrix.shape[1])
    begin = time.perf_counter()
    found = solve_cascade(levels, start)
    middle = time.perf_counter()
    _, wanted = solve_by_clarabel(levels)
    end = time.perf_counter()
    sizes = [max(float(np.sum(np.square(level.outside(start)))), 1e-12) for level in levels]
    scales = [max(cost, NOTHING / AGREE * size) for cost, size in zip(wanted, sizes, strict=True)]
    final = [float(np.sum(np.square(level.outside(found.unknowns)))) for level in levels]
    alone = [solve_cascade(levels[:count], start).costs[-1] for count in range(1, len(levels) + 1)]
    return {
        "costs": list(found.costs),
        "oracle": wanted,
        "apart": max(abs(a - b) / scale for a, b, scale in zip(found.costs, wanted, scales, strict=True)),
        "worsened": max((a - b) / scale for a, b, scale in zip(final, alone, scales, strict=True)),
        "conflicts": sum(cost > NOTHING * size for cost, size in zip(wanted, sizes, strict=True)),
        "seconds": middle - begin,
        "oracle seconds": end - middle,
    }


def robot_levels(model: Model, evidence: Evidence, constraints: Sequence[Constraint], **options: Any) -> list[Level]:
    """Gives the levels that the hierarchical method solves for a robot, as it hands them to the cascade."""
    seen: list[list[Level]] = []

    def keep(levels: Sequence[Level], start: FloatArray) -> Any:
        seen.append(list(levels))
        return solve_cascade(levels, start)

    with patch("steelyard.identification.methods.hierarchical.solve_cascade", keep):
        identify(model, evidence, method="hierarchical", constraints=constraints, **options)
    return seen[0]


def study_levels(study: Study, robots: Mapping[str, tuple[Model, Evidence, Sequence[Constraint]]], seed: int) -> None:
    """Holds every level's cost against the oracle's: on random problems, and on robots."""
    drawn = [against_oracle(random_levels(seed + number)) for number in range(RANDOM_PROBLEMS)]
    named = {
        f"{name}{words}": against_oracle(robot_levels(*robot, **options))
        for name, robot in robots.items()
        for words, options in STRICTNESS.items()
    }
    rows = [
        [name, *(" ".join(f"{cost:.6g}" for cost in each[key]) for key in ("costs", "oracle")), f"{each['apart']:.1e}",
         f"{each['worsened']:.1e}", f"{each['seconds']:.2f}", f"{each['oracle seconds']:.2f}"]
        for name, each in named.items()
    ]  # fmt: skip
    show("Levels of the robots: cost of each, and the oracle's",
         ["robot", "here", "oracle", "apart", "worsened below", "s", "oracle s"], rows)  # fmt: skip
    conflicts = sum(each["conflicts"] for each in drawn)
    study.figures += [
        Figure(f"{RANDOM_PROBLEMS} random hierarchies: cost of a level beside the oracle's, worst",
               max(each["apart"] for each in drawn), AGREE, at_least=False, note=f"{conflicts} levels cost something"),
        Figure("random hierarchies: what lower levels add to higher ones, worst",
               max(each["worsened"] for each in drawn), AGREE, at_least=False),
        *(Figure(f"{name}: cost of a level beside the oracle's, worst", each["apart"], AGREE, at_least=False,
                 note=f"{each['conflicts']} of {len(each['costs'])} levels cost something")
          for name, each in named.items()),
        Figure("robots: what lower levels add to higher ones, worst", max(each["worsened"] for each in named.values()),
               AGREE, at_least=False),
    ]  # fmt: skip
    study.raw["levels"] = {"random": drawn, "robots": named}


# ---- directions ------------------------------------------------------------------------------------------------------


def small_arm(seed: int) -> tuple[Model, Evidence]:
    """Gives a UR5 whose CAD is off, and a second of noisy torques: little enough that inertias have to be held."""
    folder = "package://example-robot-data/robots/ur_description/urdf/ur5_robot.urdf"
    model = load_model(folder, setup=Setup(base="fixed", torques_measured=("*",)))
    model = model.with_parameters(project_to_interior(model.parameters))
    generator = np.random.default_rng(seed)
    true = model.with_parameters(draw_parameters(model, 0.3, generator))
    times = np.arange(200) / 100.0
    rates = 2.0 * np.pi * np.arange(1, 4)
    waves = generator.normal(size=(2, 3, len(model.joints))) / rates[None, :, None]
    phases = times[:, None] * rates
    q = np.sin(phases) @ waves[0] + np.cos(phases) @ waves[1]
    v = (np.cos(phases) * rates) @ waves[0] - (np.sin(phases) * rates) @ waves[1]
    a = -(np.sin(phases) * rates**2) @ waves[0] - (np.cos(phases) * rates**2) @ waves[1]
    silent = motion_from_generalized(model, times, q, v, a)
    felt = joint_torques(true, silent) + 2.0 * generator.normal(size=q.shape)
    torques = dict(zip(model.joints, felt.T, strict=True))
    return model, gather_evidence(model, motion_from_generalized(model, times, q, v, a, torques=torques), nuisance=())


def enumerated(model: Model, evidence: Evidence, constraints: Sequence[Constraint], alpha: float) -> dict[str, Any]:
    """Solves jovic2015 (4) with all directions written down, by clarabel, and with directions generated.

    The finite set is that of the paper: 10 242 directions, of which opposite ones say the same.
    """
    finite = PositiveInertia(directions=SUBDIVISIONS)
    seen: list[list[Level]] = []

    def keep(levels: Sequence[Level], start: FloatArray) -> Any:
        seen.append(list(levels))
        return solve_cascade(levels, start)

    with patch("steelyard.identification.methods.quadratic.solve_cascade", keep):
        begin = time.perf_counter()
        generated = identify(model, evidence, method="quadratic", alpha=alpha, constraints=[*constraints, finite])
        took = time.perf_counter() - begin
    everywhere = identify(model, evidence, method="quadratic", alpha=alpha, constraints=constraints)
    # All parameters are unknowns here, y of them: φ = reference + spread y.
    held, both = seen[-1]
    from steelyard.identification.parameter_sets import choose_parameters  # noqa: PLC0415

    unknowns = choose_parameters(model)
    transform = unknowns.transform @ unknowns.spread
    system = resolve_constraints(model, [finite])
    begin = time.perf_counter()
    every = [family.every() for family in system.cut_families]
    rows = csc_matrix(np.concatenate([each.matrix for each in every])) @ csc_matrix(transform)
    lower = np.concatenate([each.lower - each.matrix @ unknowns.start for each in every])
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    rows, lower = diags_array(1.0 / lengths) @ rows, lower / lengths
    place = _minimum(held, both, rows, lower, exact=len(model.links) < MANY_LINKS)
    enumerating = time.perf_counter() - begin
    answer = (unknowns.start + transform @ place).reshape(model.parameters.shape)
    spread = np.sqrt(np.sum(np.square(transform), axis=1)).reshape(answer.shape)
    return {
        "rows": rows.shape[0],
        "generated": generated.certificate.directions,
        "bound": sum("inertia" in name for name in generated.active),
        "apart": float(np.max(np.abs(generated.parameters - answer) / spread)),
        "all directions apart": float(np.max(np.abs(everywhere.parameters - answer) / spread)),
        "seconds": took,
        "enumerating seconds": enumerating,
    }


def _minimum(held: Level, both: Level, rows: csc_matrix, lower: FloatArray, *, exact: bool) -> FloatArray:
    """Gives clarabel's minimum of one level of equations, under rows of another and many more.

    Args:
        held: The level of few rows.
        both: The level of equations.
        rows: Many more, sparse.
        lower: Their lower bounds.
        exact: Whether residuals are unknowns of their own; else the level's condition number is squared, which takes
            fewer unknowns and is not as exact.
    """
    basis, triangle = np.linalg.qr(both.matrix)
    goal, count = basis.T @ both.lower, triangle.shape[1]
    equal = held.lower == held.upper
    low, high = ~equal & np.isfinite(held.lower), ~equal & np.isfinite(held.upper)
    few = np.concatenate([held.matrix[equal], -held.matrix[low], held.matrix[high]])
    matrix = vstack([csc_matrix(few), -rows], format="csc")
    answer = np.concatenate([held.lower[equal], -held.lower[low], held.upper[high], -lower])
    quadratic, linear = csc_matrix(np.triu(triangle.T @ triangle)), -triangle.T @ goal
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    if exact:
        nothing = csc_matrix((len(answer), count))
        matrix = bmat([[csc_matrix(triangle), -eye_array(count)], [matrix, nothing]], format="csc")
        quadratic, linear = csc_matrix(diags_array(np.repeat([0.0, 1.0], count))), np.zeros(2 * count)
        answer = np.concatenate([goal, answer])
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    fixed = int(equal.sum()) + (count if exact else 0)
    cones = [clarabel.ZeroConeT(fixed), clarabel.NonnegativeConeT(len(answer) - fixed)]
    found = clarabel.DefaultSolver(quadratic, linear, matrix, answer, cones, settings).solve()
    if str(found.status) not in ("Solved", "AlmostSolved"):
        raise ArithmeticError(f"clarabel stopped: {found.status}")
    return np.asarray(found.x)[:count]


def study_directions(
    study: Study, model: Model, evidence: Evidence, constraints: Sequence[Constraint], seed: int
) -> None:
    """Holds generated directions against all 10 242: the same answer on a small model, time on a large one."""
    arm, torques = small_arm(seed)
    results = {
        f"UR5, {len(arm.links)} links, alpha = 0.001": enumerated(arm, torques, (), 1e-3),
        f"G1, {len(model.links)} links, alpha = 0.1": enumerated(model, evidence, constraints, 0.1),
    }
    rows = [[name, *(f"{value:.3g}" for value in each.values())] for name, each in results.items()]
    show("Directions of inertias: all 10 242 of each link, or as they are needed; apart in units of how "
         "far a model is usually off", ["", *next(iter(results.values()))], rows)  # fmt: skip
    small, large = results.values()
    study.figures += [
        Figure("UR5: directions generated against all written down, parameters apart", small["apart"], 1e-5,
               at_least=False, note=f"{small['generated']} of {small['rows']} rows, {small['bound']} bind; share of "
               "how far a model is usually off"),
        Figure("G1: time with all directions over generated ones", large["enumerating seconds"] / large["seconds"], 1.0,
               note=f"{large['rows']} rows {large['enumerating seconds']:.1f} s, {large['generated']} generated "
               f"{large['seconds']:.2f} s"),
    ]  # fmt: skip
    study.raw["directions"] = results


# ---- time ------------------------------------------------------------------------------------------------------------

_TIMED = """
import json, sys, time
from steelyard import MassWithin, MirrorWithin, TotalMass, identify, load_evidence, load_model
model, evidence = load_model("g1"), load_evidence(sys.argv[1])
method, mass, modified = sys.argv[2], float(sys.argv[3]), tuple(sys.argv[4].split(","))
weighed = [TotalMass(mass, 0.0025)]
near = [MirrorWithin(0.1), MassWithin(0.05), MassWithin(0.35, modified)]
constraints = {"quadratic": weighed, "hierarchical": weighed + near}.get(method, [])
times = []
for _ in range(4):
    wall, worked = time.perf_counter(), time.process_time()
    estimate = identify(model, evidence, method=method, constraints=constraints)
    times.append((time.perf_counter() - wall, time.process_time() - worked))
print(json.dumps({"times": times, "status": estimate.status}))
"""


def study_times(study: Study, evidence: Evidence, mass: float, modified: Sequence[str]) -> None:
    """Measures the time from Evidence to Estimate for a G1, in a process of its own: the first time, and after that."""
    raw = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "g1.npz"
        evidence.save(path)
        for method in METHODS:
            command = [sys.executable, "-c", _TIMED, str(path), method, str(mass), ",".join(modified)]
            answer = subprocess.run(command, capture_output=True, text=True, check=True)
            raw[method] = json.loads(answer.stdout)
    for method, each in raw.items():
        cold, *warm = each["times"]
        best = min(warm)
        study.figures += [
            Figure(f"G1: s from Evidence to Estimate, {method}, the first time", cold[0], 1.0, at_least=False,
                   note=f"{cold[1]:.2f} s of one processor"),
            Figure(f"G1: the same, {method}, after that", best[0], 1.0, at_least=False,
                   note=f"{best[1]:.2f} s of one processor"),
        ]  # fmt: skip
    study.raw["times"] = raw
