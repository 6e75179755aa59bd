"""Pieces are the whole; a planted sole tells the same of the root as an inertial sensor on it."""

import numpy as np
import pytest

from steelyard import MotionError, gather_evidence
from steelyard.motion import reconstruction
from steelyard.motion.kinematics import frame_motion
from steelyard.motion.reconstruction import motion_pieces, reconstruct_from_imu, reconstruct_from_sole
from tests.laboratory.trials import robot, short_trial

FIELDS = ("time", "q", "v", "a", "angular_velocity", "angular_acceleration", "proper_acceleration")


def joined(pieces, field):
    return np.concatenate([getattr(piece, field) for piece in pieces])


@pytest.mark.parametrize("rows", [300, 1000, 100_000])
def test_pieces_together_are_the_whole(monkeypatch, rows):
    model, recording = robot("g1"), short_trial("g1", "dance", noise="default").recording
    monkeypatch.setattr(reconstruction, "_PIECE_ROWS", rows)
    whole = reconstruct_from_imu(model, recording)
    pieces = list(motion_pieces(model, recording))
    assert all(len(piece) <= rows for piece in pieces)
    assert len(pieces) >= len(whole) // rows
    for field in FIELDS:
        scale = np.abs(getattr(whole, field)).max()
        np.testing.assert_allclose(joined(pieces, field), getattr(whole, field), rtol=0.0, atol=1e-6 * scale)
    for sensor, values in whole.wrenches.items():
        found = np.concatenate([piece.wrenches[sensor] for piece in pieces])
        np.testing.assert_allclose(found, values, rtol=0.0, atol=1e-6 * np.abs(values).max())


def test_a_gap_cuts_the_motion_and_nothing_crosses_it(monkeypatch):
    monkeypatch.setattr(reconstruction, "_PIECE_ROWS", 700)
    model, recording = robot("g1"), short_trial("g1", "dance", noise="default").recording
    silent = np.where((recording.time > 3.0) & (recording.time < 3.2), np.nan, recording.column("left_foot.fz"))
    by_mask = recording.with_values({**recording.values, "left_foot.fz": silent})
    keep = ~((recording.time > 3.0) & (recording.time < 3.2))
    by_clock = type(recording)(recording.time[keep], {name: values[keep] for name, values in recording.values.items()})
    halves = [recording.between(0.0, 3.0005), recording.between(3.2, 99.0)]
    expected = [reconstruct_from_imu(model, half) for half in halves]
    for cut in (by_mask, by_clock):
        pieces = list(motion_pieces(model, cut))
        times = joined(pieces, "time")
        assert not np.any((times > 2.71) & (times < 3.49)), "the filter's length is dropped on both sides"
        np.testing.assert_allclose(times, joined(expected, "time"), rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(joined(pieces, "a"), joined(expected, "a"), rtol=0.0, atol=1e-5)
    assert gather_evidence(model, motion_pieces(model, by_mask)).sample_count == len(times)


def test_uneven_times_are_put_on_even_ones():
    model, recording = robot("g1"), short_trial("g1", "dance", noise="default").recording
    shaken = recording.time + np.random.default_rng(0).uniform(-0.0004, 0.0004, len(recording))
    values = {name: np.interp(shaken, recording.time, column) for name, column in recording.values.items()}
    uneven = type(recording)(shaken, {name: column for name, column in values.items() if "quat" not in name})
    with pytest.raises(MotionError, match=r"not evenly spaced"):
        reconstruct_from_imu(model, uneven)
    whole = reconstruct_from_imu(model, recording)
    pieces = list(motion_pieces(model, uneven))
    for number, _ in enumerate(model.joints):
        found = np.interp(whole.time[10:-10], joined(pieces, "time"), joined(pieces, "q")[:, number])
        np.testing.assert_allclose(found, whole.q[10:-10, number], atol=2e-4)


def test_nothing_usable_is_an_error():
    model, recording = robot("g1"), short_trial("g1", "dance", noise="default").recording
    with pytest.raises(MotionError, match=r"no stretch without gaps that is long enough"):
        list(motion_pieces(model, recording.between(0.0, 0.3)))


@pytest.mark.parametrize("name", ["g1", "talos", "icub", "romeo"])
def test_a_planted_sole_tells_what_the_inertial_sensor_reads(name):
    model, recording = robot(name), short_trial(name, "sway").recording
    imu = model.setup.imus[0]
    for sole in model.setup.soles:
        motion = reconstruct_from_sole(model, recording, sole=sole.name)
        seen = frame_motion(model, motion, imu.frame)
        rows = np.searchsorted(recording.time, motion.time)
        accel = np.stack([recording.column(f"{imu.name}.accel.{axis}") for axis in "xyz"], axis=1)[rows]
        gyro = np.stack([recording.column(f"{imu.name}.gyro.{axis}") for axis in "xyz"], axis=1)[rows]
        # Soles give way a little: the ground is soft.
        np.testing.assert_allclose(seen.in_own_axes(seen.proper_acceleration), accel, atol=0.25)
        np.testing.assert_allclose(seen.in_own_axes(seen.angular_velocity), gyro, atol=0.02)


def test_an_unknown_sole_is_named():
    model, recording = robot("g1"), short_trial("g1", "sway").recording
    with pytest.raises(MotionError, match=r"no sole middle \(it has 'left', 'right'\)"):
        reconstruct_from_sole(model, recording, sole="middle")
