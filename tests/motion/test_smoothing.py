"""One response for all channels, halved where it says, without a shift; derivatives belong to it."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.signal import butter, savgol_filter, sosfiltfilt

from steelyard import MotionError
from steelyard.motion.smoothing import Smoothing, butterworth, convolve, local_cubic, local_cubic_of_cutoff

RATE = 500.0
TIME = np.arange(5000) / RATE
FILTERS = [butterworth(10.0), butterworth(5.0, 2), butterworth(40.0, 6), local_cubic(0.25), local_cubic(0.05)]
each_filter = pytest.mark.parametrize("smoothing", FILTERS, ids=str)


def response_at(smoothing, frequency):
    """Gives the response at a frequency: real, for the kernel is symmetric."""
    value = smoothing.weights(RATE)[0]
    return np.cos(2.0 * np.pi * frequency / RATE * (np.arange(len(value)) - len(value) // 2)) @ value


def half_power(smoothing):
    around = 0.9 * smoothing.cutoff, 1.1 * smoothing.cutoff
    return brentq(lambda frequency: response_at(smoothing, frequency) - np.sqrt(0.5), *around)


def smoothed(smoothing, values, step=1):
    return convolve(np.reshape(values, (len(values), -1)), smoothing.weights(RATE), step)


@pytest.mark.parametrize("order", [2, 4, 8])
@pytest.mark.parametrize("cutoff", [2.0, 10.0, 100.0])
def test_the_power_is_halved_at_the_cutoff(order, cutoff):
    smoothing = butterworth(cutoff, order)
    edge = smoothing.edge(RATE)
    wave = np.sin(2.0 * np.pi * cutoff * TIME)
    np.testing.assert_allclose(smoothed(smoothing, wave)[0, :, 0], np.sqrt(0.5) * wave[edge:-edge], atol=2e-4)
    assert half_power(smoothing) == pytest.approx(cutoff, rel=3e-4)


@pytest.mark.parametrize("window", [0.25, 0.1, 0.05])
def test_the_cutoff_of_a_local_cubic_is_where_its_power_is_halved(window):
    smoothing = local_cubic(window)
    # A window of a few samples is not quite the continuous one.
    assert half_power(smoothing) == pytest.approx(smoothing.cutoff, rel=0.5 / (window * RATE))
    assert local_cubic_of_cutoff(smoothing.cutoff).window == pytest.approx(window)


def test_it_is_the_butterworth_filter_forwards_and_backwards():
    noise = np.random.default_rng(0).standard_normal(5000)
    smoothing = butterworth(10.0)
    # The two passes have the power 1 / (1 + x^8)² of the design: half where x^8 = √2 - 1, on the bilinear scale.
    design = RATE / np.pi * np.arctan(np.tan(np.pi * 10.0 / RATE) / (np.sqrt(2.0) - 1.0) ** (1.0 / 8.0))
    oracle = sosfiltfilt(butter(4, design, fs=RATE, output="sos"), noise)
    edge = smoothing.edge(RATE)
    inner = slice(500 - edge, 4500 - edge)
    np.testing.assert_allclose(smoothed(smoothing, noise)[0, inner, 0], oracle[500:4500], atol=5e-4 * oracle.std())


@pytest.mark.parametrize("points", [5, 30, 125])
def test_accelerations_of_local_cubics_are_those_of_savitzky_and_golay(points):
    noise = np.random.default_rng(1).standard_normal((2000, 3))
    found = smoothed(local_cubic(points / RATE), noise)[2]
    oracle = savgol_filter(noise, 2 * points + 1, polyorder=3, deriv=2, delta=1.0 / RATE, axis=0)[points:-points]
    np.testing.assert_allclose(found, oracle, rtol=0.0, atol=1e-12 * np.abs(oracle).max())


def test_a_dense_local_cubic_weighs_as_the_biweight_does():
    value = local_cubic(0.5).weights(RATE)[0]
    places = np.linspace(-1.0, 1.0, len(value))
    np.testing.assert_allclose(value, 15.0 / 16.0 * (1.0 - places**2) ** 2 / 250.0, atol=2e-5)


@pytest.mark.parametrize("points", [5, 30, 125])
def test_smoothing_with_a_local_cubic_and_differencing_is_its_acceleration(points):
    noise = np.random.default_rng(2).standard_normal((2000, 2))
    value, _, curve = smoothed(local_cubic(points / RATE), noise)
    found = (value[2:] - 2.0 * value[1:-1] + value[:-2]) * RATE**2
    np.testing.assert_allclose(found, curve[1:-1], rtol=0.0, atol=1e-9 * np.abs(curve).max())


@each_filter
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_derivatives_have_the_response_of_the_values(smoothing, share):
    edge, turn = smoothing.edge(RATE), 2.0 * np.pi * share * smoothing.cutoff
    value, slope, curve = smoothed(smoothing, np.sin(turn * TIME))[:, :, 0]
    gain = response_at(smoothing, share * smoothing.cutoff)
    time = TIME[edge:-edge]
    np.testing.assert_allclose(value, gain * np.sin(turn * time), atol=1e-9)
    # Central differences of second order for local cubics, of eighth order otherwise.
    wrong = (turn / RATE) ** 2 / 6.0 if smoothing.kind == "cubic" else (turn / RATE) ** 8 / 500.0
    np.testing.assert_allclose(slope, gain * turn * np.cos(turn * time), atol=(1.01 * wrong + 1e-9) * gain * turn)
    np.testing.assert_allclose(
        curve, -gain * turn**2 * np.sin(turn * time), atol=(1.01 * wrong + 1e-9) * gain * turn**2
    )


@each_filter
def test_parabolas_keep_their_slope_and_curvature(smoothing):
    edge = smoothing.edge(RATE)
    time = TIME[edge:-edge]
    _, slope, curve = smoothed(smoothing, 3.0 + 2.0 * TIME - 0.5 * TIME**2)[:, :, 0]
    np.testing.assert_allclose(slope, 2.0 - time, atol=1e-9)
    np.testing.assert_allclose(curve, -1.0, atol=1e-6)
    np.testing.assert_allclose(smoothed(smoothing, 3.0 + 2.0 * TIME)[0, :, 0], 3.0 + 2.0 * time, atol=1e-10)


@each_filter
def test_edges_are_dropped_not_guessed(smoothing):
    noise = np.random.default_rng(3).standard_normal((4000, 1))
    edge = smoothing.edge(RATE)
    whole, part = smoothed(smoothing, noise), smoothed(smoothing, noise[1000:3500])
    assert whole.shape == (3, 4000 - 2 * edge, 1)
    scale = np.abs(whole).max(axis=1, keepdims=True)
    np.testing.assert_allclose(part / scale, whole[:, 1000 : 3500 - 2 * edge] / scale, rtol=0.0, atol=1e-12)
    assert smoothed(smoothing, noise[: 2 * edge]).shape == (3, 0, 1)
    assert smoothed(smoothing, noise[: 2 * edge + 1]).shape == (3, 1, 1)


@each_filter
def test_decimation_keeps_every_so_many_th_sample(smoothing):
    noise = np.random.default_rng(4).standard_normal((3000, 2))
    np.testing.assert_array_equal(smoothed(smoothing, noise, 7), smoothed(smoothing, noise)[:, ::7])


@each_filter
@pytest.mark.parametrize("decimate", [False, True])
def test_the_bandwidth_tells_how_many_samples_are_independent(smoothing, decimate):
    rng = np.random.default_rng(5)
    noise = rng.standard_normal((4096, 2000)) if smoothing.edge(RATE) < 200 else rng.standard_normal((9000, 1000))
    step = smoothing.decimation(RATE) if decimate else 1
    values = convolve(noise, smoothing.weights(RATE)[:1], step)[0]
    share = min(1.0, 2.0 * smoothing.bandwidth(RATE) / (RATE / step))
    variance = values.var()
    assert variance == pytest.approx(2.0 * smoothing.bandwidth(RATE) / RATE, rel=0.05)
    # The mean of n independent values varies by a n-th of their variance.
    assert len(values) * share == pytest.approx(variance / values.mean(axis=0).var(), rel=0.15)


@pytest.mark.parametrize("order", [2, 4, 8])
@pytest.mark.parametrize("step", [5, 25, 80])
def test_what_a_snapped_cutoff_leaves_of_correlation(step, order):
    value = butterworth(RATE / (2.0 * step), order).weights(RATE)[0]
    products = np.correlate(value, value, mode="full")[len(value) - 1 :]
    assert np.max(np.abs(products[step::step] / products[0])) < (0.002 if order == 4 else 0.01)


@pytest.mark.parametrize("step", [5, 25, 80])
def test_white_noise_stays_white_at_twice_the_cutoff(step):
    smoothing = butterworth(RATE / (2.0 * step))
    assert smoothing.decimation(RATE) == step
    noise = np.random.default_rng(6).standard_normal((40_000, step))
    values = convolve(noise, smoothing.weights(RATE)[:1], step)[0]
    values -= values.mean(axis=0)
    for lag in range(1, 6):
        correlation = np.mean(values[lag:] * values[:-lag]) / values.var()
        assert abs(correlation) < 0.02, f"lag {lag}"


@each_filter
def test_newton_holds_after_smoothing(smoothing):
    # A mass on a spring of stiffness k: force, position and acceleration all pass the filter.
    rng = np.random.default_rng(7)
    mass, frequencies = 3.0, rng.uniform(0.1, 1.0, 6) * smoothing.cutoff
    phases = 2.0 * np.pi * (np.multiply.outer(TIME, frequencies) + rng.random(6))
    position = np.sin(phases).sum(axis=1)
    force = -mass * np.sin(phases) @ (2.0 * np.pi * frequencies) ** 2
    acceleration, smooth_force = smoothed(smoothing, position)[2], smoothed(smoothing, force)[0]
    tolerance = 1e-6 if smoothing.kind == "butterworth" else (2.0 * np.pi * smoothing.cutoff / RATE) ** 2 / 12.0
    np.testing.assert_allclose(mass * acceleration, smooth_force, rtol=0.0, atol=tolerance * np.abs(force).max())


def test_a_local_cubics_own_values_would_break_newtons_law():
    # Why forces are not smoothed by the local cubic's values: at its cutoff these still pass nearly everything.
    points = 125
    turn = 2.0 * np.pi * local_cubic(points / RATE).cutoff
    position, force = np.sin(turn * TIME), -(turn**2) * np.sin(turn * TIME)
    acceleration = savgol_filter(position, 2 * points + 1, 3, deriv=2, delta=1.0 / RATE)[points:-points]
    papers = savgol_filter(force, 2 * points + 1, 3)[points:-points]
    ours = smoothed(local_cubic(points / RATE), force)[0, :, 0]
    assert np.abs(papers - acceleration).max() > 0.2 * np.abs(acceleration).max()
    assert np.abs(ours - acceleration).max() < 1e-4 * np.abs(acceleration).max()


def test_what_cannot_be_had_is_refused():
    with pytest.raises(MotionError, match=r"cutoff of 300 Hz is too high for a sample rate of 500 Hz; .* below 200 Hz"):
        butterworth(300.0).weights(RATE)
    with pytest.raises(MotionError, match=r"window of 0.001 s on each side holds 0 samples"):
        local_cubic(0.001).weights(RATE)
    with pytest.raises(MotionError, match=r"order of the filter is 1; choose one from 2 to 8"):
        butterworth(5.0, 1)
    for cutoff in (0.0, -3.0, np.nan, np.inf, "ten", None):
        with pytest.raises(MotionError, match=r"the cutoff is .* Hz; it must be a positive number"):
            butterworth(cutoff)
    with pytest.raises(MotionError, match=r"the window is -1; give seconds"):
        local_cubic(-1)
    with pytest.raises(MotionError, match=r"the smoothing is 'spline'; choose 'butterworth' or 'cubic'"):
        Smoothing("spline", 5.0)
