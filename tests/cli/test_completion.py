"""Shell completion: commands, ready setups, methods, motions and bases, as the shells ask for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steelyard import ready_setups
from steelyard.cli import app
from steelyard.cli.command_group import COMMANDS
from steelyard.identification.methods.registry import OPTIONS
from steelyard.laboratory import MOTIONS
from steelyard.regression.nuisance import PRIORS

SCRIPT = Path(sys.executable).parent / "steelyard"


def completed(*words: str) -> list[str]:
    """Gives what bash offers for the last word."""
    environment = {
        "_STEELYARD_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["steelyard", *words]),
        "COMP_CWORD": str(len(words)),
    }
    result = CliRunner().invoke(app, [], env=environment, prog_name="steelyard")
    assert result.exit_code == 0, result.output
    return result.stdout.split()


def test_commands_are_offered_in_the_order_of_the_road():
    offered = completed("")
    assert offered == [name for name in COMMANDS if name in offered]
    assert completed("va") == ["validate"]


@pytest.mark.parametrize("command", ["check", "inspect", "calibrate", "identify", "payload", "simulate"])
def test_setups_are_offered(command):
    assert completed(command, "") == ready_setups()
    assert completed(command, "ta") == ["talos"]
    # Nothing is offered, so that shells complete names of files.
    assert completed(command, "my_ro") == []


def test_what_options_take_is_offered():
    assert completed("identify", "g1", "walk.csv", "--method", "") == list(OPTIONS)
    assert completed("identify", "g1", "walk.csv", "--method", "ge") == ["geometric"]
    assert set(completed("identify", "g1", "walk.csv", "--base", "")) == {"imu", "sole", "pose"}
    assert completed("payload", "g1", "walk.csv", "--base", "so") == ["sole"]
    assert set(completed("validate", "estimate.json", "walk.csv", "--nuisance", "")) == set(PRIORS)
    assert completed("check", "g1", "--base", "fl") == ["floating"]


def test_motions_are_offered():
    assert completed("simulate", "g1", "") == list(MOTIONS)
    assert completed("simulate", "g1", "d") == ["dance"]


def test_a_real_shell_is_answered():
    environment = {
        "_STEELYARD_COMPLETE": "complete_zsh",
        "_TYPER_COMPLETE_ARGS": "steelyard simulate g1 da",
        "PATH": str(SCRIPT.parent),
    }
    result = subprocess.run([SCRIPT], capture_output=True, text=True, check=False, env=environment)
    assert result.stderr == ""
    assert '"dance"' in result.stdout


def test_the_script_for_the_shell_is_shown(monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    result = CliRunner().invoke(app, ["--show-completion", "bash"], prog_name="steelyard")
    assert result.exit_code == 0, result.output
    assert "complete -o default -F _steelyard_completion steelyard" in result.stdout
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).stdout
