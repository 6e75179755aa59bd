"""Messages of the library, as a command prints them: options are those of the shell."""

from __future__ import annotations

import inspect
import re

import pytest

import steelyard as sy
from steelyard.cli.shell_options import in_shell_words, with_shell_notes
from tests.cli.running import short_estimate
from tests.printed_words import texts

UNREACHABLE = ("calibration/design.py", "laboratory/sensors.py", "cli/", "report/")
"""Rooms whose mentions of options no command prints, or that speak of the shell already."""

NOT_OPTIONS = ("active=", "xyz=", "rpy=", "smoothing=", "total_mass=")
"""Attributes of model files, what no command passes on (all smooth in the default way), and a constraint's own text."""


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ('choose another base, such as base="sole"', "choose another base, such as --base sole"),
        ("leave base='pose' out", "leave --base pose out"),
        ("leave it out with withhold=['left_foot'].", "leave it out with --withhold left_foot."),
        ("say withhold=['a', '*_foot.fx'] to", "say --withhold a --withhold '*_foot.fx' to"),
        ('nuisance=["wrench_offset"] counts them.', "--nuisance wrench_offset counts them."),
        ("nuisance=() applies none", "--nuisance none applies none"),
        ("are left out, as nuisance= asks.", "are left out, as --nuisance asks."),
        ('Lower c_max, or use method="geometric".', "Lower --c-max, or use --method geometric."),
        ("removed=True looks for that.", "--removed looks for that."),
        ("leave out setup=", "leave out --setup"),
        ("sensors were mounted anew (same_sensors=False).", "sensors were mounted anew (--zeroed)."),
        ("weights=None gives plain sums", "--noise equal gives plain sums"),
        (
            "say how its base moves, or load it with base='fixed'",
            'say how its base moves, or set base = "fixed" under [model] in the setup',
        ),
        (
            "[lock]  \"knee\" = 0.0  or with load_model(..., lock={'knee': 0.0}); or remove",
            '[lock]  "knee" = 0.0; or remove',
        ),
        ("or lock it: lock={'knee': 0.0}", 'or lock it: [lock] "knee" = 0.0 in the setup'),
        ("--constraint total_mass=33.2", "--constraint total_mass=33.2"),
        ("'left_base=1' is no name", "'left_base=1' is no name"),
    ],
)
def test_options_of_python_become_options_of_the_shell(python, shell):
    assert in_shell_words(python) == shell


def options_of_python() -> set[str]:
    """Returns the keyword parameters of all public functions and methods."""
    functions = [getattr(sy, name) for name in (*sy.__all__, *sy._LABORATORY)]
    functions += [method for owner in functions if isinstance(owner, type) for method in vars(owner).values()]
    found = set()
    for function in functions:
        if callable(function):
            try:
                parameters = inspect.signature(function).parameters.values()
            except (TypeError, ValueError):
                continue
            found |= {each.name for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)}
    return found


def test_no_option_of_python_survives_in_any_message():
    named = re.compile(rf"(?<![\w.-])({'|'.join(sorted(options_of_python()))})=")
    templates = [words for words in texts() if not words.place.startswith(UNREACHABLE)]
    assert sum(bool(named.search(words.template)) for words in templates) > 10  # the test still finds them
    left = [
        f"{words.place}: {in_shell_words(words.template)}"
        for words in templates
        if named.search(in_shell_words(words.template)) and not any(each in words.template for each in NOT_OPTIONS)
    ]
    assert left == []


def test_only_what_is_printed_is_changed():
    estimate = short_estimate()
    shown = with_shell_notes(estimate)
    assert shown.parameters is estimate.parameters or (shown.parameters == estimate.parameters).all()
    assert not any(re.search(r"\bnuisance=|\bwithhold=", note) for note in shown.notes)
    assert with_shell_notes(shown) is shown
