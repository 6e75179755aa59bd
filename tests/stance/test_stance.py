"""Standing: soles exactly where they stand, balance as statics has it, trajectories that are what they say."""

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from steelyard import Setup, StanceError, Trajectory, load_model
from steelyard.stance.collision import convex_pieces, joint_ranges
from steelyard.stance.feasibility import required_efforts
from steelyard.stance.footing import plant_feet
from steelyard.stance.postures import PostureTarget, describe_posture, solve_posture
from steelyard.stance.standing import stand_up
from steelyard.stance.support import inside_margin, zero_moment_points
from steelyard.stance.trajectory import trace_course

ROBOTS = ["g1", "talos", "icub", "romeo"]


@pytest.fixture(scope="module", params=ROBOTS)
def standing(request):
    return stand_up(load_model(request.param))


def sole_corners(footing, q):
    """Gives where Pinocchio puts the corners of the setup's soles, in the world."""
    model, data = footing.model.pinocchio, footing.model.pinocchio.createData()
    pin.framesForwardKinematics(model, data, q)
    return [
        sole.vertices @ data.oMf[model.getFrameId(sole.frame)].rotation.T
        + data.oMf[model.getFrameId(sole.frame)].translation
        for sole in footing.model.setup.soles
    ]


def test_at_home_all_soles_are_on_the_ground(standing):
    for corners in sole_corners(standing.footing, standing.home):
        # Up to what the corners of a moulded sole are off their own plane.
        assert np.max(np.abs(corners[:, 2])) < 1e-3


def test_at_home_the_robot_balances_touches_nothing_and_carries_itself(standing):
    assert standing.feasibility.check_posture(standing.home) is None
    data = standing.footing.model.pinocchio.createData()
    com = pin.centerOfMass(standing.footing.model.pinocchio, data, standing.home)
    assert inside_margin(standing.footing.support_polygon, com[:2]) > 0.02
    assert standing.heights[0] < standing.target.height < standing.heights[1]


def test_inverse_kinematics_reaches_its_target(standing):
    generator = np.random.default_rng(0)
    footing, home = standing.footing, standing.target
    data = footing.model.pinocchio.createData()
    solved = 0
    for _ in range(20):
        upper = home.upper + 0.1 * generator.normal(size=len(home.upper))
        height = home.height + 0.3 * generator.uniform(-1, 1) * (standing.heights[1] - home.height)
        target = PostureTarget(
            upper, home.com + 0.01 * generator.normal(size=2), height, 0.03 * generator.normal(size=3)
        )
        posture = solve_posture(footing, target, standing.home)
        assert posture.stands
        for corners, foot in zip(sole_corners(footing, posture.q), footing.feet, strict=True):
            assert np.max(np.abs(corners[:, 2])) < 1e-3
            np.testing.assert_allclose(corners.mean(axis=0), foot.stand.translation, atol=1e-6)
        if posture.meets_target:
            solved += 1
            com = pin.centerOfMass(footing.model.pinocchio, data, posture.q)
            np.testing.assert_allclose(com[:2], target.com, atol=1e-6)
            assert posture.q[2] == pytest.approx(height, abs=1e-6)
            again = describe_posture(footing, posture.q[7:])
            np.testing.assert_allclose(again.tilt, target.tilt, atol=1e-5)
            np.testing.assert_allclose(again.com, target.com, atol=1e-5)
    assert solved >= 15


def test_legs_stay_within_their_limits(standing):
    low = PostureTarget(standing.target.upper, standing.target.com, 0.3 * standing.target.height, standing.target.tilt)
    posture = solve_posture(standing.footing, low, standing.home)
    assert not posture.meets_target
    for name in standing.footing.leg_joints:
        joint = standing.footing.model.joint(name)
        position = posture.q[7 + standing.footing.model.joints.index(name)]
        assert joint.lower <= position <= joint.upper


def test_at_rest_the_zero_moment_point_is_under_the_centre_of_mass(standing):
    footing = standing.footing
    still = np.zeros(footing.model.velocity_size)
    _, total = required_efforts(footing, standing.home, still, still)
    assert total[2] == pytest.approx(9.81 * footing.model.total_mass, rel=1e-9)
    np.testing.assert_allclose(zero_moment_points(total), standing.target.com, atol=1e-7)


