"""`steelyard calibrate`: offsets on the screen, in files and as JSON; what is wrong in one line."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from steelyard import read_offsets
from steelyard.cli import app
from steelyard.laboratory import simulate
from tests.calibration.standing import offsets_of
from tests.calibration.talos_arm import TALOS_ARM, talos_left_arm
from tests.calibration.test_markers import HAND, PLACES, arm_joints, as_recording, fixed, measure
from tests.laboratory.trials import robot


@pytest.fixture(scope="module")
def trial():
    return simulate(robot("g1"), "limp", seed=0, duration=11.0, offsets=0.05)


@pytest.fixture(scope="module")
def recorded(trial, tmp_path_factory):
    path = tmp_path_factory.mktemp("recorded") / "limp.parquet"
    trial.recording.write(path)
    return path


def run(*arguments):
    result = CliRunner().invoke(app, ["calibrate", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 1, f"error: {result.exception}"
    return result.exit_code, result.output


def test_offsets_are_found_shown_and_written(trial, recorded, tmp_path):
    code, output = run("g1", recorded, "-o", tmp_path / "calibrated", "--json")
    assert code == 0
    found = json.loads(output)
    for joint, each in found["joints"].items():
        assert abs(each["offset"] - trial.truth.offsets[joint]) < 4.0 * each["standard_error"], joint
    names = {path.name for path in (tmp_path / "calibrated").iterdir()}
    assert {"offsets.json", "offsets.csv", "g1_calibrated.urdf", "heights.png", "poses.png"} == names
    assert read_offsets(tmp_path / "calibrated" / "offsets.csv") == pytest.approx(
        {joint: each["offset"] for joint, each in found["joints"].items()}
    )
    code, output = run("g1", recorded, "-o", tmp_path / "calibrated")
    assert code == 1
    assert "--force" in output


def test_the_table_is_shown(recorded):
    code, output = run("g1", recorded, "--joint", "left_knee_joint", "--joint", "right_knee_joint", "--imu", "pelvis")
    assert code == 0
    assert "left_knee_joint" in output
    assert "left_hip_pitch_joint" not in output
    assert max(map(len, output.splitlines())) <= 80


def spoilt(trial, path, columns):
    values = dict(trial.recording.values) | columns
    trial.recording.with_values({name: each for name, each in values.items() if each is not None}).write(path)
    return path


def test_what_is_wrong_is_told_in_one_line(trial, recorded, tmp_path):
    values = trial.recording.values
    quaternion = {axis: values[f"pelvis.quat.{axis}"] for axis in "xyzw"}
    turned = {f"pelvis.quat.{axis}": quaternion[other] for axis, other in zip("xyzw", "wxyz", strict=True)}
    scaled = {f"pelvis.quat.{axis}": 3.0 * each for axis, each in quaternion.items()}
    empty = {"q.left_knee_joint": np.full(len(trial.recording), np.nan)}
    cases = [
        ((tmp_path / "missing.csv",), "missing.csv"),
        ((recorded, "--joint", "left_kne_joint"), "left_knee_joint"),
        ((recorded, "--imu", "pelvs"), "pelvis"),
        ((recorded, "--flat", "lft=0:5"), "left"),
        ((spoilt(trial, tmp_path / "order.parquet", turned), "--imu", "pelvis"), "w x y z"),
        ((spoilt(trial, tmp_path / "scaled.parquet", scaled), "--imu", "pelvis"), "norm 3"),
        ((spoilt(trial, tmp_path / "no_knee.parquet", {"q.left_knee_joint": None}),), "q.left_knee_joint"),
        ((spoilt(trial, tmp_path / "nan.parquet", empty),), "q.left_knee_joint"),
        ((trial_at_rest(trial, tmp_path / "rest.parquet"),), "all alike"),
    ]
    for arguments, words in cases:
        code, output = run("g1", *arguments)
        assert code == 1, (arguments, output)
        assert words in output, (arguments, output)
        assert "Traceback" not in output


def trial_at_rest(trial, path):
    first = {
        name: np.full(len(trial.recording), column[np.isfinite(column)][0])
        for name, column in trial.recording.values.items()
        if np.isfinite(column).any()
    }
    trial.recording.with_values(first).write(path)
    return path


@pytest.mark.parametrize(
    ("option", "value"), [("--flat", "left"), ("--flat", "left=5:2"), ("--plain", "0"), ("--poses", "1")]
)
def test_calls_that_make_no_sense_exit_with_two(recorded, option, value):
    code, _ = run("g1", recorded, option, value)
    assert code == 2


def test_plain_sums_and_stretches_of_time(recorded):
    assert run("g1", recorded, "--plain", "0.1", "--quiet")[0] == 0
    code, output = run("g1", recorded, "--flat", "left=0:6", "--flat", "right=0:20", "--json")
    assert code == 0
    assert json.loads(output)["pose_count"] > 20


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """A fixed arm with markers, its true offsets, and the setup and the CSV of its recording."""
    folder = tmp_path_factory.mktemp("arm")
    model = fixed()
    truth = offsets_of(arm_joints(model), most=2.0)
    poses = measure(model, truth, count=40, marker=0.5e-3)
    as_recording(poses).write(folder / "arm.csv")
    as_recording(poses, scale=1e3).write(folder / "millimetres.csv")
    (folder / "arm.toml").write_text(
        f"""[model]
