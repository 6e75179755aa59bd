"""What is said of wrench sensors that are turned, exchanged, late, off, or in other units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.delays import Delays, estimate_lags
from steelyard.inspection.findings import Finding
from steelyard.inspection.mounting import UNITS, Mounting, find_mountings
from steelyard.inspection.offsets import find_offsets
from steelyard.inspection.state import CUTOFF, SensorChecks, turned_columns
from steelyard.inspection.turns import describe_mounting, is_same
from steelyard.model import ColumnSource
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.inspection.delays import Delay
    from steelyard.motion import Motion

LATE = 0.005
"""Seconds of delay from which on it is worth taking out."""

_CERTAINLY_LATE = 0.0025
_SHORTEST = 8.0
_BAD_MISFIT = 6.5
"""Root mean square of the whitened residual from which the sensors contradict the model. Sound recordings of G1 leave
1.1; without an inertial sensor, on its soles' word alone, 5.2."""

_AS_STATED = "N and N m"


def check_wrenches(state: SensorChecks, motions: Sequence[Motion]) -> None:
    """Holds the wrench sensors against the model: mounting, delays, offsets.

    Raises:
        EvidenceError: What is not measured explains everything.
        MotionError: A stretch is too short or its rate too low.
    """
    search = find_mountings(state.model, motions)
    state.misfit = search.best_misfit
    wrong = [mounting for mounting in search.mountings.values() if not mounting.as_stated]
    corrections: dict[str, ColumnSource] = {}
    for mounting in wrong:
        corrections |= _corrections(state, mounting)
    _say_exchange(state, [mounting for mounting in wrong if mounting.source != mounting.sensor], corrections)
    for mounting in wrong:
        _say_mounting(state, mounting)
    state.correct(corrections)
    # A late sensor contradicts the model too: only what stays then is a mystery.
    _check_delays(state)
    if state.misfit > _BAD_MISFIT:
        state.add(
            Finding(
                "warning",
                "misfit",
                "wrench sensors",
                f"what the wrench sensors read is {state.misfit:.0f} times further from the model than their noise, "
                "and no mounting, unit or delay explains it; check frames, signs of joints, and that nothing else "
                "touches the robot",
            )
        )
        return
    _check_offsets(state)


def _say_exchange(state: SensorChecks, exchanged: Sequence[Mounting], corrections: dict[str, ColumnSource]) -> None:
    if not exchanged:
        return
    names = [mounting.sensor for mounting in exchanged]
    fix = {target: source for target, source in corrections.items() if target.rpartition(".")[0] in names}
    words = f"{in_words(names)} are exchanged: each reads what {'the' if len(names) == 2 else 'an'} other should"
    state.add(
        Finding("fault", "exchanged", names[0], f"{words}; change the plugs, or write into the setup", state.fix(fix))
    )


def _corrections(state: SensorChecks, mounting: Mounting) -> dict[str, ColumnSource]:
    corrections: dict[str, ColumnSource] = {}
    for kind, scale in zip("fn", UNITS[mounting.unit], strict=True):
        corrections |= turned_columns(f"{mounting.sensor}.{kind}", f"{mounting.source}.{kind}", mounting.turn, scale)
    axes = next(each.axes for each in state.model.setup.wrench_sensors if each.name == mounting.sensor)
    measured = {f"{mounting.sensor}.{axis}" for axis in axes}
    return {target: source for target, source in corrections.items() if target in measured}


def _say_mounting(state: SensorChecks, mounting: Mounting) -> None:
    name = mounting.sensor
    fix = state.fix(_corrections(state, mounting))
    if mounting.unit != _AS_STATED:
        words = f"{name} is in {mounting.unit}, not in {_AS_STATED}; write the unit"
        state.add(Finding("fault", "wrench-unit", name, words, fix))
    if np.array_equal(mounting.turn, -np.eye(3)):
        if mounting.unit == _AS_STATED and mounting.source == name:
            sensor = next(each for each in state.model.setup.wrench_sensors if each.name == name)
            other = "on_environment" if sensor.sign == "on_robot" else "on_robot"
            fix = (f"# under [[wrench_sensor]] {name!r}:", f'sign = "{other}"')
        state.add(Finding("fault", "wrench-sign", name, f"{name} reads with the opposite sign; write its sign", fix))
    elif not is_same(mounting.turn):
        words = f"{name} is {describe_mounting(mounting.turn)}; turn the frame, or write into the setup"
        state.add(Finding("fault", "wrench-axes", name, words, fix))