def test_feet_share_all_of_the_load_and_joints_carry_it(standing):
    footing = standing.footing
    generator = np.random.default_rng(1)
    total = generator.normal(size=6)
    shares = footing.load_sharing @ total
    summed = np.zeros(6)
    for foot, share in zip(footing.feet, shares, strict=True):
        summed[:3] += share[:3]
        summed[3:] += share[3:] + np.cross(foot.stand.translation, share[:3])
    np.testing.assert_allclose(summed, total, atol=1e-12)
    v, a = 0.3 * generator.normal(size=(2, footing.model.velocity_size))
    torques, total = required_efforts(footing, standing.home, v, a)
    # Pinocchio's inverse dynamics with the same forces on the feet leaves nothing for the floating base.
    model, data = footing.pinocchio, footing.pinocchio.createData()
    pin.framesForwardKinematics(model, data, standing.home)
    outside = [pin.Force.Zero() for _ in range(model.njoints)]
    for foot, share in zip(footing.feet, footing.load_sharing @ total, strict=True):
        joint = model.frames[foot.frame].parentJoint
        here = pin.SE3(np.eye(3), foot.stand.translation)
        outside[joint] += data.oMi[joint].actInv(here.act(pin.Force(share[:3], share[3:])))
    efforts = pin.rnea(model, data, standing.home, v, a, outside)
    np.testing.assert_allclose(efforts[:6], 0.0, atol=1e-8 * np.max(np.abs(total)))
    np.testing.assert_allclose(efforts[6:], torques, atol=1e-8 * np.max(np.abs(torques)))


def test_margins_of_a_square():
    square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]])
    np.testing.assert_allclose(inside_margin(square, [[1.0, 1.0], [0.5, 1.5], [3.0, 1.0]]), [1.0, 0.5, -1.0])


def test_pieces_are_convex_and_turned_outwards():
    for piece in convex_pieces(load_model("g1")):
        middle = piece.corners.mean(axis=0)
        first, second, third = (piece.corners[piece.triangles[:, number]] for number in range(3))
        normal = np.cross(second - first, third - first)
        assert np.all(np.einsum("ij,ij->i", normal, first - middle) > 0.0)


def trajectory_of(standing, **changes):
    joints = standing.footing.model.joints
    time = np.arange(0.0, 2.01, 0.1)
    positions = np.tile(standing.home[7:], (len(time), 1))
    return Trajectory(**({"name": "test", "time": time, "joints": joints, "positions": positions} | changes))


def test_a_courses_velocities_are_the_changes_of_its_positions(standing):
    model = standing.footing.model
    time = np.arange(0.0, 2.01, 0.05)
    wave = 0.5 - 0.5 * np.cos(np.pi * time)
    middle = np.mean(joint_ranges(model), axis=0)[standing.footing.upper_columns]
    path, q = [], standing.home
    for lift in wave:
        target = PostureTarget(
            standing.target.upper + 0.2 * lift * np.sign(middle - standing.target.upper),
            standing.target.com + 0.02 * lift * standing.footing.lateral,
            standing.target.height - 0.02 * lift,
            np.array([0.05, -0.04, 0.06]) * lift,
        )
        q = solve_posture(standing.footing, target, q).q
        path.append(q[7:])
    course = trace_course(standing.footing, trajectory_of(standing, time=time, positions=np.array(path)), 2000.0)
    step = course.time[1]
    for row in range(200, len(course.time) - 200, 500):
        before, after = course.q[row - 1], course.q[row + 1]
        speed = pin.difference(model.pinocchio, before, after) / (2.0 * step)
        np.testing.assert_allclose(course.v[row], speed, atol=2e-5)
        change = (course.v[row + 1] - course.v[row - 1]) / (2.0 * step)
        np.testing.assert_allclose(course.a[row], change, atol=2e-3)
        for corners in sole_corners(standing.footing, course.q[row]):
            assert np.max(np.abs(corners[:, 2])) < 1e-3
    assert np.max(np.abs(course.v[[0, -1]])) < 1e-9


