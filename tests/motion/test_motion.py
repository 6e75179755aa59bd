"""A Motion knows its sample rate: that between gaps, and that of what is left when samples are left out."""

from dataclasses import fields, replace

import numpy as np
import pytest

from steelyard import MotionError, motion_from_generalized
from steelyard.motion import reconstruct_motion
from steelyard.motion.motion import join_motions
from tests.laboratory.trials import robot, short_trial


def at_rest(time):
    model = robot("g1")
    q = np.tile(np.array(model.neutral), (len(time), 1))
    still = np.zeros((len(time), model.velocity_size))
    return motion_from_generalized(model, time, q, still, still, bandwidth=4.0)


def test_a_gap_does_not_change_the_sample_rate():
    time = np.arange(100) / 10.0
    assert at_rest(time).sample_rate == pytest.approx(10.0)
    time[40:] += 60.0
    motion = at_rest(time)
    assert motion.sample_rate == pytest.approx(10.0)
    assert motion.effective_count == pytest.approx(80.0)


def test_times_must_increase():
    time = np.arange(100) / 10.0
    time[40:] -= 2.0
    with pytest.raises(MotionError, match=r"time is not increasing after sample 39 \(3.9 s\)"):
        at_rest(time)
    with pytest.raises(MotionError, match=r"time is not increasing after sample 0"):
        at_rest(np.zeros(5))
    with pytest.raises(MotionError, match=r"time must be one row of increasing seconds"):
        at_rest(np.full(5, np.nan))


def test_every_second_sample_is_as_thinned():
    motion = reconstruct_motion(robot("g1"), short_trial("g1", "dance").recording, cutoff=10.0)
    chosen = np.arange(len(motion)) % 2 == 0
    masked, thinned = motion.where(chosen), motion.thinned(2)
    assert masked.sample_rate == pytest.approx(thinned.sample_rate)
    assert masked.effective_count == pytest.approx(thinned.effective_count)
    # Gaps, and having no samples, change nothing.
    for mask in (motion.time > 3.0, np.abs(motion.time - 4.0) > 1.0, np.zeros(len(motion), dtype=bool)):
        assert motion.where(mask).sample_rate == motion.sample_rate


def test_pieces_that_are_joined_are_the_whole():
    motion = reconstruct_motion(robot("g1"), short_trial("g1", "dance").recording, cutoff=10.0)
    motion = replace(motion, contacts={"left": motion.time > 3.0, "right": motion.time < 4.0})
    whole = join_motions(list(motion.chunks(17)))
    for field in fields(motion):
        one, other = getattr(motion, field.name), getattr(whole, field.name)
        if isinstance(one, dict):
            assert one.keys() == other.keys()
            for name in one:
                np.testing.assert_array_equal(other[name], one[name])
        else:
            np.testing.assert_array_equal(other, one)


def test_a_sole_that_a_piece_does_not_name_is_on_the_ground_there():
    motion = reconstruct_motion(robot("g1"), short_trial("g1", "dance").recording, cutoff=10.0)
    first, second = motion.between(0, 10), motion.between(10, 30)
    lifted = replace(second, contacts={"left": np.zeros(20, dtype=bool)})
    for pieces, expected in (
        ((first, lifted), [True] * 10 + [False] * 20),
        ((lifted, first), [False] * 20 + [True] * 10),
    ):
        assert join_motions(pieces).contacts["left"].tolist() == expected


def test_unlike_pieces_are_not_joined():
    motion = reconstruct_motion(robot("g1"), short_trial("g1", "dance").recording, cutoff=10.0)
    with pytest.raises(MotionError, match="cannot be joined"):
        join_motions([motion, replace(motion, base="torso_link")])
    with pytest.raises(MotionError, match="'right_foot' is measured in some of the motions only"):
        join_motions([motion, replace(motion, wrenches={"left_foot": motion.wrenches["left_foot"]})])
    with pytest.raises(MotionError, match="no motion to join"):
        join_motions([])
