"""An inertial sensor, a planted sole, a tracked pose and a bolted base tell one and the same of the base link."""

import numpy as np
import pinocchio as pin
import pytest

from steelyard import MotionError, Recording, load_model
from steelyard.kinematics import quaternion_rotations
from steelyard.motion import GRAVITY, frame_motion, motion_from_generalized, reconstruct_motion, stream_motion
from steelyard.motion.smoothing import butterworth, convolve
from steelyard.regression import residuals
from tests.laboratory.trials import ROBOTS, robot, short_trial

STATE = ("angular_velocity", "angular_acceleration", "proper_acceleration")


def with_pose(trial):
    """Gives a trial's recording with the pose of its root, as a perfect tracking system would add it."""
    recording, states = trial.recording, trial.truth.states
    rows = np.searchsorted(states.time, recording.time - 1e-9)
    names = [
        f"base.{name}" for name in ("position.x", "position.y", "position.z", "quat.x", "quat.y", "quat.z", "quat.w")
    ]
    pose = dict(zip(names, states.q[rows, :7].T, strict=True))
    return recording.with_values({**recording.values, **pose})


@pytest.mark.parametrize("name", ROBOTS)
def test_a_pose_tells_what_is_true(name):
    trial = short_trial(name, "dance")
    motion = reconstruct_motion(trial.truth.model, with_pose(trial), base="pose", cutoff=10.0, decimate=False)
    truth, smoothing = trial.truth.motion, butterworth(10.0)
    rate = 1.0 / (truth.time[1] - truth.time[0])
    edge = smoothing.edge(rate)
    rows = np.searchsorted(truth.time, motion.time - 1e-9)
    assert motion.base == truth.base
    for field, tolerance in zip(STATE, (0.001, 0.01, 0.002), strict=True):
        # Feet tremble on the ground: the truth is looked at through the filter too.
        true = convolve(getattr(truth, field), smoothing.weights(rate)[:1])[0][rows - edge]
        np.testing.assert_allclose(getattr(motion, field), true, rtol=0.0, atol=tolerance * np.abs(true).max())
    same = np.abs(np.einsum("ni,ni->n", motion.orientation, truth.orientation[rows]))
    np.testing.assert_allclose(same, 1.0, atol=1e-6)


@pytest.mark.parametrize("name", ROBOTS)
def test_a_pose_and_an_inertial_sensor_tell_the_same(name):
    trial = short_trial(name, "sway")
    model, recording = trial.truth.model, with_pose(trial)
    by_imu = reconstruct_motion(model, recording, base="imu", cutoff=10.0)
    by_pose = reconstruct_motion(model, recording, base="pose", cutoff=10.0)
    np.testing.assert_array_equal(by_pose.time, by_imu.time)
    seen = frame_motion(model, by_pose, by_imu.base)
    for field, tolerance in zip(STATE, (2e-4, 0.01, 0.02), strict=True):
        np.testing.assert_allclose(seen.in_own_axes(getattr(seen, field)), getattr(by_imu, field), atol=tolerance)
    for motion in (by_imu, by_pose):
        left = residuals(model, motion, trial.truth.parameters, weights=None)
        assert np.sqrt(np.mean(left[:, :3] ** 2)) < 0.05
    # And both say the same of which way is up.
    turned = quaternion_rotations(by_pose.orientation) @ seen.rotation
    np.testing.assert_allclose(turned, quaternion_rotations(by_imu.orientation), atol=1e-3)


@pytest.mark.parametrize("name", ROBOTS)
def test_a_planted_sole_tells_what_the_inertial_sensor_reads(name):
    trial = short_trial(name, "sway")
    model, recording = robot(name), trial.recording
    by_imu = reconstruct_motion(model, recording, cutoff=10.0)
    for sole in model.setup.soles:
        motion = reconstruct_motion(model, recording, base="sole", sole=sole.name, cutoff=10.0)
        seen = frame_motion(model, motion, by_imu.base)
        # Soles give way a little: the ground is soft.
        np.testing.assert_allclose(seen.in_own_axes(seen.proper_acceleration), by_imu.proper_acceleration, atol=0.25)
        np.testing.assert_allclose(seen.in_own_axes(seen.angular_velocity), by_imu.angular_velocity, atol=0.02)


