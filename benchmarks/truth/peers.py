"""Beside "geometric" on the same data: figaroh 1.0.2's LMI fit, and a plain LMI with a uniform prior.

figaroh sees the same reconstructed motions and wrenches; sensors' offsets are no unknowns of its. The plain LMI is what
a careful user would write down: the same Evidence as ours, nuisances and noise and all, each link's pseudo-inertia
positive semidefinite, and one weight for all parameters in SI units as prior, through clarabel on the triangular
factor. Its weight is one, as in [jovic2015]; others are shown beside it, and the best of them that one who knew the
truth would choose. It is our own best way to put an LMI to clarabel, and has no weight to find.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import clarabel
import numpy as np
from scipy import sparse

from benchmarks.figures import Figure
from benchmarks.papers.jovic import NUISANCE, PRIORS, show
from benchmarks.peers.consistent import fit_by_figaroh
from benchmarks.truth.robots import ON_PLATES, true_robot
from benchmarks.truth.scores import CAD, GEOMETRIC, distance, plain
from steelyard import gather_evidence, identify
from steelyard.identification.estimate.base_parameters import find_base_parameters
from steelyard.identification.methods.registry import OPTIONS, SOLVERS
from steelyard.identification.methods.solution import Task
from steelyard.identification.parameter_sets import choose_parameters
from steelyard.identification.problem import build_problem
from steelyard.kinematics.blas import one_blas_thread
from steelyard.model.parameters import PARAMETER_COUNT, to_pseudo_inertia

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.figures import Study
    from benchmarks.truth.robots import TrueRobot
    from steelyard import Evidence, Model
    from steelyard.arrays import FloatArray
    from steelyard.identification.problem import Problem

RUNS = (*(("g1", seed) for seed in range(5)), *((f"talos{ON_PLATES}", seed) for seed in range(3)))
"""figaroh's equations are of the whole robot: TALOS, whose sensors do not feel its feet, stands on force plates."""

WEIGHTS = (1.0, 1e2, 1e4)
"""Of the plain LMI's prior: parameters are thought to be off by one, a tenth and a hundredth of their SI unit."""

FIGAROH, PLAIN, OTHER = "figaroh", "plain LMI", "LMI with another weight"
FASTER = 10.0
REPEATS = 2
"""How often each fit is timed, ours and theirs alike; the best counts. figaroh's is in `figaroh_consistent.py`. What
comes before the fits, its regressor and our sums, is timed once."""

_UPPER = [(row, column) for column in range(4) for row in range(column + 1)]
_BASIS = to_pseudo_inertia(np.eye(PARAMETER_COUNT))


def plain_lmi(problem: Problem, weight: float) -> tuple[FloatArray, float, str]:
    """Gives what minimises ``½ ‖(A z − b)/noise‖² + ½ weight ‖z‖²`` over possible links, seconds, and how it ended.

    The seconds are the best of some.
    """
    runs = [_plain_lmi(problem, weight) for _ in range(REPEATS)]
    return min(runs, key=lambda run: run[1])


