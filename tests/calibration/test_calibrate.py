"""Offsets come back, within their errors as often as they say; what cannot be known is said; bad input is told."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.spatial.transform import Rotation

from steelyard import (
    IdentifiabilityError,
    ModelError,
    Recording,
    RecordingError,
    load_model,
    read_offsets,
    reconstruct_motion,
)
from steelyard.calibration import Contact, Marker, PlainSums, PoseNoise, PoseSet, Touch, calibrate, soles_as_contacts
from steelyard.calibration.calibration_problem import CalibrationProblem
from steelyard.calibration.frame_chains import chains_to
from steelyard.calibration.observability import observe
from steelyard.calibration.starting_states import starting_states
from tests.calibration.standing import DEGREE, QUIET, USUAL, chained, flat, offsets_of, readings, robot, uneven


def errors(found, truth):
    return np.array([found.values[joint] - truth[joint] for joint in found.joints])


@pytest.mark.parametrize(
    ("name", "imus"), [("g1", ("pelvis",)), ("g1", ("pelvis", "torso")), ("talos", ("torso",)), ("romeo", None)]
)
def test_perfect_readings_give_back_every_offset_that_shows(name, imus):
    imus = imus or tuple(imu.name for imu in robot(name).setup.imus)
    truth = offsets_of(chained(name, imus))
    found = calibrate(robot(name), readings(name, flat(name), imus, truth), noise=QUIET, mounting=0.0)
    shown = np.array([found.observable[joint] for joint in found.joints])
    assert shown.sum() >= 12
    np.testing.assert_allclose(errors(found, truth)[shown], 0.0, atol=1e-8)
    assert np.sqrt(np.mean(found.heights_after**2)) < 1e-8
    assert np.sqrt(np.mean(found.heights_before**2)) > 1e-3


def test_an_offset_is_what_is_added_to_the_reading():
    joints = chained("g1", ("pelvis",))
    truth = dict.fromkeys(joints, 0.0) | {"left_knee_joint": 0.05}
    found = calibrate(robot("g1"), readings("g1", flat("g1"), ("pelvis",), truth), noise=QUIET, mounting=0.0)
    assert found.values["left_knee_joint"] == pytest.approx(0.05, abs=1e-8)
    assert abs(found.values["right_knee_joint"]) < 1e-8


def test_errors_are_as_large_as_they_say_whether_noise_is_known_or_found():
    joints = chained("g1", ("pelvis",))
    truth = offsets_of(joints)
    noise = PoseNoise(orientation=0.4 * DEGREE, flatness=1e-3)
    known, found = [], []
    for seed in range(8):
        poses = readings("g1", flat("g1"), ("pelvis",), truth, noise, seed=seed)
        for given, each in ((noise, known), (None, found)):
            result = calibrate(robot("g1"), poses, noise=given, mounting=0.0)
            each.append(errors(result, truth) / np.array(list(result.standard_errors.values())))
    # 96 errors, alike within a robot: the mean square lies within about 40 % of one.
    for each in (known, found):
        assert 0.6 < np.mean(np.square(each)) < 1.5
    assert result.noise.orientation == pytest.approx(noise.orientation, rel=0.25)
    assert result.noise.flatness == pytest.approx(noise.flatness, rel=0.25)


def test_mounting_of_the_sensor_is_found_where_it_is_asked_for():
    imus = ("pelvis", "torso")
    truth = offsets_of(chained("g1", imus))
    turn = np.array([0.01, -0.015, 0.0])
    poses = readings("g1", flat("g1"), imus, truth, mounting=turn)
    blind = calibrate(robot("g1"), poses, noise=QUIET, mounting=0.0, robust=False)
    found = calibrate(robot("g1"), poses, noise=QUIET, mounting=np.inf)
    shown = np.array([found.observable[joint] for joint in found.joints])
    assert np.abs(errors(blind, truth)).max() > 1e-3
    assert shown.sum() >= 10
    np.testing.assert_allclose(errors(found, truth)[shown], 0.0, atol=1e-7)


def test_what_is_not_told_is_said_first_and_left_alone():
    # Legs that stay parallel: hips and ankles can roll against each other without any sole leaving the floor.
    poses = readings("talos", flat("talos", 60, 1), ("torso",), offsets_of(chained("talos", ("torso",))), USUAL)
    alone = calibrate(robot("talos"), poses.pick(slice(0, 10)), noise=USUAL)
    assert not alone.observable["leg_left_2_joint"]
    assert not alone.observable["leg_left_6_joint"]
    assert alone.observable["leg_left_4_joint"]
    wider = readings("talos", flat("talos"), ("torso",), offsets_of(chained("talos", ("torso",))), USUAL)
    assert calibrate(robot("talos"), wider, noise=USUAL).observable["leg_left_2_joint"]


def test_joints_in_a_row_that_nothing_tells_apart_are_named_together():
    # iCub's torso does not move here: its pitch and that of both hips are one.
    model = robot("icub")
    imus = tuple(imu.name for imu in model.setup.imus)
    poses = readings("icub", flat("icub", 40, 1), imus, offsets_of(chained("icub", imus)), USUAL)
    found = calibrate(model, poses, noise=USUAL, mounting=0.0)
    assert any("torso_pitch" in each and "l_hip_pitch" in each and "r_hip_pitch" in each for each in found.undetermined)
    assert not found.observable["torso_pitch"]
    assert found.standard_errors["torso_pitch"] > 2.0 * DEGREE
    assert "not observable" in found.summary()
    # What is told together is right together.
    truth = offsets_of(chained("icub", imus))
    wrong = {joint: found.values[joint] - truth[joint] for joint in found.joints}
    assert abs(wrong["torso_pitch"] + wrong["l_hip_pitch"]) < 1.0 * DEGREE


def tilted(q, contact, degrees, which):
    """Gives configurations in which a sole is tilted about its width in some poses."""
    q = np.array(q)
    joint = 7 + robot("g1").joints.index(f"{contact}_ankle_pitch_joint")
    q[which, joint] += degrees * DEGREE
    return q


def test_feet_that_are_not_flat_are_named_and_do_no_harm():
    joints = chained("g1", ("pelvis",))
    truth = offsets_of(joints)
    q, bad = flat("g1"), np.arange(5, 120, 10)
    q = uneven(robot("g1"), q, USUAL.flatness, np.random.default_rng(1))
    level = replace(USUAL, flatness=1e-9)
    clean = calibrate(robot("g1"), readings("g1", q, ("pelvis",), truth, level, seed=1))
    found = calibrate(robot("g1"), readings("g1", tilted(q, "left", 2.0, bad), ("pelvis",), truth, level, seed=1))
    named = {suspect.pose for suspect in found.suspect_poses}
    assert set(bad.tolist()) <= named
    assert len(named - set(bad.tolist())) <= 2
    guilty = [suspect.name for suspect in found.suspect_poses if suspect.pose in bad]
    assert np.mean([name == "left" for name in guilty]) > 0.8
    assert "left was not flat" in found.summary()
    assert np.linalg.norm(errors(found, truth)) < 1.5 * np.linalg.norm(errors(clean, truth)) + 0.05 * DEGREE


def test_hands_on_a_table_are_a_plane_of_their_own():
    """Palms at one height tell arms' offsets; what height the table has does not matter."""
    model = robot("g1")
    palm = np.array([[0.06, 0.02, 0.0], [0.06, -0.02, 0.0], [0.0, 0.0, 0.0]])
    palms = (
        Contact("left_hand", "left_wrist_yaw_link", palm, "table"),
        Contact("right_hand", "right_wrist_yaw_link", palm, "table"),
    )
    rng = np.random.default_rng(0)
    q = np.array(flat("g1", 120, 3))
    arms = [
        model.joints.index(joint)
        for joint in model.joints
        if "shoulder" in joint or "elbow" in joint or "wrist" in joint
    ]
    q[:, 7 + np.array(arms)] += rng.uniform(-0.5, 0.5, (len(q), len(arms)))
    q = laid_flat(model, q, palms, arms)
    imus = ("pelvis", "torso")
    contacts = (*soles_as_contacts(model), *palms)
    joints = chains_to(model, [contact.frame for contact in contacts]).joints
    truth = offsets_of(joints)
    found = calibrate(model, readings("g1", q, imus, truth), contacts=contacts, noise=QUIET, mounting=0.0)
    shown = np.array([found.observable[joint] for joint in found.joints])
    assert found.observable["left_elbow_joint"]
    np.testing.assert_allclose(errors(found, truth)[shown], 0.0, atol=1e-7)


