"""Values of the whole pipeline, stored before the source was rearranged: ``python -m tests.oracles.pipeline``.

On each of four robots: every method's estimate, encoder offsets, delays, noise, a payload and a validation, from the
laboratory's own recordings; on a fixed arm every method, from torques that Pinocchio computes. The script uses public
names only, so that it runs on either side of a rearrangement. ``--write`` stores the values; without it they are
compared, each array relative to its greatest entry.

The recordings come out of a simulation, which other processors round differently. Where the hash of a robot's
recordings is not the stored one, its values are not comparable, which is printed; ``--against DIR`` then runs the
source of another checkout (``git worktree add DIR COMMIT``) on the same machine and compares with that.

Some values are unstable: rounding alone moves them. Each estimate is therefore made twice, the second time with the
evidence's factor changed by some 1e-15 of itself, and a value may differ by ten times what that does to it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pinocchio as pin

import steelyard as sy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard import Model, Recording

ROBOTS = ("g1", "talos", "icub", "romeo")
ARM = "package://example-robot-data/robots/ur_description/urdf/ur5_robot.urdf"
METHODS = ("truncated", "bounded", "base", "quadratic", "hierarchical", "conic", "geometric")
SENSORS = ("wrench_offset", "accelerometer_bias", "imu_mounting")
STORED = Path(__file__).with_name("pipeline.npz")
TOLERANCE = 1e-10
"""Greatest difference that counts as agreement, relative to the greatest entry of an array."""

UNSTABLE, MARGIN = "~", 10.0
"""Ending of the name under which it is stored how far rounding moves a value, and how many times that it may differ."""


def robot_values(name: str) -> dict[str, Any]:
    """Return all values of one robot, by name."""
    model = sy.load_model(name)
    load = next(link for link in reversed(model.links) if model.parameters[model.links.index(link), 0] > 0.1)
    seeds = {"seed": 3, "spread": 0.2}
    dance = sy.simulate(model, "dance", duration=8.0, **seeds).recording
    loaded = sy.simulate(model, "dance", duration=8.0, payloads={load: 1.0}, **seeds).recording
    reach = sy.simulate(model, "reach", duration=8.0, **seeds).recording
    leg = {joint: 0.02 * (-1) ** number for number, joint in enumerate(model.joints[:6])}
    limp = sy.simulate(model, "limp", duration=20.0, offsets=leg, **seeds).recording
    values: dict[str, Any] = {"hash": hash_of([dance, loaded, reach, limp])}
    offsets = sy.calibrate(model, limp, joints=list(leg))
    values["offsets"] = list(offsets.values.values())
    values["offset_errors"] = list(offsets.standard_errors.values())
    delays = sy.estimate_delays(model, dance).values
    values["delays"] = list(delays.values())
    empty, full = (sy.reconstruct_motion(model, each.without_delays(delays), cutoff=10.0) for each in (dance, loaded))
    levels = sy.estimate_noise(model, empty, nuisance=SENSORS).weights
    values["noise"] = np.concatenate([np.ravel(levels[key]) for key in sorted(levels)])
    before, after = (sy.gather_evidence(model, each, weights=levels, nuisance=SENSORS) for each in (empty, full))
    finding = sy.find_payload(model, after, before).to_dict()
    values["payload_mass"] = [each["mass"] for each in finding["payloads"]]
    values["payload_position"] = [each["position"] for each in finding["payloads"]]
    unseen = sy.reconstruct_motion(model, reach.without_delays(delays), cutoff=10.0)
    values |= estimate_values(model, before, {"reach": unseen})
    return values


def arm_values() -> dict[str, Any]:
    """Return all values of a fixed arm whose joint torques are measured."""
    model = sy.load_model(ARM, base="fixed")
    generator = np.random.default_rng(5)
    count, size = 400, model.velocity_size
    motions = []
    for seed in (1, 2):
        noise = np.random.default_rng(seed)
        q, v, a = noise.uniform(-1.5, 1.5, size=(3, count, size))
        motions.append((q, v, a, noise.normal(size=(count, size))))
    possible = sy.project_to_interior(model.parameters)
    true = possible.copy()
    true[:, :4] *= 1.0 + 0.1 * generator.normal(size=(len(true), 1))
    built = model.with_parameters(sy.project_to_interior(true)).pinocchio
    data = built.createData()
    recorded = []
    for q, v, a, noise in motions:
        torques = np.array([pin.rnea(built, data, *each) for each in zip(q, v, a, strict=True)]) + 0.1 * noise
        measured = {joint: torques[:, place] for place, joint in enumerate(model.joints)}
        recorded.append(sy.motion_from_generalized(model, np.arange(count) / 100.0, q, v, a, torques=measured))
    evidence = sy.gather_evidence(model, recorded[0], torques=list(model.joints), nuisance=["coulomb_friction"])
    return {"hash": np.zeros(1)} | estimate_values(model, evidence, {"other": recorded[1]})


def estimate_values(model: Model, evidence: Any, unseen: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence's numbers, and of every method the estimate and its validation."""
    values: dict[str, Any] = {
        "rank": [evidence.rank],
        "condition": [evidence.condition],
        "cost": [evidence.cost(model.parameters)],
    }
    rounding = 1.0 + np.finfo(float).eps * np.random.default_rng(0).normal(size=evidence.factor.shape)
    rounded = replace(evidence, factor=rounding * evidence.factor)
    for method in METHODS:
        found, moved = (method_values(model, each, method, unseen) for each in (evidence, rounded))
        values |= found
        values |= {f"{key}{UNSTABLE}": difference(np.asarray(moved[key]), np.asarray(found[key])) for key in found}
    return values


