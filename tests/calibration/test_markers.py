"""Markers of motion capture: offsets, marker placements and the base's placement come back, in millimetres as measured.

The oracle for placements and distances is Pinocchio.
"""

import json
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from scipy.spatial.transform import Rotation

from steelyard import (
    IdentifiabilityError,
    Marker,
    ModelError,
    PoseSet,
    Recording,
    RecordingError,
    load_model,
    read_recording,
)
from steelyard.calibration import calibrate, sample_poses
from steelyard.calibration.frame_chains import chains_to
from steelyard.model import parse_setup, setup_tables
from steelyard.recording import parse_column, sensor_of
from tests.calibration.standing import DEGREE, QUIET, chained, flat, offsets_of, readings, robot
from tests.calibration.talos_arm import TALOS_ARM, talos_left_arm

HAND = "right_wrist_yaw_link"
PLACES = {
    "palm": (HAND, [0.08, 0.03, -0.02]),
    "thumb": (HAND, [0.05, -0.04, 0.03]),
    "elbow": ("right_elbow_link", [0.02, 0.05, 0.01]),
}
BASE = pin.SE3(Rotation.from_rotvec([0.3, -0.4, 2.0]).as_matrix(), np.array([1.0, -2.0, 0.7]))
MARKERS = tuple(Marker(name, frame) for name, (frame, _) in PLACES.items())
EXACT = replace(QUIET, marker=1e-9)


def fixed():
    return load_model(robot("g1").description.file.path, base="fixed")


def arm_joints(model):
    """Return the joints whose offsets neither a turn of the base nor one of the markers on their link can replace."""
    return chains_to(model, [HAND]).joints[1:-1]


def see(model, positions, places=PLACES, base=BASE):
    """Return the markers' positions in the capture's frame, by Pinocchio."""
    built, data = model.pinocchio, model.pinocchio.createData()
    seen = {name: np.empty((len(positions), 3)) for name in places}
    for number, q in enumerate(positions):
        pin.framesForwardKinematics(built, data, q)
        for name, (frame, place) in places.items():
            seen[name][number] = base.act(data.oMf[built.getFrameId(frame)].act(np.array(place)))
    return seen


def measure(model, truth, count=60, seed=0, marker=0.0, encoder=0.0):
    """Return random poses of the arm as encoders and cameras see them."""
    rng = np.random.default_rng([seed, 7])
    positions = np.zeros((count, len(model.joints)))
    columns = [model.joints.index(joint) for joint in chains_to(model, [HAND]).joints]
    positions[:, columns] = rng.uniform(-1.0, 1.0, (count, len(columns)))
    seen = {name: each + rng.normal(0.0, 1.0, each.shape) * marker for name, each in see(model, positions).items()}
    for joint, offset in truth.items():
        positions[:, model.joints.index(joint)] -= offset
    positions[:, columns] += rng.normal(0.0, 1.0, (count, len(columns))) * encoder
    return PoseSet(model, 15.0 * np.arange(count), positions, {}, seen)


def test_perfect_markers_give_back_offsets_marker_placements_and_the_base():
    model = fixed()
    truth = offsets_of(arm_joints(model))
    poses = measure(model, truth)
    found = calibrate(model, poses, joints=list(truth), markers=MARKERS, noise=EXACT)
    for joint, offset in truth.items():
        assert found.values[joint] == pytest.approx(offset, abs=1e-8)
    result = found.marker_fit
    for name, (frame, place) in PLACES.items():
        assert result.placements[name].frame == frame
        np.testing.assert_allclose(result.placements[name].position, place, atol=1e-8)
    np.testing.assert_allclose(result.base.position, BASE.translation, atol=1e-8)
    np.testing.assert_allclose(result.base.rotation, BASE.rotation, atol=1e-8)
    assert result.after.greatest < 1e-8
    assert result.held_out.greatest < 1e-8
    assert result.before.rms > 1e-2


