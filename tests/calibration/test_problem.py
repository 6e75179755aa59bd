"""Chains are Pinocchio's, slopes are those of finite differences, and plain sums are the paper's cost."""

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from steelyard import load_model
from steelyard.calibration import Contact, Marker, PlainSums, PoseSet, Touch, calibrate, soles_as_contacts
from steelyard.calibration.calibration_problem import CalibrationProblem
from steelyard.calibration.fitting import fit
from steelyard.calibration.frame_chains import chains_to
from steelyard.calibration.gauss_newton import eliminate_pose_unknowns
from steelyard.calibration.pose_noise import row_variances
from steelyard.calibration.starting_states import starting_states
from tests.calibration.standing import DEGREE, USUAL, chained, flat, offsets_of, readings, robot
from tests.generated_trees import URDF_KINDS, trees, urdf_text
from tests.humanoids import random_configuration


def assert_like_pinocchio(model, frames, q):
    built, data = model.pinocchio, model.pinocchio.createData()
    chains = chains_to(model, frames)
    places = chains.place(q[:, 7:])
    columns = [int(model.tree.v_starts[model.joint_body(joint)]) for joint in chains.joints]
    for pose, each in enumerate(q):
        pin.computeJointJacobians(built, data, each)
        pin.updateFramePlacements(built, data)
        root = data.oMi[1]
        for number, frame in enumerate(chains.frames):
            at = built.getFrameId(frame)
            place = root.actInv(data.oMf[at])
            np.testing.assert_allclose(places.rotations[number, pose], place.rotation, atol=1e-12)
            np.testing.assert_allclose(places.positions[number, pose], place.translation, atol=1e-12)
            jacobian = pin.getFrameJacobian(built, data, at, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)[:, columns]
            points = chains.point_jacobian(places, number, places.positions[number])[pose]
            np.testing.assert_allclose(root.rotation @ points, jacobian[:3], atol=1e-12)
            turns = chains.rotation_jacobian(places, number)[pose]
            np.testing.assert_allclose(root.rotation @ turns, jacobian[3:], atol=1e-12)


@pytest.mark.parametrize("name", ["g1", "talos", "icub", "romeo"])
def test_frames_and_their_slopes_are_pinocchios(name):
    model = robot(name)
    rng = np.random.default_rng(0)
    frames = [imu.frame for imu in model.setup.imus] + [sole.frame for sole in model.setup.soles]
    assert_like_pinocchio(model, frames, np.array([random_configuration(model, rng) for _ in range(4)]))


