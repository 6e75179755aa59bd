"""Faults are named, with a fix that mends them; sound recordings are left in peace."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.faults import FAULTS

from steelyard import (
    MotionError,
    Recording,
    RecordingWarning,
    estimate_delays,
    inspect_recording,
    join_recordings,
    load_model,
    read_recording,
    reconstruct_motion,
)
from steelyard.inspection.delays import _linearise, _misfit, differentiate_measured, estimate_lags
from steelyard.inspection.findings import source_of, write_fix
from steelyard.inspection.imu_mounting import compare_imu, find_imu_mounting
from steelyard.laboratory import simulate
from steelyard.model.recording_map import ColumnSource
from steelyard.model.setup import WrenchSensor, parse_setup
from tests.laboratory.trials import robot, short_trial
from tests.recording.real_data import ICUB, KUKA, load_real

MODEL = load_model("g1")


@pytest.fixture(scope="module")
def trial():
    return simulate(MODEL, "dance", seed=3, duration=20.0).recording


@pytest.fixture(scope="module")
def whole(trial):
    return inspect_recording(trial, MODEL)


def spoilt(recording, **changes):
    values = dict(recording.values)
    return recording.with_values(values | {name: change(values[name]) for name, change in changes.items()})


def test_a_sound_recording_has_no_fault_and_no_warning(trial, whole):
    found = whole
    assert found.good
    assert found.codes("warning") == set()
    assert found.misfit < 2.0
    assert found.vertical_force["weight"] == pytest.approx(9.81 * MODEL.total_mass)
    assert trial.inspect(MODEL).codes() == found.codes()


DROPOUTS = {
    "q.left_knee_joint": ["q.left_knee_joint"],
    "left_foot": [f"left_foot.{axis}" for axis in ("fx", "fy", "fz", "nx", "ny", "nz")],
    "pelvis": [f"pelvis.{kind}.{axis}" for kind in ("accel", "gyro") for axis in "xyz"],
}


@pytest.mark.parametrize("sensor", DROPOUTS)
@pytest.mark.parametrize("rows", [14, 20])
def test_a_dropout_changes_no_finding(trial, whole, sensor, rows):
    # At 500 Hz: 30 ms, the longest that a motion at 5 Hz bridges, which moves with a delay; and 42 ms, which is a gap
    # to such a motion, but not to one at 3 Hz.
    missing = slice(5000, 5000 + rows)
    values = {name: np.array(column) for name, column in trial.values.items()}
    for name in DROPOUTS[sensor]:
        values[name][missing] = np.nan
    found = inspect_recording(trial.with_values(values), MODEL)
    assert found.codes() == whole.codes()
    assert found.misfit < 1.2 * whole.misfit
    for name, delay in found.delays.by_sensor.items():
        assert delay.value == pytest.approx(whole.delays.by_sensor[name].value, abs=0.0005)


def test_derivatives_do_not_jump_at_gaps(trial):
    motion = reconstruct_motion(MODEL, trial, base="imu", cutoff=5.0, decimate=False)
    ramp = motion.time[:, None] * np.arange(6.0)
    split = replace(motion, wrenches={"left_foot": ramp}).where((motion.time < 8.0) | (motion.time > 9.0))
    slopes = differentiate_measured(split).wrenches["left_foot"]
    np.testing.assert_allclose(slopes, np.tile(np.arange(6.0), (len(split), 1)), rtol=1e-9, atol=1e-9)


def test_an_imu_is_compared_where_its_neighbours_have_gaps(trial):
    # A motion of a segment with a gap has fewer samples than the segment: readings go by their times.
    (imu,) = [each for each in MODEL.setup.imus if each.name == "pelvis"]
    even = trial.resampled(500.0).loaded()
    knee = np.array(even.column("q.left_knee_joint"))
    knee[5000:5100] = np.nan
    seen = compare_imu(MODEL, [even.with_values({**even.values, "q.left_knee_joint": knee})], imu, 5.0)
    assert np.abs(seen.gyro - seen.gyro_read).max() < 0.05
    assert find_imu_mounting("pelvis", seen).as_stated


@pytest.mark.parametrize(
    "name", ["upside down", "kilograms", "exchanged", "inertial sensor yawed", "joints in degrees"]
)
def test_a_fault_is_named_and_its_fix_mends_it(trial, name, tmp_path):
    fault = FAULTS[name]
    bad = fault.spoil(MODEL, trial)
    found = inspect_recording(bad, MODEL)
    assert found.codes("fault") == fault.expected(MODEL)
    # The lines that are offered, written into the setup, give the readings back.
    setup = tmp_path / "mended.toml"
    original = MODEL.setup.path.read_text(encoding="utf-8")
    setup.write_text(original + "\n" + "\n".join(found.setup_lines) + "\n", encoding="utf-8")
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
    values |= {f"torso.gyro.{axis}": np.zeros(len(trial)) for axis in "xyz"}
    del values["right_foot.nz"]
    found = inspect_recording(trial.with_values(values), MODEL)
    assert found.codes("fault") == {
        ("missing-joint", "left_knee_joint"),
        ("missing-axis", "right_foot"),
        ("constant", "torso.gyro"),
    }
    assert {("unknown-joint", "left_kne_joint"), ("constant", "hand.force")} <= found.codes("warning")
    assert ("not-checked", "sensors") in found.codes("remark")
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


@pytest.mark.parametrize("rate", [20.0, 50.0, 100.0])
def test_slow_recordings_are_left_in_peace(trial, rate):
    found = inspect_recording(trial.resampled(rate), MODEL)
    assert found.good
    assert found.codes("warning") == set()


def test_without_inertial_sensors_the_soles_are_stood_on(trial):
    setup = replace(MODEL.setup, imus=())
    model = load_model(MODEL.description.file.path, setup=setup)
    blind = trial.select([name for name in trial.columns if not name.startswith(("pelvis", "torso"))])
    assert inspect_recording(blind, model).codes() - {("weight", "wrench sensors")} == set()
    bad = FAULTS["exchanged"].spoil(model, blind)
    assert inspect_recording(bad, model).codes("fault") == {("exchanged", "left_foot")}


@pytest.mark.parametrize("delay", [0.05, 0.2])
def test_long_delays_are_no_mystery(trial, delay):
    late = trial.without_delays({"left_foot": -delay, "right_foot": -delay}).between(0.3, 19.9)
    found = inspect_recording(late, MODEL)
    assert found.good
    assert {("delay", "left_foot"), ("delay", "right_foot")} <= found.codes("warning")
    assert found.misfit < 2.0
    for foot in ("left_foot", "right_foot"):
        assert found.delays.by_sensor[foot].value == pytest.approx(delay + 0.001, abs=0.001)


def test_encoder_offsets_are_not_blamed_on_sensors():
    rng = np.random.default_rng(0)
    offsets = {joint: np.radians(3.0) * rng.uniform(-1.0, 1.0) for joint in MODEL.joints}
    found = inspect_recording(simulate(MODEL, "dance", seed=0, duration=20.0, offsets=offsets).recording, MODEL)
    assert found.codes("fault") | found.codes("warning") == set()


@pytest.mark.parametrize(
    "names", [("exchanged", "kilograms"), ("opposite sign", "kilograms"), ("back to front", "offset")]
)
def test_two_faults_at_once_have_one_fix(trial, names, tmp_path):
    first, second = (FAULTS[name] for name in names)
    bad = first.spoil(MODEL, second.spoil(MODEL, trial))
    found = inspect_recording(bad, MODEL)
    assert found.codes("fault") == first.expected(MODEL) | second.expected(MODEL)
    setup = tmp_path / "mended.toml"
    original = MODEL.setup.path.read_text(encoding="utf-8")
    setup.write_text(original + "\n" + "\n".join(found.setup_lines) + "\n", encoding="utf-8")
    bad.write(tmp_path / "bad.npz")
    mended = read_recording(tmp_path / "bad.npz", load_model(setup))
    for column in (f"{side}_foot.{axis}" for side in ("left", "right") for axis in ("fx", "fz", "ny")):
        np.testing.assert_allclose(mended.column(column), trial.column(column), atol=6.0 if "offset" in names else 1e-6)
    again = inspect_recording(mended, load_model(setup))
    assert again.good
    assert mended.mapped


def test_an_exchange_among_four_sensors_is_found():
    hands = tuple(WrenchSensor(f"{side}_hand", f"{side}_wrist_yaw_link", at="joint") for side in ("left", "right"))
    setup = replace(MODEL.setup, wrench_sensors=MODEL.setup.wrench_sensors + hands)
    model = load_model(MODEL.description.file.path, setup=setup)
    recording = simulate(model, "dance", seed=1, duration=8.0).recording
    assert inspect_recording(recording, model).good
    found = inspect_recording(FAULTS["exchanged"].spoil(model, recording), model)
    assert found.codes("fault") == {("exchanged", "left_foot")}


def test_forces_alone_can_be_judged(trial):
    sensors = tuple(replace(sensor, axes=("fx", "fy", "fz")) for sensor in MODEL.setup.wrench_sensors)
    model = load_model(MODEL.description.file.path, setup=replace(MODEL.setup, wrench_sensors=sensors))
    forces = trial.select([name for name in trial.columns if not name.endswith((".nx", ".ny", ".nz"))])
    assert inspect_recording(forces, model).good
    turned = forces.with_values({k: -v if k.startswith("left_foot") else v for k, v in forces.values.items()})
    assert inspect_recording(turned, model).codes("fault") == {("wrench-sign", "left_foot")}


def test_a_robot_that_stands_still_cannot_tell_everything(trial):
    rng = np.random.default_rng(1)
    values = {name: column[0] + 1e-4 * rng.standard_normal(len(trial)) for name, column in trial.values.items()}
    still = trial.with_values({name: column for name, column in values.items() if "quat" not in name})
    assert inspect_recording(still, MODEL).good
    turned = inspect_recording(FAULTS["inertial sensor upside down"].spoil(MODEL, still), MODEL)
    assert turned.codes("fault") == {("inertial-axes", "pelvis")}
    assert "moves too little to tell which" in turned.faults[0].words
    assert turned.setup_lines == ()
    in_g = inspect_recording(FAULTS["accelerometer in g"].spoil(MODEL, still), MODEL)
    assert in_g.codes("fault") == {("accelerometer-unit", "pelvis")}


def test_a_whole_turn_is_not_degrees(trial):
    bad = spoilt(trial, **{"q.left_knee_joint": lambda values: values + 2.0 * np.pi})
    found = inspect_recording(bad, MODEL)
    assert found.codes("fault") == {("whole-turn", "left_knee_joint")}
    assert found.misfit < 2.0, "the rest is checked with it set right"


def test_long_gaps_stray_times_and_absurd_numbers_do_no_harm(trial):
    apart = join_recordings([trial.between(0.0, 9.0)] * 9, gap=30.0)
    assert inspect_recording(apart, MODEL).codes("warning") == {("clock-gap", "time")}
    stray = Recording(
        np.append(trial.time, 1.7e9), {name: np.append(values, values[-1]) for name, values in trial.values.items()}
    )
    assert ("clock-gap", "time") in inspect_recording(stray, MODEL).codes("warning")
    huge = spoilt(trial, **{"left_foot.fx": lambda values: np.where(trial.time == trial.time[5], 1.7e308, values)})
    assert ("absurd", "left_foot.fx") in inspect_recording(huge, MODEL).codes("fault")


def test_the_lag_found_is_where_the_residual_is_least(trial):
    stretch = trial.select([name for name in trial.columns if not name.startswith(("torso", "q_command"))])
    delays = estimate_lags(MODEL, [stretch], imu="pelvis", cutoff=5.0)
    best = delays.by_sensor["left_foot"].value
    lags = best + np.array([-0.02, -0.004, 0.0, 0.004, 0.02])
    trials = [delays.values | {"left_foot": float(lag)} for lag in lags]
    curve = [_misfit(_linearise(MODEL, [stretch], trial, "pelvis", 5.0, {})) for trial in trials]
    assert np.argmin(curve) == 2
    assert curve[0] > curve[1]
    assert curve[4] > curve[3]


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
    with pytest.raises(MotionError, match=r"no gap-free segment of motion"):
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


def test_an_offset_that_no_sensor_could_have_is_not_called_one(monkeypatch):
    """Errors of joint angles look like offsets far beyond what the sensor ever read: then encoders are suspected."""
    from steelyard.inspection import wrench_checks
    from steelyard.inspection.wrench_offsets import Offset, find_offsets

    model, recording = robot("g1"), short_trial("g1", "dance", noise="default").recording

    def bent(model, motions):
        offsets = find_offsets(model, motions)
        return [*offsets, Offset("left_foot.nx", -335.0, 29.0, (), possible=False), Offset("left_foot.fx", 40.0, 1.0)]

    monkeypatch.setattr(wrench_checks, "find_offsets", bent)
    result = inspect_recording(recording, model)
    assert not [fault for fault in result.faults if fault.code == "offset"]
    (warning,) = [finding for finding in result.findings if finding.code == "offset"]
    assert warning.severity == "warning"
    assert "encoders may be off: calibrate them first" in warning.words
    assert warning.fix == ()


@pytest.mark.parametrize(("axis", "size"), [("ny", 40.0), ("fx", 60.0)])
def test_an_offset_that_the_readings_show_is_possible(axis, size):
    from steelyard.inspection.wrench_offsets import find_offsets

    model, recording = robot("g1"), short_trial("g1", "dance", noise="default").recording
    name = f"left_foot.{axis}"
    columns = {each: recording.column(each) + (size if each == name else 0.0) for each in recording.columns}
    motion = reconstruct_motion(model, Recording(recording.time, columns))
    (found,) = [each for each in find_offsets(model, [motion]) if each.column == name]
    assert found.possible
    assert found.value == pytest.approx(size, rel=0.15)