def test_millimetres_are_those_of_a_direct_computation():
    model = fixed()
    truth = offsets_of(arm_joints(model), most=2.0)
    poses = measure(model, truth, marker=1e-3)
    masked = {name: np.array(each) for name, each in poses.markers.items()}
    masked["elbow"][5] = np.nan
    poses = replace(poses, markers=masked)
    found = calibrate(model, poses, joints=list(truth), markers=MARKERS)
    result = found.marker_fit
    positions = np.array(poses.positions)
    for joint, offset in found.values.items():
        positions[:, model.joints.index(joint)] += offset
    base = pin.SE3(result.base.rotation, result.base.position)
    places = {name: (each.frame, each.position) for name, each in result.placements.items()}
    predicted = see(model, positions, places, base)
    away = np.stack([np.linalg.norm(predicted[name] - masked[name], axis=1) for name in PLACES], axis=1)
    np.testing.assert_allclose(result.distances_after, away, atol=1e-12)
    told = found.to_dict()["markers"]["distances_mm"]["after"]
    assert told["rms"] == pytest.approx(1e3 * np.sqrt(np.nanmean(away**2)))
    assert told["mean"] == pytest.approx(1e3 * np.nanmean(away))
    assert told["greatest"] == pytest.approx(1e3 * np.nanmax(away))
    # Noise of 1 mm along each axis, of which the fit takes up a little: what was not used is farther off.
    assert result.after.rms == pytest.approx(np.sqrt(3.0) * 1e-3, rel=0.15)
    assert result.after.rms < result.held_out.rms < 1.3 * result.after.rms
    assert f"{1e3 * result.after.rms:.2f} mm" in found.summary()
    assert json.dumps(found.to_dict())


def test_without_offsets_the_placements_alone_are_fitted():
    """No placements of base and markers come closer than those that count as before."""
    model = fixed()
    truth = offsets_of(arm_joints(model), most=2.0)
    found = calibrate(model, measure(model, truth), joints=list(truth), markers=MARKERS[:1])
    positions, seen = found.poses.positions, found.poses.markers["palm"]
    rng = np.random.default_rng(0)
    before = found.marker_fit.before.rms
    built, data = model.pinocchio, model.pinocchio.createData()
    frames = []
    for q in positions:
        pin.framesForwardKinematics(built, data, q)
        frames.append(data.oMf[built.getFrameId(HAND)].copy())
    for _ in range(20):
        place = rng.normal(0.0, 0.05, 3)
        inside = np.array([frame.act(place) for frame in frames])
        _, rssd = Rotation.align_vectors(seen - seen.mean(axis=0), inside - inside.mean(axis=0))
        assert rssd / np.sqrt(len(seen)) >= before * (1.0 - 1e-9)


def test_errors_are_as_large_as_they_are_said_to_be():
    model = fixed()
    truth = offsets_of(arm_joints(model))
    scaled = {"marker": [], "position": [], "rotation": []}
    for seed in range(12):
        poses = measure(model, truth, seed=seed, marker=0.5e-3, encoder=0.02 * DEGREE)
        result = calibrate(model, poses, joints=list(truth), markers=MARKERS, robust=False).marker_fit
        for name, (_, place) in PLACES.items():
            each = result.placements[name]
            scaled["marker"].append((each.position - place) / each.standard_errors)
        base = result.base
        scaled["position"].append((base.position - BASE.translation) / base.position_errors)
        turn = Rotation.from_matrix(base.rotation @ BASE.rotation.T).as_rotvec()
        scaled["rotation"].append(turn / base.rotation_errors)
    for what, each in scaled.items():
        # 36 or 108 errors: mean squares within about a half of one.
        assert 0.5 < np.mean(np.square(each)) < 1.7, what


def test_what_a_turn_of_the_base_replaces_has_the_uncertainty_of_the_offset():
    """The first joint's offset, 5° by its prior, turns the base as seen by the markers by as much."""
    model = fixed()
    first = chains_to(model, [HAND]).joints[0]
    truth = offsets_of([*arm_joints(model)])
    found = calibrate(model, measure(model, truth, marker=1e-3), joints=[first, *truth], markers=MARKERS)
    assert not found.observable[first]
    errors = found.marker_fit.base.rotation_errors
    assert np.linalg.norm(errors) == pytest.approx(5.0 * DEGREE, rel=0.05)


def test_a_known_placement_on_the_link_makes_the_last_joint_observable():
    model = fixed()
    joints = chains_to(model, [HAND]).joints
    truth = offsets_of(joints[1:])
    poses = measure(model, truth, marker=0.2e-3)
    free = calibrate(model, poses, joints=list(truth), markers=MARKERS)
    known = tuple(Marker(name, frame, place, 1e-3) for name, (frame, place) in PLACES.items())
    held = calibrate(model, poses, joints=list(truth), markers=known)
    assert not free.observable[joints[-1]]
    assert held.observable[joints[-1]]
    assert abs(held.values[joints[-1]] - truth[joints[-1]]) < 4.0 * held.standard_errors[joints[-1]]


