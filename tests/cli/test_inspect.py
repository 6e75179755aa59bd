"""`steelyard inspect`: what it prints, and how it exits."""

import json

import numpy as np
import pytest
from benchmarks.faults import FAULTS
from typer.testing import CliRunner

from steelyard.cli import app
from tests.laboratory.trials import robot, short_trial

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recordings")
    model, recording = robot("g1"), short_trial("g1", "dance", noise="default").recording
    recording.write(folder / "good.npz")
    FAULTS["upside down"].spoil(model, recording).write(folder / "bad.npz")
    recording.rows(0, 2000).write(folder / "first.parquet")
    recording.rows(2000, 4001).write(folder / "second.parquet")
    return folder


def run(*arguments):
    return RUNNER.invoke(app, ["inspect", *map(str, arguments)], env={"COLUMNS": "100"})


def test_a_good_recording(files):
    result = run("g1", files / "good.npz", "--plot")
    assert result.exit_code == 0, result.output
    assert "4001 rows, 8.00 s at 500 Hz" in result.output
    assert "mean vertical force" in result.output
    assert "delays against the encoders: left_foot" in result.output
    assert any(0x2800 < ord(character) <= 0x28FF for character in result.output), "a plot of dots"
    assert "left_foot.force" in result.output


def test_a_fault_is_said_with_its_fix(files):
    result = run("g1", files / "bad.npz", files / "good.npz")
    assert result.exit_code == 1
    assert "fault: left_foot is rotated by 180° about x, upside down" in result.output
    assert '"left_foot.fz" = { from = "left_foot.fz", scale = -1.0 }' in result.output
    assert "good.npz" in result.output, "the others are still looked at"
    assert run("g1", files / "bad.npz", "--exit-zero").exit_code == 0


def test_json_and_every_channel(files):
    result = run("g1", files / "good.npz", "--json")
    (plain,) = json.loads(result.stdout)
    assert plain["good"]
    assert set(plain["delays"]) == {"left_foot", "right_foot", "pelvis", "torso"}
    assert "q.left_knee_joint" in run("g1", files / "good.npz", "--channels").output


def test_split_recordings_are_joined(files):
    result = run("g1", files / "first.parquet", files / "second.parquet", "--join", "--json")
    (plain,) = json.loads(result.stdout)
    assert plain["rows"] == 4001


def test_pictures(files, tmp_path):
    result = run("g1", files / "good.npz", "--png", tmp_path / "plots")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "plots" / "good.npz.png").read_bytes()[:4] == b"\x89PNG"


def test_odd_names_stay_on_their_lines_and_are_not_markup(tmp_path):
    (tmp_path / "odd.csv").write_text(
        'time,"q.a/b","q.[bold]x[/bold]","q.new\nline","q.<b>"\n' + "".join(f"{k / 10},1,2,3,4\n" for k in range(9)),
        encoding="utf-8",
    )
    result = run("g1", tmp_path / "odd.csv", "--channels", "--plot")
    assert result.exit_code == 1
    for name in ("q.a/b", "q.[bold]x[/bold]", "q.new line", "q.<b>"):
        assert name in result.output
    assert "missing-joint" not in result.output
    assert "there is no position of any joint" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["g1", "nowhere.csv"], "nowhere.csv"), (["g2", "walk.csv"], "did you mean 'g1'"), (["g1"], "Missing argument")],
)
def test_mistakes_are_one_line(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code != 0
    assert words in result.output + str(result.exception)


def test_a_signal_that_is_not_there_does_not_break_the_plot(tmp_path):
    time = np.arange(50) / 10.0
    rows = "\n".join(f"{t},{'' if 20 < k < 30 else k}," for k, t in enumerate(time))
    (tmp_path / "holes.csv").write_text(f"time,q.a,q.b\n{rows}\n", encoding="utf-8")
    result = run("g1", tmp_path / "holes.csv", "--plot", "--png", tmp_path)
    assert result.exit_code == 1
    assert "q.b holds no reading at all" in result.output
