"""Choice of the source of the base link's motion: as requested, or from what the model and the recording offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from steelyard.exceptions import MotionError
from steelyard.motion.base_state import BaseSource, FixedBase, ImuBase, PoseBase, SoleBase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.model import Imu, Model, Sole
    from steelyard.motion.joint_state import Positions
    from steelyard.motion.readings import Readings
    from steelyard.recording import Recording

Base = Literal["imu", "sole", "pose", "fixed"]
BASES: tuple[Base, ...] = ("imu", "sole", "pose", "fixed")
SOURCES: dict[type[BaseSource], Base] = {ImuBase: "imu", SoleBase: "sole", PoseBase: "pose", FixedBase: "fixed"}


def choose_base(
    model: Model,
    recording: Recording,
    readings: Mapping[str, Readings],
    base: Base | None,
    imu: str | None,
    sole: str | None,
    positions: Positions,
) -> tuple[BaseSource, str]:
    """Choose the source of the base link's motion; return it with a note.

    Args:
        model: The model.
        recording: The recording.
        readings: Sampling of the IMU columns.
        base: Requested source, or None.
        imu: Name of the requested IMU, or None.
        sole: Name of the requested sole, or None.
        positions: Which joint positions are used.

    Raises:
        MotionError: The request is inconsistent, or does not match the model or the recording.
    """
    if base is None:
        base = "fixed" if model.base == "fixed" else "sole" if positions == "q_command" else "imu"
    if base not in BASES:
        raise MotionError(f"the base is {base!r}; choose 'imu', 'sole', 'pose' or 'fixed'")
    for name, kind in ((imu, "imu"), (sole, "sole")):
        if name is not None and base != kind:
            raise MotionError(f"{kind}={name!r} is given, but the base is {base!r}; leave one of them out")
    if base == "fixed" and model.base != "fixed":
        raise MotionError(f"{model.name} has a floating base; choose another base, or load the model with base='fixed'")
    if base != "fixed" and model.base == "fixed":
        raise MotionError(f"the base of {model.name} is fixed and does not move; leave base={base!r} out")
    if base == "imu":
        sensor = _choose_imu(model, readings, imu)
        link = model.bodies[model.frame(sensor.frame).body].name
        return ImuBase(sensor), f"base motion from the IMU {sensor.name!r} on the base link {link!r}"
    if base == "sole":
        chosen = _choose_sole(model, sole)
        return SoleBase(
            chosen
        ), f"base motion from the sole {chosen.name!r}, assumed stationary; the base link is the root"
    if base == "pose":
        missing = [name for name in PoseBase().columns if name not in recording.values]
        if missing:
            raise MotionError(
                f"{recording.name} has no column {missing[0]!r}; base='pose' needs base.position.x, y, z and "
                "base.quat.x, y, z, w",
                channel=missing[0],
            )
        return PoseBase(), "base motion from the tracked pose; the base link is the root"
    return FixedBase(), "the base is fixed"


def _choose_imu(model: Model, readings: Mapping[str, Readings], name: str | None) -> Imu:
    """Return the first IMU with readings in all columns, else the first that is recorded."""
    known = [imu for imu in model.setup.imus if name in (None, imu.name)]
    if not known:
        names = ", ".join(repr(imu.name) for imu in model.setup.imus) or "none"
        raise MotionError(f"the setup of {model.name} has no IMU {name or 'at all'} (it has {names})")
    recorded = [imu for imu in known if all(column in readings for column in ImuBase(imu).columns)]
    active = [imu for imu in recorded if all(readings[column].count for column in ImuBase(imu).columns)]
    return (active or recorded or known)[0]


def _choose_sole(model: Model, name: str | None) -> Sole:
    for sole in model.setup.soles:
        if name in (None, sole.name):
            return sole
    known = ", ".join(repr(sole.name) for sole in model.setup.soles) or "none"
    raise MotionError(f"the setup of {model.name} has no sole {name or 'at all'} (it has {known})")