def laid_flat(model, q, contacts, columns):
    """Gives configurations in which contacts lie flat at one height, by moving some joints."""
    problem = CalibrationProblem(PoseSet(model, np.arange(len(q)), q[:, 7:]), (), contacts)
    order = [problem.chains.joints.index(model.joints[column]) for column in columns]
    q = np.array(q)
    for _ in range(40):
        problem = CalibrationProblem(PoseSet(model, np.arange(len(q)), q[:, 7:]), (), contacts)
        state = starting_states(problem)[0]
        state = type(state)(**{**vars(state), "root": Rotation.from_quat(q[:, 3:7]).as_matrix()})
        linear = problem.linearise(state)
        rows = linear.residuals
        height = linear.by_pose[:, :, 3:]
        slopes = np.concatenate([linear.by_joint[:, :, order], height], axis=2)
        step = -np.einsum("nij,nj->ni", np.linalg.pinv(slopes, rcond=1e-3), rows)
        q[:, 7 + np.array(columns)] += np.clip(step[:, :-1], -0.2, 0.2)
    good = np.abs(rows - np.einsum("nij,nj->ni", height @ np.linalg.pinv(height), rows)).max(axis=1) < 1e-12
    assert good.sum() > 30
    return q[good]


def fixed_arm():
    """Gives G1's right arm, fixed at its pelvis, and the joints between."""
    model = load_model(robot("g1").description.file.path, base="fixed")
    return model, chains_to(model, ["right_wrist_yaw_link"]).joints


