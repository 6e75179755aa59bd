"""Findings: one sentence each on a problem of a recording, its location and its remedy."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from steelyard.model import ColumnSource, translate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.model import Setup

Severity = Literal["fault", "warning", "remark"]

SEVERITIES: tuple[Severity, ...] = ("fault", "warning", "remark")


@dataclass(frozen=True)
class Finding:
    """One problem of a recording, or a remark.

    Attributes:
        severity: "fault": columns do not hold what their names say, or the recording cannot be used; "warning": it
            degrades results; "remark": for information.
        code: Kind of the finding, one hyphenated word; stable, for machines.
        where: The column, joint, sensor or group concerned.
        words: The message: what, where, what to do.
        fix: Lines for the setup file, if they help.
        time: Time of the first occurrence, s, if known.
    """

    severity: Severity
    code: str
    where: str
    words: str
    fix: tuple[str, ...] = ()
    time: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self) | {"fix": list(self.fix)}


def write_fix(setup: Setup, corrections: Mapping[str, ColumnSource]) -> tuple[str, ...]:
    """Return the lines of ``[recording.columns]`` that correct columns, composed with the setup's map.

    Args:
        setup: The setup with which the recording was read.
        corrections: By column, its true source: ``scale * column + offset``.
    """
    lines = {target: each.after(source_of(setup, each.name)) for target, each in corrections.items()}
    return ("[recording.columns]", *(_line(target, source) for target, source in _merge_axes(lines).items()))


def source_of(setup: Setup, column: str) -> ColumnSource:
    """Return the source of a column according to a setup's map; the column itself if it is not mapped."""
    for target, source in setup.recording.columns.items():
        name = translate(column, target, source.name)
        if name is not None:
            return ColumnSource(name, source.scale, source.offset)
    for array, channels in setup.recording.arrays.items():
        if column in channels.names:
            return ColumnSource(f"{array}[{channels.names.index(column)}]", channels.scale)
    return ColumnSource(column)


def _merge_axes(lines: Mapping[str, ColumnSource]) -> dict[str, ColumnSource]:
    """Merge the lines of a sensor that differ only in the axis into one with a ``*``."""
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
    # JSON strings are valid TOML strings.
    key, name = (json.dumps(text, ensure_ascii=False) for text in (target, source.name))
    numbers = {"scale": (source.scale, 1.0), "offset": (source.offset, 0.0)}
    parts = [f"{what} = {float(f'{value:.10g}')!r}" for what, (value, default) in numbers.items() if value != default]
    return f"{key} = {{ {', '.join([f'from = {name}', *parts])} }}" if parts else f"{key} = {name}"
