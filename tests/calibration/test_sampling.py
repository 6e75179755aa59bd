"""Poses from recordings: averaged over windows, in any order of signs, in pieces as in one, gaps left out."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from steelyard import Recording, RecordingError, sample_poses
from steelyard.calibration.pictures import draw_heights, draw_poses
from tests.calibration.standing import chained, flat, offsets_of, readings, robot

JOINTS = chained("g1", ("pelvis",))


def turning(count=600, rate=100.0, **changes):
    """Gives a recording in which knees bend and the pelvis turns at a steady pace."""
    time = np.arange(count) / rate
    columns = {f"q.{joint}": np.full(count, 0.1) for joint in robot("g1").joints}
    columns["q.left_knee_joint"] = 0.2 * time
    quaternions = (
        Rotation.from_euler("z", 0.1 * time[:, None]).as_quat() * np.where(np.arange(count) % 7 < 3, -1.0, 1.0)[:, None]
    )
    columns |= {f"pelvis.quat.{axis}": quaternions[:, number] for number, axis in enumerate("xyzw")}
    return Recording(time, columns | changes, "turning")


def test_readings_are_averaged_around_even_times():
    poses = sample_poses(robot("g1"), turning(), joints=JOINTS, interval=0.5, window=0.1)
    assert np.allclose(np.diff(poses.time), 0.5)
    knee = poses.positions[:, robot("g1").joints.index("left_knee_joint")]
    np.testing.assert_allclose(knee, 0.2 * poses.time, atol=1e-3)
    heading = Rotation.from_quat(poses.orientations["pelvis"]).as_euler("xyz")[:, 2]
    np.testing.assert_allclose(heading, 0.1 * poses.time, atol=1e-3)


def test_pieces_give_what_the_whole_gives(monkeypatch):
    whole = sample_poses(robot("g1"), turning(), joints=JOINTS)
    monkeypatch.setattr("steelyard.recording.recording.CHUNK_BYTES", 8 * 34 * 37)
    parts = sample_poses(robot("g1"), turning(), joints=JOINTS)
    np.testing.assert_allclose(parts.positions, whole.positions, atol=1e-12)
    turn = Rotation.from_quat(parts.orientations["pelvis"]) * Rotation.from_quat(whole.orientations["pelvis"]).inv()
    assert turn.magnitude().max() < 1e-7


def test_poses_without_readings_are_left_out():
    knee = np.array(0.2 * np.arange(600) / 100.0)
    knee[200:300] = np.nan
    poses = sample_poses(robot("g1"), turning(**{"q.left_knee_joint": knee}), joints=JOINTS, interval=0.2)
    assert not np.any((poses.time > 2.05) & (poses.time < 2.95))
    assert np.any(poses.time > 3.0)


def test_several_recordings_are_joined_and_joints_that_are_not_needed_may_be_missing():
    short = turning(300)
    without = short.with_values({name: each for name, each in short.values.items() if name != "q.left_elbow_joint"})
    both = sample_poses(robot("g1"), [turning(), without], joints=JOINTS, touching={"left": [(0.0, 1.0)]})
    assert len(both) == len(sample_poses(robot("g1"), turning(), joints=JOINTS)) + len(
        sample_poses(robot("g1"), short, joints=JOINTS)
    )
    assert both.touches("left").sum() < both.touches("right").sum() == len(both)


def test_what_is_missing_is_named():
    with pytest.raises(RecordingError, match=r"q\.left_knee_joint"):
        sample_poses(robot("g1"), turning(**{"q.left_knee_joint": np.full(600, np.nan)}), joints=JOINTS)
    with pytest.raises(RecordingError, match="pelvis"):
        sample_poses(robot("g1"), turning(), joints=JOINTS, imus=["pelvs"])
    with pytest.raises(RecordingError, match="positive seconds"):
        sample_poses(robot("g1"), turning(), joints=JOINTS, interval=0.0)
    with pytest.raises(RecordingError, match="no recording"):
        sample_poses(robot("g1"), [], joints=JOINTS)


def test_pictures_are_drawn(tmp_path):
    from steelyard import calibrate

    found = calibrate(robot("g1"), readings("g1", flat("g1")[:20], ("pelvis",), offsets_of(JOINTS)))
    for draw in (draw_heights, draw_poses):
        draw(found, tmp_path / "picture.png")
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
        with pytest.raises(RecordingError, match="cannot be written"):
            draw(found, tmp_path / "nowhere" / "picture.png")
