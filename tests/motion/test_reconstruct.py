"""Pieces are the whole, gaps cut, uneven clocks are straightened, and what was chosen is told."""

import re

import numpy as np
import pytest

from steelyard import MotionError, Recording, RecordingError, gather_evidence, read_recording
from steelyard.model.setup import WRENCH_AXES
from steelyard.motion import reconstruct_motion, stream_motion
from steelyard.recording import columns
from tests.laboratory.trials import robot, short_trial, with_torques

FIELDS = ("time", "q", "v", "a", "angular_velocity", "angular_acceleration", "proper_acceleration", "orientation")


def joined(pieces, field):
    return np.concatenate([getattr(piece, field) for piece in pieces])


def assert_same(pieces, whole, rtol=1e-9):
    pieces = list(pieces)
    for field in FIELDS:
        if getattr(whole, field) is None:
            assert any(getattr(piece, field) is None for piece in pieces)
            continue
        expected = getattr(whole, field)
        np.testing.assert_allclose(joined(pieces, field), expected, rtol=0.0, atol=rtol * np.abs(expected).max())
    for group in ("wrenches", "torques"):
        for name, values in getattr(whole, group).items():
            found = np.concatenate([getattr(piece, group)[name] for piece in pieces])
            np.testing.assert_allclose(found, values, rtol=0.0, atol=rtol * np.abs(values).max())
    for piece in pieces:
        assert (piece.base, piece.origin, piece.notes) == (whole.base, whole.origin, whole.notes)
        assert piece.sample_rate == pytest.approx(whole.sample_rate)
        assert piece.bandwidth == pytest.approx(whole.bandwidth)
    assert sum(piece.effective_count for piece in pieces) == pytest.approx(whole.effective_count)


def g1_dance():
    return robot("g1"), short_trial("g1", "dance", noise="default").recording


@pytest.mark.parametrize(
    "options", [{}, {"smoothing": "cubic"}, {"cutoff": 7.3}, {"decimate": False}, {"base": "sole"}], ids=str
)
@pytest.mark.parametrize("rows", [90, 700, 2501])
def test_pieces_together_are_the_whole(options, rows):
    model, recording = g1_dance()
    whole = reconstruct_motion(model, recording, **options)
    pieces = list(stream_motion(model, recording, rows=rows, **options))
    assert len(pieces) > 1
    assert_same(pieces, whole)


def test_pieces_of_what_is_not_in_memory_are_the_whole(tmp_path, monkeypatch):
    model, recording = g1_dance()
    recording.write(tmp_path / "dance.csv")
    monkeypatch.setattr(columns, "MEMORY", 100_000)
    lazy = read_recording(tmp_path / "dance.csv", model)
    assert isinstance(lazy.values, columns.LazyColumns)
    whole = reconstruct_motion(model, read_recording(tmp_path / "dance.csv", model).loaded())
    assert whole.origin == lazy.origin
    pieces = list(stream_motion(model, lazy, rows=600))
    assert len(pieces) > 1
    assert_same(pieces, whole)
    evidence = gather_evidence(model, stream_motion(model, lazy, rows=600), nuisance=())
    assert evidence.sample_count == len(whole)


def test_torques_come_along_through_the_same_filter():
    from steelyard.laboratory import simulate

    model = with_torques("g1")
    recording = simulate(model, "sway", seed=1, duration=5.0).recording
    whole = reconstruct_motion(model, recording, cutoff=10.0)
    assert set(whole.torques) == set(model.joints)
    assert_same(stream_motion(model, recording, cutoff=10.0, rows=300), whole)
    # The same column is smoothed in the same way, wherever it goes.
    again = recording.with_values({**recording.values, "left_foot.fx": recording.column("tau.left_knee_joint")})
    motion = reconstruct_motion(model, again, cutoff=10.0)
    np.testing.assert_allclose(motion.wrenches["left_foot"][:, 0], motion.torques["left_knee_joint"], rtol=1e-12)


def silent_between(recording, column, start, end):
    silent = np.where((recording.time > start) & (recording.time < end), np.nan, recording.column(column))
    return recording.with_values({**recording.values, column: silent})


