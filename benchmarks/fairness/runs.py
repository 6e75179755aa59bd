"""One run: a recording to learn from and one to validate on, as files, by `prepare` and `identify` with defaults."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import steelyard as sy
from benchmarks.fairness.alterations import MISMATCHES, shift_encoders
from benchmarks.fairness.trials import SECONDS, make_pair

if TYPE_CHECKING:
    from steelyard import Estimate, Model, Validation

KINDS = ("clean", "short", "encoder offsets", "mismatched")


def run(robot: str, seed: int, spread: float, kind: str, measured: int = 0) -> dict[str, Any]:
    """Gives what is known of a run, and what is said of it.

    Args:
        robot: Name of the model.
        seed: Seed of the true robot.
        spread: Relative deviation of the true links from the CAD.
        kind: One of `KINDS`.
        measured: Which measurement of the same motions.
    """
    pair = make_pair(robot, seed, spread, measured)
    model = sy.load_model(robot)
    row: dict[str, Any] = {"robot": robot, "seed": pair.seed, "spread": spread, "kind": kind}
    with tempfile.TemporaryDirectory() as name:
        learned, unseen = _alter(model, pair.learned, pair.unseen, kind, seed, Path(name), row)
        try:
            estimate = sy.identify(model, sy.prepare(model, [learned]).gather())
        except sy.SteelyardError as error:
            return {**row, "refused": str(error)}
        validation = sy.validate(estimate, unseen)
        row |= _judged(estimate, validation)
    off, cad = estimate.parameters[:, 0] - pair.parameters[:, 0], model.parameters[:, 0] - pair.parameters[:, 0]
    row["masses"], row["cad"] = float(np.linalg.norm(off)), float(np.linalg.norm(cad))
    row["total"], row["total_error"] = float(off.sum()), estimate.total_mass_error
    row["total_cad"] = float(cad.sum())
    return row


def _judged(estimate: Estimate, validation: Validation) -> dict[str, Any]:
    """Gives the verdict, and the numbers behind it."""
    verdict = sy.judge(estimate, validation)
    gains = {
        other: [getattr(gain, name) for name in ("ratio", "low", "high", "verdict")]
        for other in validation.improvement
        if (gain := validation.improvement[other].get("total")) is not None
    }
    return {
        "overall": verdict.overall,
        "prediction": verdict.prediction,
        "links": verdict.links,
        "total_mass": verdict.total_mass,
        "reasons": list(verdict.reasons),
        "gains": gains,
        "zeroed": validation.zeroed,
        "misfit": validation.misfit,
        "freedom": estimate.fit.freedom,
    }


def _alter(
    model: Model, learned: Path, unseen: Path, kind: str, seed: int, folder: Path, row: dict[str, Any]
) -> tuple[Path, Path]:
    """Writes altered recordings, if the kind asks for it, and gives their paths."""
    generator = np.random.default_rng([seed, KINDS.index(kind)])
    if kind == "clean":
        return learned, unseen
    first, second = (sy.read_recording(path, model) for path in (learned, unseen))
    if kind == "short":
        seconds = row["seconds"] = float(generator.uniform(3.0, 10.0))
        start = first.time[0] + generator.uniform(0.0, SECONDS - seconds)
        first.between(start, start + seconds).write(folder / "learned.parquet")
        return folder / "learned.parquet", unseen
    name = "encoder offsets" if kind == "encoder offsets" else list(MISMATCHES)[seed % len(MISMATCHES)]
    alteration = MISMATCHES.get(name, shift_encoders)
    row["alteration"] = name
    for recording, file in ((first, "learned.parquet"), (second, "unseen.parquet")):
        # The same errors in both recordings: they belong to the robot.
        alteration(model, recording, np.random.default_rng([seed, 7])).write(folder / file)
    return folder / "learned.parquet", folder / "unseen.parquet"
