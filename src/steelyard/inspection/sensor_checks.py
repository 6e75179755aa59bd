"""The checks that need the model's physics: mounting, units, offsets, weight and delays of the sensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import EvidenceError, MotionError
from steelyard.inspection.delays import Delays, estimate_lags
from steelyard.inspection.findings import Finding, write_fix
from steelyard.inspection.inertial import (
    ACCELEROMETER_UNITS,
    GYRO_UNITS,
    InertialMounting,
    find_inertial_mounting,
    predict_readings,
)
from steelyard.inspection.mounting import UNITS, Mounting, find_mountings
from steelyard.inspection.offsets import find_offsets
from steelyard.inspection.stretches import corrected
from steelyard.inspection.turns import describe_order, describe_turn, is_same
from steelyard.model.names import in_words
from steelyard.model.recording_map import ColumnSource
from steelyard.motion.reconstruction import reconstruct_from_imu, reconstruct_from_sole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steelyard.model import Model
    from steelyard.model.setup import Imu, WrenchSensor
    from steelyard.motion import Motion
    from steelyard.recording import Recording

CUTOFF = 5.0
"""Frequency (Hz) up to which the sensors are compared with the model."""

LATE = 0.005
"""Seconds of delay from which on it is worth taking out."""

_CERTAINLY_LATE = 0.0025
_BAD_MISFIT = 5.0
_BAD_INERTIAL = 3.0


@dataclass
class SensorChecks:
    """What the physics says of the sensors, check after check.

    Each check sees the recording as the checks before it corrected it.

    Attributes:
        model: The model.
        stretches: The stretches looked at.
        findings: What was found.
        corrections: By column, which column really holds it.
        delays: How late the sensors are, where that could be found.
        misfit: Root mean square of the base equation's whitened residual, with all corrections.
    """

    model: Model
    stretches: Sequence[Recording]
    findings: list[Finding] = field(default_factory=list)
    corrections: dict[str, ColumnSource] = field(default_factory=dict)
    delays: Delays | None = None
    misfit: float | None = None

    @property
    def imus(self) -> list[Imu]:
        """Inertial sensors that are recorded."""
        return [imu for imu in self.model.setup.imus if f"{imu.name}.accel.x" in self.stretches[0].values]

    @property
    def sensors(self) -> list[WrenchSensor]:
        """Wrench sensors that are recorded."""
        recorded = self.stretches[0].values
        return [each for each in self.model.setup.wrench_sensors if f"{each.name}.{each.axes[0]}" in recorded]

    def correct(self, corrections: dict[str, ColumnSource]) -> None:
        """Takes corrections into account from here on."""
        # The new ones speak of columns as they are now; those may come from others already.
        composed = {}
        for target, source in corrections.items():
            before = self.corrections.get(source.name, ColumnSource(source.name))
            composed[target] = ColumnSource(
                before.name, source.scale * before.scale, source.scale * before.offset + source.offset
            )
        self.stretches = corrected(self.stretches, corrections)
        self.corrections |= composed

    def add(self, finding: Finding) -> None:
        """Takes a finding."""
        self.findings.append(finding)

    def skip(self, what: str, why: str) -> None:
        """Says that something was not checked, and why."""
        self.add(Finding("remark", "not-checked", what, f"{what} could not be checked: {why}"))


def check_sensors(state: SensorChecks) -> None:
    """Adds what the physics says of the sensors to what is known already."""
    try:
        _check_inertial(state)
    except MotionError as error:
        state.skip("the mounting of the inertial sensors", str(error))
    if not state.sensors:
        return
    try:
        motions = _motions(state)
    except MotionError as error:
        state.skip("the mounting of the wrench sensors", str(error))
        return
    if motions is None:
        state.skip("the mounting of the wrench sensors", "there is neither an inertial sensor nor a sole to stand on")
        return
    try:
        sound = _check_mountings(state, motions)
        if sound:
            _check_delays(state)
            _check_offsets(state)
    except (EvidenceError, MotionError) as error:
        state.skip("the mounting of the wrench sensors", str(error))


def _motions(state: SensorChecks) -> list[Motion] | None:
    """Gives the motions of the stretches, thinned to what their filter leaves; None where nothing tells of the base."""
    imu = state.imus[0].name if state.imus else None
    if imu is None and not state.model.setup.soles:
        return None
    motions = []
    for stretch in state.stretches:
        motion = (
            reconstruct_from_sole(state.model, stretch, cutoff=CUTOFF)
            if imu is None
            else reconstruct_from_imu(state.model, stretch, imu=imu, cutoff=CUTOFF)
        )
        motions.append(motion.thinned(max(1, round(motion.sample_rate / (3.0 * CUTOFF)))))
    return motions


def _check_inertial(state: SensorChecks) -> None:
    for imu in state.imus:
        if not state.model.setup.soles:
            state.skip(f"the mounting of {imu.name}", "the setup names no sole that could tell how the robot stands")
            continue
        seen = predict_readings(state.model, state.stretches, imu, CUTOFF)
        if seen is None:
            state.skip(
                f"the mounting of {imu.name}", "the feet never stand still together; record a stretch of standing"
            )
            continue
        found = find_inertial_mounting(imu.name, seen)
        if not found.as_stated:
            _say_inertial(state, found)
        elif found.misfit > _BAD_INERTIAL:
            state.add(
                Finding(
                    "warning",
                    "inertial-misfit",
                    imu.name,
                    f"{imu.name} contradicts the legs' joints, and no right-angled turn or unit explains it; check its "
                    f"frame in the setup, and that the soles are flat on level ground",
                )
            )


def _say_inertial(state: SensorChecks, found: InertialMounting) -> None:
    name, setup = found.imu, state.model.setup
    if found.without_gravity:
        state.add(
            Finding(
                "fault",
                "no-gravity",
                name,
                f"the accelerometer of {name} reads nothing at rest: gravity was taken out of it; record what it "
                "really measures, +9.81 m/s² upwards at rest",
            )
        )
        return
    corrections: dict[str, ColumnSource] = {}
    units = {
        "accel": (found.accel_turn, found.accel_unit, ACCELEROMETER_UNITS),
        "gyro": (found.gyro_turn, found.gyro_unit, GYRO_UNITS),
    }
    for kind, (turn, unit, scales) in units.items():
        if not is_same(turn) or scales[unit] != 1.0:
            corrections |= _turned(f"{name}.{kind}.", f"{name}.{kind}.", turn, scales[unit])
    fix = write_fix(setup, corrections)
    if found.accel_unit != "m/s²":
        state.add(
            Finding(
                "fault",
                "accelerometer-unit",
                name,
                f"the accelerometer of {name} is in {found.accel_unit}, not in m/s²",
                fix,
            )
        )
    if found.gyro_unit != "rad/s":
        state.add(Finding("fault", "gyro-unit", name, f"the gyro of {name} is in {found.gyro_unit}, not in rad/s", fix))
    together = np.array_equal(found.accel_turn, found.gyro_turn)
    turned = (
        {"": found.accel_turn} if together else {"accelerometer of ": found.accel_turn, "gyro of ": found.gyro_turn}
    )
    for part, turn in turned.items():
        if not is_same(turn):
            state.add(
                Finding(
                    "fault",
                    "inertial-axes",
                    name,
                    f"the {part}{name} is {describe_turn(turn)} against its frame ({describe_order(turn)}); turn the "
                    "frame, or write into the setup",
                    fix,
                )
            )
    state.correct(corrections)


def _turned(target: str, source: str, turn: np.ndarray, scale: float) -> dict[str, ColumnSource]:
    """Gives the corrections of three columns whose names begin alike: ``target = scale * turn @ source``."""
    corrections = {}
    for row, axis in enumerate("xyz"):
        column = int(np.argmax(np.abs(turn[row])))
        corrections[f"{target}{axis}"] = ColumnSource(f"{source}{'xyz'[column]}", float(scale * turn[row, column]))
    return corrections


def _check_mountings(state: SensorChecks, motions: Sequence[Motion]) -> bool:
    """Checks how the wrench sensors are mounted; gives whether they make sense in the end."""
    search = find_mountings(state.model, motions)
    state.misfit = search.best_misfit
    wrong = [mounting for mounting in search.mountings.values() if not mounting.as_stated]
    corrections: dict[str, ColumnSource] = {}
    exchanged = [mounting for mounting in wrong if mounting.source != mounting.sensor]
    for mounting in wrong:
        corrections |= _wrench_corrections(state.model, mounting)
    if exchanged:
        names = [mounting.sensor for mounting in exchanged]
        own = {
            f"{mounting.sensor}.{axis}": ColumnSource(f"{mounting.source}.{axis}")
            for mounting in exchanged
            for axis in _axes(state.model, mounting.sensor)
        }
        state.add(
            Finding(
                "fault",
                "exchanged",
                names[0],
                f"{in_words(names)} are exchanged: each reads what the other should",
                write_fix(state.model.setup, corrections if _more_than_exchanged(exchanged) else own),
            )
        )
    for mounting in wrong:
        _say_mounting(state, mounting)
    state.correct(corrections)
    if search.best_misfit > _BAD_MISFIT:
        state.add(
            Finding(
                "warning",
                "misfit",
                "wrench sensors",
                f"what the wrench sensors read is {search.best_misfit:.0f} times further from the model than their "
                "noise, and no mounting or unit explains it; check frames, signs of joints, and that nothing else "
                "touches the robot",
            )
        )
        return False
    return True


def _more_than_exchanged(mountings: Iterable[Mounting]) -> bool:
    return any(not is_same(mounting.turn) or mounting.unit != "N and N m" for mounting in mountings)


def _axes(model: Model, sensor: str) -> tuple[str, ...]:
    return next(each.axes for each in model.setup.wrench_sensors if each.name == sensor)


def _wrench_corrections(model: Model, mounting: Mounting) -> dict[str, ColumnSource]:
    corrections: dict[str, ColumnSource] = {}
    for kind, scale in zip("fn", UNITS[mounting.unit], strict=True):
        corrections |= _turned(f"{mounting.sensor}.{kind}", f"{mounting.source}.{kind}", mounting.turn, scale)
    measured = {f"{mounting.sensor}.{axis}" for axis in _axes(model, mounting.sensor)}
    return {target: source for target, source in corrections.items() if target in measured}


def _say_mounting(state: SensorChecks, mounting: Mounting) -> None:
    name, setup = mounting.sensor, state.model.setup
    fix = write_fix(setup, _wrench_corrections(state.model, mounting))
    if mounting.unit != "N and N m":
        state.add(
            Finding(
                "fault", "wrench-unit", name, f"{name} is in {mounting.unit}, not in N and N m; write the unit", fix
            )
        )
    if np.array_equal(mounting.turn, -np.eye(3)):
        sensor = next(each for each in setup.wrench_sensors if each.name == name)
        other = "on_environment" if sensor.sign == "on_robot" else "on_robot"
        lines = (f"# under [[wrench_sensor]] {name!r}:", f'sign = "{other}"')
        state.add(
            Finding(
                "fault",
                "wrench-sign",
                name,
                f"{name} reads with the opposite sign: it measures what the robot exerts on the "
                f"{'environment' if other == 'on_environment' else 'sensor, turned round'}; write its sign",
                lines,
            )
        )
    elif not is_same(mounting.turn):
        state.add(
            Finding(
                "fault",
                "wrench-axes",
                name,
                f"{name} is {describe_turn(mounting.turn)} against its frame ({describe_order(mounting.turn)}); turn "
                "the frame, or write into the setup",
                fix,
            )
        )


def _check_offsets(state: SensorChecks) -> None:
    motions = _motions(state) or []
    for offset in find_offsets(state.model, motions):
        unit = "N" if offset.column.rpartition(".")[2].startswith("f") else "N m"
        who = in_words([offset.column, *offset.rivals]).replace(" and ", " or ")
        state.add(
            Finding(
                "fault",
                "offset",
                offset.column.rpartition(".")[0],
                f"{who} reads {offset.value:+.1f} ± {offset.standard_error:.1f} {unit} when nothing pulls; tare the "
                "sensor in the air and record again, or take it out in the setup",
                write_fix(state.model.setup, {offset.column: ColumnSource(offset.column, 1.0, -offset.value)}),
            )
        )


def _check_delays(state: SensorChecks) -> None:
    if sum(stretch.duration for stretch in state.stretches) < 8.0:
        state.skip("delays", "the recording is too short; they need ten seconds of motion")
        return
    imus = [imu.name for imu in state.imus]
    usable = [stretch for stretch in state.stretches if stretch.duration > 3.0]
    delays = estimate_lags(state.model, usable, imu=imus[0] if imus else None, cutoff=CUTOFF)
    found = dict(delays.by_sensor)
    for other in imus[1:]:
        again = estimate_lags(state.model, usable, imu=other, cutoff=CUTOFF)
        found[other] = again.by_sensor[other]
    state.delays = Delays(found, delays.settled, delays.misfit, delays.best_misfit)
    state.misfit = delays.best_misfit
    if not delays.settled:
        state.skip("delays", "the search did not settle; the motion may be too slow to show them")
        return
    late = {}
    for name, delay in found.items():
        certain = min(abs(delay.low), abs(delay.high)) if delay.low * delay.high > 0.0 else 0.0
        if abs(delay.value) < LATE or certain < _CERTAINLY_LATE:
            continue
        late[name] = delay.value
        table = "imu" if name in imus else "wrench_sensor"
        setup = state.model.setup
        stated = {imu.name: imu.delay for imu in setup.imus} | {each.name: each.delay for each in setup.wrench_sensors}
        state.add(
            Finding(
                "warning",
                "delay",
                name,
                f"{name} is {1e3 * abs(delay.value):.1f} ms {'late' if delay.value > 0.0 else 'early'} against the "
                f"encoders (95 % interval {1e3 * delay.low:.1f} to {1e3 * delay.high:.1f} ms); take that out with its "
                "delay in the setup",
                (f"# under [[{table}]] {name!r}:", f"delay = {stated[name] + delay.value:.4f}"),
            )
        )
    if late:
        state.stretches = [
            stretch.without_delays(late).between(stretch.time[0] + 0.3, stretch.time[-1] - 0.3) for stretch in usable
        ]
