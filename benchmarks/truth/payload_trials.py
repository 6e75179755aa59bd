"""Robots with and without a load, kept on disk as Evidence: what `payloads.py` looks at.

Each true robot dances twice without any load: one recording is the baseline, false alarms would come of the other. The
loaded recordings are of that second dance with a load on one of four places, taken to be followed as exactly: what the
load's motion asks for is added to what the floor exerts, half on each foot, and everything is measured anew; some are
played in full, to see that this makes no difference. All recordings of a robot are by the same sensors, whose offsets
stay; delays are estimated on the baseline and taken out of all. Feet stand throughout. Files are in `cache_folder`,
under a hash of what made them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

import steelyard
from benchmarks.papers.jovic import NUISANCE, PRIORS, paper_model
from benchmarks.truth.robots import cache_folder
from steelyard import (
    Payload,
    estimate_delays,
    estimate_noise,
    gather_evidence,
    load_evidence,
    plan_motion,
    reconstruct_motion,
    simulate,
)
from steelyard.laboratory import DEFAULT_SENSORS
from steelyard.laboratory.true_robot import add_payloads
from steelyard.model.parameters import to_mass_com_inertia
from steelyard.payload import RIVAL_NUISANCE
from steelyard.regression.rows import base_wrench

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard import Evidence, Model, Motion, Recording, Trajectory, Trial
    from steelyard.arrays import FloatArray

RECIPE = 4
"""To be raised when this file makes other data of the same arguments."""

SPREAD = 0.2
DURATIONS = {"g1": 20.0, "talos": 30.0}
DANCES = {"g1": ((0, 1, 2, 3), (4, 5, 6, 7)), "talos": ((0, 3, 4, 8), (1, 2, 7, 9))}
"""Seeds of the dances, for the baseline and for the rest; in some of others TALOS' shoulders lack torque."""

WANDER = 0.03
"""Standard deviation (m, by axis) of where a load is around the place that it is fastened to."""

PLACES: dict[str, dict[str, tuple[str, tuple[float, float, float] | None]]] = {
    "g1": {
        "hand": ("{side}_wrist_yaw_link", None),
        "torso": ("torso_link", None),
        "foot": ("{side}_ankle_roll_link", None),
        "head": ("torso_link", (0.0, 0.0, 0.4)),
    },
    "talos": {
        "hand": ("arm_{side}_7_link", None),
        "torso": ("torso_2_link", None),
        "foot": ("leg_{side}_6_link", None),
        "head": ("head_2_link", None),
    },
}
"""By robot and place: the link, and where on it; None for its centre of mass. G1's head does not move against its
torso, and is part of that link."""

RIVALS = RIVAL_NUISANCE[1:]
"""Errors of sensors that are compared with a load."""