def test_a_floating_base_has_a_placement_in_every_pose():
    model, imus = robot("g1"), ("pelvis",)
    truth = offsets_of(chained("g1", imus))
    q = flat("g1")[:60]
    places = {"chest": ("torso_link", [0.1, 0.05, 0.2]), "knee": ("left_knee_link", [0.02, 0.1, 0.0])}
    base = pin.SE3(Rotation.from_rotvec([0.0, 0.0, 1.1]).as_matrix(), np.array([0.4, 0.2, 0.0]))
    poses = replace(readings("g1", q, imus, truth), markers=see(model, q, places, base))
    markers = [Marker(name, frame) for name, (frame, _) in places.items()]
    found = calibrate(model, poses, markers=markers, joints=list(truth), noise=EXACT, mounting=0.0)
    assert found.marker_fit.after.greatest < 1e-8
    placed = found.marker_fit.base
    assert placed.rotation.shape == (60, 3, 3)
    for pose, each in enumerate(q):
        true = base * pin.XYZQUATToSE3(each[:7])
        np.testing.assert_allclose(placed.rotation[pose], true.rotation, atol=1e-7)
        np.testing.assert_allclose(placed.position[pose], true.translation, atol=1e-6)
    assert placed.position_errors.max() < 1e-6


def as_recording(poses, markers=None, scale=1.0):
    model = poses.model
    columns = {f"q.{joint}": poses.positions[:, number] for number, joint in enumerate(model.joints)}
    for name in poses.markers if markers is None else markers:
        columns |= {f"marker.{name}.{axis}": scale * poses.markers[name][:, k] for k, axis in enumerate("xyz")}
    return Recording(poses.time, columns)


def test_rows_that_are_postures_are_taken_as_they_are_and_gaps_are_masked():
    """Rows farther apart than the interval of poses are poses; a lost marker is empty, or at the origin."""
    model = fixed()
    truth = offsets_of(arm_joints(model), most=2.0)
    poses = measure(model, truth, marker=1e-3)
    gaps = {name: np.array(each) for name, each in poses.markers.items()}
    gaps["palm"][3, 1] = np.nan
    poses = replace(
        poses, markers={name: np.where(np.isfinite(x).all(1)[:, None], x, np.nan) for name, x in gaps.items()}
    )
    gaps["palm"][4] = 0.0
    recording = as_recording(replace(poses, markers=gaps))
    read = sample_poses(model, recording, joints=chains_to(model, [HAND]).joints, markers=list(PLACES))
    np.testing.assert_array_equal(read.time, poses.time)
    np.testing.assert_array_equal(read.positions, poses.positions)
    assert np.isnan(read.markers["palm"][3:5]).all()
    lost = {name: np.array(each) for name, each in poses.markers.items()}
    lost["palm"][4] = np.nan
    direct = calibrate(model, replace(poses, markers=lost), joints=list(truth), markers=MARKERS)
    again = calibrate(model, recording, joints=list(truth), markers=MARKERS)
    assert again.values == pytest.approx(direct.values)
    assert again.marker_fit.held_out.rms == pytest.approx(direct.marker_fit.held_out.rms)


def test_dense_recordings_are_averaged_and_cross_validated_in_blocks_of_time():
    model = fixed()
    truth = offsets_of(arm_joints(model), most=2.0)
    slow = measure(model, truth, count=40)
    time = np.arange(0.0, 60.0, 0.02)
    knots = np.linspace(0.0, 60.0, 40)
    positions = np.stack([np.interp(time, knots, column) for column in slow.positions.T], axis=1)
    shifted = np.array(positions)
    for joint, offset in truth.items():
        shifted[:, model.joints.index(joint)] += offset
    seen = see(model, shifted)
    rng = np.random.default_rng(0)
    seen = {name: each + rng.normal(0.0, 1e-3, each.shape) for name, each in seen.items()}
    found = calibrate(
        model, as_recording(PoseSet(model, time, positions, {}, seen)), joints=list(truth), markers=MARKERS
    )
    # Windows of 0.05 s hold two or three readings.
    assert found.marker_fit.after.rms < 1.6e-3
    assert len(found.poses) > 250
    for joint, offset in truth.items():
        assert abs(found.values[joint] - offset) < 5.0 * found.standard_errors[joint]


SETUP = {
    "marker": [
        {"name": "palm", "frame": HAND, "position": [0.1, 0.0, 0.0]},
        {"name": "elbow", "frame": "right_elbow_link", "position": [0.0, 0.05, 0.0], "deviation": 0.02},
    ]
}


