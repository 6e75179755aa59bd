"""Replay recorded sequences of cutting-plane problems with several solvers: ``python -m benchmarks.cut_sequences``.

Constrained methods solve least-distance problems ``min ‖u‖² subject to rows u ≥ lower``, to which cutting planes are
added round by round. The problems of real solves are recorded and solved again, each from the active set with which
the method began it, by the package's own dual method, by DAQP from nothing, and by DAQP with its warm starts (``sense``
and ``dual_start``), as they are and with one step of iterative refinement on the active set that DAQP ends with.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

import daqp
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.figures import Study
from steelyard import gather_evidence, identify, load_model, reconstruct_motion, simulate
from steelyard.exceptions import SolverError
from steelyard.identification.solvers import least_distance

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard import Evidence, Model

ROBOTS = ("g1", "talos")
SEED, SECONDS, SPREAD = 3, 8.0, 0.2
"""Of the trial: the seed of the true robot and of the noise, the length, and how far the true robot is off."""

REPEATS = 3
"""Times that each problem is solved; the least time counts."""

MOST = 40
"""Problems of a sequence that are replayed at most, evenly spread over it: the longest has some hundreds."""

EXACT, TRUSTED = 1e-12, 1e-9
"""Greatest KKT residual, and relative distance from the answer with the smallest, of an answer that counts as exact,
and of one that is not wrong. Set by judgement: methods promise 1e-8 after up to a hundred such problems."""


@dataclass(frozen=True, eq=False)
class CutProblem:
    """One problem of a sequence.

    Attributes:
        rows: Rows of length one, shape (m, n).
        lower: Shape (m,); the greatest is one.
        warm: Which rows were active in the problem before it, shape (m,).
    """

    rows: np.ndarray
    lower: np.ndarray
    warm: np.ndarray


Answer = tuple[np.ndarray, np.ndarray]
"""A point and the multipliers of the rows."""


def solve_by_package(problem: CutProblem) -> Answer | None:
    """Solve as the package does: by its own dual method from the active set, and by others where that fails."""
    return least_distance._find_shortest(problem.rows, problem.lower, problem.warm)


def solve_from_nothing(problem: CutProblem) -> Answer | None:
    """Solve as the package does a problem that has no active set yet."""
    return least_distance._find_shortest(problem.rows, problem.lower, np.zeros_like(problem.warm))


def solve_by_daqp(problem: CutProblem, start: str) -> Answer | None:
    """Solve by DAQP, with a warm start by "sense" or "dual_start", or with none."""
    rows, warm = np.ascontiguousarray(problem.rows), problem.warm
    # An active lower bound is 1 (active) + 2 (lower); multipliers of lower bounds are negative.
    sense = 3 * warm.astype(np.int32) if start == "sense" else np.zeros(len(rows), dtype=np.int32)
    dual = {"dual_start": -warm.astype(np.float64)} if start == "dual_start" else {}
    u, _, status, info = daqp.solve(
        None,
        None,
        rows,
        np.full(len(rows), 1e30),
        np.ascontiguousarray(problem.lower),
        sense,
        primal_tol=1e-11,
        iter_limit=20 * sum(rows.shape),
        **dual,
    )
    return (np.array(u), np.maximum(-np.asarray(info["lam"]), 0.0)) if status == 1 else None


def solve_refined(problem: CutProblem, start: str) -> Answer | None:
    """Solve by DAQP, and once more on the rows that it calls active, by a QR decomposition of these."""
    found = solve_by_daqp(problem, start)
    if found is None:
        return None
    active, basis, triangle = least_distance._factor_independent(problem.rows, np.flatnonzero(found[1]))
    return least_distance._solve_active(problem.rows, problem.lower, basis, triangle, active, least_distance._TIGHT)


SOLVERS: dict[str, Callable[[CutProblem], Answer | None]] = {
    "package, warm": solve_by_package,
    "package, cold": solve_from_nothing,
    "daqp, cold": lambda problem: solve_by_daqp(problem, "cold"),
    "daqp, sense": lambda problem: solve_by_daqp(problem, "sense"),
    "daqp, dual_start": lambda problem: solve_by_daqp(problem, "dual_start"),
    "daqp, dual_start, refined": lambda problem: solve_refined(problem, "dual_start"),
}


@dataclass
class Tally:
    """What one solver made of a sequence.

    Attributes:
        seconds: Of all problems together.
        unsolved: Problems without an answer.
        residuals: The KKT residual of each answer.
        distances: Of each answer from the one with the smallest KKT residual, relative to its length.
    """

    seconds: float = 0.0
    unsolved: int = 0
    residuals: list[float] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)

    def beyond(self, limit: float) -> int:
        """Count the answers whose residual or distance is greater than a limit."""
        return int(np.count_nonzero(np.maximum(self.residuals, self.distances) > limit))


def kkt_residual(problem: CutProblem, answer: Answer) -> float:
    """Return the greatest of violation, relative stationarity and relative complementarity of an answer."""
    u, multipliers = answer
    size = float(np.linalg.norm(u))
    margins = problem.rows @ u - problem.lower
    violation = max(0.0, -float(np.min(margins)))
    stationarity = float(np.linalg.norm(u - problem.rows.T @ multipliers)) / size
    return max(violation, stationarity, float(np.max(np.abs(multipliers * margins))) / size**2)


def gather(name: str) -> tuple[Model, Evidence]:
    """Return a robot and the Evidence of a simulated dance."""
    model = load_model(name)
    recording = simulate(model, "dance", duration=SECONDS, seed=SEED, spread=SPREAD).recording
    motion = reconstruct_motion(model, recording, cutoff=10.0)
    return model, gather_evidence(model, motion, nuisance=())


def cases(model: Model) -> dict[str, dict[str, Any]]:
    """Return the options of each solve that is recorded, by name."""
    limits = [f"total_mass={round(1.03 * model.total_mass, 2)}", "com=hull"]
    return {
        "quadratic": {"method": "quadratic"},
        "quadratic, total mass and hulls": {"method": "quadratic", "alpha": 0.1, "constraints": limits},
        "hierarchical": {"method": "hierarchical"},
        "hierarchical, tolerance 0": {"method": "hierarchical", "tolerance": 0.0},
        "geometric, total mass and hulls": {"method": "geometric", "constraints": limits, "draws": 0},
    }


def record(model: Model, evidence: Evidence, options: dict[str, Any]) -> list[CutProblem]:
    """Return the problems of one solve, in order."""
    problems: list[CutProblem] = []
    shortest = least_distance._find_shortest

    def recorded(rows: np.ndarray, lower: np.ndarray, warm: np.ndarray) -> Answer | None:
        problems.append(CutProblem(rows.copy(), lower.copy(), warm.copy()))
        return shortest(rows, lower, warm)

    with mock.patch.object(least_distance, "_find_shortest", recorded):
        identify(model, evidence, **options)
    return problems


def replay(problems: list[CutProblem]) -> dict[str, Tally]:
    """Return what each solver makes of a sequence; problems that no solver finds feasible are left out."""
    tallies = {name: Tally() for name in SOLVERS}
    for problem in problems:
        answers: dict[str, Answer | None] = {}
        for name, solve in SOLVERS.items():
            times = []
            for _ in range(REPEATS):
                start = time.perf_counter()
                try:
                    answers[name] = solve(problem)
                except SolverError:
                    answers[name] = None
                times.append(time.perf_counter() - start)
            tallies[name].seconds += min(times)
        found = {name: (kkt_residual(problem, each), each[0]) for name, each in answers.items() if each is not None}
        if not found:
            continue
        _, best = min(found.values(), key=lambda each: each[0])
        for name, tally in tallies.items():
            if name in found:
                residual, u = found[name]
                tally.residuals.append(residual)
                tally.distances.append(float(np.linalg.norm(u - best) / np.linalg.norm(best)))
            else:
                tally.unsolved += 1
    return tallies


def main() -> int:
    """Record, replay, print the tables and store their numbers."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cut_sequences")
    parser.add_argument("robots", nargs="*", default=ROBOTS)
    study = Study("cut_sequences", {"trial": SEED})
    with threadpool_limits(1):
        for robot in parser.parse_args().robots:
            model, evidence = gather(robot)
            for case, options in cases(model).items():
                every = record(model, evidence, options)
                problems = every[:: -(-len(every) // MOST) or 1]
                rows, columns = max((problem.rows.shape for problem in problems), default=(0, 0))
                size = f"at most {rows} rows on {columns} unknowns"
                print(f"\n{robot}, {case}: {len(problems)} of {len(every)} problems, {size}")
                print(f"{'':<28}{'time':>9}{'unsolved':>10}{'wrong':>7}{'inexact':>9}{'KKT':>9}{'apart':>9}")
                for solver, tally in replay(problems).items():
                    worst = max(tally.residuals, default=0.0), max(tally.distances, default=0.0)
                    wrong, inexact = tally.beyond(TRUSTED), tally.beyond(EXACT)
                    print(
                        f"{solver:<28}{1e3 * tally.seconds:>6.0f} ms{tally.unsolved:>10}{wrong:>7}{inexact:>9}"
                        f"{worst[0]:>9.0e}{worst[1]:>9.0e}",
                        flush=True,
                    )
                    study.raw[f"{robot}, {case}, {solver}"] = {
                        "problems": len(problems),
                        "seconds": tally.seconds,
                        "unsolved": tally.unsolved,
                        "wrong": wrong,
                        "inexact": inexact,
                        "kkt_residual": worst[0],
                        "distance": worst[1],
                    }
    return study.finish()


if __name__ == "__main__":
    sys.exit(main())
