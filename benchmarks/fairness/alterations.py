"""Recordings made worse: short ones, encoder offsets, and mismatches that no model of the sensors foresees."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

import steelyard as sy

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard import Model, Recording

    Alteration = Callable[[Model, Recording, np.random.Generator], Recording]

GREATEST_OFFSET = math.radians(2.0)


def with_columns(recording: Recording, changed: dict[str, np.ndarray]) -> Recording:
    """Gives a recording with some columns replaced."""
    values = {name: changed.get(name, recording.column(name)) for name in recording.columns}
    return sy.Recording(recording.time, values, recording.name)


def shift_encoders(model: Model, recording: Recording, generator: np.random.Generator) -> Recording:
    """Gives each encoder an offset of up to two degrees."""
    return with_columns(
        recording,
        {
            f"q.{joint}": recording.column(f"q.{joint}") + generator.uniform(-GREATEST_OFFSET, GREATEST_OFFSET)
            for joint in model.joints
        },
    )


def scale_wrenches(model: Model, recording: Recording, generator: np.random.Generator) -> Recording:
    """Gives each component of a wrench sensor a gain error of 3 %."""
    return with_columns(
        recording, {name: recording.column(name) * (1.0 + 0.03 * generator.normal()) for name in _wrench_columns(model)}
    )


def mix_wrenches(model: Model, recording: Recording, generator: np.random.Generator) -> Recording:
    """Lets 2 % of the vertical force show in the other components, N and a tenth in N m."""
    changed = {}
    for name in _wrench_columns(model):
        sensor, _, axis = name.rpartition(".")
        if axis != "fz":
            share = 0.02 * generator.normal() * (1.0 if axis.startswith("f") else 0.1)
            changed[name] = recording.column(name) + share * recording.column(f"{sensor}.fz")
    return with_columns(recording, changed)


def yaw_imu(model: Model, recording: Recording, generator: np.random.Generator) -> Recording:
    """Turns the inertial sensor by four degrees about its z axis."""
    angle = math.radians(4.0) * generator.choice([-1.0, 1.0])
    changed = {}
    for sensor in model.setup.imus:
        for kind in ("gyro", "accel"):
            x, y = (recording.column(f"{sensor.name}.{kind}.{axis}") for axis in "xy")
            changed[f"{sensor.name}.{kind}.x"] = math.cos(angle) * x + math.sin(angle) * y
            changed[f"{sensor.name}.{kind}.y"] = math.cos(angle) * y - math.sin(angle) * x
    return with_columns(recording, changed)


def add_backlash(model: Model, recording: Recording, generator: np.random.Generator) -> Recording:
    """Lets each joint play by 0.2 degrees: readings lag behind by half of it, by the sign of the velocity."""
    changed = {}
    for joint in model.joints:
        q = recording.column(f"q.{joint}")
        smooth = np.convolve(np.gradient(q, recording.time), np.ones(25) / 25.0, mode="same")
        changed[f"q.{joint}"] = q + math.radians(0.1) * np.tanh(smooth / 0.02) * generator.choice([-1.0, 1.0])
    return with_columns(recording, changed)


def drift_wrenches(model: Model, recording: Recording, generator: np.random.Generator) -> Recording:
    """Lets the offsets of wrench sensors drift by 4 N and 0.13 N m."""
    along = np.linspace(0.0, 1.0, len(recording.time))
    return with_columns(
        recording,
        {
            name: recording.column(name) + along * generator.normal() * (4.0 if ".f" in name[-3:] else 0.13)
            for name in _wrench_columns(model)
        },
    )


def lose_samples(model: Model, recording: Recording, generator: np.random.Generator) -> Recording:
    """Drops 5 % of the samples, with some jitter of the times of the others."""
    del model
    kept = generator.uniform(size=len(recording.time)) > 0.05
    time = recording.time[kept]
    jitter = 0.2 * np.median(np.diff(recording.time)) * generator.uniform(-1.0, 1.0, size=len(time))
    return sy.Recording(
        time + jitter, {name: recording.column(name)[kept] for name in recording.columns}, recording.name
    )


MISMATCHES: dict[str, Alteration] = {
    "wrench gains 3 %": scale_wrenches,
    "cross-talk 2 %": mix_wrenches,
    "inertial sensor yawed 4°": yaw_imu,
    "backlash 0.2°": add_backlash,
    "drifting offsets 4 N": drift_wrenches,
    "5 % of samples lost, jitter": lose_samples,
}


def _wrench_columns(model: Model) -> list[str]:
    return [f"{sensor.name}.{axis}" for sensor in model.setup.wrench_sensors for axis in sensor.axes]
