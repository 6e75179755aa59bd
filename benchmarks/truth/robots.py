"""True robots that moved, kept on disk: what was measured of each, and what nobody knows outside the laboratory.

Each true robot dances, sways and reaches for training, and dances another dance that teaches nobody. Three kinds of
data come of the same physics:

- "default": the laboratory's default sensors; motions are reconstructed from their readings, delays found and taken
  out; offsets of sensors are unknowns with what data sheets say as a prior;
- "wrench": exact states, and wrenches whose only error is white noise of the default size;
- "ideal": no motion at all but thousands of random states, all joints and the base shaken independently, with the same
  noise of wrenches: what no real motion can reach.

They are kept in ``benchmarks/.cache``, or where ``STEELYARD_BENCHMARK_CACHE`` says, under a hash of what made them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np

import steelyard
from benchmarks.papers.jovic import NUISANCE, PRIORS, TRAINING, UNSEEN, paper_model
from benchmarks.statistics import WRENCH_NOISE, centred
from steelyard import (
    Motion,
    estimate_delays,
    estimate_noise,
    gather_evidence,
    load_evidence,
    load_model,
    motion_from_generalized,
    plan_motion,
    project_to_interior,
    reconstruct_motion,
    simulate,
)
from steelyard.exceptions import StanceError
from steelyard.laboratory import DEFAULT_SENSORS
from steelyard.regression.gathering import residuals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from steelyard import Evidence, Model
    from steelyard.arrays import FloatArray
    from steelyard.laboratory import Trial

ROBOTS = ("g1", "talos", "icub", "romeo")
SEEDS = 10
SPREAD = 0.2
KINDS = ("default", "wrench", "ideal")
ON_PLATES = "_ground"

RECIPE = 2
"""To be raised when this file makes other data of the same arguments."""

IDEAL_SAMPLES = 8000
EXACT_EVERY, EXACT_UNSEEN_EVERY = 4, 40
"""Which of the physics' 2000 states a second exact motions keep: as many as sensors read, and for validation."""

_WRENCH_WEIGHTS = {"force": DEFAULT_SENSORS.force.noise, "moment": DEFAULT_SENSORS.moment.noise}
_TRIES = 5


def cache_folder() -> Path:
    """Gives the folder in which true robots are kept."""
    return Path(os.environ.get("STEELYARD_BENCHMARK_CACHE", Path(__file__).parents[1] / ".cache"))


@lru_cache(maxsize=8)
def reference_model(name: str) -> Model:
    """Gives a robot's CAD as its setup ships, its links projected to bodies that can exist, as the laboratory does.

    A name that ends in ``_ground`` is a robot that stands on force plates instead.
    """
    if name.endswith(ON_PLATES):
        return paper_model(name.removesuffix(ON_PLATES))
    model = load_model(name)
    return model.with_parameters(project_to_interior(model.parameters))


@dataclass(frozen=True, eq=False)
class TrueRobot:
    """A true robot, and what was measured of it.

    Attributes:
        name: Name of its setup.
        seed: Of the true robot, its motions and its sensors.
        folder: Where its files are.
    """

    name: str
    seed: int
    folder: Path

    @property
    def model(self) -> Model:
        """Its CAD."""
        return reference_model(self.name)

    @cached_property
    def truth(self) -> FloatArray:
        """Its true parameters, shape (n_links, 10)."""
        return np.load(self.folder / "truth.npy")

    @cached_property
    def made(self) -> dict[str, Any]:
        """What made it: seeds, tries, events and times."""
        return json.loads((self.folder / "made.json").read_text(encoding="utf-8"))

    def evidence(self, kind: str = "default") -> list[Evidence]:
        """Gives the Evidence of each motion that teaches."""
        count = 1 if kind == "ideal" else len(TRAINING)
        return [load_evidence(self.folder / f"{kind}_{number}.npz") for number in range(count)]

    def training(self) -> list[Motion]:
        """Gives the motions that teach, as reconstructed from default sensors."""
        return [load_motion(self.folder / f"motion_{number}.npz") for number in range(len(TRAINING))]

    def unseen(self, kind: str = "default") -> Motion:
        """Gives the motion that teaches nobody: measured by default sensors, or with exact states."""
        return load_motion(self.folder / f"unseen_{'default' if kind == 'default' else 'wrench'}.npz")


