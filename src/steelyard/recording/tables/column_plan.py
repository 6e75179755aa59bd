"""Which column of a file becomes which column of a recording: the setup's map, then Steelyard's own names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from steelyard.exceptions import RecordingError
from steelyard.model import UNITS, ColumnSource, match_pattern, translate
from steelyard.recording.column_names import GRAMMAR, parse_column
from steelyard.recording.tables.time_column import TimeColumn, find_time
from steelyard.wording import count, did_you_mean, show_name, show_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from steelyard.model import ArraySource, RecordingMap

_REMEDY = "name its columns in the setup's [recording.columns] (docs/setup.md)"


@dataclass(frozen=True)
class Contents:
    """What a file has, under its own names.

    Attributes:
        name: The file, for messages.
        names: Its numeric columns; the channels of an array are ``array[0]``, ``array[1]``, …
        arrays: Number of channels by array.
        unusable: What cannot be a column, and why, such as "holds text".
        units: Units of time that the file states, by column.
        stated: Other units that the file states, by column; all are among `UNITS`.
        bare: Names without the unit that they end with, by column, where they end with one.
    """

    name: str
    names: Sequence[str]
    arrays: Mapping[str, int] = field(default_factory=dict)
    unusable: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    stated: Mapping[str, str] = field(default_factory=dict)
    bare: Mapping[str, str] = field(default_factory=dict)

    def bare_name(self, name: str) -> str:
        """Return the name of a column without its unit."""
        return self.bare.get(name, name)


@dataclass(frozen=True)
class ColumnPlan:
    """What to read of a file.

    Attributes:
        time: Where time comes from.
        columns: Where each column comes from, by Steelyard's name.
        notes: What was unusual, a sentence each.
    """

    time: TimeColumn
    columns: Mapping[str, ColumnSource]
    notes: tuple[str, ...] = ()

    @property
    def wanted(self) -> tuple[str, ...]:
        """The file's columns to read, each once, without time."""
        sources = dict.fromkeys(source.name for source in self.columns.values())
        return tuple(sources if self.time.nanoseconds is None else sources | {self.time.nanoseconds: None})


def plan_columns(contents: Contents, recording_map: RecordingMap, joints: Sequence[str] = ()) -> ColumnPlan:
    """Decide what to read of a file.

    The map's columns go first (names, then patterns), then its arrays, then columns that have Steelyard's names. An
    entry of the map that the file lacks is no error if the file has the column under Steelyard's name.

    Args:
        contents: What the file has.
        recording_map: The setup's.
        joints: The model's; in a file without a map, columns with plain joint names are positions.

    Raises:
        RecordingError: Time, or a column that the map names, is missing; or all columns are.
    """
    time = find_time(contents.names, recording_map, contents.name, contents.units, contents.unusable)
    taken = {time.name, time.nanoseconds}
    columns = assign_columns(contents, recording_map, taken)
    notes: list[str] = []
    if not columns and not recording_map.columns and not recording_map.arrays:
        plain = [name for name in contents.names if contents.bare_name(name) in joints and name not in taken]
        columns = _heed_units({f"q.{contents.bare_name(name)}": ColumnSource(name) for name in plain}, contents)
        if columns:
            notes.append(f"the columns {show_names(plain)} are read as joint angles")
    others = [name for name in contents.names if name not in taken]
    if not columns:
        there = show_names(others + list(contents.unusable))
        raise RecordingError(f"{contents.name} has no column that Steelyard knows, only {there}; {_REMEDY}")
    notes += _unit_notes(columns, contents)
    used = {source.name for source in columns.values()}
    ignored = _ignored(contents, [name for name in others if name not in used])
    if ignored:
        notes.append(f"{count(len(ignored), 'column is', 'columns are')} not used: {show_names(ignored)}")
    return ColumnPlan(time, columns, tuple(notes))


def assign_columns(
    contents: Contents, recording_map: RecordingMap, taken: Iterable[str | None] = ()
) -> dict[str, ColumnSource]:
    """Return where each column comes from, by Steelyard's name; see `plan_columns`.

    Args:
        contents: What the file has.
        recording_map: The setup's.
        taken: Names that are no columns, such as time.

    Raises:
        RecordingError: A column that the map names is missing, or its target is no name of Steelyard's.
    """
    aside = set(taken)
    free = [name for name in contents.names if name not in aside]
    known = set(free)
    plain = {target: source for target, source in recording_map.columns.items() if "*" not in target}
    columns = {target: source for target, source in plain.items() if _is_there(target, source, known, contents)}
    for target, source in recording_map.columns.items():
        if target not in plain:
            for name, matched in _matches(target, source, free, contents).items():
                columns.setdefault(name, matched)
    channels = {
        f"{array}[{number}]" for array, count in contents.arrays.items() if count > 1 for number in range(count)
    }
    arrays = {**_numbered_columns(free), **contents.arrays}
    for array, wanted in recording_map.arrays.items():
        for name, matched in _channels(array, wanted, arrays, known, contents).items():
            columns.setdefault(name, matched)
    for name in free:
        if name not in channels and parse_column(contents.bare_name(name)) is not None:
            columns.setdefault(contents.bare_name(name), ColumnSource(name))
    for name, reason in contents.unusable.items():
        if name not in columns and parse_column(name) is not None:
            raise RecordingError(f"{contents.name}: the column {show_name(name)} {reason}", column=name)
    return _heed_units(columns, contents)