@settings(max_examples=25, deadline=None)
@given(trees(URDF_KINDS))
def test_so_are_those_of_any_tree(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("trees") / "tree.urdf"
    path.write_text(urdf_text(tree))
    model = load_model(path)
    rng = np.random.default_rng(0)
    assert_like_pinocchio(model, [body.name for body in model.bodies], np.array([random_configuration(model, rng)]))


def all_terms():
    """Gives a problem with every kind of term, in poses that do not fit at all."""
    model = robot("g1")
    rng = np.random.default_rng(3)
    q = np.array([random_configuration(model, rng) for _ in range(5)])
    palms = Contact("palm", "left_wrist_yaw_link", [[0.1, 0.03, 0.0], [0.1, -0.03, 0.01], [0.0, 0.0, 0.02]], "table")
    touches = (
        Touch("tip", "right_wrist_yaw_link", [0.1, 0.0, 0.02], "plane"),
        Touch("knee", "left_knee_link", [0.0, 0.1, 0.0], "point"),
    )
    markers = (
        Marker("head", "torso_link", [0.0, 0.1, 0.4]),
        Marker("hand", "right_wrist_yaw_link", [0.1, 0.0, 0.0], 0.01),
    )
    orientations = {imu: Rotation.random(5, random_state=rng).as_quat() for imu in ("pelvis", "torso")}
    orientations["torso"][2] = np.nan
    seen = {marker.name: rng.normal(size=(5, 3)) for marker in markers}
    seen["hand"][1] = np.nan
    poses = PoseSet(model, np.arange(5), q[:, 7:], orientations, seen, {"palm": [True, False, True, True, True]})
    contacts = (*soles_as_contacts(model), palms)
    joints = chains_to(model, [thing.frame for thing in (*contacts, *markers, *touches)]).joints
    return CalibrationProblem(poses, joints[::2], contacts, markers, touches, ("pelvis", "torso"), mounting=0.01)


def test_slopes_are_those_of_finite_differences():
    problem = all_terms()
    state = starting_states(problem)[3]
    linear = problem.linearise(state)
    poses, rows, own = linear.by_pose.shape
    assert rows == problem.row_count == 2 * 3 + 3 * 3 + 2 * 3 + 1 + 3
    step = 1e-6
    for column in range(problem.shared_count):
        along = step * np.eye(problem.shared_count)[column]
        ahead, back = (problem.linearise(problem.move(state, sign * along, np.zeros((poses, own)))) for sign in (1, -1))
        slope = (ahead.residuals - back.residuals) / (2.0 * step)
        np.testing.assert_allclose(linear.by_shared[:, :, column], slope, atol=1e-7)
    for column in range(own):
        along = np.zeros((poses, own))
        along[:, column] = step
        ahead, back = (
            problem.linearise(problem.move(state, np.zeros(problem.shared_count), s * along)) for s in (1, -1)
        )
        slope = (ahead.residuals - back.residuals) / (2.0 * step)
        np.testing.assert_allclose(linear.by_pose[:, :, column], slope, atol=1e-7)


def test_what_is_not_there_has_no_rows():
    problem = all_terms()
    linear = problem.linearise(starting_states(problem)[0])
    for name, pose in (("torso", 2), ("palm", 1), ("hand", 1)):
        block = next(block for block in problem.blocks if block.name == name)
        for array in (linear.residuals, linear.by_pose, linear.by_shared, linear.by_joint):
            assert not np.any(array[pose, block.rows])
            assert np.any(array[0, block.rows])


def printed_cost(model, poses, imus, root, offsets, distance):
    """Gives [yamane2011] Eqs. (1) to (5) as printed, pose by pose, with Pinocchio's placements, as residuals."""
    built, data = model.pinocchio, model.pinocchio.createData()
    frames = {imu.name: built.getFrameId(imu.frame) for imu in model.setup.imus}
    rows = []
    for pose in range(len(poses)):
        q = np.array(model.neutral)
        q[3:7] = Rotation.from_matrix(root[pose]).as_quat()
        q[7:] = poses.positions[pose]
        for joint, offset in offsets.items():
            q[7 + model.joints.index(joint)] += offset
        pin.framesForwardKinematics(built, data, q)
        for imu in imus:
            measured = Rotation.from_quat(poses.orientations[imu][pose]).as_matrix()
            points = distance * np.eye(3)
            rows.append(((data.oMf[frames[imu]].rotation - measured) @ points).ravel())
        heights = np.concatenate(
            [
                (sole.vertices @ data.oMf[built.getFrameId(sole.frame)].rotation.T)[:, 2]
                + data.oMf[built.getFrameId(sole.frame)].translation[2]
                for sole in model.setup.soles
            ]
        )
        rows.append((heights - heights.mean()) / np.sqrt(len(heights)))
    return np.concatenate(rows)


@pytest.mark.parametrize("imus", [("pelvis",), ("pelvis", "torso")])
def test_plain_sums_are_the_cost_as_printed(imus):
    model = robot("g1")
    joints = chained("g1", imus)
    poses = readings("g1", flat("g1")[:6], imus, offsets_of(joints), USUAL)
    problem = CalibrationProblem(poses, joints, soles_as_contacts(model), imus=imus)
    state = starting_states(problem)[0]
    offsets = offsets_of(joints, seed=5)
    state = problem.move(state, np.array([offsets[joint] for joint in joints]), np.zeros((6, 4)))
    variances, encoder = row_variances(problem, PlainSums(0.2))
    linear = problem.linearise(state)
    # The plane of each pose at the height that makes it least.
    own = np.zeros((6, 4))
    slope = linear.by_pose[:, :, 3]
    own[:, 3] = -np.sum(slope * linear.residuals, axis=1) / np.sum(slope**2, axis=1)
    linear = problem.linearise(problem.move(state, np.zeros(len(joints)), own))
    ours = 0.5 * np.sum(linear.residuals**2 / variances)
    printed = 0.5 * np.sum(printed_cost(model, poses, imus, state.root, offsets, 0.2) ** 2)
    assert ours == pytest.approx(printed, rel=1e-9)
    assert encoder == 0.0


def test_the_minimum_is_that_of_the_whole_problem_at_once():
    model, imus, joints = robot("g1"), ("pelvis",), chained("g1", ("pelvis",))
    poses = readings("g1", flat("g1")[:12], imus, offsets_of(joints), USUAL)
    found = calibrate(model, poses, noise=PlainSums(0.1), imus=imus, robust=False)
    start = found.roots_before

    def rows(unknowns):
        turns = Rotation.from_rotvec(unknowns[len(joints) :].reshape(-1, 3)).as_matrix()
        offsets = dict(zip(joints, unknowns[: len(joints)], strict=True))
        return printed_cost(model, poses, imus, turns @ start, offsets, 0.1)

    whole = least_squares(
        rows, np.zeros(len(joints) + 3 * len(poses)), x_scale="jac", xtol=1e-14, ftol=1e-14, gtol=1e-14
    )
    np.testing.assert_allclose(list(found.values.values()), whole.x[: len(joints)], atol=1e-6)
    assert found.cost_after * len(poses) == pytest.approx(whole.cost, rel=1e-6)


def test_eliminated_poses_leave_what_the_whole_information_leaves():
    """The reduced factor is the Schur complement of the whole normal matrix, encoders' noise included."""
    model, imus, joints = robot("g1"), ("pelvis", "torso"), chained("g1", ("pelvis", "torso"))
    poses = readings("g1", flat("g1")[:8], imus, offsets_of(joints), USUAL)
    problem = CalibrationProblem(poses, joints, soles_as_contacts(model), imus=imus)
    variances, encoder = row_variances(problem, USUAL)
    linear = problem.linearise(starting_states(problem)[0])
    triangle = eliminate_pose_unknowns(linear, variances, encoder).triangle()
    own = linear.by_pose.shape[2]
    size = len(joints)
    whole = np.zeros((size + own * len(poses),) * 2)
    for pose in range(len(poses)):
        covariance = np.diag(variances[pose]) + encoder * linear.by_joint[pose] @ linear.by_joint[pose].T
        columns = np.zeros((problem.row_count, len(whole)))
        columns[:, :size] = linear.by_shared[pose]
        columns[:, size + own * pose : size + own * (pose + 1)] = linear.by_pose[pose]
        whole += columns.T @ np.linalg.solve(covariance, columns)
    corner = whole[:size, :size] - whole[:size, size:] @ np.linalg.solve(whole[size:, size:], whole[size:, :size])
    np.testing.assert_allclose(triangle[:-1, :-1].T @ triangle[:-1, :-1], corner, rtol=1e-6, atol=1e-8 * corner.max())


def test_order_of_poses_and_units_of_time_do_not_matter():
    joints = chained("g1", ("pelvis",))
    poses = readings("g1", flat("g1")[:40], ("pelvis",), offsets_of(joints), USUAL)
    model = robot("g1")
    order = np.random.default_rng(0).permutation(40)
    first, second = (
        fit(CalibrationProblem(each, joints, soles_as_contacts(model), imus=("pelvis",)), USUAL)
        for each in (poses, poses.pick(order))
    )
    np.testing.assert_allclose(first.solved.state.offsets, second.solved.state.offsets, atol=1e-8)
    np.testing.assert_allclose(first.solved.state.root[order], second.solved.state.root, atol=1e-8)


def test_a_world_turned_about_the_vertical_gives_the_same_offsets():
    joints = chained("g1", ("pelvis", "torso"))
    poses = readings("g1", flat("g1")[:30], ("pelvis", "torso"), offsets_of(joints), USUAL)
    heading = Rotation.from_euler("z", 70.0 * DEGREE)
    turned = {name: (heading * Rotation.from_quat(each)).as_quat() for name, each in poses.orientations.items()}
    other = PoseSet(poses.model, poses.time, poses.positions, turned)
    first, second = (calibrate(poses.model, each, noise=USUAL) for each in (poses, other))
    np.testing.assert_allclose(list(first.values.values()), list(second.values.values()), atol=1e-8)