file = "{model.description.file.path}"
base = "fixed"

[[marker]]
name = "palm"
frame = "{HAND}"
"""
    )
    return folder, truth


def test_markers_of_the_setup_or_of_an_option_are_calibrated(arm, tmp_path):
    folder, truth = arm
    joints = [argument for joint in truth for argument in ("--joint", joint)]
    code, output = run(folder / "arm.toml", folder / "arm.csv", *joints, "-o", tmp_path / "calibrated")
    assert code == 0, output
    assert "cross-validated" in output
    assert f"palm on {HAND}, mm" in output
    assert "states their link: 'elbow' and 'thumb'" in output.replace("\n    ", " ")
    assert not (tmp_path / "calibrated" / "heights.png").exists()
    options = [argument for name, (frame, _) in PLACES.items() for argument in ("--marker", f"{name}={frame}")]
    code, output = run(folder / "arm.toml", folder / "arm.csv", *joints, *options, "--json")
    found = json.loads(output)
    for joint, offset in truth.items():
        each = found["joints"][joint]
        assert abs(each["offset"] - offset) < 4.0 * each["standard_error"]
    for name, (frame, place) in PLACES.items():
        each = found["markers"]["placements"][name]
        assert each["frame"] == frame
        np.testing.assert_allclose(each["position"], place, atol=5e-3)
    distances = found["markers"]["distances_mm"]
    assert distances["after"]["rms"] < distances["held_out"]["rms"] < 1.2
    assert distances["before"]["rms"] > 5.0


def test_wrong_markers_are_told_in_one_line(arm):
    folder, _ = arm
    cases = [
        ((folder / "arm.csv", "--marker", f"plam={HAND}"), "marker.palm.x"),
        ((folder / "arm.csv", "--marker", "palm=right_wrist_yaw_lnk"), HAND),
        ((folder / "millimetres.csv",), "millimetres"),
    ]
    for arguments, words in cases:
        code, output = run(folder / "arm.toml", *arguments)
        assert code == 1, (arguments, output)
        assert words in output, (arguments, output)
    assert run(folder / "arm.toml", folder / "arm.csv", "--marker", "palm")[0] == 2


def test_the_real_arm_is_calibrated_from_the_shell(tmp_path):
    (tmp_path / "talos_arm.toml").write_text(TALOS_ARM)
    code, output = run(tmp_path / "talos_arm.toml", talos_left_arm(), "--json")
    assert code == 0, output
    assert json.loads(output)["markers"]["distances_mm"]["held_out"]["mean"] == pytest.approx(1.35, abs=0.01)