def method_values(model: Model, evidence: Any, method: str, unseen: dict[str, Any]) -> dict[str, Any]:
    """Return one method's estimate and its validation."""
    estimate = sy.identify(model, evidence, method=method)
    values = {
        f"{method}.parameters": estimate.parameters,
        f"{method}.deviations": np.sqrt(np.maximum(np.diag(estimate.covariance), 0.0)),
        f"{method}.base": estimate.base.values,
        f"{method}.base_errors": estimate.base.standard_errors,
    }
    for name, motion in unseen.items():
        validation = sy.validate(estimate, motion)
        shown = validation.torque if model.base == "fixed" else validation
        values[f"{method}.{name}.rmse"] = shown.rmse
        values[f"{method}.{name}.reference"] = shown.reference.rmse
    return values


def hash_of(recordings: list[Recording]) -> np.ndarray:
    """Return the hash of all columns of recordings, as bytes."""
    digest = hashlib.sha256()
    for recording in recordings:
        for name in recording.columns:
            digest.update(np.ascontiguousarray(recording.column(name)).tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def all_values(names: list[str]) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yield the values of each robot by its name."""
    for name in names:
        start = time.perf_counter()
        found = arm_values() if name == "arm" else robot_values(name)
        print(f"{name}: {len(found)} values in {time.perf_counter() - start:.0f} s", flush=True)
        yield name, {key: np.asarray(value, dtype=np.float64) for key, value in found.items()}


def difference(value: np.ndarray, stored: np.ndarray) -> float:
    """Return the greatest difference of two arrays, relative to the greatest entry of the stored one."""
    if value.shape != stored.shape:
        return float("inf")
    if not value.size:
        return 0.0
    known = np.isfinite(stored)
    if not np.array_equal(known, np.isfinite(value)):
        return float("inf")
    off = np.abs(value[known] - stored[known])
    return float(off.max(initial=0.0) / max(np.abs(stored[known]).max(initial=0.0), np.finfo(float).tiny))


def values_of_checkout(folder: Path, robots: list[str]) -> dict[str, np.ndarray]:
    """Return the values that the source of another checkout gives, by robot and name."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "values.npz"
        environment = {**os.environ, "PYTHONPATH": str((folder / "src").resolve())}
        command = [sys.executable, str(Path(__file__).resolve()), *robots, "--write", "--output", str(path)]
        subprocess.run(command, env=environment, cwd=place, check=True)
        return dict(np.load(path))


def main() -> int:
    """Store the values, or compare them with those stored; return 1 where one differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.pipeline")
    parser.add_argument("robots", nargs="*", default=[*ROBOTS, "arm"])
    parser.add_argument("--write", action="store_true", help="store the values instead of comparing them")
    parser.add_argument("--output", type=Path, default=STORED, help="where to store them")
    parser.add_argument("--against", type=Path, metavar="DIR", help="compare with what another checkout gives")
    options = parser.parse_args()
    if options.write:
        found = dict(all_values(options.robots))
        flat = {f"{robot}/{key}": value for robot, values in found.items() for key, value in values.items()}
        np.savez_compressed(options.output, **flat)
        return 0
    stored = values_of_checkout(options.against, options.robots) if options.against else dict(np.load(STORED))
    worst, compared, unstable, missed = 0.0, 0, 0, 0
    for robot, values in all_values(options.robots):
        if not np.array_equal(values.pop("hash"), stored[f"{robot}/hash"]):
            print(f"{robot}: its recordings are not those that were stored; its values are not comparable here")
            missed += 1
            continue
        for key, value in values.items():
            if key.endswith(UNSTABLE):
                continue
            off = difference(value, stored[f"{robot}/{key}"])
            rounding = float(stored.get(f"{robot}/{key}{UNSTABLE}", 0.0))
            compared += 1
            if MARGIN * rounding > TOLERANCE:
                unstable += 1
                print(f"{robot}/{key}: rounding moves it by {rounding:.1e}; it differs by {off:.1e}")
            else:
                worst = max(worst, off)
            if off > max(TOLERANCE, MARGIN * rounding):
                missed += 1
                print(f"{robot}/{key}: differs by {off:.1e}, more than it may")
    print(f"{compared} values compared; {unstable} that rounding moves; greatest difference of the others {worst:.1e}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