def test_the_setup_says_which_link_carries_a_marker():
    setup = parse_setup(SETUP)
    path = robot("g1").description.file.path
    model = load_model(path, setup=setup, base="fixed")
    truth = offsets_of(arm_joints(model), most=2.0)
    poses = measure(model, truth, marker=1e-3)
    found = calibrate(model, as_recording(poses), joints=list(truth))
    assert list(found.marker_fit.placements) == ["palm", "elbow"]
    assert any("'thumb'" in note and "[[marker]]" in note for note in found.notes)
    only = calibrate(model, as_recording(poses, ["palm"]), joints=list(truth))
    assert list(only.marker_fit.placements) == ["palm"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"name": "palm", "frame": "right_wrist_yaw_lnk"}, HAND),
        ({"name": "palm", "frame": HAND, "positon": [0, 0, 0]}, "position"),
        ({"name": "palm", "frame": HAND, "position": [0, 0]}, r"\[x, y, z\]"),
        ({"name": "palm", "frame": HAND, "deviation": -1.0}, "positive"),
        ({"name": "palm"}, "frame"),
    ],
)
def test_a_wrong_marker_in_the_setup_is_told_with_the_nearest_name(entry, words):
    with pytest.raises(ModelError, match=words):
        load_model(robot("g1").description.file.path, setup=parse_setup({"marker": [entry]}), base="fixed")


def test_markers_called_alike_are_refused():
    with pytest.raises(ModelError, match=r"two .*marker.* are called 'palm'"):
        parse_setup({"marker": [{"name": "palm", "frame": HAND}] * 2})


def test_bad_markers_are_told():
    model = fixed()
    with pytest.raises(RecordingError, match="is no recording"):
        calibrate(model, 5)
    truth = offsets_of(arm_joints(model), most=2.0)
    poses = measure(model, truth, marker=1e-3)
    with pytest.raises(RecordingError, match="millimetres"):
        calibrate(model, as_recording(poses, scale=1e3), joints=list(truth), markers=MARKERS)
    with pytest.raises(RecordingError, match=r"marker\.pinky\.x"):
        calibrate(model, as_recording(poses), markers=[Marker("pinky", HAND)])
    with pytest.raises(IdentifiabilityError, match="did you mean 'palm'"):
        calibrate(model, poses, markers=[Marker("plam", HAND)])
    with pytest.raises(IdentifiabilityError, match=r"\[\[marker\]\]"):
        calibrate(model, as_recording(poses))
    with pytest.raises(IdentifiabilityError, match=r"left_wrist_yaw_link.*whatever the offsets"):
        calibrate(model, poses, markers=[Marker("palm", "left_wrist_yaw_link")])


def test_the_real_arm_of_talos_is_calibrated_to_a_millimetre_and_a_half(tmp_path):
    """Ten-fold cross-validation of 61 postures, all counted: 1.35 mm in the mean, from a CSV with names of its own."""
    path = tmp_path / "talos_arm.toml"
    path.write_text(TALOS_ARM)
    model = load_model(path)
    found = calibrate(model, read_recording(talos_left_arm(), model))
    assert len(found.poses) == 61
    result = found.marker_fit
    assert 1e3 * result.held_out.mean == pytest.approx(1.35, abs=0.01)
    assert result.after.rms < result.held_out.rms < 1.8e-3
    assert 1e3 * result.before.mean == pytest.approx(4.56, abs=0.01)
    assert 1e3 * result.before.greatest == pytest.approx(10.8, abs=0.1)


def test_columns_of_markers_have_a_name_and_no_place_in_a_bag(tmp_path):
    assert str(parse_column("marker.r.ASIS.x")) == "marker.r.ASIS.x"
    assert parse_column("marker.r.ASIS.x").owner == "r.ASIS"
    assert parse_column("marker.hand.w") is None
    assert parse_column("marker.x") is None
    assert sensor_of("marker.hand.x") is None
    model = fixed()
    recording = as_recording(measure(model, {}, count=5))
    recording.write(tmp_path / "arm.parquet")
    again = read_recording(tmp_path / "arm.parquet", model)
    np.testing.assert_array_equal(again.column("marker.palm.x"), recording.column("marker.palm.x"))
    with pytest.raises(RecordingError, match="fits no ROS message"):
        recording.write(tmp_path / "arm.mcap")


def test_markers_of_a_setup_are_stored_with_results():
    setup = parse_setup(SETUP)
    again = parse_setup(setup_tables(setup))
    for one, other in zip(setup.markers, again.markers, strict=True):
        assert (one.name, one.frame, one.deviation) == (other.name, other.frame, other.deviation)
        np.testing.assert_array_equal(one.position, other.position)
