"""Constraints as a setup file and the command line state them.

Both state a kind of constraint and one TOML value: ``total_mass = 63.2`` in the table ``[constraints]``, or
``total_mass=63.2`` as a text. A value that is no table sets the main field of the kind, a table sets several of its
fields, and any other table maps patterns of links to such values.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any

from steelyard.exceptions import IdentifiabilityError
from steelyard.model.constraints import CONSTRAINT_CLASSES, Constraint, Frozen, link_patterns
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steelyard.model.toml_table import TomlTable


@dataclass(frozen=True)
class _Kind:
    """Syntax of a kind: the field that a bare value sets, the other fields, and an example."""

    main: str
    others: tuple[str, ...]
    by_link: bool
    example: str


_KINDS = {
    "least_mass": _Kind("least", (), by_link=True, example="0.05"),
    "total_mass": _Kind("mass", ("tolerance",), by_link=False, example="63.2"),
    "com": _Kind("where", ("margin",), by_link=True, example='"hull"'),
    "inertia": _Kind("least", ("relative", "directions"), by_link=True, example="0.1"),
    "matter": _Kind("margin", (), by_link=True, example="0.1"),
    "matter_inside": _Kind("where", ("margin",), by_link=True, example='"ellipsoid"'),
    "mirror": _Kind("share", ("of",), by_link=False, example="0.1"),
    "mass_within": _Kind("share", (), by_link=True, example="0.35"),
    "frozen": _Kind("links", (), by_link=True, example='["head*"]'),
}
_TOML_POSITION = re.compile(r" \(at [^()]*\)$")
_BARE_WORD = re.compile(r"[^\s\"'\[\]{}=,#]+")


def parse_constraints(texts: Sequence[str], where: str = "constraints") -> tuple[Constraint, ...]:
    """Return the constraints that texts state, in order.

    A text is a kind, for some links only a dot and their pattern, an equals sign and a TOML value; quotes around a word
    or a pattern may be left out, and ``off`` stands for ``false``::

        total_mass=63.2   total_mass={mass=63.2, tolerance=0.05}   mass_within=0.05   mass_within.torso*=0.35
        com=hull   com.head*=[[-0.1, -0.1, 0.0], [0.1, 0.1, 0.2]]   mirror=off   frozen=head*
        frozen.head_pan=off   matter_inside.torso*=box

    Args:
        texts: The texts.
        where: Where the texts come from, for error messages.

    Raises:
        IdentifiabilityError: A text cannot be read; the message says which, and what to write.
    """
    if isinstance(texts, str):
        texts = [texts]
    constraints: list[Constraint] = []
    for text in texts:
        if not isinstance(text, str):
            raise IdentifiabilityError(f"{where} is {text!r}; write a text such as 'total_mass=63.2'")
        try:
            constraints += _of_text(text)
        except IdentifiabilityError as error:
            raise IdentifiabilityError(f"in {where} {text}: {error}", names=error.names) from error
    return tuple(constraints)


def parse_constraint_table(table: TomlTable) -> tuple[Constraint, ...]:
    """Return the constraints of a setup's ``[constraints]``, in order.

    Raises:
        ModelError: A key is unknown, or its value is not valid.
    """
    constraints: list[Constraint] = []
    for key in table:
        if key not in _KINDS:
            raise table.error(f"unknown key {key!r}{did_you_mean(key, _KINDS)}", key)
        value = table.value(key, ..., "a value")
        try:
            constraints += _of_value(key, value)
        except IdentifiabilityError as error:
            raise table.error(f"{error}{_or_none(key, value, 'false')}", *error.names) from error
    return tuple(constraints)


def constraint_table(constraints: Iterable[Constraint]) -> dict[str, Any]:
    """Return the table ``[constraints]`` that states `constraints`; `parse_constraint_table` reads it.

    Of several constraints of one kind on one pattern, only the last is stated.
    """
    by_kind: dict[str, dict[str, Any]] = {}
    for constraint in constraints:
        entries = by_kind.setdefault(constraint.kind, {})
        for pattern in link_patterns(constraint) or ("*",):
            entries.pop(pattern, None)
            entries[pattern] = _as_value(constraint)
    table: dict[str, Any] = {}
    for kind, entries in by_kind.items():
        if kind == Frozen.kind and all(entries.values()):
            table[kind] = list(entries)
        else:
            table[kind] = entries["*"] if list(entries) == ["*"] else entries
    return table


def _of_text(text: str) -> list[Constraint]:
    name, equals, written = text.partition("=")
    key, dot, pattern = (part.strip() for part in name.partition("."))
    if not equals or not written.strip():
        raise IdentifiabilityError("there is no value; write it as in total_mass=63.2", names=[key])
    if key not in _KINDS:
        raise IdentifiabilityError(f"there is no constraint {key!r}{did_you_mean(key, _KINDS)}", names=[key])
    value = _read_value(key, written.strip())
    if dot and not _KINDS[key].by_link:
        raise IdentifiabilityError(
            f"{key} takes no links after a dot; write {key}={_KINDS[key].example}", names=[key, pattern]
        )
    try:
        return [_one(key, value, _unquoted(pattern))] if dot else _of_value(key, value)
    except IdentifiabilityError as error:
        raise IdentifiabilityError(f"{error}{_or_none(key, value, 'off')}", names=error.names) from error


def _unquoted(pattern: str) -> str:
    if len(pattern) > 1 and pattern[0] == pattern[-1] and pattern[0] in "\"'":
        return pattern[1:-1].strip()
    return pattern


def _or_none(key: str, value: Any, word: str) -> str:
    """Return a clause on how to switch a kind off, for a value that is an unknown word; else nothing."""
    words = value.values() if _goes_by_link(key, value) else [value]
    return f", or {word} to switch it off" if any(isinstance(each, str) for each in words) else ""


def _read_value(key: str, written: str) -> Any:
    words = [word.strip() for word in written.split(",")]
    if all(_BARE_WORD.fullmatch(word) for word in words):
        if written == "off":
            return False
        try:
            return tomllib.loads(f"value = {written}")["value"]
        except tomllib.TOMLDecodeError:
            return words if len(words) > 1 else written
    try:
        read = tomllib.loads(f"value = {written}")
    except tomllib.TOMLDecodeError as error:
        # Its line and column refer to the text with `value = ` in front.
        reason = _TOML_POSITION.sub("", str(error))
        raise IdentifiabilityError(
            f"the value is no TOML ({reason}); write it as in {key}={_KINDS[key].example}", names=[key]
        ) from error
    if list(read) != ["value"]:
        raise IdentifiabilityError(f"there is more than one value; write one, as in {key}={_KINDS[key].example}")
    return False if read["value"] == "off" else read["value"]


def _of_value(key: str, value: Any) -> list[Constraint]:
    if _goes_by_link(key, value):
        return [_one(key, inner, pattern) for pattern, inner in value.items()]
    return [_one(key, value, None)]


def _goes_by_link(key: str, value: Any) -> bool:
    kind = _KINDS[key]
    return kind.by_link and isinstance(value, dict) and not {kind.main, *kind.others} & set(value)


def _one(key: str, value: Any, pattern: str | None) -> Constraint:
    """Return the constraint of a bare value or of a table of the kind's fields."""
    if key == Frozen.kind:
        return _frozen(value, pattern)
    kind, made = _KINDS[key], CONSTRAINT_CLASSES[key]
    known = (kind.main, *kind.others)
    given: dict[str, Any] = dict(value) if isinstance(value, dict) else {kind.main: value}
    for field in given:
        if field not in known:
            raise IdentifiabilityError(f"{key}: unknown key {field!r}{did_you_mean(field, known)}", names=[field])
    if isinstance(given.get(kind.main), bool):
        if given[kind.main]:
            raise IdentifiabilityError(f"{key} is true; write {kind.example}, or false to switch it off", names=[key])
        given[kind.main] = None
    for needed in fields(made):
        name = needed.name
        if needed.default is MISSING and name != "links" and name not in given:
            raise IdentifiabilityError(
                f"{key}: {name!r} is missing; write it as in {key}={{{name}={kind.example}}}", names=[name]
            )
    if pattern is not None:
        given["links"] = pattern
    return made(**given)


def _frozen(value: Any, pattern: str | None) -> Frozen:
    """Return the constraint of a list of patterns or of false; for one pattern, of true or false."""
    if pattern is None:
        if value is True:
            raise IdentifiabilityError(
                'frozen is true; write the links as in frozen=["head*"], or false to switch it off', names=["frozen"]
            )
        return Frozen(None if value is False else value)
    if not isinstance(value, bool):
        raise IdentifiabilityError(f"frozen: {pattern} is {value!r}; write true or false", names=["frozen", pattern])
    return Frozen(pattern, held=value)


def _as_value(constraint: Constraint) -> Any:
    """Return the shortest value that `_one` reads back as the same constraint."""
    if isinstance(constraint, Frozen):
        return constraint.held
    kind = _KINDS[constraint.kind]
    main = _plain(getattr(constraint, kind.main))
    defaults = {field.name: field.default for field in fields(constraint)}
    others = {name: getattr(constraint, name) for name in kind.others}
    changed = {name: _plain(value) for name, value in others.items() if value != defaults[name]}
    return {kind.main: main, **changed} if changed else main


def _plain(value: Any) -> Any:
    if value is None:
        return False
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