def test_a_gap_cuts_the_motion_and_nothing_crosses_it():
    model, recording = g1_dance()
    by_mask = silent_between(recording, "left_foot.fz", 3.0, 3.2)
    keep = ~((recording.time > 3.0) & (recording.time < 3.2))
    by_clock = Recording(recording.time[keep], {name: values[keep] for name, values in recording.values.items()})
    halves = [recording.between(0.0, 3.0005), recording.between(3.2, 99.0)]
    expected = [reconstruct_motion(model, half, cutoff=10.0) for half in halves]
    for cut in (by_mask, by_clock):
        pieces = list(stream_motion(model, cut, cutoff=10.0, rows=700))
        whole = reconstruct_motion(model, cut, cutoff=10.0)
        told = re.fullmatch(r"gaps cost (\S+) s of 8 s, including the filter's edges next to them", whole.notes[-1])
        # The gap itself, the filter's length once more, and less than a sample for each of two ends.
        assert float(told[1]) == pytest.approx(0.2 + 2.0 * 0.36, abs=2.0 / whole.sample_rate)
        for field in FIELDS:
            wanted = joined(expected, field)
            for found in (joined(pieces, field), getattr(whole, field)):
                np.testing.assert_allclose(found, wanted, rtol=0.0, atol=1e-9 * np.abs(wanted).max())
    assert gather_evidence(model, stream_motion(model, by_mask, cutoff=10.0), nuisance=()).sample_count == len(whole)


def test_a_slow_sensor_is_joined_by_straight_lines_and_a_short_silence_too():
    model, recording = g1_dance()
    whole = reconstruct_motion(model, recording, cutoff=4.0)
    slow = recording.column("left_foot.fz").copy()
    slow[np.arange(len(slow)) % 5 != 0] = np.nan
    motion = reconstruct_motion(model, recording.with_values({**recording.values, "left_foot.fz": slow}), cutoff=4.0)
    np.testing.assert_array_equal(motion.time, whole.time)
    np.testing.assert_array_equal(motion.q, whole.q)
    # The noise of a reading is 0.35 N; four of five readings are gone.
    np.testing.assert_allclose(motion.wrenches["left_foot"], whole.wrenches["left_foot"], atol=1.0)
    assert not any("short dropouts" in note for note in motion.notes)
    short = silent_between(recording, "left_foot.fz", 3.0, 3.02)
    bridged = reconstruct_motion(model, short, cutoff=4.0)
    np.testing.assert_array_equal(bridged.time, whole.time)
    assert bridged.notes[-1] == (
        "0.018 s of 'left_foot.fz' are missing in short dropouts (up to 20 ms); interpolated linearly"
    )


@pytest.mark.parametrize("cutoff", [3.0, 10.0])
def test_what_is_bridged_does_no_harm(cutoff):
    model, recording = robot("g1"), short_trial("g1", "dance").recording
    whole = reconstruct_motion(model, recording, cutoff=cutoff, decimate=False)
    harm = {}
    for milliseconds in (4, 8, 14, 22, 30, 44):
        keep = recording.time % 3.0 >= 1e-3 * milliseconds
        for name, cut in (
            ("rows", Recording(recording.time[keep], {name: each[keep] for name, each in recording.values.items()})),
            (
                "positions",
                recording.with_values(
                    {
                        name: np.where(keep, each, np.nan) if name.startswith("q.") else each
                        for name, each in recording.values.items()
                    }
                ),
            ),
        ):
            motion = reconstruct_motion(model, cut, cutoff=cutoff, decimate=False)
            same = np.searchsorted(whole.time, motion.time - 1e-6)
            worst = np.abs(motion.a - whole.a[same]).max() / np.sqrt(np.mean(whole.a**2))
            harm[name, milliseconds] = worst, any("interpolated linearly" in note for note in motion.notes)
            # What is told was bridged, what is not was cut out.
            assert harm[name, milliseconds][1] != any("gaps cost" in note for note in motion.notes)
    # Of the root mean square, at the worst instant of the worst joint.
    assert max(worst for worst, _ in harm.values()) < 0.03
    assert harm["rows", 4][1]
    assert harm["positions", 8][1]