def true_robots(robots: Iterable[str] = ROBOTS, seeds: int = SEEDS) -> Iterator[TrueRobot]:
    """Gives true robots one by one, made where they are not kept: the first seed of each, then the second, ..."""
    for seed in range(seeds):
        for name in robots:
            yield true_robot(name, seed)


def true_robot(name: str, seed: int) -> TrueRobot:
    """Gives one true robot, made where it is not kept."""
    folder = cache_folder() / f"{name}_{seed}_{_recipe(name, seed)}"
    if not (folder / "made.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        _make(name, seed, folder)
    return TrueRobot(name, seed, folder)


def _recipe(name: str, seed: int) -> str:
    """Gives a hash of all that makes the data."""
    model = reference_model(name)
    parts = {
        "recipe": RECIPE, "seed": seed, "setup": repr(model.setup), "tree": model.tree.sha256, "spread": SPREAD,
        "parameters": hashlib.sha256(model.parameters.tobytes()).hexdigest(), "motions": [*TRAINING, UNSEEN],
        "sensors": asdict(DEFAULT_SENSORS), "priors": PRIORS, "nuisance": NUISANCE, "ideal": IDEAL_SAMPLES,
        "every": [EXACT_EVERY, EXACT_UNSEEN_EVERY],
        "versions": [steelyard.__version__, np.__version__, mujoco.__version__],
    }  # fmt: skip
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


# ---- making ----------------------------------------------------------------------------------------------------------


def _make(name: str, seed: int, folder: Path) -> None:
    """Lets a true robot move, measures it, and writes everything."""
    begin = time.perf_counter()
    model = reference_model(name)
    weights: Any = None
    delays: dict[str, float] = {}
    made: dict[str, Any] = {"robot": name, "seed": seed, "motions": []}
    for number, (motion, duration) in enumerate((*TRAINING, UNSEEN)):
        trial, motion_seed = _play(model, motion, duration, seed, number)
        made["motions"].append({"motion": motion, "seed": motion_seed, "events": [str(each) for each in trial.events]})
        trial.recording.write(folder / f"recording_{number}.parquet")
        if number == 0:
            # As a user does who looks before measuring: how late sensors are is taken from the first recording.
            delays = estimate_delays(model, trial.recording).values
            made["delays"] = delays
        measured = reconstruct_motion(model, trial.recording.without_delays(delays))
        exact = _exact_motion(trial, 100 * seed + number)
        if number == 0:
            np.save(folder / "truth.npy", trial.truth.parameters)
            weights = estimate_noise(model, measured, nuisance=NUISANCE, priors=PRIORS).weights
            made["weights"] = {key: np.asarray(value).tolist() for key, value in weights.items()}
        if number == len(TRAINING):
            save_motion(measured, folder / "unseen_default.npz")
            save_motion(exact.thinned(EXACT_UNSEEN_EVERY // EXACT_EVERY), folder / "unseen_wrench.npz")
            continue
        save_motion(measured, folder / f"motion_{number}.npz")
        gathered = gather_evidence(model, measured, weights=weights, nuisance=NUISANCE, priors=PRIORS, workers=1)
        gathered.save(folder / f"default_{number}.npz")
        gather_evidence(model, exact, weights=_WRENCH_WEIGHTS, workers=1, nuisance=()).save(
            folder / f"wrench_{number}.npz"
        )
    shaken = shake(model, np.load(folder / "truth.npy"), seed)
    gather_evidence(model, shaken, weights=_WRENCH_WEIGHTS, workers=1, nuisance=()).save(folder / "ideal_0.npz")
    made["seconds"] = time.perf_counter() - begin
    (folder / "made.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def _play(model: Model, motion: str, duration: float, seed: int, number: int) -> tuple[Trial, int]:
    """Plays a motion; another of the same name where it cannot be, or the true robot falls."""
    for attempt in range(_TRIES):
        motion_seed = 10 * seed + number + 1000 * attempt
        try:
            course = plan_motion(model, motion, seed=motion_seed, duration=duration)
        except StanceError:  # some seeds ask for more than the joints can do
            continue
        trial = simulate(model, course, seed=seed, spread=SPREAD)
        if not trial.fell:
            return trial.with_noise(10 * seed + number), motion_seed
    raise SystemExit(f"{model.name} of seed {seed} fails in every {motion!r} that was tried")


def _exact_motion(trial: Trial, seed: int) -> Motion:
    """Gives the true states as often as sensors read them, and wrenches whose only error is white noise."""
    exact = centred(trial)
    motion = replace(exact.truth.motion, wrenches=exact.signals.wrenches).thinned(EXACT_EVERY)
    return replace(motion, wrenches=_noisy(motion.wrenches, np.random.default_rng([seed, 1])))


def _noisy(wrenches: Any, generator: np.random.Generator) -> dict[str, FloatArray]:
    size = np.repeat([WRENCH_NOISE.force.noise, WRENCH_NOISE.moment.noise], 3)
    return {name: values + size * generator.standard_normal(values.shape) for name, values in wrenches.items()}


def shake(model: Model, truth: FloatArray, seed: int, samples: int = IDEAL_SAMPLES) -> Motion:
    """Gives random states that shake every joint and the base independently, with noisy wrenches of the first sensor.

    Joints are anywhere within their limits at up to 4 rad/s and 40 rad/s², the base turns at 4 rad/s and 40 rad/s² and
    is pushed by 10 m/s², one standard deviation each: far more than a humanoid does, and all of it at once.
    """
    generator = np.random.default_rng([seed, 2])
    lower, upper = model.pinocchio.lowerPositionLimit, model.pinocchio.upperPositionLimit
    known = np.isfinite(lower[7:]) & np.isfinite(upper[7:]) & (upper[7:] - lower[7:] < 4.0 * np.pi)
    low, high = np.where(known, lower[7:], -np.pi), np.where(known, upper[7:], np.pi)
    q = np.zeros((samples, model.position_size))
    q[:, 3:7] = generator.standard_normal((samples, 4))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    q[:, 7:] = generator.uniform(low, high, (samples, len(low)))
    v = 4.0 * generator.standard_normal((samples, model.velocity_size))
    v[:, :3] = 0.0
    a = 40.0 * generator.standard_normal((samples, model.velocity_size))
    a[:, :3] = 10.0 * generator.standard_normal((samples, 3))
    names = [sensor.name for sensor in model.setup.wrench_sensors]
    motion = motion_from_generalized(model, np.arange(samples) / 100.0, q, v, a,
                                     wrenches={name: np.zeros((samples, 6)) for name in names})  # fmt: skip

    def left(first: FloatArray) -> FloatArray:
        given = {**motion.wrenches, names[0]: first}
        return residuals(model, replace(motion, wrenches=given), truth, weights=None)[:, :6]

    # Residuals are linear in the wrench: six unit wrenches tell how, and one sensor takes all that is needed.
    nothing = left(np.zeros((samples, 6)))
    response = np.stack([left(np.tile(unit, (samples, 1))) - nothing for unit in np.eye(6)], axis=2)
    needed = np.linalg.solve(response, -nothing[:, :, None])[:, :, 0]
    return replace(motion, wrenches=_noisy({**motion.wrenches, names[0]: needed}, generator))


# ---- files -----------------------------------------------------------------------------------------------------------


def save_motion(motion: Motion, path: Path) -> None:
    """Writes a motion's arrays to a file (.npz)."""
    arrays: dict[str, Any] = {}
    for each in fields(motion):
        value = getattr(motion, each.name)
        if each.name in _GROUPS:
            arrays |= {f"{each.name}/{name}": values for name, values in value.items()}
        elif each.name == "notes":
            arrays[each.name] = np.array(json.dumps(value))
        elif value is not None:
            arrays[each.name] = np.asarray(value)
    with path.open("wb") as file:
        np.savez(file, **arrays)


_GROUPS = ("wrenches", "torques", "contacts")


def load_motion(path: Path) -> Motion:
    """Reads a motion that `save_motion` wrote."""
    found: dict[str, Any] = {name: {} for name in _GROUPS}
    with np.load(path, allow_pickle=False) as archive:
        for key in archive.files:
            group, _, name = key.partition("/")
            if name:
                found[group][name] = archive[key]
            elif key == "notes":
                found[key] = tuple(json.loads(str(archive[key])))
            else:
                found[key] = archive[key] if archive[key].ndim else archive[key].item()
    return Motion(**found)


def prepare(robots: Iterable[str] = ROBOTS, seeds: int = SEEDS) -> None:
    """Makes all true robots that are not kept yet."""
    begin = time.perf_counter()
    for robot in true_robots(robots, seeds):
        spent = time.perf_counter() - begin
        print(
            f"{robot.name} {robot.seed}: {robot.made['seconds']:.0f} s, {spent:.0f} s in all",
            file=sys.stderr,
            flush=True,
        )


if __name__ == "__main__":
    prepare()