@pytest.mark.parametrize("name", ROBOTS)
def test_the_orientation_of_the_base_link_is_that_of_the_sensor_turned_back(name):
    trial = short_trial(name, "dance")
    motion = reconstruct_motion(trial.truth.model, trial.recording, cutoff=10.0)
    truth = trial.truth.motion
    rows = np.searchsorted(truth.time, motion.time - 1e-9)
    picked = truth.where(np.isin(np.arange(len(truth)), rows))
    true = quaternion_rotations(picked.orientation) @ frame_motion(trial.truth.model, picked, motion.base).rotation
    np.testing.assert_allclose(quaternion_rotations(motion.orientation), true, atol=2e-3)
    assert np.all(motion.orientation[:, 3] >= 0.0)


def turning_box(rate=200.0, seconds=10.0):
    """Gives the pose of a body that turns and moves, and what it really feels, by Pinocchio."""
    time = np.arange(round(rate * seconds)) / rate
    angles = np.stack([0.8 * np.sin(1.3 * time), 0.5 * np.sin(0.9 * time + 1.0), 2.5 * np.sin(0.6 * time)], axis=1)
    rates = np.stack([1.04 * np.cos(1.3 * time), 0.45 * np.cos(0.9 * time + 1.0), 1.5 * np.cos(0.6 * time)], axis=1)
    curves = np.stack(
        [-1.352 * np.sin(1.3 * time), -0.405 * np.sin(0.9 * time + 1.0), -0.9 * np.sin(0.6 * time)], axis=1
    )
    # Turns about x, then y, then z of the turning body: three hinges of a chain, which Pinocchio differentiates.
    chain = pin.Model()
    joint = 0
    for axis in (pin.JointModelRX(), pin.JointModelRY(), pin.JointModelRZ()):
        joint = chain.addJoint(joint, axis, pin.SE3.Identity(), "")
    data = chain.createData()
    quaternions, spins, turns = [], [], []
    for q, v, a in zip(angles, rates, curves, strict=True):
        pin.forwardKinematics(chain, data, q, v, a)
        quaternions.append(pin.Quaternion(data.oMi[3].rotation).coeffs().copy())
        spins.append(data.v[3].angular.copy())
        turns.append(data.a[3].angular.copy())
    position = np.stack([np.sin(time), 0.5 * np.cos(1.7 * time), 1.0 + 0.1 * np.sin(2.0 * time)], axis=1)
    pull = np.stack([-np.sin(time), -1.445 * np.cos(1.7 * time), -0.4 * np.sin(2.0 * time)], axis=1)
    pull = pull + np.array([0.0, 0.0, GRAVITY])
    rotations = quaternion_rotations(np.array(quaternions))
    felt = np.einsum("nji,nj->ni", rotations, pull)
    return time, position, np.array(quaternions), np.array(spins), np.array(turns), felt


def g1_columns(time, position, quaternions):
    model = robot("g1")
    names = [f"base.position.{axis}" for axis in "xyz"] + [f"base.quat.{axis}" for axis in "xyzw"]
    columns = dict(zip(names, np.concatenate([position, quaternions], axis=1).T, strict=True))
    return model, Recording(time, {**columns, **{f"q.{joint}": np.zeros(len(time)) for joint in model.joints}})