@pytest.mark.parametrize("rate", [20.0, 10.0])
def test_a_slow_sensors_own_period_is_no_gap_and_bounds_what_is_told(rate):
    model, recording = g1_dance()
    slow = {}
    for name in (f"left_foot.{axis}" for axis in WRENCH_AXES):
        slow[name] = np.where(np.arange(len(recording)) % round(500.0 / rate) == 0, recording.column(name), np.nan)
    motion = reconstruct_motion(model, recording.with_values({**recording.values, **slow}))
    assert motion.sample_rate <= 0.5 * rate * (1.0 + 1e-9)
    assert f"'left_foot.fx' is sampled at {rate:.3g} Hz and interpolated linearly" in motion.notes
    # Samples that come faster than the readings are not worth more.
    fast = reconstruct_motion(model, recording.with_values({**recording.values, **slow}), cutoff=15.0)
    assert fast.effective_count == pytest.approx(rate * len(fast) / fast.sample_rate)
    # A reading that is lost is bridged, and told; a long silence is a gap.
    for lost, cuts in ((1, False), (4, True)):
        period = round(500.0 / rate)
        hole = np.array(slow["left_foot.fz"])
        hole[1900 : 1900 + lost * period] = np.nan
        broken = recording.with_values({**recording.values, **slow, "left_foot.fz": hole})
        motion = reconstruct_motion(model, broken, cutoff=2.5)
        assert (np.diff(motion.time).max() > 1.5 / motion.sample_rate) == cuts
        assert any("of 'left_foot.fz' are missing in short dropouts" in note for note in motion.notes) is not cuts


def test_an_empty_column_is_passed_over_or_named():
    model, recording = g1_dance()
    nothing = np.full(len(recording), np.nan)
    whole = reconstruct_motion(model, recording, cutoff=10.0)
    torque = recording.with_values({**recording.values, "tau.left_knee_joint": nothing})
    motion = reconstruct_motion(model, torque, cutoff=10.0)
    np.testing.assert_array_equal(motion.time, whole.time)
    assert "left_knee_joint" not in motion.torques
    assert "'tau.left_knee_joint' has no readings: treated as not recorded" in motion.notes
    with pytest.raises(MotionError, match=r"'tau.left_knee_joint' has no readings at all: leave out all columns of"):
        reconstruct_motion(with_torques("g1"), torque, cutoff=10.0)
    for column, remedy in (
        ("left_foot.fz", "leave out all columns of that sensor"),
        ("q.left_knee_joint", "lock the joint in the setup if it does not move"),
    ):
        empty = recording.with_values({**recording.values, column: nothing})
        with pytest.raises(MotionError, match=rf"'{column}' has no readings at all: {remedy}"):
            reconstruct_motion(model, empty, cutoff=10.0)
    now_and_then = np.where(recording.time % 0.5 < 0.2, nothing, recording.column("left_foot.fz"))
    rare = recording.with_values({**recording.values, "left_foot.fz": now_and_then})
    with pytest.raises(MotionError, match=r"'left_foot.fz' never has more than 0.\d+ s without gaps: .* higher cutoff"):
        reconstruct_motion(model, rare, cutoff=5.0)


def test_the_first_inertial_sensor_with_readings_is_taken_and_told():
    model, recording = g1_dance()
    first, second = (imu.name for imu in model.setup.imus[:2])
    assert f"base motion from the IMU {first!r}" in " ".join(reconstruct_motion(model, recording).notes)
    silent = {name: np.full(len(recording), np.nan) for name in recording.columns if name.startswith(f"{first}.gyro")}
    motion = reconstruct_motion(model, recording.with_values({**recording.values, **silent}))
    asked = reconstruct_motion(model, recording, imu=second)
    assert f"base motion from the IMU {second!r}" in " ".join(motion.notes)
    np.testing.assert_array_equal(motion.proper_acceleration, asked.proper_acceleration)
    assert motion.notes == asked.notes