class TestBadInput:
    @pytest.mark.parametrize(
        ("vertices", "message"),
        [
            ([[0.1, 0.0, -0.03], [-0.1, 0.0, -0.03]], "has no area to stand on"),
            ([[0.1, 0.0, -0.03], [0.0, 0.0, -0.03], [-0.1, 0.0, -0.03]], "has no area to stand on"),
            ([[0.1, 0.0, 0.0], [-0.1, 0.0, 0.0], [0.0, 0.0, -0.1]], "is not level when all joints are at zero"),
            ([[0.1, 0.05, 0.0], [0.1, -0.05, 0.0], [-0.1, -0.05, 0.03], [-0.1, 0.05, 0.0]], "is not flat: a corner is"),
        ],
    )
    def test_soles_that_are_none(self, vertices, message):
        model = load_model("g1")
        soles = (replace(model.setup.soles[0], vertices=np.array(vertices)), model.setup.soles[1])
        odd = load_model(model.description.file.path, setup=replace(model.setup, soles=soles))
        with pytest.raises(StanceError, match=message):
            plant_feet(odd)

    def test_a_model_without_soles(self):
        model = load_model("g1")
        bare = load_model(model.description.file.path, setup=Setup())
        with pytest.raises(StanceError, match=r"has no soles to stand on; add a \[\[sole\]\]"):
            plant_feet(bare)

    def test_a_fixed_model(self):
        path = load_model("g1").description.file.path
        with pytest.raises(StanceError, match="is fixed to the world"):
            plant_feet(load_model(path, base="fixed"))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"time": np.zeros(21)}, "has no duration"),
            ({"time": np.arange(21) ** 2 * 0.1}, "evenly spaced"),
            ({"time": ["a"] * 21}, "are not real numbers"),
            ({"joints": ("knee",)}, r"n times and 1 joints need \(n,\) and \(n, 1\)"),
        ],
    )
    def test_trajectories_that_are_none(self, changes, message):
        with pytest.raises(StanceError, match=message):
            trajectory_of(stand_up(load_model("g1")), **changes)

    def test_not_a_number_and_repeated_joints(self):
        standing = stand_up(load_model("g1"))
        positions = np.array(trajectory_of(standing).positions)
        positions[3, 2] = np.nan
        with pytest.raises(StanceError, match="not all finite"):
            trajectory_of(standing, positions=positions)
        joints = list(standing.footing.model.joints)
        joints[1] = joints[0]
        with pytest.raises(StanceError, match="names the joint 'left_hip_pitch_joint' twice"):
            trajectory_of(standing, joints=joints)

    def test_wrong_joints_limits_and_soles(self):
        standing = stand_up(load_model("g1"))
        good = trajectory_of(standing)
        joints = list(good.joints)
        joints[3] = "left_kne_joint"
        with pytest.raises(StanceError, match=r"no joint 'left_kne_joint'.*'left_knee_joint'"):
            trace_course(standing.footing, trajectory_of(standing, joints=joints), 500.0)
        fewer = trajectory_of(standing, joints=good.joints[1:], positions=good.positions[:, 1:])
        with pytest.raises(StanceError, match=r"does not say where the joint .*left_hip_pitch_joint"):
            trace_course(standing.footing, fewer, 500.0)
        beyond = np.array(good.positions)
        beyond[:, 20] = 9.0
        with pytest.raises(
            StanceError, match=r"takes 'left_wrist_pitch_joint' to 9.000 at t = .* s; its limits are -1.614 and 1.614"
        ):
            trace_course(standing.footing, trajectory_of(standing, positions=beyond), 500.0)
        sparse = np.linspace(0.0, 6.0, 7)
        jumps = np.tile(standing.home[7:], (7, 1))
        jumps[3:, 12] = 2.6
        with pytest.raises(StanceError, match=r"takes 'waist_yaw_joint' to 2.* at t = 3.* s; its limits are"):
            trace_course(standing.footing, trajectory_of(standing, time=sparse, positions=jumps), 500.0)
        tilted = np.array(good.positions)
        tilted[10:, 5] += 0.1
        with pytest.raises(StanceError, match=r"does not keep the soles flat: at t = 1.00 s the sole 'right' would be"):
            trace_course(standing.footing, trajectory_of(standing, positions=tilted), 500.0)
