"""The laboratory's physics obeys the laws that estimators count on, by MuJoCo's and Pinocchio's word."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pinocchio as pin
import pytest

from steelyard import is_possible, load_model
from steelyard.exceptions import LaboratoryError
from steelyard.laboratory import MOTIONS, Hose, simulate
from steelyard.laboratory.servo import tune_servo
from steelyard.laboratory.world import TIME_STEP
from steelyard.model import project_to_interior
from steelyard.model.parameters import to_mass_com_inertia
from steelyard.motion import reconstruct_motion
from steelyard.regression.gathering import residuals
from steelyard.regression.rows import base_rows, base_wrench
from steelyard.stance.standing import stand_up
from tests.laboratory.trials import ROBOTS, SHORT, robot, short_trial, with_torques

SHORTEST = 4.8
"""Seconds of a sway that moves to one point and back, for laws that do not depend on how long a trial lasts."""


@pytest.mark.parametrize("motion", MOTIONS)
@pytest.mark.parametrize("name", ROBOTS)
def test_the_true_parameters_explain_the_ground_wrench(name, motion):
    trial = short_trial(name, motion)
    assert not any(event.kind in ("fall", "self-contact", "tilt", "lift", "slip") for event in trial.events)
    truth = trial.truth
    wrench = base_rows(truth.model, truth.motion.thinned(50)) @ truth.parameters.ravel()
    wanted = truth.ground_wrench[::50]
    relative = np.max(np.abs(wrench - wanted), axis=1) / np.linalg.norm(wanted, axis=1)
    assert np.max(relative) < 1e-10


@pytest.mark.parametrize("motion", MOTIONS)
def test_through_perfect_sensors_and_a_filter_little_remains(motion):
    trial = short_trial("g1", motion)
    truth = trial.truth
    motion = reconstruct_motion(truth.model, trial.recording, cutoff=10.0, decimate=False)
    left = residuals(truth.model, motion, truth.parameters, weights=None)
    rms = np.sqrt(np.mean(left**2, axis=0))
    assert np.all(rms[:3] < 0.01)
    assert np.all(rms[3:] < 0.005)


@pytest.mark.parametrize("name", ["talos", "icub"])
def test_sensors_inside_the_legs_feel_what_pinocchio_says(name):
    trial = short_trial(name, "sway")
    truth, states = trial.truth, trial.truth.states
    model, data = truth.model.pinocchio, truth.model.pinocchio.createData()
    for row in range(0, len(states.time), 2000):
        q, v, a = states.q[row], states.v[row], states.a[row]
        pin.forwardKinematics(model, data, q)
        outside = [pin.Force.Zero() for _ in range(model.njoints)]
        for number, foot in enumerate(truth.footing.feet):
            joint = model.frames[model.getFrameId(foot.sole.frame)].parentJoint
            wrench = states.feet[row, number]
            outside[joint] += data.oMi[joint].actInv(pin.Force(wrench[:3], wrench[3:]))
        pin.rnea(model, data, q, v, a, outside)
        for sensor in truth.model.setup.wrench_sensors:
            number = model.getFrameId(sensor.frame)
            joint, inside = model.frames[number].parentJoint, model.frames[number].placement
            felt = trial.signals.wrenches[sensor.name][row]
            if name == "talos":
                # The sensor is at the joint itself: what the foot exerts on the leg is what the joint carries.
                wanted = -inside.actInv(data.f[joint])
            else:
                # iCub's is in the middle of a link: the foot alone, below it, is weighed.
                foot = truth.model.frame(sensor.frame)
                row_of = truth.model.link_index(truth.model.bodies[foot.body].name)
                body = pin.Inertia.FromDynamicParameters(truth.parameters[row_of])
                place = inside * foot.placement.inverse()
                speed, change = place.actInv(data.v[joint]), place.actInv(data.a_gf[joint])
                needed = body * change + speed.cross(body * speed)
                ground = place.actInv(outside[joint])
                wanted = foot.placement.actInv(ground - needed)
            np.testing.assert_allclose(felt, wanted.vector, atol=1e-9 * np.linalg.norm(wanted.vector))


def test_joint_torques_are_what_the_servos_exert_less_the_rotors():
    model = with_torques("g1")
    trial = simulate(model, "reach", seed=1, noise=None, duration=SHORT["reach"])
    states = trial.truth.states
    standing = stand_up(trial.truth.footing.model)
    servo = tune_servo(standing.footing, standing.home)
    # MuJoCo's servos are damped by the speed at the end of the step.
    speed = states.v[:, 6:] + TIME_STEP * states.a[:, 6:]
    motor = servo.stiffness * (states.commands - states.q[:, 7:]) - servo.damping * speed
    rotor = servo.armature * states.a[:, 6:]
    np.testing.assert_allclose(trial.truth.torques, motor - rotor, atol=1e-6)
    assert trial.truth.armature["left_knee_joint"] == servo.armature[3]
    knee = trial.recording.column("tau.left_knee_joint")
    np.testing.assert_allclose(knee, trial.truth.torques[::4, 3], atol=1e-12)


def test_the_same_seed_gives_the_same_bytes():
    # Each from its own file, so that nothing that was planned before is found again.
    first, second, other = (
        simulate(load_model("g1"), "sway", seed=seed, duration=SHORTEST, offsets=0.02).recording for seed in (7, 7, 8)
    )
    assert first.sha256 == second.sha256
    assert first.sha256 != other.sha256


def test_measuring_again_leaves_the_physics_alone():
    trial = short_trial("g1", "dance", noise="default")
    again = trial.with_noise(5)
    assert again.truth.states is trial.truth.states
    assert again.truth.biases == trial.truth.biases
    assert len(trial.truth.biases) == 30
    assert again.recording.sha256 != trial.recording.sha256
    assert again.recording.sha256 == trial.with_noise(5).recording.sha256
    # What another trial through other sensors reads, measuring this one again through them reads too, to the last bit.
    for noise in (None, "default"):
        other = simulate(robot("g1"), "dance", seed=0, noise=noise, duration=SHORT["dance"])
        assert trial.with_noise(0, noise=noise).recording.sha256 == other.recording.sha256


@pytest.mark.parametrize("name", ROBOTS)
def test_true_robots_are_possible_and_differ(name):
    model = robot(name)
    first, second = short_trial(name, "sway").truth, short_trial(name, "reach", 1).truth
    assert np.all(is_possible(first.parameters))
    changes = np.log(np.array(list(first.masses.values())) / np.array(list(model.masses.values())))
    assert 0.1 < np.std(changes) < 0.3
    assert np.max(np.abs(changes)) <= 0.4 + 1e-9
    _, com, inertia = to_mass_com_inertia(first.parameters)
    _, com_before, inertia_before = to_mass_com_inertia(project_to_interior(model.parameters))
    trace, trace_before = (np.trace(tensor, axis1=1, axis2=2) for tensor in (inertia, inertia_before))
    assert 0.1 < np.std(np.log(trace / trace_before)) < 0.5
    extent = np.sqrt(0.5 * trace_before / np.array(list(model.masses.values())))
    moved = np.linalg.norm(com - com_before, axis=1) / extent
    assert 0.05 < np.mean(moved) < 0.4
    assert not np.allclose(first.parameters, second.parameters)


def test_without_spread_the_true_robot_is_the_reference():
    trial = simulate(robot("g1"), "sway", spread=0.0, duration=SHORTEST)
    np.testing.assert_array_equal(trial.truth.parameters, robot("g1").parameters)


def test_a_hose_adds_exactly_its_force_to_the_equation_of_motion():
    hose = Hose(force=(-15.0, 3.0, 8.0), wander=4.0)
    trial = simulate(robot("g1"), "sway", noise=None, duration=6.0, hose=hose)
    states = trial.truth.states
    force = base_wrench(trial.truth.model, states.motion) - trial.truth.ground_wrench
    pull = np.einsum("nji,nj->ni", states.rotation, states.pull)
    assert np.std(states.pull[:, 0]) > 1.0
    np.testing.assert_allclose(force[:, :3], pull, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(force[:, 3:], 0.0, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("wrong", [{"force": (1.0, 2.0)}, {"wander": -1.0}, {"period": 0.0}, {"force": "abc"}])
def test_a_hose_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(LaboratoryError, match="hose"):
        Hose(**wrong)


def test_threads_play_what_one_thread_plays():
    """Eight trials at once, and eight threads that read one trial, get what a single thread gets."""
    alone, shared = load_model("g1"), load_model("g1")
    expected = [simulate(alone, "sway", seed=seed, duration=SHORTEST).recording.values for seed in range(2)]
    again = simulate(alone, "sway", seed=0, duration=SHORTEST)
    with ThreadPoolExecutor(8) as pool:
        trials = list(pool.map(lambda number: simulate(shared, "sway", seed=number % 2, duration=SHORTEST), range(8)))
        read = list(pool.map(lambda _: (again.recording.values, again.truth.torques), range(8)))
    for number, trial in enumerate(trials):
        for column, values in expected[number % 2].items():
            np.testing.assert_array_equal(trial.recording.values[column], values)
    for values, torques in read:
        np.testing.assert_array_equal(torques, trials[0].truth.torques)
        for column in values:
            np.testing.assert_array_equal(values[column], expected[0][column])