def test_a_pose_is_differentiated_as_mechanics_says():
    time, position, quaternions, spins, turns, felt = turning_box()
    # A quaternion and its opposite are one orientation: signs may jump as they like.
    signs = np.where(np.random.default_rng(0).random(len(time)) < 0.5, -1.0, 1.0)
    model, recording = g1_columns(time, position, quaternions * signs[:, None])
    motion = reconstruct_motion(model, recording, base="pose", cutoff=20.0, decimate=False)
    rows = np.searchsorted(time, motion.time - 1e-9)
    # Two octaves and more below the cutoff, an 8-fold zero of the response lets everything through.
    np.testing.assert_allclose(motion.angular_velocity, spins[rows], atol=1e-3)
    np.testing.assert_allclose(motion.angular_acceleration, turns[rows], atol=2e-3)
    np.testing.assert_allclose(motion.proper_acceleration, felt[rows], atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(motion.orientation, axis=1), 1.0, atol=1e-12)
    plain = reconstruct_motion(
        model, g1_columns(time, position, quaternions)[1], base="pose", cutoff=20.0, decimate=False
    )
    np.testing.assert_allclose(motion.orientation, plain.orientation, atol=1e-12)


def test_pieces_of_a_pose_are_the_whole():
    time, position, quaternions, *_ = turning_box()
    signs = np.where(np.random.default_rng(1).random(len(time)) < 0.5, -1.0, 1.0)
    model, recording = g1_columns(time, position, quaternions * signs[:, None])
    whole = reconstruct_motion(model, recording, base="pose", cutoff=10.0)
    pieces = list(stream_motion(model, recording, base="pose", cutoff=10.0, rows=77))
    assert len(pieces) > 10
    for field in (*STATE, "orientation"):
        found = np.concatenate([getattr(piece, field) for piece in pieces])
        scale = np.abs(getattr(whole, field)).max()
        np.testing.assert_allclose(found, getattr(whole, field), rtol=0.0, atol=1e-9 * scale)


def test_what_is_no_orientation_is_refused():
    time, position, quaternions, *_ = turning_box()
    model, recording = g1_columns(time, position, 0.5 * quaternions)
    with pytest.raises(MotionError, match=r"the quaternion base.quat has norm 0.5 at 0.000 s"):
        reconstruct_motion(model, recording, base="pose")
    zeros = quaternions.copy()
    zeros[700] = 0.0
    with pytest.raises(MotionError, match=r"the quaternion base.quat has norm 0 at 3.500 s"):
        reconstruct_motion(model, g1_columns(time, position, zeros)[1], base="pose", cutoff=5.0)


ARM = """<robot name="arm"><link name="table"/>
<link name="upper"><inertial><origin xyz="0 0 0.2"/><mass value="2"/>
<inertia ixx="0.1" iyy="0.1" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="lower"><inertial><origin xyz="0.1 0 0.1"/><mass value="1"/>
<inertia ixx="0.02" iyy="0.03" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="shoulder" type="continuous"><parent link="table"/><child link="upper"/><axis xyz="0 1 0"/></joint>
<joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/><origin xyz="0 0 0.4" rpy="0.3 0 0"/>
<axis xyz="1 0 0"/></joint></robot>"""


def arm(tmp_path, **options):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    return load_model(path, **options)


def swinging(model, rate=200.0):
    time = np.arange(round(10.0 * rate)) / rate
    turn = 2.0 * np.pi * np.array([0.7, 1.1])
    phases = np.multiply.outer(time, turn)
    q, v, a = np.sin(phases), turn * np.cos(phases), -(turn**2) * np.sin(phases)
    return motion_from_generalized(model, time, q, v, a)


def test_a_bolted_base_does_not_move(tmp_path):
    model = arm(tmp_path, base="fixed")
    true = swinging(model)
    data = model.pinocchio.createData()
    torques = [pin.rnea(model.pinocchio, data, q, v, a) for q, v, a in zip(true.q, true.v, true.a, strict=True)]
    values = dict(zip([f"q.{joint}" for joint in model.joints], true.q.T, strict=True))
    values |= dict(zip([f"tau.{joint}" for joint in model.joints], np.array(torques).T, strict=True))
    motion = reconstruct_motion(model, Recording(true.time, values), cutoff=15.0)
    rows = np.searchsorted(true.time, motion.time - 1e-9)
    assert motion.base == model.bodies[0].name
    assert not np.any(motion.angular_velocity)
    np.testing.assert_allclose(motion.proper_acceleration, true.proper_acceleration[rows], atol=1e-12)
    np.testing.assert_allclose(motion.a, true.a[rows], atol=2e-3 * np.abs(true.a).max())
    # The equation of motion still holds, to the share of what lies near the cutoff.
    left = residuals(model, motion, model.parameters, torques=model.joints, weights=None)
    assert np.abs(left).max() < 2e-3 * np.abs(torques).max()


