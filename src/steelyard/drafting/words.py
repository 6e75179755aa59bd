"""Words in names, and the letters that mark left and right."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_LONG_SIDE = re.compile("left|right", flags=re.IGNORECASE)
_OTHER = {"l": "r", "r": "l", "L": "R", "R": "L"}
_DELIMITERS = "_-./: "

_LEG = (
    "leg hip thigh upleg upperleg lowerleg knee calf shin shank tibia femur ankle foot feet toe sole haa hfe kfe "
    "crus tarsus"
)
_ARM = (
    "arm upperarm lowerarm forearm shoulder elbow wrist hand finger thumb gripper palm claw nub head neck eye jaw "
    "camera clavicle collar wheel caster propeller rotor tail"
)
_IMU = "imu ahrs accelerometer accel acc gyro gyroscope gyrometer microstrain vectornav xsens"

LEG_WORDS = frozenset(_LEG.split())
ARM_WORDS = frozenset(_ARM.split())
IMU_WORDS = frozenset(_IMU.split())
GYRO_WORDS = frozenset({"gyro", "gyroscope", "gyrometer"})
ACCELEROMETER_WORDS = frozenset({"accelerometer", "accel", "acc"})
_WRENCH_WORDS = frozenset({"ft", "fts", "ftsensor", "forcetorque", "wrench", "sixaxis", "f6d"})
_WRENCH_PAIRS = frozenset({("force", "torque"), ("six", "axis"), ("6", "axis"), ("load", "cell")})


class SideMark(NamedTuple):
    """Letters in a name that mark its side: their span, and the letters of the other side."""

    start: int
    end: int
    other: str


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case: ``LAnkleRoll_link2`` gives l, ankle, roll, link, 2."""
    return [match.group().lower() for match in _WORD.finditer(name)]


def mentions(name: str, vocabulary: Collection[str]) -> bool:
    """Return whether a word of a name is in a vocabulary, also with a side letter before it (``LLEG``)."""
    return any(
        word in vocabulary or (word[:1] in "lr" and word[1:] in vocabulary) or word.rstrip("s") in vocabulary
        for word in words_of(name)
    )


def mentions_wrench(name: str) -> bool:
    """Return whether a name is that of a force/torque sensor."""
    words = words_of(name)
    return bool(_WRENCH_WORDS & {*words}) or any(pair in _WRENCH_PAIRS for pair in itertools.pairwise(words))


def drop_words(name: str, dropped: Iterable[str]) -> str:
    """Return the words of a name in lower case, joined by underscores, without the given words."""
    unwanted = {*dropped}
    return "_".join(word for word in words_of(name) if word not in unwanted)


def side_marks(name: str) -> Iterator[tuple[SideMark, ...]]:
    """Yield the ways to turn a name into that of the other side, the most likely first.

    Marks are the words left and right, and the letters l and r as words, as one of two letters (``LF``, ``RR``), or as
    the first or last letter of a word (``LLEG``, ``legL``). Of several marks of one kind, all together come first.
    """
    spelled = [
        SideMark(match.start(), match.end(), _in_case_of("right" if match.group().lower() == "left" else "left", match))
        for match in _LONG_SIDE.finditer(name)
    ]
    letters: list[list[SideMark]] = [[], [], []]
    for match in _WORD.finditer(name):
        start, end = match.span()
        for index in dict.fromkeys((start, end - 1)):
            if name[index] in _OTHER:
                kind = 0 if end - start == 1 else 1 if end - start == 2 else 2
                letters[kind].append(SideMark(index, index + 1, _OTHER[name[index]]))
    for marks in (spelled, *letters):
        if len(marks) > 1:
            yield tuple(marks)
        yield from ((mark,) for mark in marks)


def other_side(name: str, marks: Iterable[SideMark]) -> str:
    """Return the name with its marks replaced by those of the other side."""
    for mark in sorted(marks, reverse=True):
        name = name[: mark.start] + mark.other + name[mark.end :]
    return name


def side_patterns(name: str, marks: tuple[SideMark, ...]) -> list[tuple[str, str]]:
    """Return pairs of patterns that match a name and its counterpart, the broadest first.

    Everything but the marks and adjacent delimiters becomes ``*``. With a single mark, further patterns keep the word
    after it, or the last word.
    """
    patterns = [_starred(name, marks)]
    if len(marks) == 1:
        mark = marks[0]
        after = _WORD.search(name, mark.end)
        if after is not None and after.end() < len(name):
            kept = SideMark(mark.start, after.end(), mark.other + name[mark.end : after.end()])
            patterns.append(_starred(name, (kept,)))
        *_, last = _WORD.finditer(name)
        if last.start() > mark.end:
            patterns.append(_starred(name, (mark, SideMark(last.start(), last.end(), last.group()))))
    return patterns


def _starred(name: str, marks: tuple[SideMark, ...]) -> tuple[str, str]:
    left = right = ""
    end = 0
    for mark in (*marks, SideMark(len(name), len(name), "")):
        between = name[end : mark.start]
        starred = ""
        if between:
            head = between[0] if end and between[0] in _DELIMITERS else ""
            rest = between[len(head) :]
            tail = rest[-1] if mark.start < len(name) and rest and rest[-1] in _DELIMITERS else ""
            starred = head + ("*" if len(rest) > len(tail) else "") + tail
        left += starred + name[mark.start : mark.end]
        right += starred + mark.other
        end = mark.end
    return left, right


def side_of(name: str) -> str:
    """Return "left" or "right" where a name contains it as a word or a letter, else an empty string."""
    for marks in side_marks(name):
        first = name[marks[0].start].lower()
        if marks[0].end - marks[0].start > 1 or len(words_of(name)) > 1 or len(name) == 1:
            return "left" if first == "l" else "right"
    return ""


def _in_case_of(word: str, match: re.Match[str]) -> str:
    text = match.group()
    return word.upper() if text.isupper() else word.capitalize() if text[0].isupper() else word
