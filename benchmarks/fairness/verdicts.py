"""Verdicts over many robots: none where nothing is to be found, and good only where the links came nearer."""

from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.fairness.runs import KINDS, run
from benchmarks.fairness.trials import MEASURED, ROBOTS
from benchmarks.figures import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.figures import Study

Job = tuple[str, int, float, str, int]
"""Robot, seed, spread, kind and measurement of a run."""

SPREAD = 0.2
MOST_FALSE, LEAST_FOUND = 8.0, 90.0
"""Of 100 runs each: improvements at most where there is none, and at least where there is one."""

NEARER, CALLED_GOOD = 0.95, 0.1
"""Share of those called good whose links must be nearer, and of those not nearer that may be called good."""


def play(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Gives the rows of runs, in order, on as many processes as ``STEELYARD_BENCHMARK_WORKERS`` says."""
    workers = int(os.environ.get("STEELYARD_BENCHMARK_WORKERS", "1"))
    rows = []
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for row in pool.map(_run, jobs):
            rows.append(row)
            told = (
                row.get("refused")
                or f"{row['overall']}, {row['prediction']}, {row['masses']:.2f} of {row['cad']:.2f} kg"
            )
            print(f"{len(rows)} of {len(jobs)}: {row['robot']} {row['seed']} {row['kind']}: {told}", file=sys.stderr)
    return rows


def _run(job: Job) -> dict[str, Any]:
    return run(*job)


def null(study: Study) -> None:
    """Counts improvements with an exact CAD, and with one that is off."""
    first = study.seeds["null"]
    count = study.seeds["robots"]
    half = -(-count // MEASURED)
    exact = [(robot, first + k, 0.0, "clean", m) for k in range(half) for m in range(MEASURED) for robot in ROBOTS]
    exact = exact[: count * len(ROBOTS)]
    off = [(robot, study.seeds["clean"] + k, SPREAD, "clean", 0) for k in range(count) for robot in ROBOTS]
    for name, jobs, bar, at_least in (("exact", exact, MOST_FALSE, False), ("20 % off", off, LEAST_FOUND, True)):
        rows = play(jobs)
        study.raw[f"null {name}"] = rows
        better = 100.0 * float(np.mean([row.get("prediction") == "better" for row in rows]))
        good = 100.0 * float(np.mean([row.get("overall") == "good" for row in rows]))
        note = f"of 100; {len(rows)} runs, 20 s to learn, 20 s unseen; called good: {good:.0f}"
        study.figures.append(Figure(f"CAD {name}: called an improvement", better, bar, at_least=at_least, note=note))


def confusion(study: Study) -> None:
    """Compares verdicts with what became of the links' masses, over clean, short, shifted and mismatched recordings."""
    count, first = study.seeds["robots"], study.seeds["clean"]
    # The first half of the robots is clean or has encoder offsets; the others' recordings are short or mismatched.
    half = -(-count // 2)
    jobs: list[Job] = []
    for kind in KINDS:
        begin = first if kind in ("clean", "encoder offsets") else first + count - half
        jobs += [(robot, begin + k, SPREAD, kind, 0) for k in range(half) for robot in ROBOTS][: 2 * count]
    rows = [row for row in play(jobs) if "refused" not in row]
    study.raw["confusion"] = rows
    nearer = np.array([row["masses"] < row["cad"] for row in rows])
    good = np.array([row["overall"] == "good" for row in rows])
    study.figures.append(
        Figure("called good: links nearer than the CAD's", float(nearer[good].mean()), NEARER,
               note=f"{int(good.sum())} called good of {len(rows)} runs, {2 * count} of each kind")
    )  # fmt: skip
    study.figures.append(
        Figure("links not nearer: called good", float(good[~nearer].mean()), CALLED_GOOD, at_least=False,
               note=f"{int((~nearer).sum())} not nearer of {len(rows)} runs")
    )  # fmt: skip
    for kind in KINDS:
        chosen = [row for row in rows if row["kind"] == kind]
        share = float(np.mean([row["overall"] == "good" for row in chosen]))
        study.figures.append(Figure(f"{kind}: called good", share, note=_counts(rows, kind)))


def _counts(rows: Sequence[dict[str, Any]], kind: str) -> str:
    chosen = [row for row in rows if row["kind"] == kind]
    cells = []
    for grade in ("good", "weak", "bad"):
        graded = [row for row in chosen if row["overall"] == grade]
        cells.append(f"{grade} {sum(row['masses'] < row['cad'] for row in graded)} nearer of {len(graded)}")
    return ", ".join(cells)
