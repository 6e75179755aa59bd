"""What coloured noise does to an estimate is said rightly, without knowing its colour."""

import numpy as np
import pytest
from scipy.signal import butter, sosfiltfilt

from steelyard import Motion
from steelyard.regression.second_pass.autocorrelation import (
    correlated_products,
    effective_samples,
    estimate_autocovariance,
    positive_root,
)

COUNT, ROWS, COLUMNS = 1500, 3, 12
MIX = np.array([[1.0, 0.4, 0.0], [0.0, 0.7, -0.5], [0.2, 0.0, 1.5]])


def motion_of(time):
    """Gives a motion of which only the times matter."""
    nothing = np.zeros((len(time), 3))
    return Motion(time, nothing, nothing, nothing, "root", nothing, nothing, nothing, sample_rate=20.0)


def slow_basis():
    """Gives orthonormal columns that change slowly, as motions do, shape (COUNT, ROWS, COLUMNS)."""
    sections = butter(3, 2.0, fs=20.0, output="sos")
    rows = sosfiltfilt(sections, np.random.default_rng(0).normal(size=(COUNT, ROWS, COLUMNS)), axis=0)
    return np.linalg.qr(rows.reshape(-1, COLUMNS)).Q.reshape(COUNT, ROWS, COLUMNS)


def white(generator):
    return generator.normal(size=(COUNT, ROWS)) @ MIX


def persistent(generator):
    noise = generator.normal(size=(COUNT + 200, ROWS))
    for i in range(1, len(noise)):
        noise[i] += 0.8 * noise[i - 1]
    return noise[200:] @ MIX


def differentiated(generator):
    return np.diff(generator.normal(size=(COUNT + 2, ROWS)), n=2, axis=0) @ MIX + 0.5 * generator.normal(
        size=(COUNT, ROWS)
    )


def answers(noise, basis, time):
    """Gives what an estimate left, and what is said of its covariance."""
    flat = basis.reshape(-1, COLUMNS)
    values = flat.T @ noise.ravel()
    residual = noise - (flat @ values).reshape(noise.shape)
    motion = motion_of(time)
    found = estimate_autocovariance(motion, residual, lambda start, stop: basis[start:stop])
    products = correlated_products(motion, lambda start, stop: basis[start:stop], found, COLUMNS)
    return values, products, float(np.sum(np.square(residual))) / (residual.size - COLUMNS)


@pytest.mark.parametrize("colour", [white, persistent, differentiated])
def test_the_covariance_of_an_estimate_is_right_whatever_the_colour(colour):
    basis, time = slow_basis(), np.arange(COUNT) / 20.0
    seen, said, naive = [], [], []
    for seed in range(60):
        values, products, variance = answers(colour(np.random.default_rng(seed)), basis, time)
        seen.append(values)
        said.append(products)
        naive.append(variance)
    scatter = np.mean(np.square(seen))
    # Smoothing over neighbouring frequencies costs some width where the spectrum is steep; never confidence.
    assert 0.9 < np.mean(np.trace(said, axis1=1, axis2=2)) / COLUMNS / scatter < 1.35
    whitened = np.array([np.linalg.solve(positive_root(one), each) for one, each in zip(said, seen, strict=True)])
    assert 0.8 < np.mean(np.square(whitened)) < 1.15
    wrong = np.mean(naive) / scatter
    assert wrong == pytest.approx(1.0, abs=0.15) if colour is white else not 0.6 < wrong < 1.6


def test_it_is_a_covariance():
    basis, time = slow_basis(), np.arange(COUNT) / 20.0
    for colour in (white, persistent, differentiated):
        _, products, _ = answers(colour(np.random.default_rng(1)), basis, time)
        np.testing.assert_allclose(products, products.T)
        assert np.linalg.eigvalsh(products)[0] > 0.0


def test_nothing_is_alike_across_a_gap():
    """Two halves far apart, in any order, say the same as two recordings."""
    basis, noise = slow_basis(), persistent(np.random.default_rng(2))
    half = COUNT // 2
    time = np.arange(COUNT) / 20.0 + np.where(np.arange(COUNT) >= half, 100.0, 0.0)
    _, apart, _ = answers(noise, basis, time)
    turned = np.concatenate([np.arange(half, COUNT), np.arange(half)])
    _, other, _ = answers(noise[turned], basis[turned], time)
    np.testing.assert_allclose(apart, other, rtol=1e-6, atol=1e-9)


def test_repeated_samples_are_worth_their_originals():
    """Every sample five times over: five times as many, worth no more."""
    basis = np.repeat(slow_basis()[: COUNT // 5], 5, axis=0)
    noise = np.repeat(white(np.random.default_rng(3))[: COUNT // 5], 5, axis=0)
    basis = np.linalg.qr(basis.reshape(-1, COLUMNS)).Q.reshape(COUNT, ROWS, COLUMNS)
    _, products, variance = answers(noise, basis, np.arange(COUNT) / 20.0)
    assert effective_samples(COUNT, variance, products) == pytest.approx(COUNT / 5, rel=0.3)
