"""Findings: one sentence each about what is wrong with a recording, where, and what to do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from steelyard.model import ColumnSource, translate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.model import Setup

Severity = Literal["fault", "warning", "remark"]

SEVERITIES: tuple[Severity, ...] = ("fault", "warning", "remark")


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes:
        severity: "fault": the recording means something else than its columns say, or cannot be used; "warning": it
            hurts; "remark": good to know.
        code: What kind of thing, one word or a few with hyphens; stable, for machines.
        where: The column, joint, sensor or group concerned.
        words: A sentence: what, where, what to do.
        fix: Lines to write into the setup file, where that helps.
        time: Seconds at which it hurts first, where that is known.
    """

    severity: Severity
    code: str
    where: str
    words: str
    fix: tuple[str, ...] = ()
    time: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Gives it as plain values."""
        return {
            "severity": self.severity,
            "code": self.code,
            "where": self.where,
            "words": self.words,
            "fix": list(self.fix),
            "time": self.time,
        }


def write_fix(setup: Setup, corrections: Mapping[str, ColumnSource]) -> tuple[str, ...]:
    """Gives the lines of ``[recording.columns]`` that correct some columns, on top of the map that the setup has.

    Args:
        setup: The setup with which the recording was read.
        corrections: By column, which column really holds it: ``scale * column + offset``.
    """
    lines = {}
    for target, correction in corrections.items():
        theirs = source_of(setup, correction.name)
        scale = correction.scale * theirs.scale
        lines[target] = ColumnSource(theirs.name, scale, correction.scale * theirs.offset + correction.offset)
    return ("[recording.columns]", *(_line(target, source) for target, source in _joined(lines).items()))


def source_of(setup: Setup, column: str) -> ColumnSource:
    """Gives where a column comes from according to a setup's map; the column itself where the map is silent."""
    for target, source in setup.recording.columns.items():
        name = translate(column, target, source.name)
        if name is not None:
            return ColumnSource(name, source.scale, source.offset)
    for array, channels in setup.recording.arrays.items():
        if column in channels.names:
            return ColumnSource(f"{array}[{channels.names.index(column)}]", channels.scale)
    return ColumnSource(column)


def _joined(lines: Mapping[str, ColumnSource]) -> dict[str, ColumnSource]:
    """Joins the lines of a sensor that differ in the axis alone into one with a ``*``."""
    groups: dict[str, list[str]] = {}
    for target in lines:
        groups.setdefault(target.rpartition(".")[0], []).append(target)
    result: dict[str, ColumnSource] = {}
    for stem, targets in groups.items():
        sources = [lines[target] for target in targets]
        axes = [target.rpartition(".")[2] for target in targets]
        stems = {source.name.removesuffix(axis) for source, axis in zip(sources, axes, strict=True)}
        alike = len({(source.scale, source.offset) for source in sources}) == 1
        ends = all(source.name.endswith(f".{axis}") for source, axis in zip(sources, axes, strict=True))
        if len(targets) > 2 and alike and ends and len(stems) == 1:
            result[f"{stem}.*"] = ColumnSource(f"{stems.pop()}*", sources[0].scale, sources[0].offset)
        else:
            result |= {target: lines[target] for target in targets}
    return result


def _line(target: str, source: ColumnSource) -> str:
    parts = [f"from = {_quoted(source.name)}"]
    if source.scale != 1.0:
        parts.append(f"scale = {_number(source.scale)}")
    if source.offset != 0.0:
        parts.append(f"offset = {_number(source.offset)}")
    return (
        f"{_quoted(target)} = {{ {', '.join(parts)} }}"
        if len(parts) > 1
        else f"{_quoted(target)} = {_quoted(source.name)}"
    )


def _quoted(text: str) -> str:
    """Gives a TOML string; JSON's are a part of them."""
    return json.dumps(text, ensure_ascii=False)


def _number(value: float) -> str:
    return repr(float(f"{value:.10g}"))
