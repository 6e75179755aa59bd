"""`steelyard simulate`: the recording is the laboratory's, and the truth is the truth."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

import steelyard as sy
from steelyard.laboratory import MOTIONS
from tests.cli.running import run
from tests.laboratory.trials import robot, short_trial

DANCE = ["simulate", "g1", "dance", "--duration", "8"]


def test_the_recording_is_that_of_the_laboratory(tmp_path):
    ran = run(*DANCE, "-o", tmp_path / "new" / "dance.npz")
    assert (ran.code, ran.told) == (0, "")
    read = sy.read_recording(tmp_path / "new" / "dance.npz")
    wanted = short_trial("g1", "dance", noise="default").recording
    assert read.columns == wanted.columns
    for name in wanted.columns:
        np.testing.assert_array_equal(read.column(name), wanted.column(name))
    for words in ("'dance': 4001 rows, 90 columns, 8.00 s", "mass of the model 33.341 kg", "written: "):
        assert words in ran.printed


def test_the_truth_is_written_beside_it(tmp_path):
    options = ["--no-noise", "--spread", "0.1", "--payload", "torso_link=1.5", "--offset-max", "2", "--seed", "3"]
    files = ["-o", tmp_path / "sway.parquet", "--truth", tmp_path / "elsewhere" / "truth.json"]
    ran = run("simulate", "g1", "sway", "--duration", "6", *options, *files, "--json")
    assert ran.code == 0, ran.told
    trial = sy.simulate(
        robot("g1"), "sway", seed=3, duration=6.0, noise=None, spread=0.1, payloads={"torso_link": 1.5},
        offsets=float(np.deg2rad(2.0)),
    )  # fmt: skip
    truth = json.loads((tmp_path / "elsewhere" / "truth.json").read_text())
    np.testing.assert_array_equal(truth["parameters"], trial.truth.parameters)
    np.testing.assert_array_equal(truth["model_parameters"], robot("g1").parameters)
    assert truth["masses"] == trial.truth.masses
    assert truth["offsets"] == trial.truth.offsets
    assert max(map(abs, truth["offsets"].values())) > 0.02
    assert truth["parameter_names"][0] == "m"
    plain = json.loads(ran.printed)
    assert plain["files"] == [str(tmp_path / "sway.parquet"), str(tmp_path / "elsewhere" / "truth.json")]
    assert plain["rows"] == len(trial.recording)
    # Perfect sensors, and what must be added to the encoders' readings: the true angles.
    read = sy.read_recording(tmp_path / "sway.parquet")
    shown = read.column("q.left_knee_joint") + truth["offsets"]["left_knee_joint"]
    step = (len(trial.truth.motion) - 1) // (len(read) - 1)
    true = trial.truth.motion.q[::step, robot("g1").joints.index("left_knee_joint")]
    np.testing.assert_allclose(shown, true[: len(shown)], atol=1e-9)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".h5", ".mcap", ".bag", ""])
def test_every_format_can_be_written(tmp_path, monkeypatch, ending):
    played = short_trial("g1", "sway", noise="default")
    monkeypatch.setattr(import_module("steelyard.cli.simulate"), "_simulate", lambda *_, **__: played)
    path = tmp_path / f"sway{ending}"
    ran = run("simulate", "g1", "sway", "--duration", "6", "-o", path, "--quiet")
    assert (ran.code, ran.printed, ran.told) == (0, "", "")
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert sy.read_recording(path, robot("g1")).duration == pytest.approx(6.0, abs=0.02)


def test_a_fall_is_told_and_nothing_is_written(tmp_path):
    files = ["-o", tmp_path / "new" / "sway.npz", "--truth", tmp_path / "truth.json"]
    ran = run("simulate", "g1", "sway", "--duration", "6", "--payload", "left_rubber_hand=40", *files)
    assert (ran.code, ran.printed) == (1, "")
    assert len(ran.told.splitlines()) == 1
    assert "fell at" in ran.told
    assert "nothing was written; choose another motion or seed, or a lighter payload" in ran.told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["g1", "dnce", "-o", "a.npz"], 2, "there is no 'dnce'; did you mean 'dance'"),
        (["g1", "dance"], 2, "--output"),
        (["g1", "dance", "-o", "a.npz", "--payload", "torso_link"], 2, "LINK=KG, such as torso_link=2"),
        (["g1", "dance", "-o", "a.npz", "--truth", "truth.txt"], 2, "'truth.txt' does not end in .json"),
        (["g1", "dance", "-o", "a.npz", "--spread", "0.9"], 2, "'--spread'"),
        (["g1", "dance", "-o", "a.npz", "--seed", "-1"], 2, "'--seed'"),
        (["g1", "dance", "-o", "a.npz", "--duration", "1"], 1, "'dance' takes"),
        (["g1", "dance", "-o", "a.npz", "--payload", "head=2"], 1, "there is no link or frame 'head'"),
        (["g1", "dance", "-o", "a.png"], 1, "a recording cannot be written as '.png'"),
        (["g1", "dance", "-o", "a.mat"], 1, "write .h5, which MATLAB reads too"),
        (["g1", "dance", "-o", "mine.npz"], 1, "mine.npz already exists; name another file, or replace it with"),
        (["g1", "dance", "-o", "a.npz", "--truth", "mine.json"], 1, "mine.json already exists"),
        (["g1", "dance", "-o", "folder"], 1, "folder is a folder; give the name of a file"),
        (["g1", "dance", "-o", "mine.npz/deeper/a.npz"], 1, "mine.npz is a file, not a folder"),
        (["bare.urdf", "dance", "-o", "a.npz"], 1, "sole"),
    ],
)
def test_mistakes_are_told_before_anything_is_played(tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.npz").write_text("mine")
    (tmp_path / "mine.json").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "bare.urdf").write_text(robot("g1").description.file.path.read_text())
    before = sorted(tmp_path.rglob("*"))
    ran = run("simulate", *arguments)
    assert ran.code == code, ran
    assert message in " ".join(ran.told.replace("│", " ").split())
    if code == 1:
        assert len(ran.told.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "mine.npz").read_text() == "mine"


def test_without_the_laboratory_one_line_says_how_to_get_it(tmp_path):
    without = "import sys; sys.modules['mujoco'] = None; from steelyard.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", without, *DANCE, "-o", "dance.npz"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr == (
        'error: the virtual laboratory runs on MuJoCo; install it with: pip install "steelyard[lab]"\n'
    )
    assert not list(tmp_path.iterdir())


def test_the_help_names_every_motion():
    printed = run("simulate", "--help").printed
    assert all(motion in printed for motion in MOTIONS)