EMPTY = ("baseline", "nothing")
"""Recordings without a load."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """One recording.

    Attributes:
        robot: Name of the robot.
        seed: Of the true robot and its sensors.
        place: Where the load is; or one of `EMPTY`.
        mass: Of the load, kg.
        link: The link that carries it, or None.
        position: Where on the link, shape (3,), m.
        evidence: What was measured.
    """

    robot: str
    seed: int
    place: str
    mass: float
    link: str | None
    position: FloatArray
    evidence: Evidence


@lru_cache(maxsize=4)
def payload_model(robot: str) -> Model:
    """Gives a robot's CAD, the ground's wrench measured under both feet."""
    return paper_model(robot)


def load_of(robot: str, place: str, seed: int) -> tuple[str, FloatArray]:
    """Gives the link that carries a load, and where on it (m, in its joint frame)."""
    model = payload_model(robot)
    pattern, position = PLACES[robot][place]
    link = pattern.format(side=("left", "right")[seed % 2])
    centre = to_mass_com_inertia(model.parameters[model.link_index(link)])[1] if position is None else position
    generator = np.random.default_rng([seed, list(PLACES[robot]).index(place)])
    return link, np.asarray(centre) + WANDER * generator.standard_normal(3)


def recorded(robot: str, seed: int, place: str, mass: float = 2.0, *, played: bool = False) -> Recorded:
    """Gives one recording, made where it is not kept.

    Args:
        robot: Name of the robot.
        seed: Of the true robot and its sensors.
        place: Where the load is; or one of `EMPTY`.
        mass: Of the load, kg.
        played: Whether the robot dances with the load in full physics.
    """
    empty = place in EMPTY
    link, position = (None, np.zeros(3)) if empty else load_of(robot, place, seed)
    file = _file(robot, seed, place, 0.0 if empty else mass)
    if played:
        file = file.with_stem(f"{file.stem}_played")
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        loads = {} if link is None else {link: Payload(mass, position.tolist())}
        trial = _trial(robot, seed, 0 if place == "baseline" else 1, loads if played else {})
        _gather(robot, seed, place, mass, trial if played else add_loads(trial, loads), file)
    return Recorded(robot, seed, place, 0.0 if empty else mass, link, position, load_evidence(file))


def _file(robot: str, seed: int, place: str, mass: float) -> Path:
    model = payload_model(robot)
    parts = {
        "recipe": RECIPE, "setup": repr(model.setup), "tree": model.tree.sha256, "spread": SPREAD, "wander": WANDER,
        "duration": DURATIONS[robot], "dances": DANCES[robot], "place": PLACES[robot].get(place),
        "parameters": hashlib.sha256(model.parameters.tobytes()).hexdigest(), "sensors": asdict(DEFAULT_SENSORS),
        "nuisance": (*NUISANCE, *RIVALS), "priors": PRIORS,
        "versions": [steelyard.__version__, np.__version__, mujoco.__version__],
    }  # fmt: skip
    made = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]
    return cache_folder() / "payloads" / f"{robot}_{seed}_{place}_{mass:g}_{made}.npz"


def _gather(robot: str, seed: int, place: str, mass: float, trial: Trial, file: Path) -> None:
    """Measures one recording and writes its Evidence."""
    model = payload_model(robot)
    where = [*EMPTY, *PLACES[robot]].index(place)
    mass = 0.0 if place in EMPTY else mass
    recording = trial.with_noise(1000 * seed + 100 * where + round(10.0 * mass)).recording
    sensors = _sensors(robot, seed, recording if place == "baseline" else None)
    motion = reconstruct_motion(model, recording.without_delays(sensors["delays"]))
    gathered = gather_evidence(
        model, motion, weights=sensors["weights"], nuisance=(*NUISANCE, *RIVALS), priors=PRIORS, workers=1
    )
    partial = file.with_suffix(".partial")
    gathered.save(partial)
    partial.rename(file)


def _sensors(robot: str, seed: int, recording: Recording | None) -> dict[str, Any]:
    """Gives the sensors' delays and noise, as the recording without a load tells them."""
    file = _file(robot, seed, "baseline", 0.0).with_suffix(".json")
    if recording is None:
        if not file.exists():
            recorded(robot, seed, "baseline")
    else:
        model = payload_model(robot)
        delays = dict(estimate_delays(model, recording).values)
        motion: Motion = reconstruct_motion(model, recording.without_delays(delays))
        levels = estimate_noise(model, motion, nuisance=NUISANCE, priors=PRIORS).weights
        weights = {name: np.asarray(value).tolist() for name, value in levels.items()}
        file.write_text(json.dumps({"delays": delays, "weights": weights}))
    read: dict[str, Any] = json.loads(file.read_text())
    return read


_TRIALS: dict[tuple[str, int, int], Trial] = {}


def _trial(robot: str, seed: int, number: int, loads: dict[str, Payload]) -> Trial:
    """Lets a true robot dance; what danced last without a load is kept."""
    if not loads and (robot, seed, number) in _TRIALS:
        return _TRIALS[robot, seed, number]
    dances = DANCES[robot][number]
    for attempt in range(len(dances)):
        dance = _dance(robot, dances[(seed + attempt) % len(dances)])
        trial = simulate(payload_model(robot), dance, seed=seed, spread=SPREAD, payloads=loads)
        if not trial.fell:
            break
    else:
        raise SystemExit(f"{robot} of seed {seed} falls in every dance that was tried")
    if not loads:
        _TRIALS.clear()
        _TRIALS[robot, seed, number] = trial
    return trial


@lru_cache(maxsize=32)
def _dance(robot: str, seed: int) -> Trajectory:
    return plan_motion(payload_model(robot), "dance", seed=seed, duration=DURATIONS[robot])


def add_loads(trial: Trial, loads: dict[str, Payload]) -> Trial:
    """Gives the trial of a robot that carries loads along the same way."""
    if not loads:
        return trial
    model, states = trial.truth.model, trial.truth.states
    loaded = add_payloads(model, model.parameters, loads)
    wrench = base_wrench(model, states.motion, loaded - model.parameters)
    force, moment = (np.einsum("nij,nj->ni", states.rotation, part) for part in (wrench[:, :3], wrench[:, 3:]))
    added = np.concatenate([force, moment + np.cross(states.q[:, :3], force)], axis=1)
    feet = states.feet + added[:, None, :] / states.feet.shape[1]
    true = model.with_parameters(loaded)
    return replace(trial, truth=replace(trial.truth, model=true, states=replace(states, model=true, feet=feet)))


if __name__ == "__main__":
    for each in range(20):
        for name, places in PLACES.items():
            for where in (*EMPTY, *places):
                recorded(name, each, where)
            for load in (0.5, 5.0) if each < 10 else ():
                for where in places:
                    recorded(name, each, where, load)
            print(name, each, flush=True)
