"""Runs of candidates over true robots, on one core or on several."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from benchmarks.truth.robots import true_robot, true_robots
from benchmarks.truth.scores import score

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.truth.scores import Candidate


def workers() -> int:
    """Gives how many processes work: one, or what ``STEELYARD_BENCHMARK_WORKERS`` says."""
    return int(os.environ.get("STEELYARD_BENCHMARK_WORKERS", "1"))


def spread_out(work: Callable[[Any], Any], jobs: Sequence[Any], label: str) -> list[Any]:
    """Does jobs in order, and says how far it is."""
    if workers() == 1:
        return [_said(work(job), number, jobs, label) for number, job in enumerate(jobs, start=1)]
    with ProcessPoolExecutor(workers(), mp_context=get_context("spawn")) as pool:
        return [_said(found, number, jobs, label) for number, found in enumerate(pool.map(work, jobs), start=1)]


def _said(found: Any, number: int, jobs: Sequence[Any], label: str) -> Any:
    print(f"{label}: {number} of {len(jobs)}", file=sys.stderr, flush=True)
    return found


def all_runs(
    robots: Sequence[str], seeds: int, kind: str, candidates: Sequence[Candidate]
) -> dict[str, list[dict[str, dict[str, Any]]]]:
    """Gives the scores of candidates with data of a kind, by robot and seed."""
    places = [(robot.name, robot.seed) for robot in true_robots(robots, seeds)]
    found = spread_out(partial(_run, kind=kind, candidates=tuple(candidates)), places, kind)
    by_robot: dict[str, list[dict[str, dict[str, Any]]]] = {name: [] for name in robots}
    for (name, _), scores in zip(places, found, strict=True):
        by_robot[name].append(scores)
    return by_robot


def _run(place: tuple[str, int], *, kind: str, candidates: Sequence[Candidate]) -> dict[str, dict[str, Any]]:
    return score(true_robot(*place), kind, candidates)
