"""Findings about wrench sensors: mounting, swaps, units, delays and offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.axis_permutations import describe_mounting, is_identity
from steelyard.inspection.check_state import CUTOFF, SensorChecks, permuted_columns
from steelyard.inspection.delays import Delays, estimate_lags
from steelyard.inspection.wrench_mounting import UNITS, Mounting, find_mountings
from steelyard.inspection.wrench_offsets import find_offsets
from steelyard.model import ColumnSource
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.inspection.delays import Delay
    from steelyard.motion import Motion

LATE = 0.005
"""Shortest delay (s) that is reported. Set by judgement: half of the ten milliseconds that are worth correcting."""

_CERTAINLY_LATE = 0.0025
"""Least absolute value (s) within the interval of a reported delay. Set by judgement, half of `LATE`."""

_SHORTEST = 8.0
"""Duration (s) that the estimate of delays needs. Set by judgement: two of the shortest segments, eight blocks of its
covariance."""

_BAD_MISFIT = 6.5
"""RMS of the whitened residual from which the sensors contradict the model. Sound recordings of G1 leave 1.1; without
an IMU, with the base's motion from its soles alone, 5.2."""

_AS_STATED = "N and N m"


def check_wrenches(state: SensorChecks, motions: Sequence[Motion]) -> None:
    """Compare the wrench sensors with the model, and add findings: mounting, delays, offsets.

    Raises:
        EvidenceError: Unmeasured components leave no equation.
        MotionError: A segment is too short or its rate too low.
    """
    search = find_mountings(state.model, motions)
    state.misfit = search.best_misfit
    wrong = [mounting for mounting in search.mountings.values() if not mounting.as_stated]
    corrections: dict[str, ColumnSource] = {}
    for mounting in wrong:
        corrections |= _corrections(state, mounting)
    _report_exchange(state, [mounting for mounting in wrong if mounting.source != mounting.sensor], corrections)
    for mounting in wrong:
        _report_mounting(state, mounting)
    state.correct(corrections)
    # A delayed sensor contradicts the model too: only a residual that remains is unexplained.
    _check_delays(state)
    if state.misfit > _BAD_MISFIT:
        words = (
            f"the wrench sensors disagree with the model by {state.misfit:.0f} times their noise, and no mounting, "
            "unit or delay explains it; check frames, joint signs, and that nothing else touches the robot"
        )
        state.add_finding("warning", "misfit", "wrench sensors", words)
        return
    _check_offsets(state)


def _report_exchange(state: SensorChecks, exchanged: Sequence[Mounting], corrections: dict[str, ColumnSource]) -> None:
    if not exchanged:
        return
    names = [mounting.sensor for mounting in exchanged]
    fix = {target: source for target, source in corrections.items() if target.rpartition(".")[0] in names}
    words = f"{in_words(names)} are swapped: each holds the readings of {'the other' if len(names) == 2 else 'another'}"
    state.add_finding("fault", "exchanged", names[0], f"{words}; swap the plugs, or correct the setup", state.fix(fix))


def _corrections(state: SensorChecks, mounting: Mounting) -> dict[str, ColumnSource]:
    corrections: dict[str, ColumnSource] = {}
    for kind, scale in zip("fn", UNITS[mounting.unit], strict=True):
        corrections |= permuted_columns(f"{mounting.sensor}.{kind}", f"{mounting.source}.{kind}", mounting.axes, scale)
    axes = next(each.axes for each in state.model.setup.wrench_sensors if each.name == mounting.sensor)
    measured = {f"{mounting.sensor}.{axis}" for axis in axes}
    return {target: source for target, source in corrections.items() if target in measured}