def _check_offsets(state: SensorChecks) -> None:
    offsets = find_offsets(state.model, state.motions() or [])
    impossible = [offset.column for offset in offsets if not offset.possible]
    if impossible:
        # Whatever bends the equation so far also bends what the other offsets would be.
        state.add(
            Finding(
                "warning",
                "offset",
                impossible[0].rpartition(".")[0],
                f"joint angles and {in_words(impossible)} contradict each other by more than a sensor can be off; "
                "encoders may be: calibrate them first",
            )
        )
        return
    for offset in offsets:
        unit = "N" if offset.column.rpartition(".")[2].startswith("f") else "N m"
        who = in_words([offset.column, *offset.rivals]).replace(" and ", " or ")
        state.add(
            Finding(
                "fault",
                "offset",
                offset.column.rpartition(".")[0],
                f"{who} reads {offset.value:+.1f} ± {offset.standard_error:.1f} {unit} when nothing pulls; tare the "
                "sensor in the air and record again, or take it out in the setup",
                state.fix({offset.column: ColumnSource(offset.column, 1.0, -offset.value)}),
            )
        )


def _check_delays(state: SensorChecks) -> None:
    if sum(stretch.duration for stretch in state.stretches) < _SHORTEST:
        state.skip("delays", f"they need {_SHORTEST:.0f} seconds of motion without gaps")
        return
    imus = [imu.name for imu in state.imus]
    first = estimate_lags(state.model, state.stretches, imu=imus[0] if imus else None, cutoff=CUTOFF)
    found: dict[str, Delay] = dict(first.by_sensor)
    settled = first.settled
    for other in imus[1:]:
        again = estimate_lags(state.model, state.stretches, imu=other, cutoff=CUTOFF)
        found[other] = again.by_sensor[other]
        settled = settled and again.settled
    if not settled:
        state.skip("delays", "the search did not settle; the motion may be too slow to show them")
        return
    state.delays = Delays(found, settled, first.misfit, first.best_misfit)
    state.misfit = first.best_misfit
    late = {name: delay.value for name, delay in found.items() if _is_late(delay)}
    for name in late:
        _say_delay(state, found[name])
    if late:
        # The ends, where moved readings are missing, are left out.
        margin = max(abs(value) for value in late.values()) + 0.05
        state.stretches = [
            stretch.without_delays(late).between(stretch.time[0] + margin, stretch.time[-1] - margin)
            for stretch in state.stretches
        ]


def _is_late(delay: Delay) -> bool:
    certain = min(abs(delay.low), abs(delay.high)) if delay.low * delay.high > 0.0 else 0.0
    precise = abs(delay.value) > delay.high - delay.low
    return precise and abs(delay.value) >= LATE and certain >= _CERTAINLY_LATE


def _say_delay(state: SensorChecks, delay: Delay) -> None:
    setup = state.read_with
    stated = {imu.name: imu.delay for imu in setup.imus} | {each.name: each.delay for each in setup.wrench_sensors}
    table = "imu" if delay.sensor in {imu.name for imu in setup.imus} else "wrench_sensor"
    state.add(
        Finding(
            "warning",
            "delay",
            delay.sensor,
            f"{delay.sensor} is {1e3 * abs(delay.value):.1f} ms {'late' if delay.value > 0.0 else 'early'} against the "
            f"encoders (95 % interval {1e3 * delay.low:.1f} to {1e3 * delay.high:.1f} ms); take that out with its "
            "delay in the setup",
            (f"# under [[{table}]] {delay.sensor!r}:", f"delay = {stated[delay.sensor] + delay.value:.4f}"),
        )
    )