def arm_poses(model, joints, truth, count=80, seed=0):
    rng = np.random.default_rng(seed)
    positions = np.zeros((count, len(model.joints)))
    columns = [model.joints.index(joint) for joint in joints]
    positions[:, columns] = rng.uniform(-1.0, 1.0, (count, len(joints)))
    read = positions.copy()
    read[:, columns] -= np.array([truth[joint] for joint in joints])
    return positions, read


def test_a_marker_on_a_hand_tells_offsets_wherever_marker_and_robot_are():
    model, joints = fixed_arm()
    truth = offsets_of(joints)
    positions, read = arm_poses(model, joints, truth)
    chains = chains_to(model, ["right_wrist_yaw_link"])
    places = chains.place(positions)
    inside = places.positions[0] + places.rotations[0] @ np.array([0.08, 0.03, -0.02])
    world = Rotation.from_rotvec([0.3, -0.4, 2.0])
    seen = world.apply(inside) + np.array([1.0, -2.0, 0.7])
    rng = np.random.default_rng(1)
    seen += rng.normal(0.0, 1e-4, seen.shape)
    read += rng.normal(0.0, 0.02 * DEGREE, read.shape)
    seen[7] += [0.05, -0.05, 0.05]
    poses = PoseSet(model, np.arange(len(seen)), read, {}, {"hand": seen})
    found = calibrate(model, poses, contacts=(), markers=[Marker("hand", "right_wrist_yaw_link")])
    # One in two hundred sound poses is suspected too, by chance.
    assert min(found.suspect_poses, key=lambda suspect: suspect.chance).pose == 7
    assert len(found.suspect_poses) <= 3
    # The first joint turns the whole arm, as the laboratory's frame does; the last turns about the marker's link.
    assert not found.observable[joints[0]]
    shown = [joint for joint in joints if found.observable[joint]]
    assert len(shown) >= len(joints) - 3
    for joint in shown:
        assert abs(found.values[joint] - truth[joint]) < 4.0 * found.standard_errors[joint]
    assert found.noise.marker == pytest.approx(1e-4, rel=0.5)


@pytest.mark.parametrize("kind", ["point", "plane"])
def test_touching_one_place_again_and_again_tells_offsets(kind):
    model, joints = fixed_arm()
    truth = offsets_of(joints, most=2.0)
    tip = np.array([0.1, 0.02, 0.0])
    positions, _ = arm_poses(model, joints, truth, 120)
    chains = chains_to(model, ["right_wrist_yaw_link"])
    normal, place = np.array([0.2, 0.1, 1.0]) / np.linalg.norm([0.2, 0.1, 1.0]), np.array([0.25, -0.25, 0.2])
    for _ in range(60):
        places = chains.place(positions)
        points = places.positions[0] + places.rotations[0] @ tip
        slopes = chains.point_jacobian(places, 0, points)
        off = points - place
        if kind == "plane":
            slopes, off = (normal @ slopes)[:, None], (off @ normal)[:, None]
        positions[:, chains.columns] -= np.clip(
            np.einsum("nij,nj->ni", np.linalg.pinv(slopes, rcond=1e-2), off), -0.2, 0.2
        )
    there = np.abs(off).max(axis=1) < 1e-12
    assert there.sum() > 40
    read = positions[there].copy()
    read[:, chains.columns] -= np.array([truth[joint] for joint in joints])
    poses = PoseSet(model, np.arange(len(read)), read)
    quiet = PoseNoise(encoder=0.0, touch=1e-9)
    found = calibrate(model, poses, contacts=(), touches=[Touch("tip", "right_wrist_yaw_link", tip, kind)], noise=quiet)
    shown = [joint for joint in joints if found.observable[joint]]
    assert len(shown) >= 4
    for joint in shown:
        assert found.values[joint] == pytest.approx(truth[joint], abs=1e-6)