def test_an_orientation_with_a_gap_is_not_given_and_costs_no_samples():
    model, recording = g1_dance()
    whole = reconstruct_motion(model, recording, cutoff=5.0)
    assert whole.orientation is not None
    cut = silent_between(recording, "pelvis.quat.x", 3.0, 3.2)
    motion = reconstruct_motion(model, cut, cutoff=5.0)
    assert motion.orientation is None
    assert len(motion) == len(whole)
    without = recording.select([name for name in recording.columns if name != "pelvis.quat.w"])
    assert reconstruct_motion(model, without, cutoff=5.0).orientation is None


def test_uneven_times_are_put_on_even_ones():
    model, recording = g1_dance()
    shaken = recording.time + np.random.default_rng(0).uniform(-0.0004, 0.0004, len(recording))
    values = {name: np.interp(shaken, recording.time, column) for name, column in recording.values.items()}
    uneven = Recording(shaken, {name: column for name, column in values.items() if "quat" not in name})
    whole = reconstruct_motion(model, recording, cutoff=10.0, decimate=False)
    pieces = list(stream_motion(model, uneven, cutoff=10.0, decimate=False, rows=900))
    np.testing.assert_allclose(np.diff(joined(pieces, "time")), 1.0 / pieces[0].sample_rate, rtol=1e-6)
    for number, _ in enumerate(model.joints):
        found = np.interp(whole.time[10:-10], joined(pieces, "time"), joined(pieces, "q")[:, number])
        np.testing.assert_allclose(found, whole.q[10:-10, number], atol=2e-4)


def test_what_was_chosen_is_told():
    model, recording = g1_dance()
    motion = reconstruct_motion(model, recording)
    assert "zero-phase Butterworth filter of order 4, -3 dB at" in motion.notes[0]
    assert f"downsampled from 500 to {motion.sample_rate:.4g} Hz" in motion.notes[1]
    # Chosen so that noise stays white: two samples for each period of the cutoff.
    assert motion.bandwidth == pytest.approx(0.5 * motion.sample_rate, rel=0.01)
    assert motion.effective_count == pytest.approx(len(motion), rel=0.01)
    assert motion.origin == recording.origin
    for part in (motion.between(0, 9), motion.thinned(2), motion.where(motion.time > 4.0), next(motion.chunks(7))):
        assert (part.origin, part.notes) == (motion.origin, motion.notes)
    asked = reconstruct_motion(model, recording, smoothing="cubic", window=0.25)
    assert "local cubics over 0.25 s on each side" in asked.notes[0]
    assert asked.notes[0].endswith("as requested")
    assert asked.sample_rate == pytest.approx(2.0 * 1.37, rel=0.02)


def test_offsets_are_added_to_the_positions():
    model, recording = g1_dance()
    plain = reconstruct_motion(model, recording, cutoff=5.0)
    shifted = reconstruct_motion(model, recording, cutoff=5.0, offsets={"left_knee_joint": 0.1})
    change = np.zeros(len(model.joints))
    change[model.joints.index("left_knee_joint")] = 0.1
    np.testing.assert_allclose(shifted.q, plain.q + change, atol=1e-12)
    np.testing.assert_array_equal(shifted.a, plain.a)


