"""The checks at the door: names, clock, gaps, limits and units, from one pass over the recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.findings import Finding, source_of, write_fix
from steelyard.inspection.survey import axis_groups
from steelyard.model import UNITS, WRENCH_AXES, ColumnSource
from steelyard.recording import JOINT_QUANTITIES, parse_column
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from steelyard.inspection.survey import Survey
    from steelyard.model import Model, Setup

DEGREE = np.pi / 180.0

BEYOND_LIMIT = 5.0 * DEGREE
"""Radians by which a joint may pass its limit before it is remarked."""

_BEYOND_LIMIT_LENGTH = 0.005
_UNEVEN = 0.2
_SILENT = 0.05
_FREEZE = 0.2
_FREEZE_READINGS = 10
_STILL = 1e-3
_TURNING = ("revolute", "continuous")

ABSURD = 1e12
"""No reading in SI units is larger."""


def check_clock(survey: Survey) -> Iterator[Finding]:
    """Gives what is wrong with the clock."""
    clock = survey.clock
    if clock.gaps:
        start, longest = max(clock.gaps, key=lambda gap: gap[1])
        count = f"{len(clock.gaps)} gaps" if len(clock.gaps) > 1 else "a gap"
        yield Finding(
            "warning",
            "clock-gap",
            "time",
            f"the clock has {count}, the longest of {longest:.3g} s after {start:.3f} s; nothing is put there, but "
            "each costs the filter's length on both sides: find out what held the logger up",
            time=start,
        )
    if clock.jitter * clock.rate > _UNEVEN:
        yield Finding(
            "warning",
            "jitter",
            "time",
            f"the steps of the clock vary by {1e3 * clock.jitter:.2g} ms around {1e3 / clock.rate:.3g} ms; if these "
            "are times of receipt, record those of the measurement instead",
        )


def check_columns(survey: Survey, sensors: Collection[str] = ()) -> Iterator[Finding]:
    """Gives the columns that hold nothing, fall silent or never change, or hold absurd numbers.

    Args:
        survey: What one pass over the recording found.
        sensors: Names of the sensors that the setup has: a dead one of these is a fault.
    """
    absurd = [name for name, column in survey.columns.items() if max(abs(column.low), abs(column.high)) > ABSURD]
    if absurd:
        yield Finding(
            "fault",
            "absurd",
            absurd[0],
            f"{in_words(absurd)} {'holds' if len(absurd) == 1 else 'hold'} numbers beyond {ABSURD:g}; such readings "
            "are not measured: take them out",
        )
    empty = [name for name, column in survey.columns.items() if column.count == 0]
    if empty:
        yield Finding(
            "warning",
            "empty",
            empty[0],
            f"{in_words(empty)} {'holds' if len(empty) == 1 else 'hold'} no reading at all; leave such columns out, or "
            "look at the logger",
        )
    for group, names in _groups(survey).items():
        worst = max(names, key=lambda name: survey.columns[name].silence)
        column = survey.columns[worst]
        usual = (survey.clock.end - survey.clock.start) / max(column.count, 1)
        if column.count and column.silence > max(_SILENT, 5.0 * usual):
            missing = [gap for gap in survey.clock.gaps if gap[1] >= column.silence - 3.0 * usual]
            if not missing:
                yield Finding(
                    "warning",
                    "silent",
                    group,
                    f"{worst} has no reading for {column.silence:.3g} s from {column.silence_start:.3f} s on; the "
                    "motion is cut there",
                    time=column.silence_start,
                )
        dead = [name for name in names if survey.columns[name].count and survey.columns[name].spread == 0.0]
        if dead and group not in JOINT_QUANTITIES:
            value = survey.columns[dead[0]].mean
            known = group.rpartition(".")[0] in sensors and not group.endswith(".quat")
            yield Finding(
                "fault" if known and len(dead) == len(names) else "warning",
                "constant",
                group,
                f"{in_words(dead)} never {'change' if len(dead) > 1 else 'changes'} (always {value:.4g}); the sensor "
                "is dead or not connected",
            )
    for group, freeze in survey.freezes.items():
        axes = axis_groups(tuple(survey.columns))[group]
        count = min(survey.columns[name].count for name in axes)
        usual = (survey.clock.end - survey.clock.start) / max(count, 1)
        changes = any(survey.columns[name].spread > 0.0 for name in axes)
        if changes and freeze.length > max(_FREEZE, _FREEZE_READINGS * usual):
            yield Finding(
                "warning",
                "frozen",
                group,
                f"{group} gives the very same readings for {freeze.length:.3g} s from {freeze.start:.3f} s on; its "
                "driver repeats old ones: cut that out",
                time=freeze.start,
            )


def check_names(model: Model, survey: Survey) -> Iterator[Finding]:
    """Gives joints and sensors that the model, or the recording, does not have."""
    setup = model.setup
    parsed = {name: parse_column(name, model.joints) for name in survey.columns}
    positions = {name: parts.owner for name, parts in parsed.items() if parts is not None and parts.quantity == "q"}
    unknown = [joint for joint in sorted(set(positions.values())) if joint not in model.joints]
    if unknown:
        yield Finding(
            "warning",
            "unknown-joint",
            unknown[0],
            f"the model has no joint {in_words([repr(joint) for joint in unknown])}"
            f"{did_you_mean(unknown[0], model.joints) if len(unknown) == 1 else ''}; such columns are not used: map "
            "them in [recording.columns] if they are another joint's",
        )
    recorded = {joint for name, joint in positions.items() if survey.columns[name].count}
    missing = [joint for joint in model.joints if joint not in recorded]
    if missing:
        some = len(missing) < len(model.joints)
        yield Finding(
            "fault",
            "missing-joint",
            missing[0],
            f"there is no position of {in_words([repr(joint) for joint in missing]) if some else 'any joint'}; record "
            "it, map it in [recording.columns], or lock the joint with [lock] if it does not move",
        )
    sensors = {parts.owner for parts in parsed.values() if parts is not None and not parts.is_of_joint} - {"base"}
    known = {*(imu.name for imu in setup.imus), *(sensor.name for sensor in setup.wrench_sensors)}
    for name in sorted(sensors - known):
        yield Finding(
            "remark",
            "unknown-sensor",
            name,
            f"the setup has no sensor {name!r}{did_you_mean(name, known)}; its columns are not used",
        )
    for imu in setup.imus:
        wanted = [f"{imu.name}.{kind}.{axis}" for kind in ("gyro", "accel") for axis in "xyz"]
        yield from _check_sensor(imu.name, wanted, survey)
    for sensor in setup.wrench_sensors:
        yield from _check_sensor(sensor.name, [f"{sensor.name}.{axis}" for axis in sensor.axes], survey)
        extra = [axis for axis in WRENCH_AXES if axis not in sensor.axes and f"{sensor.name}.{axis}" in survey.columns]
        if extra:
            yield Finding(
                "remark",
                "unused-axis",
                sensor.name,
                f"{sensor.name} has {in_words(extra)}, which its 'axes' in the setup leave out; they are not used",
            )


def _check_sensor(name: str, wanted: list[str], survey: Survey) -> Iterator[Finding]:
    missing = [column for column in wanted if column not in survey.columns]
    if len(missing) == len(wanted):
        yield Finding(
            "warning",
            "missing-sensor",
            name,
            f"there are no columns of the sensor {name!r} ({wanted[0]} to {wanted[-1]}); map them in "
            "[recording.columns], or take it out of the setup",
        )
    elif missing:
        yield Finding(
            "fault",
            "missing-axis",
            name,
            f"of the sensor {name!r}, {in_words(missing)} {'is' if len(missing) == 1 else 'are'} missing; record all "
            "axes, or name those that it has in the setup",
        )


def check_joints(model: Model, survey: Survey, setup: Setup) -> tuple[list[Finding], dict[str, ColumnSource]]:
    """Gives joints in degrees, off by whole turns, beyond their limits, or at rest, and how to correct their columns.

    Args:
        model: The model.
        survey: What one pass over the recording found.
        setup: The setup with whose map the recording was read.
    """
    findings: list[Finding] = []
    beyond: list[tuple[str, float, float]] = []
    as_degrees: list[str] = []
    still: list[str] = []
    for name in model.joints:
        column = survey.columns.get(f"q.{name}")
        joint = model.joint(name)
        if column is None or column.count == 0 or joint.kind == "ball":
            continue
        if column.high - column.low < _STILL:
            still.append(name)
        slack = BEYOND_LIMIT if joint.kind != "prismatic" else _BEYOND_LIMIT_LENGTH
        over, under = column.high - joint.upper, joint.lower - column.low
        if max(over, under) > slack:
            beyond.append((name, max(over, under), column.high_time if over > under else column.low_time))
            inside = DEGREE * column.high < joint.upper + slack and DEGREE * column.low > joint.lower - slack
            if joint.kind != "prismatic" and inside and max(column.high, -column.low) > 2.0 * np.pi:
                as_degrees.append(name)
    turns = _whole_turns(model, survey, [name for name, _, _ in beyond]) if len(as_degrees) < 2 else {}
    if turns:
        corrections = {
            f"{kind}.{name}": ColumnSource(f"{kind}.{name}", 1.0, -2.0 * np.pi * turn)
            for kind in ("q", "q_command")
            for name, turn in turns.items()
            if f"{kind}.{name}" in survey.columns
        }
        words = (
            f"the position of {in_words([repr(name) for name in turns])} is off by a whole turn: its encoder counted "
            "on; set it back, or write into the setup"
        )
        findings.append(Finding("fault", "whole-turn", next(iter(turns)), words, write_fix(setup, corrections)))
        return findings, corrections
    if as_degrees:
        turning = [
            name for name in model.joints if model.joint(name).kind in _TURNING and f"q.{name}" in survey.columns
        ]
        # Where some joints read degrees, those that stay small do too: they come from one log.
        everyone = len(as_degrees) > 1 or len(turning) < 4
        joints = turning if everyone else as_degrees
        wide = max(as_degrees, key=lambda name: survey.columns[f"q.{name}"].high - survey.columns[f"q.{name}"].low)
        column = survey.columns[f"q.{wide}"]
        corrections = {
            f"{kind}.{name}": ColumnSource(f"{kind}.{name}", UNITS["deg"])
            for kind in ("q", "q_command")
            for name in joints
            if f"{kind}.{name}" in survey.columns
        }
        who = "the joint positions are" if everyone else f"the position of {in_words(as_degrees)} is"
        findings.append(
            Finding(
                "fault",
                "degrees",
                "joints" if everyone else as_degrees[0],
                f"{who} in degrees: {wide!r} goes from {column.low:.1f} to {column.high:.1f}; write the unit into the "
                "setup",
                _degree_lines(model, setup, corrections, everyone=everyone),
            )
        )
        return findings, corrections
    if beyond:
        name, most, when = max(beyond, key=lambda each: each[1])
        amount = f"{most / DEGREE:.1f}°" if model.joint(name).kind != "prismatic" else f"{1e3 * most:.1f} mm"
        others = f" (and {len(beyond) - 1} more)" if len(beyond) > 1 else ""
        findings.append(
            Finding(
                "warning",
                "beyond-limit",
                name,
                f"the joint {name!r}{others} is {amount} beyond its limit at {when:.3f} s; check its zero, its sign "
                "and its limits in the model",
                time=when,
            )
        )
    if still:
        findings.append(
            Finding(
                "remark",
                "still",
                still[0],
                f"{in_words([repr(joint) for joint in still])} never {'moves' if len(still) == 1 else 'move'}; what is "
                "behind can only be weighed together with what is before",
            )
        )
    return findings, {}


def _degree_lines(
    model: Model, setup: Setup, corrections: dict[str, ColumnSource], *, everyone: bool
) -> tuple[str, ...]:
    """Gives the lines that state the unit; one pattern for all joints where all turn and none is mapped yet."""
    mapped = any(source_of(setup, name) != ColumnSource(name) for name in corrections)
    straight = any(model.joint(name).kind not in _TURNING for name in model.joints)
    if mapped or not everyone or straight:
        return write_fix(setup, corrections)
    kinds = dict.fromkeys(name.partition(".")[0] for name in corrections)
    return ("[recording.columns]", *(f'"{kind}.*" = {{ from = "{kind}.*", unit = "deg" }}' for kind in kinds))


def _whole_turns(model: Model, survey: Survey, joints: list[str]) -> dict[str, int]:
    """Gives the joints that whole turns would put within their limits, and how many."""
    found = {}
    for name in joints:
        joint, column = model.joint(name), survey.columns[f"q.{name}"]
        middle = 0.5 * (joint.lower + joint.upper)
        turn = round((0.5 * (column.low + column.high) - middle) / (2.0 * np.pi))
        inside = (
            column.low - 2.0 * np.pi * turn > joint.lower - BEYOND_LIMIT
            and column.high - 2.0 * np.pi * turn < joint.upper + BEYOND_LIMIT
        )
        if turn and inside and joint.kind == "revolute" and column.high - column.low < 2.0 * np.pi:
            found[name] = turn
    return found


def _groups(survey: Survey) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in survey.columns:
        groups.setdefault(group_of(name), []).append(name)
    return groups


def group_of(name: str) -> str:
    """Gives the group in which a column is shown: a joint's quantity, or a sensor's."""
    parts = parse_column(name)
    if parts is None:
        return "others"
    if parts.is_of_joint:
        return parts.quantity
    if parts.quantity == "wrench":
        return f"{parts.owner}.{'force' if parts.axis.startswith('f') else 'moment'}"
    return f"{parts.owner}.{parts.quantity}"