def test_a_bolted_base_cannot_be_told_of(tmp_path):
    model = arm(tmp_path, base="fixed")
    recording = Recording(np.arange(500) / 100.0, {f"q.{joint}": np.zeros(500) for joint in model.joints})
    for base in ("imu", "sole", "pose"):
        with pytest.raises(MotionError, match=rf"the base of arm is fixed and does not move; leave base='{base}' out"):
            reconstruct_motion(model, recording, base=base)
    floating = arm(tmp_path, base="floating")
    with pytest.raises(MotionError, match=r"the setup of arm has no IMU at all \(it has none\)"):
        reconstruct_motion(floating, recording)


BALL = """<mujoco model="pendulum"><worldbody><body name="rod">
<joint name="neck" type="ball"/><inertial pos="0 0 -0.5" mass="2" diaginertia="0.1 0.2 0.15"/>
<body name="disc" pos="0 0 -1"><joint name="spin" type="hinge" axis="0 0 1"/>
<inertial pos="0.1 0 0" mass="1" diaginertia="0.02 0.02 0.03"/></body></body></worldbody></mujoco>"""


def test_ball_joints_turn_as_their_quaternions_say(tmp_path):
    path = tmp_path / "pendulum.xml"
    path.write_text(BALL)
    model = load_model(path, base="fixed")
    time, _, quaternions, spins, turns, _ = turning_box()
    values = {f"q.neck.{axis}": quaternions[:, number] for number, axis in enumerate("xyzw")}
    values |= {"q.spin": np.sin(time)} | {f"tau.neck.{axis}": np.cos(time) for axis in "xyz"}
    motion = reconstruct_motion(model, Recording(time, values), cutoff=20.0, decimate=False)
    motion.check(model)
    rows = np.searchsorted(time, motion.time - 1e-9)
    start = int(model.tree.v_starts[model.joint_body("neck")])
    np.testing.assert_allclose(motion.v[:, start : start + 3], spins[rows], atol=1e-3)
    np.testing.assert_allclose(motion.a[:, start : start + 3], turns[rows], atol=2e-3)
    assert motion.torques["neck"].shape == (len(motion), 3)
    automatic = reconstruct_motion(model, Recording(time, values))
    assert len(automatic) > 20
    with pytest.raises(MotionError, match=r"'neck' is a ball joint and cannot have a scalar offset"):
        reconstruct_motion(model, Recording(time, values), offsets={"neck": 0.1})


def test_a_sensor_that_is_out_of_place_tells_the_same():
    # What a perfect inertial sensor reads somewhere on the root, moved to the root, is what the root does.
    time, position, quaternions, *_ = turning_box()
    model, recording = g1_columns(time, position, quaternions)
    by_pose = reconstruct_motion(model, recording, base="pose", cutoff=40.0, decimate=False)
    imu = model.setup.imus[0]
    frame = model.frame(imu.frame)
    assert model.bodies[frame.body].name == by_pose.base
    seen = frame_motion(model, by_pose, imu.frame)
    rate, pull = seen.in_own_axes(seen.angular_velocity), seen.in_own_axes(seen.proper_acceleration)
    values = {f"{imu.name}.gyro.{axis}": rate[:, number] for number, axis in enumerate("xyz")}
    values |= {f"{imu.name}.accel.{axis}": pull[:, number] for number, axis in enumerate("xyz")}
    values |= {f"q.{joint}": np.zeros(len(by_pose)) for joint in model.joints}
    by_imu = reconstruct_motion(model, Recording(by_pose.time, values), cutoff=40.0, decimate=False)
    rows = np.searchsorted(by_pose.time, by_imu.time - 1e-9)
    for field in STATE:
        np.testing.assert_allclose(getattr(by_imu, field), getattr(by_pose, field)[rows], atol=2e-3)