def test_commanded_positions_share_the_clock_and_the_measurements():
    model, recording = g1_dance()
    measured = reconstruct_motion(model, recording, base="sole")
    commanded = reconstruct_motion(model, recording, positions="q_command")
    assert commanded.base == model.bodies[0].name
    np.testing.assert_array_equal(commanded.time, measured.time)
    np.testing.assert_array_equal(commanded.wrenches["left_foot"], measured.wrenches["left_foot"])
    apart = np.abs(commanded.q - measured.q)
    assert 0.0 < apart.max() < 0.2
    correlation = np.corrcoef(commanded.a.ravel(), measured.a.ravel())[0, 1]
    assert correlation > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base": "legs"}, r"the base is 'legs'; choose 'imu', 'sole', 'pose' or 'fixed'"),
        ({"base": "pose"}, r"has no column 'base.position.x'; base='pose' needs base.position.x, y, z and base.quat.x"),
        ({"base": "fixed"}, r"g1_.* has a floating base; choose another base, or load the model with base='fixed'"),
        ({"imu": "head"}, r"no IMU head \(it has 'pelvis'"),
        ({"base": "sole", "sole": "middle"}, r"no sole middle \(it has 'left', 'right'\)"),
        ({"base": "sole", "imu": "pelvis"}, r"imu='pelvis' is given, but the base is 'sole'"),
        ({"sole": "left"}, r"sole='left' is given, but the base is 'imu'"),
        ({"smoothing": "spline"}, r"the smoothing is 'spline'; choose 'butterworth' or 'cubic'"),
        ({"window": 0.2}, r"a Butterworth filter has no window; give a cutoff, or smoothing='cubic'"),
        ({"smoothing": "cubic", "window": 0.2, "cutoff": 3.0}, r"a window or a cutoff; give one of them"),
        ({"smoothing": "cubic", "window": 0.001}, r"holds 0 samples at 500 Hz"),
        ({"smoothing": "cubic", "cutoff": -1.0}, r"the cutoff is -1.0 Hz; it must be a positive number"),
        ({"cutoff": 260.0}, r"a cutoff of 260 Hz is too high for a sample rate of 500 Hz; choose one below 200 Hz"),
        ({"cutoff": 0.0}, r"the cutoff is 0.0 Hz"),
        ({"order": 1}, r"the order of the filter is 1"),
        ({"cutoff": 0.2}, r"no gap-free segment longer than the 3\d.\d s that .* needs"),
        ({"positions": "q_wanted"}, r"positions is 'q_wanted'; choose 'q' \(measured\) or 'q_command'"),
        ({"offsets": {"left_nee_joint": 0.1}}, r"no joint 'left_nee_joint' to add an offset to; did you mean"),
        ({"offsets": {"left_knee_joint": np.nan}}, r"the offset of 'left_knee_joint' is nan"),
        ({"offsets": {"left_knee_joint": "a"}}, r"the offset of 'left_knee_joint' is 'a'; give rad or m"),
        ({"offsets": [0.1]}, r"offsets are \[0.1\]; give numbers by joint"),
        ({"cutoff": True}, r"the cutoff is True Hz; it must be a positive number"),
        ({"cutoff": "fast"}, r"the cutoff is 'fast' Hz; it must be a positive number"),
        ({"smoothing": "cubic", "cutoff": "fast"}, r"the cutoff is 'fast' Hz; it must be a positive number"),
    ],
)
def test_what_does_not_fit_is_said_in_one_sentence(options, message):
    model, recording = g1_dance()
    for run in (reconstruct_motion, lambda *args, **kwargs: list(stream_motion(*args, **kwargs))):
        with pytest.raises(MotionError, match=message):
            run(model, recording, **options)


def test_a_file_is_not_a_recording():
    with pytest.raises(MotionError, match=r"a Recording is needed, not a str; load a file with read_recording"):
        reconstruct_motion(robot("g1"), "dance.csv")


def test_what_is_missing_is_named():
    model, recording = g1_dance()
    without = recording.select([name for name in recording.columns if name != "q.left_knee_joint"])
    with pytest.raises(RecordingError, match=r"no column 'q.left_knee_joint'"):
        reconstruct_motion(model, without)
    with pytest.raises(RecordingError, match=r"no column 'pelvis.accel.x'"):
        reconstruct_motion(model, recording.select([name for name in recording.columns if "accel" not in name]))
    with pytest.raises(MotionError, match=r"no gap-free segment longer than the 0.\d+ s"):
        reconstruct_motion(model, recording.between(0.0, 0.3), cutoff=10.0)
    with pytest.raises(MotionError, match=r"has one row; a motion needs many"):
        reconstruct_motion(model, recording.rows(7, 8))
    with pytest.raises(MotionError, match=r"no gap-free segment"):
        reconstruct_motion(model, recording.rows(7, 9))
    with pytest.raises(MotionError, match=r"rows is 0; give an integer"):
        stream_motion(model, recording, rows=0)