def _report_mounting(state: SensorChecks, mounting: Mounting) -> None:
    name = mounting.sensor
    fix = state.fix(_corrections(state, mounting))
    if mounting.unit != _AS_STATED:
        words = f"{name} is in {mounting.unit}, not in {_AS_STATED}; state the unit in the setup"
        state.add_finding("fault", "wrench-unit", name, words, fix)
    if np.array_equal(mounting.axes, -np.eye(3)):
        if mounting.unit == _AS_STATED and mounting.source == name:
            sensor = next(each for each in state.model.setup.wrench_sensors if each.name == name)
            other = "on_environment" if sensor.sign == "on_robot" else "on_robot"
            fix = (f"# under [[wrench_sensor]] {name!r}:", f'sign = "{other}"')
        words = f"{name} reads with the opposite sign; set its sign in the setup"
        state.add_finding("fault", "wrench-sign", name, words, fix)
    elif not is_identity(mounting.axes):
        words = f"{name} is {describe_mounting(mounting.axes)}; correct the frame in the model, or the setup"
        state.add_finding("fault", "wrench-axes", name, words, fix)


def _check_offsets(state: SensorChecks) -> None:
    offsets = find_offsets(state.model, state.motions() or [])
    impossible = [offset.column for offset in offsets if not offset.possible]
    if impossible:
        # An error of that size distorts the other offsets as well.
        words = (
            f"joint angles and {in_words(impossible)} disagree by more than a sensor offset can explain; encoders "
            "may be off: calibrate them first"
        )
        state.add_finding("warning", "offset", impossible[0].rpartition(".")[0], words)
        return
    for offset in offsets:
        unit = "N" if offset.column.rpartition(".")[2].startswith("f") else "N m"
        who = in_words([offset.column, *offset.rivals]).replace(" and ", " or ")
        words = (
            f"{who} reads {offset.value:+.1f} ± {offset.standard_error:.1f} {unit} without load; tare the sensor "
            "in the air and record again, or subtract the offset in the setup"
        )
        state.add_finding(
            "fault",
            "offset",
            offset.column.rpartition(".")[0],
            words,
            state.fix({offset.column: ColumnSource(offset.column, 1.0, -offset.value)}),
        )


def _check_delays(state: SensorChecks) -> None:
    if sum(segment.duration for segment in state.segments) < _SHORTEST:
        state.skip("delays", f"they need {_SHORTEST:.0f} seconds of motion without gaps")
        return
    imus = [imu.name for imu in state.imus]
    first = estimate_lags(state.model, state.segments, imu=imus[0] if imus else None, cutoff=CUTOFF)
    found: dict[str, Delay] = dict(first.by_sensor)
    settled = first.settled
    for other in imus[1:]:
        again = estimate_lags(state.model, state.segments, imu=other, cutoff=CUTOFF)
        found[other] = again.by_sensor[other]
        settled = settled and again.settled
    if not settled:
        state.skip("delays", "the search did not converge; the motion may be too slow to observe them")
        return
    state.delays = Delays(found, settled, first.misfit, first.best_misfit)
    state.misfit = first.best_misfit
    late = {name: delay.value for name, delay in found.items() if _is_late(delay)}
    for name in late:
        _report_delay(state, found[name])
    if late:
        # The ends, where shifted readings are missing, are left out.
        margin = max(abs(value) for value in late.values()) + 0.05
        state.segments = [
            segment.without_delays(late).between(segment.time[0] + margin, segment.time[-1] - margin)
            for segment in state.segments
        ]


def _is_late(delay: Delay) -> bool:
    certain = min(abs(delay.low), abs(delay.high)) if delay.low * delay.high > 0.0 else 0.0
    precise = abs(delay.value) > delay.high - delay.low
    return precise and abs(delay.value) >= LATE and certain >= _CERTAINLY_LATE


def _report_delay(state: SensorChecks, delay: Delay) -> None:
    setup = state.read_with
    stated = {imu.name: imu.delay for imu in setup.imus} | {each.name: each.delay for each in setup.wrench_sensors}
    table = "imu" if delay.sensor in {imu.name for imu in setup.imus} else "wrench_sensor"
    words = (
        f"{delay.sensor} is {1e3 * abs(delay.value):.1f} ms {'late' if delay.value > 0.0 else 'early'} relative to "
        f"the encoders (95 % interval {1e3 * delay.low:.1f} to {1e3 * delay.high:.1f} ms); set its delay in the "
        "setup"
    )
    state.add_finding(
        "warning",
        "delay",
        delay.sensor,
        words,
        (f"# under [[{table}]] {delay.sensor!r}:", f"delay = {stated[delay.sensor] + delay.value:.4f}"),
    )
