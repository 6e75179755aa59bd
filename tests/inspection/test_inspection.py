"""Faults are named, with a fix that mends them; sound recordings are left in peace."""

import json
import warnings

import numpy as np
import pytest

from steelyard import (
    MotionError,
    Recording,
    RecordingWarning,
    estimate_delays,
    inspect_recording,
    load_model,
    read_recording,
)
from steelyard.inspection.findings import source_of, write_fix
from steelyard.laboratory import simulate
from steelyard.laboratory.faults import FAULTS
from steelyard.model.recording_map import ColumnSource
from steelyard.model.setup import parse_setup
from tests.recording.real_data import ICUB, KUKA, load_real

MODEL = load_model("g1")


@pytest.fixture(scope="module")
def trial():
    return simulate(MODEL, "dance", seed=3, duration=20.0).recording


def spoilt(recording, **changes):
    values = dict(recording.values)
    return recording.with_values(values | {name: change(values[name]) for name, change in changes.items()})


def test_a_sound_recording_has_no_fault_and_no_warning(trial):
    found = inspect_recording(trial, MODEL)
    assert found.good
    assert found.codes("warning") == set()
    assert found.misfit < 2.0
    assert found.vertical_force["weight"] == pytest.approx(9.81 * MODEL.total_mass)
    assert trial.inspect(MODEL).codes() == found.codes()


@pytest.mark.parametrize(
    "name", ["upside down", "kilograms", "exchanged", "inertial sensor yawed", "joints in degrees"]
)
def test_a_fault_is_named_and_its_fix_mends_it(trial, name, tmp_path):
    fault = FAULTS[name]
    bad = fault.spoil(MODEL, trial)
    found = inspect_recording(bad, MODEL)
    assert found.codes("fault") == fault.expected(MODEL)
    # The lines that are offered, written into the setup, give the readings back.
    lines = next(finding.fix for finding in found.faults)
    if len(found.faults) > 1:
        lines = ("[recording.columns]", *(line for finding in found.faults for line in finding.fix[1:]))
    setup = tmp_path / "mended.toml"
    original = MODEL.setup.path.read_text(encoding="utf-8")
    setup.write_text(original + "\n" + "\n".join(lines) + "\n", encoding="utf-8")
    bad.write(tmp_path / "bad.npz")
    mended = read_recording(tmp_path / "bad.npz", load_model(setup))
    for column in (each for each in trial.columns if not each.startswith("q_command")):
        np.testing.assert_allclose(mended.column(column), trial.column(column), rtol=1e-8, atol=1e-8)
    again = read_recording(tmp_path / "bad.npz", load_model(setup), mapped=False)
    assert again.sha256 == bad.sha256


def test_an_offset_is_found_with_its_size(trial):
    found = inspect_recording(FAULTS["offset"].spoil(MODEL, trial), MODEL)
    assert found.codes("fault") == {("offset", "left_foot")}
    assert "left_foot.fx reads -" in found.faults[0].words
    (line,) = found.faults[0].fix[1:]
    assert float(line.partition("offset = ")[2].rstrip(" }")) == pytest.approx(30.0, abs=6.0)


def test_a_delay_is_found_and_taken_out(trial):
    late = trial.without_delays({"left_foot": -0.012})  # readings 12 ms early, undone: 12 ms late
    delays = estimate_delays(MODEL, late.between(0.1, 19.9))
    before = estimate_delays(MODEL, trial.between(0.1, 19.9))
    moved = delays.by_sensor["left_foot"].value - before.by_sensor["left_foot"].value
    assert moved == pytest.approx(0.012, abs=0.0005)
    assert delays.by_sensor["right_foot"].value == pytest.approx(before.by_sensor["right_foot"].value, abs=0.0005)
    mended = estimate_delays(MODEL, late.without_delays(delays.values).between(0.2, 19.8))
    for delay in mended.by_sensor.values():
        assert delay.value == pytest.approx(0.0, abs=0.0003)
    found = inspect_recording(late.between(0.1, 19.9), MODEL)
    assert found.codes("warning") == {("delay", "left_foot")}
    (finding,) = [each for each in found.findings if each.code == "delay"]
    assert float(finding.fix[1].removeprefix("delay = ")) == pytest.approx(delays.values["left_foot"], abs=1e-3)


def test_velocities_are_held_against_positions(trial):
    rate = 500.0
    speeds = {f"v.{joint}": np.gradient(trial.column(f"q.{joint}"), 1.0 / rate) for joint in MODEL.joints}
    sound = trial.with_values({**trial.values, **speeds})
    assert inspect_recording(sound, MODEL).codes() - {("weight", "wrench sensors")} == set()
    degrees = trial.with_values({**trial.values, **{name: np.degrees(values) for name, values in speeds.items()}})
    assert inspect_recording(degrees, MODEL).codes("fault") == {("velocity-unit", "v")}
    turned = trial.with_values({**trial.values, **speeds, "v.left_elbow_joint": -speeds["v.left_elbow_joint"]})
    assert inspect_recording(turned, MODEL).codes("warning") == {("velocity", "left_elbow_joint")}


def test_gravity_taken_out_is_noticed(trial):
    means = {f"pelvis.accel.{axis}": trial.column(f"pelvis.accel.{axis}").mean() for axis in "xyz"}
    bad = trial.with_values({name: values - means.get(name, 0.0) for name, values in trial.values.items()})
    assert ("no-gravity", "pelvis") in inspect_recording(bad, MODEL).codes("fault")


