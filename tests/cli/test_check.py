"""`steelyard check` and `steelyard --version`, as a user runs them: one of each kind in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import steelyard
from tests.cli.running import run
from tests.humanoids import path_of


def run_in_shell(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "steelyard", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "120", **environment},
    )


def test_version() -> None:
    result = run_in_shell("--version")
    assert result.returncode == 0
    assert result.stdout.strip() == f"steelyard {steelyard.__version__}"


def test_help_has_an_example() -> None:
    ran = run("check", "--help")
    assert ran.code == 0
    assert "Example:" in ran.printed
    assert "check" in run("--help").printed


def test_possible_models_exit_with_zero() -> None:
    result = run_in_shell("check", "g1", "icub")
    assert result.returncode == 0, result.stderr
    assert "Physically possible: every link could be a real body." in result.stdout
    assert "10 links are singular" in result.stdout
    assert "left_knee_link | right_knee_link: inertia" in result.stdout


def test_impossible_models_exit_with_one_and_say_why() -> None:
    result = run_in_shell("check", "romeo")
    assert result.returncode == 1
    assert "2 links cannot exist (RShoulderYawLink and RElbowYawLink)" in result.stdout
    assert "triangle inequality" in result.stdout
    assert run("check", "romeo", "--exit-zero").code == 0


def test_json_is_for_machines() -> None:
    ran = run("check", "romeo", "--json")
    assert ran.code == 1
    (check,) = json.loads(ran.printed)
    assert check["possible"] is False
    assert [finding["name"] for finding in check["findings"] if finding["severity"] == "impossible"] == [
        "RShoulderYawLink",
        "RElbowYawLink",
    ]
    assert check["total_mass"] == pytest.approx(40.529, abs=1e-3)


def test_options_reach_the_model() -> None:
    (check,) = json.loads(run("check", str(path_of("talos_full")), "--lock", "gripper_*_joint=0.1", "--json").printed)
    assert len(check["joints"]) == 30
    (check,) = json.loads(run("check", str(path_of("g1")), "--base", "fixed", "--setup", "g1", "--json").printed)
    assert check["base"] == "fixed"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["check", "gone.urdf"], 1, "gone.urdf: there is no such file"),
        (["check", "gee1"], 1, "neither a ready setup"),
        (["check"], 2, "Missing argument"),
        (["check", "g1", "--base", "flying"], 2, "'flying'"),
        (["check", "g1", "--lock", "knee"], 2, "JOINT=VALUE"),
        (["check", "g1", "--lock", "=1"], 2, "JOINT=VALUE"),
        (["check", "g1", "--lock", "knee=1"], 1, "no moving joint"),
        (["chekc"], 2, "chekc"),
    ],
)
def test_mistakes_get_one_line_and_no_traceback(arguments: list[str], code: int, message: str) -> None:
    ran = run(*arguments, columns=120)
    assert ran.code == code
    assert message in " ".join(ran.told.split())
    assert "Traceback" not in ran.told
    if code == 1:
        assert len(ran.told.strip().splitlines()) == 1


@pytest.mark.parametrize(("model", "code", "message"), [("gone.urdf", 1, "there is no such file"), ("", 2, "Missing")])
def test_mistakes_are_the_same_in_a_shell(model: str, code: int, message: str) -> None:
    result = run_in_shell("check", *model.split())
    assert result.returncode == code
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    if code == 1:
        assert len(result.stderr.strip().splitlines()) == 1


def test_names_from_files_are_printed_as_they_are(tmp_path) -> None:
    text = path_of("simple_humanoid").read_text().replace("LLEG_LINK1", "[red]&lt;b&gt;")
    (tmp_path / "r.urdf").write_text(text)
    ran = run("check", tmp_path / "r.urdf", columns=120)
    assert ran.code == 0, ran.told
    assert "[red]<b>" in ran.printed