def test_a_recording_is_picked_from_and_the_rest_is_held_out(tmp_path):
    joints = chained("g1", ("pelvis",))
    truth = offsets_of(joints)
    poses = readings("g1", flat("g1"), ("pelvis",), truth, USUAL)
    columns = {
        f"q.{joint}": np.repeat(poses.positions[:, number], 3) for number, joint in enumerate(robot("g1").joints)
    }
    columns |= {
        f"pelvis.quat.{axis}": np.repeat(poses.orientations["pelvis"][:, number], 3)
        for number, axis in enumerate("xyzw")
    }
    columns["pelvis.quat.x"][::7] = np.nan
    recording = Recording(np.repeat(np.arange(120) * 0.2, 3) + np.tile([0.0, 0.01, 0.02], 120), columns)
    found = calibrate(robot("g1"), recording, imus=["pelvis"], poses=40, noise=USUAL)
    assert len(found.poses) == 40
    assert found.held_out.pose_count >= 70
    assert found.held_out.heights_after < 0.2 * found.held_out.heights_before
    clock = calibrate(robot("g1"), poses.pick(slice(0, 120, 3)), noise=USUAL)
    picked = np.linalg.slogdet(found.covariance)[1]
    assert picked < np.linalg.slogdet(clock.covariance)[1]
    # The file is what reconstruct_motion takes; the model's own file takes readings as they are.
    path = tmp_path / "offsets.json"
    found.write(path)
    assert read_offsets(path) == pytest.approx(found.values)
    found.write(tmp_path / "offsets.csv")
    found.write(tmp_path / "g1.urdf")
    assert json.dumps(found.to_dict())
    fixed = load_model(robot("g1").description.file.path, base="fixed")
    times = np.arange(200) / 100.0
    still = Recording(times, {f"q.{joint}": np.full(200, 0.3) for joint in fixed.joints})
    motion = reconstruct_motion(fixed, still, offsets=found)
    knee = fixed.joints.index("left_knee_joint")
    np.testing.assert_allclose(motion.q[:, knee], 0.3 + found.values["left_knee_joint"], atol=1e-9)


def test_poses_that_share_their_errors_are_not_counted_as_independent():
    """An inertial sensor whose error wanders over seconds, in poses taken more often than that."""
    joints = chained("g1", ("pelvis",))
    truth = offsets_of(joints)
    again = np.repeat(np.arange(80), 5)
    quiet = PoseNoise(orientation=1e-9, flatness=1e-9)
    exact = readings("g1", flat("g1")[again], ("pelvis",), truth, quiet)
    keep = np.exp(-0.2 / 3.0)
    shares = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        wander = lfilter([np.sqrt(1.0 - keep**2)], [1.0, -keep], rng.normal(size=(500, 3)), axis=0)[100:] * 0.4 * DEGREE
        read = (Rotation.from_quat(exact.orientations["pelvis"]) * Rotation.from_rotvec(wander)).as_quat()
        poses = PoseSet(exact.model, np.arange(400) * 0.2, exact.positions, {"pelvis": read})
        found = calibrate(robot("g1"), poses, mounting=0.0, poses=None)
        assert any("orientation errors are correlated" in note for note in found.notes)
        plain = observe(
            found.fit.problem, found.fit.solved.state, found.fit.solved.reduced.triangle(), np.full(12, 5.0 * DEGREE)
        )
        error = errors(found, truth)
        shares.append([error / list(found.standard_errors.values()), error / plain.standard_errors])
    counted, blind = np.mean(np.square(shares), axis=(0, 2))
    assert 0.4 < counted < 2.0
    assert blind > 3.0


# ------------------------------------------------------------------------------------------------ bad input


@pytest.fixture(scope="module")
def good():
    return readings("g1", flat("g1"), ("pelvis",), offsets_of(chained("g1", ("pelvis",))), USUAL)