def _heed_units(columns: Mapping[str, ColumnSource], contents: Contents) -> dict[str, ColumnSource]:
    """Convert columns to SI by the units that the file states, unless the map scales or shifts them."""
    return {
        target: replace(source, scale=UNITS[contents.stated[source.name]])
        if source.name in contents.stated and (source.scale, source.offset) == (1.0, 0.0)
        else source
        for target, source in columns.items()
    }


def _unit_notes(columns: Mapping[str, ColumnSource], contents: Contents) -> list[str]:
    """Return a sentence for each non-SI unit that was converted because the file states it."""
    found: dict[str, list[str]] = {}
    for target, source in columns.items():
        unit = contents.stated.get(source.name)
        if unit is not None and source == ColumnSource(source.name, UNITS[unit]) and source.scale != 1.0:
            found.setdefault(unit, []).append(target)
    return [
        f"{count(len(names), 'column is', 'columns are')} in {unit}, as the file states ({show_names(names)}), and "
        "converted to SI"
        for unit, names in found.items()
    ]


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Return a clause that suggests the nearest names, among at most 2000 of at most 200 characters."""
    return did_you_mean(name, [candidate for candidate in candidates if len(candidate) <= 200][:2000])


def _is_there(target: str, source: ColumnSource, known: set[str], contents: Contents) -> bool:
    """Return whether a column that the map names is in the file; False where only Steelyard's name is."""
    _check_target(target, contents.name)
    if source.name in known:
        return True
    if source.name in contents.unusable:
        raise RecordingError(
            f"{contents.name}: the column {show_name(source.name)} {contents.unusable[source.name]}", column=target
        )
    if target in known:
        return False
    if contents.arrays.get(source.name, 0) > 1:
        raise RecordingError(
            f"{contents.name}: {source.name!r} is an array of {contents.arrays[source.name]} channels; name them in "
            f"[recording.arrays], or write '{source.name}[0]'",
            column=target,
        )
    raise RecordingError(
        f"{contents.name} has no column {source.name!r}, which the setup maps to {target!r}"
        f"{nearest(source.name, contents.names)}",
        column=target,
    )


def _matches(target: str, source: ColumnSource, free: Sequence[str], contents: Contents) -> dict[str, ColumnSource]:
    """Return the columns that match a pattern of the map."""
    found: dict[str, ColumnSource] = {}
    odd = []
    for name in free:
        text = translate(name, source.name, target)
        if text is None:
            continue
        if parse_column(text) is None:
            odd.append(text)
        else:
            found.setdefault(text, ColumnSource(name, source.scale, source.offset))
    if not found and odd:
        _check_target(odd[0], contents.name)
    if not found and not any(parse_column(name) for name in match_pattern(target, free)):
        raise RecordingError(
            f"{contents.name} has no columns {source.name!r}, which the setup maps to {target!r}; it has "
            f"{show_names(contents.names)}",
            column=target,
        )
    return found


def _channels(
    array: str, wanted: ArraySource, arrays: Mapping[str, int], known: set[str], contents: Contents
) -> dict[str, ColumnSource]:
    """Return the columns that the channels of an array hold."""
    targets = [target for target in wanted.names if target]
    for target in targets:
        _check_target(target, contents.name)
    if array in arrays:
        count = arrays[array]
        if count != len(wanted.names):
            raise RecordingError(
                f"{contents.name}: the array {array!r} has {count} channels, the setup's [recording.arrays] names "
                f"{len(wanted.names)}; an empty text skips a channel",
                column=array,
            )
        names = [array] if count == 1 and array in known else [f"{array}[{number}]" for number in range(count)]
        return {
            target: ColumnSource(name, wanted.scale) for target, name in zip(wanted.names, names, strict=True) if target
        }
    if array in contents.unusable:
        raise RecordingError(f"{contents.name}: {array!r} {contents.unusable[array]}", column=array)
    if all(target in known for target in targets):
        return {}
    raise RecordingError(
        f"{contents.name} has no array {array!r}, which the setup's [recording.arrays] names{nearest(array, arrays)}",
        column=array,
    )


def _check_target(target: str, name: str) -> None:
    if parse_column(target) is None:
        raise RecordingError(
            f"{name}: the setup's [recording] maps to {show_name(target)}, which is no name of Steelyard's; these are "
            f"{GRAMMAR}",
            column=target,
        )


def _numbered_columns(names: Sequence[str]) -> dict[str, int]:
    """Return the arrays that columns named ``array[0]``, ``array[1]``, … make."""
    found: dict[str, list[int]] = {}
    for name in names:
        match = re.fullmatch(r"(.+)\[(\d{1,4})\]", name, re.DOTALL)
        if match is not None and match[2] == str(int(match[2])):
            found.setdefault(match[1], []).append(int(match[2]))
    return {array: len(numbers) for array, numbers in found.items() if sorted(numbers) == list(range(len(numbers)))}


def _ignored(contents: Contents, names: Sequence[str]) -> list[str]:
    """Return what is not used, each array once."""
    arrays = {f"{array}[{number}]": array for array, count in contents.arrays.items() for number in range(count)}
    return list(dict.fromkeys([arrays.get(name, name) for name in names] + list(contents.unusable)))