def test_names_that_do_not_fit_are_said(trial):
    values = dict(trial.values)
    values["q.left_kne_joint"] = values.pop("q.left_knee_joint")
    values["hand.fx"] = np.zeros(len(trial))
    del values["right_foot.nz"]
    found = inspect_recording(trial.with_values(values), MODEL)
    assert found.codes("fault") == {
        ("missing-joint", "left_knee_joint"),
        ("missing-axis", "right_foot"),
        ("constant", "hand.force"),
    }
    assert ("unknown-joint", "left_kne_joint") in found.codes("warning")
    assert ("unknown-sensor", "hand") in found.codes("remark")
    words = "\n".join(finding.words for finding in found.findings)
    assert "did you mean 'left_knee_joint'" in words


def test_limits_still_joints_and_silences_are_said(trial):
    def beyond(values):
        return np.where(trial.time < 10.0, values, MODEL.joint("left_knee_joint").upper + 0.2)

    def silent(values):
        return np.where((trial.time > 5.0) & (trial.time < 5.5), np.nan, values)

    changes = {"q.left_knee_joint": beyond, "q.left_elbow_joint": np.zeros_like, "torso.gyro.x": silent}
    found = inspect_recording(spoilt(trial, **changes), MODEL)
    by_code = {finding.code: finding for finding in found.findings}
    assert by_code["beyond-limit"].where == "left_knee_joint"
    assert "11.5° beyond its limit at 10.000 s" in by_code["beyond-limit"].words
    assert by_code["still"].where == "left_elbow_joint"
    assert by_code["silent"].time == pytest.approx(5.0, abs=0.01)


def test_without_a_model_only_the_table_is_checked(trial):
    found = inspect_recording(trial)
    assert found.model is None
    assert found.findings == ()
    assert {channel.name for channel in found.channels} == set(trial.columns)


def test_everything_comes_out_as_json(trial):
    plain = inspect_recording(trial, MODEL).to_dict()
    text = json.dumps(plain, allow_nan=False)
    assert json.loads(text)["channels"]["left_foot.fz"]["rate"] == 500.0


def test_a_short_or_odd_recording_does_no_harm():
    time = np.arange(3) * 0.01
    short = Recording(time, {f"q.{joint}": np.zeros(3) for joint in MODEL.joints})
    assert ("not-checked", "sensors") in inspect_recording(short, MODEL).codes("remark")
    assert inspect_recording(Recording([0.0], {"q.a": [1.0]})).row_count == 1
    assert inspect_recording(Recording([0.0, 1.0], {})).good
    with pytest.raises(MotionError, match=r"no stretch of motion without gaps"):
        estimate_delays(MODEL, short)


def test_a_fix_comes_on_top_of_the_map():
    setup = parse_setup(
        {
            "recording": {
                "columns": {"left_foot.fz": {"from": "FzL", "unit": "kN"}, "q.*": "*_pos"},
                "arrays": {"imu": ["pelvis.accel.x", "pelvis.accel.y"]},
            }
        }
    )
    assert source_of(setup, "left_foot.fz") == ColumnSource("FzL", 1000.0)
    assert source_of(setup, "q.knee") == ColumnSource("knee_pos")
    assert source_of(setup, "pelvis.accel.y") == ColumnSource("imu[1]")
    assert source_of(setup, "v.knee") == ColumnSource("v.knee")
    lines = write_fix(setup, {"left_foot.fz": ColumnSource("left_foot.fz", -1.0, 2.0)})
    assert lines == ("[recording.columns]", '"left_foot.fz" = { from = "FzL", scale = -1000.0, offset = 2.0 }')


def test_the_real_icub_carries_more_than_it_should():
    model, recording = load_real(ICUB, "icub_sway/com-sinusoid.mat")
    found = inspect_recording(recording, model)
    assert found.good
    (weight,) = [finding for finding in found.findings if finding.code == "weight"]
    assert weight.severity == "remark"
    assert "334.9 N, 3.2 % above the 324.5 N" in weight.words


def test_the_real_icub_in_kilograms_is_noticed():
    model, recording = load_real(ICUB, "icub_sway/com-sinusoid.mat")
    for factor, code in ((1.0 / 9.81, "wrench-unit"), (-1.0, "wrench-sign")):
        changes = {f"{side}_foot.fz": lambda values, factor=factor: factor * values for side in ("left", "right")}
        assert inspect_recording(spoilt(recording, **changes), model).codes("fault") == {(code, "left_foot")}


def test_the_real_kuka_is_sound():
    model, recording = load_real(KUKA, "kuka_lwr4/measurements_1.npz")
    assert inspect_recording(recording, model).codes() == {("note", "measurements_1.npz")}


def test_notes_of_the_reader_are_warnings_and_findings(tmp_path):
    (tmp_path / "walk.csv").write_text("time,q.a,other\n0,1,5\n0.1,2,5\n0.1,2,5\n0.2,3,5\n", encoding="utf-8")
    with pytest.warns(RecordingWarning, match=r"walk.csv: "):
        recording = read_recording(tmp_path / "walk.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert {finding.code for finding in inspect_recording(recording).findings} >= {"note"}