def changed(poses, **changes):
    return PoseSet(
        **{"model": poses.model, "time": poses.time, "positions": poses.positions, "orientations": poses.orientations}
        | changes
    )


def test_one_pose_is_too_few(good):
    with pytest.raises(IdentifiabilityError, match="one pose"):
        calibrate(robot("g1"), good.pick(slice(0, 1)))


def test_poses_all_alike_tell_nothing(good):
    same = good.pick(np.zeros(30, dtype=int))
    with pytest.raises(IdentifiabilityError, match="all alike"):
        calibrate(robot("g1"), same)


def test_feet_that_are_never_flat_are_told(good):
    rng = np.random.default_rng(0)
    positions = good.positions + rng.uniform(-0.25, 0.25, good.positions.shape)
    with pytest.raises(IdentifiabilityError, match=r"not flat|do not fit"):
        calibrate(robot("g1"), changed(good, positions=positions))


def test_quaternions_that_are_scaled_are_refused(good):
    with pytest.raises(RecordingError, match="norm 2"):
        changed(good, orientations={"pelvis": 2.0 * good.orientations["pelvis"]})


@pytest.mark.parametrize(("order", "words"), [("wxyz", "order w x y z"), ("sideways", "lay them flat")])
def test_quaternions_in_another_order_are_found_by_what_they_do_to_the_soles(good, order, words):
    turned = Rotation.from_euler("z", 100.0 * DEGREE) * Rotation.from_quat(good.orientations["pelvis"])
    other = {
        "wxyz": np.roll(turned.as_quat(), 1, axis=1),
        "sideways": (Rotation.from_euler("x", 90.0 * DEGREE) * turned).as_quat(),
    }[order]
    with pytest.raises(RecordingError, match=words):
        calibrate(robot("g1"), changed(good, orientations={"pelvis": other}))


def test_unknown_names_are_told_with_the_nearest(good):
    with pytest.raises(ModelError, match="left_knee_joint"):
        calibrate(robot("g1"), good, joints=["left_kne_joint"])
    with pytest.raises(IdentifiabilityError, match="not observable"):
        calibrate(robot("g1"), good, joints=["left_elbow_joint"])
    with pytest.raises(IdentifiabilityError, match="no orientation of 'torso'"):
        calibrate(robot("g1"), good, imus=["torso"])
    with pytest.raises(RecordingError, match="pelvis"):
        changed(good, orientations={"pelvs": good.orientations["pelvis"]})
    with pytest.raises(ModelError, match="no frame"):
        calibrate(robot("g1"), good, contacts=[Contact("hand", "nowhere", np.eye(3))])
    with pytest.raises(IdentifiabilityError, match="nothing constrains"):
        calibrate(robot("g1"), good, contacts=())
    with pytest.raises(IdentifiabilityError, match="no joint is named"):
        calibrate(robot("g1"), good, joints=[])
    with pytest.raises(IdentifiabilityError, match="another model"):
        calibrate(robot("talos"), good)
    with pytest.raises(IdentifiabilityError, match="give a PoseNoise"):
        calibrate(robot("g1"), good, noise=0.1)
    with pytest.raises(RecordingError, match="is no recording"):
        calibrate(robot("g1"), [None])
    with pytest.raises(ModelError, match="not flat"):
        Contact("bump", "left_ankle_roll_link", [[0, 0, 0], [0.1, 0, 0], [0.1, 0.1, 0.0], [0, 0.1, 0.02]])


def test_contacts_that_never_touch_and_names_that_are_not_there_are_told(good):
    never = changed(good, touching={"left": np.zeros(len(good), dtype=bool)})
    with pytest.raises(IdentifiabilityError, match="never touched"):
        calibrate(robot("g1"), never)
    with pytest.raises(IdentifiabilityError, match="did you mean 'left'"):
        calibrate(robot("g1"), changed(good, touching={"lefft": np.ones(len(good), dtype=bool)}))
    with pytest.raises(IdentifiabilityError, match="its own contact times"):
        calibrate(robot("g1"), good, touching={"left": [(0.0, 1.0)]})


def test_orientations_that_are_missing_in_some_poses_do_no_harm(good):
    holes = np.array(good.orientations["pelvis"])
    holes[5, 3] = np.nan
    holes[6] = np.nan
    found = calibrate(robot("g1"), changed(good, orientations={"pelvis": holes}))
    whole = calibrate(robot("g1"), good)
    assert found.values["left_knee_joint"] == pytest.approx(whole.values["left_knee_joint"], abs=0.3 * DEGREE)
    blind = calibrate(robot("g1"), changed(good, orientations={"pelvis": np.full((len(good), 4), np.nan)}))
    assert any("no orientation" in note for note in blind.notes)


