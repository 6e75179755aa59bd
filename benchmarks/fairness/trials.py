"""Virtual robots for the fairness study: one motion to learn from and one to validate on, written to files once.

The files are kept in ``benchmarks/.cache``, or where ``STEELYARD_BENCHMARK_CACHE`` says.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import steelyard as sy
from steelyard.exceptions import LaboratoryError, StanceError

ROBOTS = ("g1", "talos", "icub", "romeo")
LEARNED, UNSEEN = "dance", "reach"
SECONDS = 20.0
MEASURED = 2
"""Times that each motion is measured, with other noise of the sensors."""
_ATTEMPTS = 12
"""Seeds that are tried until a motion can be planned and the robot does not fall."""


@dataclass(frozen=True)
class Pair:
    """A true robot with two recordings.

    Attributes:
        robot: Name of the model.
        seed: Seed of the true robot, its motions and its noise.
        spread: Relative deviation of the true links from the CAD.
        learned: File of the recording to identify from.
        unseen: File of the recording to validate on.
        parameters: The true parameters, shape (n_links, 10).
    """

    robot: str
    seed: int
    spread: float
    learned: Path
    unseen: Path
    parameters: np.ndarray


def make_pair(robot: str, seed: int, spread: float, measured: int = 0) -> Pair:
    """Gives a true robot's recordings, simulated if they are not in the cache.

    Seeds whose motion cannot be planned, or whose robot falls, are followed by ``seed + 1000``, and so on.

    Args:
        robot: Name of the model.
        seed: Seed of the true robot, its motions and its sensors.
        spread: Relative deviation of the true links from the CAD.
        measured: Which of `MEASURED` measurements of the same motions.
    """
    folder = cache_folder() / f"{robot}_{spread:g}_{seed}"
    if not (folder / "truth.json").exists():
        _simulate(robot, seed, spread, folder)
    stored = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    return Pair(
        robot, stored["seed"], spread, folder / f"learned_{measured}.parquet", folder / f"unseen_{measured}.parquet",
        np.array(stored["parameters"]),
    )  # fmt: skip


def cache_folder() -> Path:
    """Gives the folder of the cache."""
    default = Path(__file__).parents[1] / ".cache"
    return Path(os.environ.get("STEELYARD_BENCHMARK_CACHE", default)) / "fairness"


def _simulate(robot: str, seed: int, spread: float, folder: Path) -> None:
    model = sy.load_model(robot)
    for attempt in range(_ATTEMPTS):
        used = seed + 1000 * attempt
        try:
            trials = [
                sy.simulate(model, motion, seed=used, spread=spread, duration=SECONDS) for motion in (LEARNED, UNSEEN)
            ]
            recordings = {
                f"{name}_{number}.parquet": trial.with_noise(used + 500 * number).recording
                for trial, name in zip(trials, ("learned", "unseen"), strict=True)
                for number in range(MEASURED)
            }
        except (StanceError, LaboratoryError):
            continue
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            draft = Path(name) / "pair"
            draft.mkdir()
            for file, recording in recordings.items():
                recording.write(draft / file)
            truth = {"seed": used, "parameters": np.asarray(trials[0].truth.parameters).tolist()}
            (draft / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
            # Another process may have simulated the same.
            if not (folder / "truth.json").exists():
                draft.rename(folder)
        return
    raise RuntimeError(f"no motion of {robot} could be simulated from seed {seed}")
