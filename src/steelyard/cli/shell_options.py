"""Messages of the library in the words of the shell: ``--base sole`` where Python has ``base="sole"``.

The library names its options as Python does; every error line, note and finding that a command prints passes through
`in_shell_words`.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any, TypeVar

_NAMES = (
    "base c_max duration force interval method most nuisance offsets parameters poses removed seed setup spread zeroed"
)
_FLAGS = {name: f"--{name.replace('_', '-')}" for name in (*_NAMES.split(), "alpha", "withhold")} | {
    "constraints": "--constraint",
    "imus": "--imu",
    "joints": "--joint",
    "links": "--link",
}
"""Options of the commands, by the Python option that they set."""

_PHRASES = {
    r"load(?: it| the model)? with base=(['\"])(fixed|floating)\1": r'set base = "\2" under [model] in the setup',
    r"\s+or\s+with\s+load_model\(\.\.\., lock=(?:\{[^}]*\}|…)\)": "",
    r"lock=\{['\"]([^'\"]*)['\"]: ([^}]*)\}": r'[lock] "\1" = \2 in the setup',
    r"lock=…": "[lock] … in the setup",
    r"name another with imu=,? or ": "",
    r"give gap= to [^;.]*": "leave out --join",
    r"give contacts=\(\), and ": "calibrate it from Python with ",
    r"or give markers or touches": "or name one with --marker",
    r"draws=(?:\w+|…) takes them from draws": "robots drawn with --sample do count them",
    r"weights=(['\"])default\1": "--noise usual",
    r"weights=None": "--noise equal",
    r"same_sensors=False": "--zeroed",
    r"with weights from estimate_noise": "with noise estimated from a longer recording",
    r" \(recording\.select\)": "",
    r"write offsets with write_offsets": "give the offsets.json that `steelyard calibrate` writes",
    r"\bLower c_max\b": "Lower --c-max",
}
"""What to do in the shell where no option of a command corresponds to the Python option, by regular expression."""

_VALUE = r"""(?:\[[^\]]*\]|\([^)]*\)|'[^']*'|"[^"]*"|…|[\w.+-]*\w)?"""
_OPTION = re.compile(rf"(?<![\w.-])({'|'.join(_FLAGS)})=({_VALUE})")
_PHRASE = [(re.compile(pattern), words) for pattern, words in _PHRASES.items()]
_SPECIAL = re.compile(r"[^\w@%+=:,./…-]")


Result = TypeVar("Result")


def in_shell_words(text: str) -> str:
    """Return a message of the library with Python options replaced by those of the commands.

    >>> in_shell_words('choose another base, such as base="sole"')
    'choose another base, such as --base sole'
    """
    for pattern, words in _PHRASE:
        text = pattern.sub(words, text)
    return _OPTION.sub(lambda found: _as_arguments(_FLAGS[found[1]], found[2]), text)


def with_shell_notes(result: Result) -> Result:
    """Return an estimate, a validation or another result with its notes in the words of the shell."""
    noted: Any = result
    notes = tuple(map(in_shell_words, noted.notes))
    # The same object where nothing changes, with all that it has computed and kept.
    shown: Result = noted if notes == noted.notes else replace(noted, notes=notes)
    return shown


def _as_arguments(flag: str, value: str) -> str:
    try:
        parsed = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        parsed = value.strip("[]()")  # the … of a template
    if parsed is True or parsed == "":
        return flag
    items = (parsed or ("none",)) if isinstance(parsed, list | tuple) else (parsed,)
    return " ".join(f"{flag} '{item}'" if _SPECIAL.search(str(item)) else f"{flag} {item}" for item in items)
