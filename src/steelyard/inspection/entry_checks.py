"""Entry checks of a recording: names, clock, gaps, limits and units, from one pass over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.inspection.findings import Finding, source_of, write_fix
from steelyard.inspection.survey import axis_groups
from steelyard.model import UNITS, WRENCH_AXES, ColumnSource
from steelyard.recording import JOINT_QUANTITIES, MARKER, parse_column, sensor_of
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from steelyard.inspection.survey import Survey
    from steelyard.model import Model, Setup

BEYOND_LIMIT = np.radians(5.0)
"""Angle (rad) by which a joint may exceed its limit without a finding. Set by judgement: encoder offsets and soft stops
account for less."""

_BEYOND_LIMIT_LENGTH = 0.005
"""The same for prismatic joints, m. Set by judgement."""

_UNEVEN = 0.2
"""Jitter as a share of the clock's period from which it is reported. Set by judgement: a sensor's clock stays far
below, arrival times on a network reach it."""

_SILENT = 0.05
"""Shortest dropout (s) of a column that is reported: longer ones are not interpolated (`LONGEST_GAP` of motions)."""

_FREEZE = 0.2
"""Shortest freeze (s) that is reported. Set by judgement: quiet sensors repeat a few readings by chance."""

_FREEZE_READINGS = 10
"""Shortest freeze in usual periods of the sensor. Set by judgement, for sensors below 50 Hz."""

_STILL = 1e-3
"""Range (rad or m) below which a joint counts as not moving. Set by judgement: encoder noise, not motion."""

_ROTATING = ("revolute", "continuous")

ABSURD = 1e12
"""Bound on readings. Set by judgement: no reading in SI units is larger, common error codes (1e30) are."""


def check_clock(survey: Survey) -> Iterator[Finding]:
    """Yield findings about the clock."""
    clock = survey.clock
    if clock.gaps:
        start, longest = max(clock.gaps, key=lambda gap: gap[1])
        count = f"{len(clock.gaps)} gaps" if len(clock.gaps) > 1 else "a gap"
        words = (
            f"the clock has {count}, the longest of {longest:.3g} s after {start:.3f} s; each interrupts the motion "
            "and costs the filter's length on both sides: find out what blocked the logger"
        )
        yield Finding("warning", "clock-gap", "time", words, time=start)
    if clock.jitter * clock.rate > _UNEVEN:
        words = (
            f"the clock has a jitter of {1e3 * clock.jitter:.2g} ms at a period of {1e3 / clock.rate:.3g} ms; if these "
            "are arrival times, record the times of measurement instead"
        )
        yield Finding("warning", "jitter", "time", words)


def check_columns(survey: Survey, sensors: Collection[str] = ()) -> Iterator[Finding]:
    """Yield findings about columns that are empty, drop out, never change, or hold absurd values.

    Args:
        survey: Survey of the recording.
        sensors: Names of the setup's sensors: a dead one of these is a fault.
    """
    absurd = [name for name, column in survey.columns.items() if max(abs(column.low), abs(column.high)) > ABSURD]
    if absurd:
        words = (
            f"{in_words(absurd)} {'holds' if len(absurd) == 1 else 'hold'} values beyond {ABSURD:g}, which no sensor "
            "measures; remove them"
        )
        yield Finding("fault", "absurd", absurd[0], words)
    empty = [name for name, column in survey.columns.items() if column.count == 0]
    if empty:
        words = (
            f"{in_words(empty)} {'holds' if len(empty) == 1 else 'hold'} no reading at all; leave such columns out, or "
            "check the logger"
        )
        yield Finding("warning", "empty", empty[0], words)
    groups: dict[str, list[str]] = {}
    for name in survey.columns:
        groups.setdefault(group_of(name), []).append(name)
    for group, names in groups.items():
        worst = max(names, key=lambda name: survey.columns[name].silence)
        column = survey.columns[worst]
        usual = (survey.clock.end - survey.clock.start) / max(column.count, 1)
        if column.count and column.silence > max(_SILENT, 5.0 * usual):
            missing = [gap for gap in survey.clock.gaps if gap[1] >= column.silence - 3.0 * usual]
            if not missing:
                words = (
                    f"{worst} has no reading for {column.silence:.3g} s from {column.silence_start:.3f} s on; the "
                    "motion is interrupted there"
                )
                yield Finding("warning", "silent", group, words, time=column.silence_start)
        dead = [name for name in names if survey.columns[name].count and survey.columns[name].spread == 0.0]
        if dead and group not in JOINT_QUANTITIES:
            value = survey.columns[dead[0]].mean
            known = group.rpartition(".")[0] in sensors and not group.endswith(".quat")
            words = (
                f"{in_words(dead)} never {'change' if len(dead) > 1 else 'changes'} (always {value:.4g}); the sensor "
                "is dead or not connected"
            )
            yield Finding("fault" if known and len(dead) == len(names) else "warning", "constant", group, words)
    for group, freeze in survey.freezes.items():
        axes = axis_groups(tuple(survey.columns))[group]
        count = min(survey.columns[name].count for name in axes)
        usual = (survey.clock.end - survey.clock.start) / max(count, 1)
        changes = any(survey.columns[name].spread > 0.0 for name in axes)
        if changes and freeze.length > max(_FREEZE, _FREEZE_READINGS * usual):
            words = (
                f"{group} repeats identical readings for {freeze.length:.3g} s from {freeze.start:.3f} s on; its "
                "driver hangs: exclude that part"
            )
            yield Finding("warning", "frozen", group, words, time=freeze.start)


def check_channel_names(model: Model, survey: Survey) -> Iterator[Finding]:
    """Yield findings about joints and sensors that the model or the recording lacks."""
    setup = model.setup
    parsed = {name: parse_column(name, model.joints) for name in survey.columns}
    positions = {name: parts.owner for name, parts in parsed.items() if parts is not None and parts.quantity == "q"}
    unknown = [joint for joint in sorted(set(positions.values())) if joint not in model.joints]
    if unknown:
        words = (
            f"the model has no joint {in_words([repr(joint) for joint in unknown])}"
            f"{did_you_mean(unknown[0], model.joints) if len(unknown) == 1 else ''}; such columns are not used: map "
            "them in [recording.columns] if they belong to another joint"
        )
        yield Finding("warning", "unknown-joint", unknown[0], words)
    recorded = {joint for name, joint in positions.items() if survey.columns[name].count}
    missing = [joint for joint in model.joints if joint not in recorded]
    if missing:
        some = len(missing) < len(model.joints)
        words = (
            f"there is no position of {in_words([repr(joint) for joint in missing]) if some else 'any joint'}; record "
            "it, map it in [recording.columns], or lock the joint with [lock] if it does not move"
        )
        yield Finding("fault", "missing-joint", missing[0], words)
    sensors = {owner for name in survey.columns if (owner := sensor_of(name)) is not None} - {"base"}
    known = {*(imu.name for imu in setup.imus), *(sensor.name for sensor in setup.wrench_sensors)}
    for name in sorted(sensors - known):
        words = f"the setup has no sensor {name!r}{did_you_mean(name, known)}; its columns are not used"
        yield Finding("remark", "unknown-sensor", name, words)
    for imu in setup.imus:
        wanted = [f"{imu.name}.{kind}.{axis}" for kind in ("gyro", "accel") for axis in "xyz"]
        yield from _check_sensor(imu.name, wanted, survey)
    for sensor in setup.wrench_sensors:
        yield from _check_sensor(sensor.name, [f"{sensor.name}.{axis}" for axis in sensor.axes], survey)
        extra = [axis for axis in WRENCH_AXES if axis not in sensor.axes and f"{sensor.name}.{axis}" in survey.columns]
        if extra:
            words = f"{sensor.name} has {in_words(extra)}, which its 'axes' in the setup leave out; they are not used"
            yield Finding("remark", "unused-axis", sensor.name, words)


def _check_sensor(name: str, wanted: list[str], survey: Survey) -> Iterator[Finding]:
    missing = [column for column in wanted if column not in survey.columns]
    if len(missing) == len(wanted):
        words = (
            f"there are no columns of the sensor {name!r} ({wanted[0]} to {wanted[-1]}); map them in "
            "[recording.columns], or remove it from the setup"
        )
        yield Finding("warning", "missing-sensor", name, words)
    elif missing:
        words = (
            f"the sensor {name!r} lacks {in_words(missing)}; record all axes, or list those that it has in the setup"
        )
        yield Finding("fault", "missing-axis", name, words)


def check_joints(model: Model, survey: Survey, setup: Setup) -> tuple[list[Finding], dict[str, ColumnSource]]:
    """Return findings about joints in degrees, off by full turns, beyond limits, or still, and corrections of columns.

    Args:
        model: The model.
        survey: Survey of the recording.
        setup: The setup whose map was applied when the recording was read.
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
            degree = np.pi / 180.0
            inside = degree * column.high < joint.upper + slack and degree * column.low > joint.lower - slack
            if joint.kind != "prismatic" and inside and max(column.high, -column.low) > 2.0 * np.pi:
                as_degrees.append(name)
    turns = _whole_turns(model, survey, [name for name, _, _ in beyond]) if len(as_degrees) < 2 else {}
    if turns:
        corrections = _correct_joints(survey, {name: (1.0, -2.0 * np.pi * turn) for name, turn in turns.items()})
        words = (
            f"the position of {in_words([repr(name) for name in turns])} is off by a full turn: its encoder kept "
            "counting; reset it, or correct it in the setup"
        )
        findings.append(Finding("fault", "whole-turn", next(iter(turns)), words, write_fix(setup, corrections)))
        return findings, corrections
    if as_degrees:
        rotating = [
            name for name in model.joints if model.joint(name).kind in _ROTATING and f"q.{name}" in survey.columns
        ]
        # If some joints are in degrees, those with small angles are too: they come from one log.
        everyone = len(as_degrees) > 1 or len(rotating) < 4
        joints = rotating if everyone else as_degrees
        wide = max(as_degrees, key=lambda name: survey.columns[f"q.{name}"].high - survey.columns[f"q.{name}"].low)
        column = survey.columns[f"q.{wide}"]
        corrections = _correct_joints(survey, dict.fromkeys(joints, (UNITS["deg"], 0.0)))
        who = "the joint positions are" if everyone else f"the position of {in_words(as_degrees)} is"
        words = (
            f"{who} in degrees: {wide!r} ranges from {column.low:.1f} to {column.high:.1f}; state the unit in the setup"
        )
        findings.append(
            Finding(
                "fault",
                "degrees",
                "joints" if everyone else as_degrees[0],
                words,
                _degree_lines(model, setup, corrections, everyone=everyone),
            )
        )
        return findings, corrections
    if beyond:
        name, most, when = max(beyond, key=lambda each: each[1])
        amount = f"{np.degrees(most):.1f}°" if model.joint(name).kind != "prismatic" else f"{1e3 * most:.1f} mm"
        others = f" (and {len(beyond) - 1} more)" if len(beyond) > 1 else ""
        words = (
            f"the joint {name!r}{others} is {amount} beyond its limit at {when:.3f} s; check its zero, its sign "
            "and its limits in the model"
        )
        findings.append(Finding("warning", "beyond-limit", name, words, time=when))
    if still:
        words = (
            f"{in_words([repr(joint) for joint in still])} never {'moves' if len(still) == 1 else 'move'}; the "
            "links on both sides can only be identified as one"
        )
        findings.append(Finding("remark", "still", still[0], words))
    return findings, {}


