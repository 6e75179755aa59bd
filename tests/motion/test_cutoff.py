"""The cutoff that is chosen leaves about as little as any, keeps noise white, and knows its bounds."""

import numpy as np
import pytest
from scipy.signal import butter, sosfiltfilt
from scipy.spatial.transform import Rotation

from steelyard import Recording, load_model
from steelyard.kinematics.quaternions import normalised, without_jumps
from steelyard.laboratory import simulate
from steelyard.motion import reconstruct_motion
from steelyard.motion.base_state import ImuBase, PoseBase, SoleBase
from steelyard.motion.com_sensitivity import compute_com_sensitivity, sample_postures
from steelyard.motion.cutoff import HIGHEST, LOWEST, USUAL, choose_cutoff
from steelyard.recording import columns
from steelyard.regression import residuals
from tests.laboratory.trials import robot, short_trial
from tests.motion.test_base_state import ARM, BALL


def left_by_the_truth(trial, recording, cutoff, margin):
    """Gives what the true parameters leave (N, with 5 N for each N m), biases apart, in a usual third of a second.

    Where a sole's corner clicks against the floor, sensors that read every 2 ms miss part of it, whatever the cutoff.
    Whether and when it clicks differs from processor to processor, by rounding.
    """
    model = trial.truth.model
    motion = reconstruct_motion(model, recording, cutoff=cutoff, decimate=False)
    motion = motion.where((motion.time > margin) & (motion.time < recording.time[-1] - margin))
    left = residuals(model, motion, trial.truth.parameters, weights=None)
    left = left - left.mean(axis=0)
    thirds = np.array_split(left, max(1, round(3.0 * (motion.time[-1] - motion.time[0]))))
    return np.median([np.sqrt(np.mean(each[:, :3] ** 2)) + 5.0 * np.sqrt(np.mean(each[:, 3:] ** 2)) for each in thirds])


@pytest.mark.parametrize("noise", [None, "default"])
@pytest.mark.parametrize("motion", ["dance", "sway", "reach"])
@pytest.mark.parametrize("name", ["g1", "talos"])
def test_hardly_any_other_cutoff_leaves_less(name, motion, noise):
    trial = short_trial(name, motion)
    recording = trial.with_noise(1, noise=noise).recording
    chosen, _ = choose_cutoff(trial.truth.model, recording)
    # Lower ones would cost more than a third of so short a recording; see below.
    lowest = 3.0 * 2.0 * 3.7 / recording.duration
    margin = 3.7 / lowest
    others = [cutoff for cutoff in (3.0, 4.0, 6.0, 10.0, 16.0, 25.0) if cutoff >= lowest]
    least = min(left_by_the_truth(trial, recording, cutoff, margin) for cutoff in others)
    # A hundredth of a newton on a robot of 33 or 90 kg is nothing.
    assert left_by_the_truth(trial, recording, chosen, margin) < 1.1 * least + 0.01


@pytest.mark.parametrize("rate", [500.0, 333.0, 100.0, 40.0])
def test_an_integer_step_leaves_two_samples_for_each_period(rate):
    recording = short_trial("g1", "dance", noise="default").recording.resampled(rate)
    chosen, _ = choose_cutoff(robot("g1"), recording)
    step = rate / (2.0 * chosen)
    assert step == pytest.approx(round(step), rel=1e-6)
    motion = reconstruct_motion(robot("g1"), recording)
    assert motion.sample_rate == pytest.approx(2.0 * chosen, rel=1e-6)