def _plain_lmi(problem: Problem, weight: float) -> tuple[FloatArray, float, str]:
    begin = time.perf_counter()
    unknowns = problem.unknowns
    triangle = np.linalg.qr(np.column_stack([problem.matrix, problem.right]) / problem.noise, mode="r")
    matrix, right = triangle[:, :-1], triangle[:, -1]
    count, rows = matrix.shape[1], len(matrix)
    links = len(unknowns.start) // PARAMETER_COUNT
    scale = np.array([1.0 if row == column else np.sqrt(2.0) for row, column in _UPPER])
    vector = scale[:, None] * np.array([[_BASIS[k, i, j] for k in range(PARAMETER_COUNT)] for i, j in _UPPER])
    cone = np.kron(np.eye(links), vector)
    constraints = sparse.bmat(
        [[sparse.csc_matrix(matrix), -sparse.eye(rows)], [-sparse.csc_matrix(cone @ unknowns.transform), None]],
        format="csc",
    )
    bounds = np.concatenate([right, cone @ unknowns.start])
    costs = sparse.diags_array(np.concatenate([np.full(count, weight), np.ones(rows)])).tocsc()
    cones = [clarabel.ZeroConeT(rows), *(clarabel.PSDTriangleConeT(4) for _ in range(links))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    found = clarabel.DefaultSolver(costs, np.zeros(count + rows), constraints, bounds, cones, settings).solve()
    change = np.array(found.x)[:count]
    return unknowns.expand(change), time.perf_counter() - begin, str(found.status)


def solve_time(model: Model, evidence: Evidence, method: str) -> float:
    """Gives the seconds that a method's solver takes from the reduced problem on, best of some."""
    spent = []
    with one_blas_thread():
        problem = build_problem(evidence, choose_parameters(model, None))
        base = find_base_parameters(problem)
        for _ in range(REPEATS):
            begin = time.perf_counter()
            SOLVERS[method](Task(model, problem, base, tuple(model.setup.constraints), (evidence,)))
            spent.append(time.perf_counter() - begin)
    return min(spent)


def compare(robot: TrueRobot) -> dict[str, dict[str, Any]]:
    """Gives how near to the truth each comes with one robot's data, and how long each takes."""
    model, truth, motions = robot.model, robot.truth, robot.training()
    found: dict[str, dict[str, Any]] = {CAD: distance(model.parameters, truth)}
    weights = robot.made["weights"]
    begin = time.perf_counter()
    parts = [gather_evidence(model, motion, weights=weights, nuisance=NUISANCE, priors=PRIORS) for motion in motions]
    evidence = sum(parts[1:], start=parts[0])
    gathering = time.perf_counter() - begin
    spent = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        estimate = identify(model, evidence, method=GEOMETRIC)
        spent.append(time.perf_counter() - begin)
    found[GEOMETRIC] = {
        **distance(estimate.parameters, truth), "solve_s": solve_time(model, evidence, GEOMETRIC),
        "identify_s": min(spent), "whole_s": gathering + min(spent), "status": estimate.status,
    }  # fmt: skip
    # What is left of the difference where we know no better than figaroh what sensors are off by.
    blind = [gather_evidence(model, motion, nuisance=()) for motion in motions]
    estimate = identify(model, sum(blind[1:], start=blind[0]), method=GEOMETRIC)
    found[f"{GEOMETRIC}, sensors taken at their word"] = distance(estimate.parameters, truth)
    with one_blas_thread():
        spent = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            problem = build_problem(evidence, choose_parameters(model, None))
            spent.append(time.perf_counter() - begin)
        reducing = min(spent)
        for weight in WEIGHTS:
            parameters, solving, status = plain_lmi(problem, weight)
            found[PLAIN if weight == WEIGHTS[0] else f"{OTHER}, {weight:g}"] = {
                **distance(parameters, truth), "solve_s": solving, "identify_s": reducing + solving,
                "whole_s": gathering + reducing + solving, "status": status,
            }  # fmt: skip
    peer = fit_by_figaroh(model, motions)
    for name, fit in peer["fits"].items():
        row = {"solve_s": fit["solve_s"], "identify_s": fit["build_s"] + fit["solve_s"], "status": fit["status"],
               "whole_s": peer["regressor_s"] + fit["build_s"] + fit["solve_s"]}  # fmt: skip
        if fit["parameters"] is not None:
            row |= distance(np.reshape(fit["parameters"], truth.shape), truth)
        found[f"{FIGAROH}, {name}"] = row
    return found


def study_peers(study: Study, seeds: int = 5) -> None:
    """Holds "geometric" against both in every run of some seeds: nearer to the truth, and faster."""
    if GEOMETRIC not in OPTIONS:
        return
    runs = {}
    for name, seed in (each for each in RUNS if each[1] < seeds):
        runs[f"{name} {seed}"] = found = compare(true_robot(name, seed))
        show(f"{name} {seed}", *_table(found))
    study.figures += [*_figures(FIGAROH, runs), *_figures(PLAIN, runs), *_figures(OTHER, runs, asked=False)]
    study.raw["peers"] = plain({"runs": runs})


def _table(found: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    forms = {"affine_projected": ".2f", "possible": ".0%", "mass": ".3f", "total_mass": "+.3f",
             "solve_s": ".3f", "identify_s": ".3f", "whole_s": ".3f"}  # fmt: skip
    headings = ["", "affine (possible)", "possible", "mass kg", "total kg", "solver s", "from sums s",
                "from motions s", "ended"]  # fmt: skip
    rows = [
        [name, *(format(row[what], form) if what in row else "" for what, form in forms.items()), row.get("status", "")]
        for name, row in found.items()
    ]
    return headings, rows


def _figures(peer: str, runs: Mapping[str, Mapping[str, Mapping[str, Any]]], *, asked: bool = True) -> list[Figure]:
    """Gives the figures against one peer: in each run against that of its fits which is best in it.

    A fit on the edge of what can exist is infinitely far in the affine distance; its distance is measured after the
    least change that lets its links exist.
    """

    def best(what: str) -> FloatArray:
        return np.array([
            min(row[what] for label, row in found.items() if label.startswith(peer) and what in row)
            for found in runs.values()
        ])  # fmt: skip

    def ours(what: str) -> FloatArray:
        return np.array([found[GEOMETRIC][what] for found in runs.values()])

    figures = []
    for what, words in {"affine_projected": "affine distance", "mass": "mass error"}.items():
        ratio = ours(what) / best(what)
        figures.append(
            Figure(f"geometric over {peer}: {words}, worst of {len(runs)} runs", float(ratio.max()),
                   1.0 if asked else None, at_least=False,
                   note=f"median {np.median(ratio):.2f}; its best fit in each run")
        )  # fmt: skip
    for what, words in {"solve_s": "solver alone", "identify_s": "from sums to parameters",
                        "whole_s": "from motions to parameters"}.items():  # fmt: skip
        ratio = best(what) / ours(what)
        if not asked:
            continue
        figures.append(
            Figure(f"geometric, times faster than {peer}: {words}, least of {len(runs)} runs", float(ratio.min()),
                   FASTER if what == "solve_s" else None,
                   note=f"median {np.median(ratio):.1f}; {np.median(ours(what)):.3f} s against "
                   f"{np.median(best(what)):.3f} s; "
                   + ("its fastest fit in each run" if peer == FIGAROH else
                      "our own best formulation in clarabel, on the triangular factor, and no weight to find"))
        )  # fmt: skip
    return figures