def _correct_joints(survey: Survey, changes: Mapping[str, tuple[float, float]]) -> dict[str, ColumnSource]:
    """Return the corrections of joints' recorded positions and commands, from scale and offset by joint."""
    return {
        f"{kind}.{name}": ColumnSource(f"{kind}.{name}", scale, offset)
        for kind in ("q", "q_command")
        for name, (scale, offset) in changes.items()
        if f"{kind}.{name}" in survey.columns
    }


def _degree_lines(
    model: Model, setup: Setup, corrections: dict[str, ColumnSource], *, everyone: bool
) -> tuple[str, ...]:
    """Return the setup lines that state the unit; one pattern if all joints rotate and none is mapped yet."""
    mapped = any(source_of(setup, name) != ColumnSource(name) for name in corrections)
    straight = any(model.joint(name).kind not in _ROTATING for name in model.joints)
    if mapped or not everyone or straight:
        return write_fix(setup, corrections)
    kinds = dict.fromkeys(name.partition(".")[0] for name in corrections)
    return ("[recording.columns]", *(f'"{kind}.*" = {{ from = "{kind}.*", unit = "deg" }}' for kind in kinds))


def _whole_turns(model: Model, survey: Survey, joints: list[str]) -> dict[str, int]:
    """Return the joints that full turns bring within their limits, and how many."""
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


def group_of(name: str) -> str:
    """Return the group in which a column is shown: a joint's quantity, or a sensor's."""
    parts = parse_column(name)
    if parts is None:
        return "others"
    if parts.is_of_joint:
        return parts.quantity
    if parts.quantity == "wrench":
        return f"{parts.owner}.{'force' if parts.axis.startswith('f') else 'moment'}"
    return f"{MARKER}.{parts.owner}" if parts.quantity == MARKER else f"{parts.owner}.{parts.quantity}"