def arm(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    return load_model(path, base="fixed")


def swinging(frequency, noise, *, seconds=60.0, rate=200.0, seed=0):
    """Gives an arm that swings at up to some frequency, seen by encoders with white noise."""
    time = np.arange(round(seconds * rate)) / rate
    rng = np.random.default_rng(seed)
    swing = [np.sin(2.0 * np.pi * share * frequency * time) for share in (1.0, 0.83, 0.37)]
    names = ("q.shoulder", "q.elbow")
    return Recording(time, {name: np.sum(swing, axis=0) + noise * rng.standard_normal(len(time)) for name in names})


@pytest.mark.parametrize("frequency", [2.5, 5.0, 10.0])
def test_what_moves_is_kept_and_noise_is_not(tmp_path, frequency):
    model = arm(tmp_path)
    chosen = [choose_cutoff(model, swinging(frequency, noise))[0] for noise in (1e-5, 1e-4, 1e-3)]
    for cutoff in chosen:
        assert 1.05 * frequency < cutoff < 3.0 * frequency
    assert chosen == sorted(chosen, reverse=True)


def test_the_choice_does_not_depend_on_units_of_time_or_chance(tmp_path):
    model = arm(tmp_path)
    first, second = (choose_cutoff(model, swinging(5.0, 1e-4, seed=seed))[0] for seed in (1, 2))
    assert first == pytest.approx(second, rel=0.1)
    recording = swinging(5.0, 1e-4)
    later = Recording(recording.time + 1e6, dict(recording.values))
    assert choose_cutoff(model, later)[0] == pytest.approx(choose_cutoff(model, recording)[0], rel=1e-6)


def test_bounds_are_kept_and_told(tmp_path):
    model = arm(tmp_path)
    cutoff, why = choose_cutoff(model, swinging(0.3, 1e-3))
    assert cutoff == pytest.approx(LOWEST, rel=0.05)
    assert why.startswith("the lower bound")
    cutoff, why = choose_cutoff(model, swinging(40.0, 1e-6))
    assert cutoff == pytest.approx(HIGHEST, rel=0.05)
    assert why.startswith("the upper bound")
    cutoff, why = choose_cutoff(model, swinging(0.3, 1e-3, seconds=5.0))
    assert cutoff == pytest.approx(3.0 * 2.0 * 3.7 / 5.0, rel=0.1)
    assert "more than a third of this short recording" in why
    motion = reconstruct_motion(model, swinging(0.3, 1e-3, seconds=5.0))
    assert len(motion) / motion.sample_rate > 0.6 * 5.0
    cutoff, why = choose_cutoff(model, swinging(3.0, 1e-3, seconds=0.9))
    assert cutoff == pytest.approx(USUAL, rel=0.05)
    assert "too short to choose one from" in why


def test_an_arm_at_rest_gets_the_lowest(tmp_path):
    model = arm(tmp_path)
    still = Recording(np.arange(4000) / 200.0, {"q.shoulder": np.zeros(4000), "q.elbow": np.full(4000, 0.3)})
    cutoff, _ = choose_cutoff(model, still)
    assert cutoff == pytest.approx(LOWEST, rel=0.05)


def test_a_long_recording_is_looked_at_in_parts_on_disk_as_in_memory(tmp_path):
    model, recording = arm(tmp_path), swinging(4.0, 1e-4, seconds=400.0)
    table = np.stack([recording.column(name) for name in recording.columns], axis=1)
    spool = columns.Spool(recording.columns, "long", memory=1000)
    spool.append(table)
    lazy = Recording(recording.time, spool.finish())
    assert isinstance(lazy.values, columns.LazyColumns)
    cutoff, why = choose_cutoff(model, lazy)
    assert (cutoff, why) == choose_cutoff(model, recording)
    assert cutoff == pytest.approx(choose_cutoff(model, recording.between(0.0, 100.0))[0], rel=0.15)


def test_gaps_are_passed_over(tmp_path):
    model, recording = arm(tmp_path), swinging(4.0, 1e-4)
    cut = recording.column("q.elbow").copy()
    cut[3000:3500] = np.nan
    cut[9000:9002] = np.nan
    cutoff, _ = choose_cutoff(model, recording.with_values({**recording.values, "q.elbow": cut}))
    assert cutoff == pytest.approx(choose_cutoff(model, recording)[0], rel=0.1)


def test_the_noise_of_a_tracked_pose_counts_where_the_base_is_the_pose():
    trial = short_trial("g1", "dance", noise="default")
    states = trial.truth.states
    rows = np.searchsorted(states.time, trial.recording.time - 1e-9)
    names = [
        f"base.{name}" for name in ("position.x", "position.y", "position.z", "quat.x", "quat.y", "quat.z", "quat.w")
    ]
    rng = np.random.default_rng(0)
    found = []
    for noise in (1e-5, 3e-3):
        pose = states.q[rows, :7] + noise * rng.standard_normal((len(rows), 7)) * np.array([1.0] * 3 + [0.0] * 4)
        recording = trial.recording.with_values(
            {**trial.recording.values, **dict(zip(names, pose.T, strict=True))}
        ).between(0.0, 9.0)
        found.append(choose_cutoff(robot("g1"), recording, PoseBase())[0])
    assert found[0] > found[1]


def with_columns(recording, prefixes, change):
    """Gives a recording some of whose columns are changed."""
    changed = {name: change(np.array(values)) for name, values in recording.values.items() if name.startswith(prefixes)}
    return recording.with_values({**recording.values, **changed})


def held(rows):
    return lambda values: values[np.arange(len(values)) // rows * rows]


def smoothed_by_the_drive(cutoff):
    sections = butter(2, cutoff, fs=500.0, output="sos")
    return lambda values: sosfiltfilt(sections, values)


SENSORS = ("q.", "pelvis.gyro", "pelvis.accel", "left_foot", "right_foot")


@pytest.mark.parametrize("prefixes", [("q.",), SENSORS])
@pytest.mark.parametrize(
    "change",
    [held(2), held(5), smoothed_by_the_drive(25.0), smoothed_by_the_drive(50.0), smoothed_by_the_drive(100.0)],
    ids=["held at 250 Hz", "held at 100 Hz", "to 25 Hz", "to 50 Hz", "to 100 Hz"],
)
def test_noise_need_not_be_white_up_to_the_highest_frequency(change, prefixes):
    recording = short_trial("g1", "dance", noise="default").recording
    white, _ = choose_cutoff(robot("g1"), recording)
    chosen, why = choose_cutoff(robot("g1"), with_columns(recording, prefixes, change))
    assert chosen == pytest.approx(white, rel=0.15)
    assert why == choose_cutoff(robot("g1"), recording)[1] or "the noise exceeds the signal" in why


def test_a_faster_clock_tells_nothing_new():
    recording = short_trial("g1", "dance", noise="default").recording
    white, _ = choose_cutoff(robot("g1"), recording)
    time = np.arange(0.0, recording.time[-1], 1.0 / 2000.0)
    faster = {name: np.interp(time, recording.time, values) for name, values in recording.values.items()}
    assert choose_cutoff(robot("g1"), Recording(time, faster))[0] == pytest.approx(white, rel=0.05)
    assert choose_cutoff(robot("g1"), recording.resampled(1000.0))[0] == pytest.approx(white, rel=0.05)


def test_coarse_encoders_are_not_held_ones(tmp_path):
    model, recording = arm(tmp_path), swinging(4.0, 3e-4)
    coarse = with_columns(recording, ("q.",), lambda values: 5e-4 * np.round(values / 5e-4))
    assert choose_cutoff(model, coarse)[0] == pytest.approx(choose_cutoff(model, recording)[0], rel=0.1)


def test_where_noise_cannot_be_told_the_highest_is_not_praised(tmp_path):
    model, rng = arm(tmp_path), np.random.default_rng(0)
    time = np.arange(12000) / 200.0
    # Nearly all power of the positions is at 50 Hz: nothing behind it can be told from noise.
    values = 1e-3 * rng.standard_normal((2, len(time))) + 0.05 * np.sin(2.0 * np.pi * 50.0 * time)
    sections = butter(4, 60.0, fs=200.0, output="sos")
    names = ("q.shoulder", "q.elbow")
    recording = Recording(time, dict(zip(names, sosfiltfilt(sections, values), strict=True)))
    cutoff, why = choose_cutoff(model, recording)
    assert cutoff == pytest.approx(HIGHEST, rel=0.05)
    assert why.startswith("the upper bound; the acceleration spectrum grows there as differentiated noise does")


@pytest.mark.parametrize(("name", "expected"), [("g1", 3.0), ("talos", 2.3)])
def test_white_noise_asks_for_a_low_cutoff_and_perfect_sensors_for_a_high_one(name, expected):
    trial = simulate(robot(name), "dance", seed=0, noise=None, duration=16.0)
    noisy = trial.with_noise(1, noise="default").recording
    assert choose_cutoff(robot(name), noisy)[0] == pytest.approx(expected, rel=0.1)
    assert 10.0 < choose_cutoff(robot(name), trial.recording)[0] <= HIGHEST


def turning(rng):
    """Gives times, and quaternions that turn about the upright, with noise: their scalar part changes its sign."""
    time = np.arange(8000) / 200.0
    angles = np.stack([0.2 * np.sin(4.0 * time), 0.15 * np.sin(3.0 * time), 3.0 + 0.4 * np.sin(5.0 * time)], axis=1)
    return time, Rotation.from_euler("xyz", angles + 1e-4 * rng.standard_normal(angles.shape)).as_quat()


def choices(model, time, names, quaternions, others, base=None):
    """Gives the cutoffs for quaternions without jumps, and with a scalar part that is not negative."""
    for signed in (without_jumps(quaternions), normalised(quaternions)):
        recording = Recording(time, {**others, **dict(zip(names, signed.T, strict=True))})
        yield choose_cutoff(model, recording, base)[0]


def test_the_signs_of_a_ball_joints_quaternions_do_not_matter(tmp_path):
    path = tmp_path / "ball.xml"
    path.write_text(BALL)
    time, quaternions = turning(np.random.default_rng(0))
    names, others = [f"q.neck.{axis}" for axis in "xyzw"], {"q.spin": np.zeros(len(time))}
    smooth, jumping = choices(load_model(path, base="fixed"), time, names, quaternions, others)
    assert jumping == smooth < 8.0


def test_the_signs_of_a_poses_quaternions_do_not_matter():
    model, rng = robot("g1"), np.random.default_rng(0)
    time, quaternions = turning(rng)
    names = [*(f"q.{joint}" for joint in model.joints), *(f"base.position.{axis}" for axis in "xyz")]
    others = {name: 1e-4 * rng.standard_normal(len(time)) for name in names}
    quats = [f"base.quat.{axis}" for axis in "xyzw"]
    smooth, jumping = choices(model, time, quats, quaternions, others, PoseBase())
    assert jumping == smooth < 8.0


CHAIN = """<robot name="chain"><link name="base"/>
{links}</robot>"""
LINK = """<link name="link{number}"><inertial><origin xyz="0 0 0.15"/><mass value="{mass}"/>
<inertia ixx="0.01" iyy="0.01" izz="0.002" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="joint{number}" type="revolute"><parent link="{parent}"/><child link="link{number}"/>
<origin xyz="0 0 0.3"/><axis xyz="{axis}"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint>
"""


@pytest.mark.parametrize("moving", range(6))
def test_every_joint_of_a_fixed_arm_counts(tmp_path, moving):
    """Three of its joints turn about the upright in the neutral posture, and move no centre of mass there."""
    links = [
        LINK.format(
            number=number,
            mass=4.0 / (1 + number),
            parent=f"link{number - 1}" if number else "base",
            axis=("0 0 1", "0 1 0")[number % 2],
        )
        for number in range(6)
    ]
    path = tmp_path / "chain.urdf"
    path.write_text(CHAIN.format(links="".join(links)))
    model, rng = load_model(path, base="fixed"), np.random.default_rng(0)
    time = np.arange(4000) / 200.0
    values = {f"q.joint{number}": 1e-6 * rng.standard_normal(len(time)) for number in range(6)}
    values[f"q.joint{moving}"] += 0.3 * np.sin(2.0 * np.pi * 5.0 * time)
    cutoff, _ = choose_cutoff(model, Recording(time, values))
    assert 5.0 < cutoff < 15.0


def test_what_a_joint_does_is_averaged_over_the_postures_that_were_recorded():
    model, trial = robot("g1"), short_trial("g1", "dance")
    postures = sample_postures(model, [trial.recording], "q")
    assert np.ptp(postures[:, 7:], axis=0).max() > 0.1
    leverage, _ = compute_com_sensitivity(model, postures)
    each = np.mean([compute_com_sensitivity(model, posture[None])[0] for posture in postures], axis=0)
    assert leverage.min() >= 0.01 * leverage.max() * (1.0 - 1e-12)
    np.testing.assert_allclose(leverage, each, rtol=0.05, atol=0.005 * leverage.max())
    assert not np.allclose(leverage, compute_com_sensitivity(model, np.array(model.neutral)[None])[0], rtol=0.05)


def test_only_what_tells_of_the_base_counts():
    model, recording = robot("g1"), short_trial("g1", "dance", noise="default").recording
    first, second = model.setup.imus[:2]
    rng = np.random.default_rng(0)
    shaken = with_columns(
        recording,
        (f"{first.name}.gyro", f"{first.name}.accel"),
        lambda each: each + 30.0 * rng.standard_normal(len(each)),
    )
    for base in (SoleBase(model.setup.soles[0]), ImuBase(second)):
        assert choose_cutoff(model, shaken, base) == choose_cutoff(model, recording, base)
    assert choose_cutoff(model, shaken, ImuBase(first))[1] != choose_cutoff(model, recording, ImuBase(first))[1]
    by_name = reconstruct_motion(model, shaken, imu=second.name)
    assert by_name.sample_rate == pytest.approx(2.0 * choose_cutoff(model, recording, ImuBase(second))[0])
