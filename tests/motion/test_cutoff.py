"""The cutoff that is chosen leaves about as little as any, keeps noise white, and knows its bounds."""

import numpy as np
import pytest

from steelyard import Recording, load_model
from steelyard.motion import reconstruct_motion
from steelyard.motion.cutoff import HIGHEST, LOWEST, USUAL, choose_cutoff
from steelyard.recording import columns
from steelyard.regression import residuals
from tests.laboratory.trials import robot, short_trial
from tests.motion.test_base_state import ARM


def left_by_the_truth(trial, recording, cutoff, margin):
    """Gives what the true parameters leave (N, with 5 N for each N m), biases apart."""
    model = trial.truth.model
    motion = reconstruct_motion(model, recording, cutoff=cutoff, decimate=False)
    motion = motion.where((motion.time > margin) & (motion.time < recording.time[-1] - margin))
    left = residuals(model, motion, trial.truth.parameters, weights=None)
    left = left - left.mean(axis=0)
    return np.sqrt(np.mean(left[:, :3] ** 2)) + 5.0 * np.sqrt(np.mean(left[:, 3:] ** 2))


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
    assert why.startswith("the lowest that is chosen")
    cutoff, why = choose_cutoff(model, swinging(40.0, 1e-6))
    assert cutoff == pytest.approx(HIGHEST, rel=0.05)
    assert why.startswith("the highest that is chosen")
    cutoff, why = choose_cutoff(model, swinging(0.3, 1e-3, seconds=5.0))
    assert cutoff == pytest.approx(3.0 * 2.0 * 3.7 / 5.0, rel=0.1)
    assert "more than a third of so short a recording would be lost" in why
    motion = reconstruct_motion(model, swinging(0.3, 1e-3, seconds=5.0))
    assert len(motion) / motion.sample_rate > 0.6 * 5.0
    cutoff, why = choose_cutoff(model, swinging(3.0, 1e-3, seconds=0.9))
    assert cutoff == pytest.approx(USUAL, rel=0.05)
    assert "too little was recorded to choose from" in why


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
        found.append(choose_cutoff(robot("g1"), recording, pose=True)[0])
    assert found[0] > found[1]