def test_inverse_orientations_of_a_robot_that_leans_little_are_told(good):
    inverse = Rotation.from_quat(good.orientations["pelvis"]).inv().as_quat()
    with pytest.raises(RecordingError, match=r"from the world's axes|contradict flat soles"):
        calibrate(robot("g1"), changed(good, orientations={"pelvis": inverse}))


def test_recordings_with_the_same_clock_are_not_the_same_instants(good):
    again = np.tile(np.arange(len(good)), 2)
    twice = good.pick(again)
    apart = PoseSet(
        twice.model, twice.time, twice.positions, twice.orientations, recordings=np.arange(2).repeat(len(good))
    )
    assert np.all(np.diff(np.sort(apart.clock)) > 0.5)
    assert len(calibrate(robot("g1"), apart).poses) == 240


def test_suspects_are_numbered_among_the_poses_given(good):
    bad = np.arange(5, 120, 10)
    q = np.array(good.positions)
    q[bad, robot("g1").joints.index("left_ankle_pitch_joint")] += 5.0 * DEGREE
    found = calibrate(robot("g1"), changed(good, positions=q), poses=100)
    used = set(bad.tolist()) & set(found.picked.tolist())
    assert len(used) >= 5
    assert used <= {suspect.pose for suspect in found.suspect_poses} <= set(found.picked.tolist())


def test_only_some_joints_can_be_looked_for(good):
    found = calibrate(
        robot("g1"), good, joints=["left_knee_joint", "right_knee_joint"], noise=PlainSums(), robust=False
    )
    assert tuple(found.values) == ("left_knee_joint", "right_knee_joint")


def test_markers_tell_of_arms_while_the_robot_stands():
    """A robot that stands and moves, seen by motion capture whose heading is not the inertial sensor's."""
    model = robot("g1")
    rng = np.random.default_rng(5)
    q = np.array(flat("g1")[:50])
    arm = [joint for joint in model.joints if joint.startswith("left_") and ("shoulder" in joint or "elbow" in joint)]
    q[:, [7 + model.joints.index(joint) for joint in arm]] += rng.uniform(-0.8, 0.8, (len(q), len(arm)))
    markers = (
        Marker("hand", "left_elbow_link", [0.1, 0.0, 0.0]),
        Marker("chest", "torso_link", [0.1, 0.0, 0.2]),
        Marker("hip", "pelvis", [0.0, 0.1, 0.0]),
    )
    places = {"hand": [0.12, 0.02, -0.01], "chest": [0.08, 0.03, 0.25], "hip": [0.02, 0.12, 0.01]}
    chains = chains_to(model, [marker.frame for marker in markers])
    there = chains.place(q[:, 7:])
    root = Rotation.from_quat(q[:, 3:7]).as_matrix()
    heading = Rotation.from_euler("z", 110.0 * DEGREE)
    seen = {}
    for marker in markers:
        frame = chains.frames.index(marker.frame)
        inside = there.positions[frame] + there.rotations[frame] @ np.array(places[marker.name])
        moved = np.einsum("nij,nj->ni", root, inside) + q[:, :3]
        seen[marker.name] = heading.apply(moved) + np.array([1.0, 2.0, 0.5])
    seen["chest"][3] = np.nan
    truth = offsets_of([*chained("g1", ("pelvis",)), *arm])
    poses = readings("g1", q, ("pelvis",), truth)
    poses = PoseSet(model, poses.time, poses.positions, poses.orientations, seen)
    quiet = replace(QUIET, marker=1e-9)
    found = calibrate(model, poses, markers=markers, noise=quiet, mounting=0.0)
    shown = [joint for joint in found.joints if found.observable[joint]]
    # Turning the elbow and moving the marker about it are one, and so are the first joint and a waist that stays still.
    assert set(arm[1:-1]) <= set(shown)
    for joint in shown:
        # What leans a little on a direction that is not told is as far off as it says.
        assert abs(found.values[joint] - truth.get(joint, 0.0)) < 3.0 * found.standard_errors[joint] + 1e-6
    assert found.values[arm[2]] == pytest.approx(truth[arm[2]], abs=1e-6)
