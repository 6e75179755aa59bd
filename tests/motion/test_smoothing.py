"""Smoothing keeps what it should, halves the power where it says, and shifts nothing."""

import numpy as np
import pytest

from steelyard import MotionError, Recording, load_model
from steelyard.motion.reconstruction import reconstruct_from_imu
from steelyard.motion.smoothing import differentiate, differentiate_twice, smooth

RATE = 500.0
TIME = np.arange(5000) / RATE


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("cutoff", [5.0, 10.0])
def test_power_is_halved_at_the_cutoff(order, cutoff):
    wave = np.sin(2.0 * np.pi * cutoff * TIME)
    middle = smooth(wave, RATE, cutoff, order=order)[1500:3500]
    assert np.max(np.abs(middle)) == pytest.approx(np.sqrt(0.5), rel=2e-3)
    np.testing.assert_allclose(middle, np.sqrt(0.5) * wave[1500:3500], atol=3e-3)


def test_slow_waves_pass_and_fast_ones_do_not():
    slow, fast = np.sin(2.0 * np.pi * 1.0 * TIME), np.sin(2.0 * np.pi * 80.0 * TIME)
    middle = slice(1000, 4000)
    np.testing.assert_allclose(smooth(slow, RATE, 10.0)[middle], slow[middle], atol=1e-6)
    assert np.max(np.abs(smooth(fast, RATE, 10.0)[middle])) < 1e-6


def test_derivatives_are_of_fourth_order():
    wave, turn = np.sin(7.0 * TIME), 7.0
    inner = slice(2, -2)
    np.testing.assert_allclose(differentiate(wave, RATE)[inner], turn * np.cos(7.0 * TIME)[inner], atol=1e-7)
    np.testing.assert_allclose(differentiate_twice(wave, RATE)[inner], -(turn**2) * wave[inner], atol=1e-6)
    assert np.all(np.isnan(differentiate(wave, RATE)[[0, 1, -2, -1]]))


def test_impossible_cutoffs_and_short_recordings_are_refused():
    with pytest.raises(MotionError, match=r"cutoff of 300 Hz cannot be had from 500 samples a second"):
        smooth(TIME, RATE, 300.0)
    with pytest.raises(MotionError, match="too few for a cutoff"):
        smooth(TIME[:20], RATE, 5.0)


def test_gaps_and_crooked_clocks_are_refused():
    model = load_model("g1")
    names = [f"q.{joint}" for joint in model.joints] + [
        f"pelvis.{kind}.{axis}" for kind in ("gyro", "accel") for axis in "xyz"
    ]
    values = {name: np.zeros(len(TIME)) for name in names}
    values["q.left_knee_joint"][2000:2100] = np.nan
    with pytest.raises(MotionError, match=r"q.left_knee_joint has no readings from 3.998 s to 4.200 s"):
        reconstruct_from_imu(model, Recording(TIME, values))
    values["q.left_knee_joint"][:] = 0.0
    with pytest.raises(MotionError, match="not evenly spaced"):
        reconstruct_from_imu(model, Recording(TIME**1.2, values))
    with pytest.raises(MotionError, match="no inertial sensor head"):
        reconstruct_from_imu(model, Recording(TIME, values), imu="head")
