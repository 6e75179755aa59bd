"""Draws from a posterior: against closed forms, within what must hold, and calibrated."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.stats import chi2, kstest, norm, truncnorm, wishart

from steelyard.exceptions import IdentifiabilityError, SolverError
from steelyard.identification.sampling.convergence import effective_counts, r_hat
from steelyard.identification.sampling.draws import draw
from steelyard.identification.sampling.posterior import Posterior
from steelyard.identification.sampling.small_factors import (
    COLUMNS,
    ROWS,
    are_positive,
    factor_ldl,
    invert_ldl,
    to_matrices,
)
from steelyard.identification.sampling.whitening import whiten
from steelyard.model.consistency import is_possible
from steelyard.model.parameters import PARAMETER_COUNT, from_pseudo_inertia, to_pseudo_inertia
from tests.humanoids import random_bodies

FAR = 4.5
"""Standard errors by which a mean of draws may be off; about one in 10⁵ is further by chance."""


def a_posterior(links: int, **changes) -> Posterior:
    """Gives a posterior over all parameters of some bodies, about which nothing is known but what is said."""
    size = PARAMETER_COUNT * links
    fields = {
        "start": random_bodies(np.random.default_rng(links), links).reshape(-1),
        "transform": np.eye(size),
        "data_root": np.zeros((0, size)),
        "data_right": np.zeros(0),
        "mode": np.zeros(size),
        "reference": random_bodies(np.random.default_rng(links), links),
        "weights": np.zeros(links),
        "prior_root": np.zeros((0, size)),
        "possible": True,
        "rows": np.zeros((0, size)),
        "lower": np.zeros(0),
        "upper": np.zeros(0),
    }
    if "transform" in changes:
        width = np.asarray(changes["transform"]).shape[1]
        for name in ("data_root", "prior_root"):
            fields[name] = np.zeros((0, width))
        fields["mode"] = np.zeros(width)
    return Posterior(**(fields | changes))


def relative(posterior: Posterior, parameters) -> np.ndarray:
    """Gives the bodies as seen from their references, where these are 1."""
    lower = np.linalg.cholesky(to_pseudo_inertia(posterior.reference))
    inverse = np.linalg.inv(lower)
    return inverse @ to_pseudo_inertia(parameters) @ np.swapaxes(inverse, -1, -2)


def own_scale(posterior: Posterior) -> np.ndarray:
    """Gives a root of how far bodies may be off, in all directions alike as seen from them, shape (10 n, 10 n)."""
    lower = np.linalg.cholesky(to_pseudo_inertia(posterior.reference))
    entries = np.eye(PARAMETER_COUNT) / np.sqrt(np.where(ROWS == COLUMNS, 1.0, 2.0))
    return block_diag(*(from_pseudo_inertia(each @ to_matrices(entries) @ each.T).T for each in lower))


def assert_same_law(draws, oracle, effective: float) -> None:
    """Compares two samples by their quantiles."""
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        share = np.mean(draws <= np.quantile(oracle, level))
        error = np.sqrt(level * (1.0 - level) * (1.0 / effective + 1.0 / len(oracle)))
        assert abs(share - level) < FAR * error, level


def test_factors_written_out_are_those_of_lapack() -> None:
    generator = np.random.default_rng(0)
    matrices = generator.normal(size=(3, 50, 4, 4))
    matrices = matrices @ np.swapaxes(matrices, -1, -2) - 0.1 * np.eye(4)
    entries = np.moveaxis(matrices[..., ROWS, COLUMNS], -1, 0)
    below, pivots = factor_ldl(entries)
    positive = are_positive(pivots)
    np.testing.assert_array_equal(positive, np.linalg.eigvalsh(matrices)[..., 0] > 0.0)
    assert 0.1 < np.mean(positive) < 0.9
    inverse = to_matrices(np.moveaxis(invert_ldl(below, pivots), 0, -1)[positive])
    np.testing.assert_allclose(inverse @ matrices[positive], np.broadcast_to(np.eye(4), inverse.shape), atol=1e-9)


@pytest.mark.parametrize("tied", [False, True])
def test_gradient_and_hessian_are_those_of_the_energy(tied: bool) -> None:
    generator = np.random.default_rng(1)
    scale = own_scale(a_posterior(2))
    # Two links that are images of each other count each.
    transform = np.concatenate([scale[:10, :10], scale[:10, :10]]) if tied else scale
    size = transform.shape[1]
    posterior = a_posterior(
        2,
        transform=transform,
        weights=np.array([3.0, 7.0]),
        data_root=generator.normal(size=(4, size)),
        data_right=generator.normal(size=4),
        prior_root=generator.normal(size=(3, size)),
    )
    points = 0.02 * generator.normal(size=(5, size))
    step = 1e-6 * generator.normal(size=size)
    slope = (posterior.energy(points + step) - posterior.energy(points - step)) / 2.0
    np.testing.assert_allclose(posterior.gradient(points) @ step, slope, rtol=1e-6, atol=1e-12)
    turn = (posterior.gradient(points[0] + step) - posterior.gradient(points[0] - step)) / 2.0
    np.testing.assert_allclose(posterior.hessian(points[0]) @ step, turn, rtol=1e-6, atol=1e-12)


def test_energy_is_infinite_where_something_is_broken() -> None:
    posterior = a_posterior(1, rows=np.eye(10)[:1], lower=np.zeros(1), upper=np.array([1e3]))
    assert np.isfinite(posterior.energy(np.zeros(10)))
    assert posterior.energy(-2.0 * posterior.start) == np.inf
    assert posterior.energy(np.eye(10)[0] * 2e3) == np.inf
    assert a_posterior(1, possible=False).energy(-2.0 * posterior.start) == 0.0


@pytest.mark.parametrize("weight", [4.0, 30.0])
def test_one_link_without_data_is_a_wishart(weight: float) -> None:
    posterior = a_posterior(1, weights=np.array([weight]))
    draws = draw(posterior, 4000, np.random.default_rng(2))
    effective = min(4000.0, draws.mixing.effective_count)
    found = relative(posterior, draws.parameters[:, 0])
    # det(X)^w exp(−w tr X) by symmetric matrices is a Wishart density of ν − 5 = 2 w and scale 1/(2 w).
    oracle = wishart(df=2.0 * weight + 5.0, scale=np.eye(4) / (2.0 * weight))
    reference = oracle.rvs(size=20000, random_state=np.random.default_rng(3))
    spread = np.std(reference, axis=0)
    np.testing.assert_array_less(np.abs(np.mean(found, axis=0) - oracle.mean()), FAR * spread / np.sqrt(effective))
    sizes = np.std(found, axis=0) / np.sqrt(oracle.var())
    np.testing.assert_allclose(sizes, 1.0, atol=FAR * 1.3 / np.sqrt(effective))
    assert_same_law(np.linalg.slogdet(found)[1], np.linalg.slogdet(reference)[1], effective)
    assert_same_law(np.linalg.eigvalsh(found)[:, 0], np.linalg.eigvalsh(reference)[:, 0], effective)


@pytest.mark.parametrize("seed", range(4))
def test_chains_that_begin_at_a_steep_place_leave_it(seed: int) -> None:
    # Of a hundred chains over ten links, one or another begins where some link is almost impossible.
    draws = draw(a_posterior(10, weights=np.full(10, 7.0)), 100, np.random.default_rng(seed))
    assert draws.mixing.mixed
    assert draws.mixing.moves <= 80


def test_a_gaussian_cut_off_by_the_possible_is_that() -> None:
    # As wide as the body itself, so that most of the Gaussian is impossible: rejection is the oracle.
    posterior = a_posterior(1)
    scale = 0.6 * own_scale(posterior)
    posterior = a_posterior(1, prior_root=np.linalg.inv(scale))
    draws = draw(posterior, 4000, np.random.default_rng(4))
    effective = min(4000.0, draws.mixing.effective_count)
    proposals = posterior.start + np.random.default_rng(5).normal(size=(200_000, 10)) @ scale.T
    kept = proposals[is_possible(proposals)]
    assert 0.02 < len(kept) / len(proposals) < 0.5
    found, oracle = relative(posterior, draws.parameters[:, 0]), relative(posterior, kept)
    error = np.std(oracle, axis=0) * np.sqrt(1.0 / effective + 1.0 / len(kept))
    np.testing.assert_array_less(np.abs(np.mean(found, axis=0) - np.mean(oracle, axis=0)), FAR * error)
    assert_same_law(np.linalg.eigvalsh(found)[:, 0], np.linalg.eigvalsh(oracle)[:, 0], effective)
    assert_same_law(np.trace(found, axis1=1, axis2=2), np.trace(oracle, axis1=1, axis2=2), effective)


@pytest.mark.parametrize("weight", [0.0, 20.0])
def test_strong_data_make_it_a_gaussian(weight: float) -> None:
    generator = np.random.default_rng(6)
    posterior = a_posterior(2, weights=np.full(2, weight))
    scale = 0.01 * own_scale(posterior)
    root = (np.eye(20) + 0.1 * generator.normal(size=(20, 20))) @ np.linalg.inv(scale)
    centre = 0.02 * posterior.start
    posterior = a_posterior(2, weights=np.full(2, weight), data_root=root, data_right=root @ centre)
    draws = draw(posterior, 2000, generator)
    mode = whiten(posterior).offset
    np.testing.assert_allclose(posterior.gradient(mode) @ scale, 0.0, atol=0.05)
    white = (draws.points - mode) @ np.linalg.cholesky(posterior.hessian(mode))
    np.testing.assert_allclose(np.cov(white.T), np.eye(20), atol=0.2)
    lengths = np.sum(np.square(white), axis=1)
    assert kstest(lengths, chi2(20).cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    ("lower", "upper"), [(-0.5, 1.0), (0.8, np.inf), (2.0, 2.05), (-np.inf, -3.0), (300.0, np.inf)]
)
def test_one_dimension_is_a_truncated_normal(lower: float, upper: float) -> None:
    row = np.zeros((1, 10))
    row[0, 0] = 1.0
    posterior = a_posterior(
        1,
        start=np.zeros(10),
        transform=row.T,
        prior_root=np.eye(1),
        possible=False,
        rows=row,
        lower=np.array([lower]),
        upper=np.array([upper]),
    )
    draws = draw(posterior, 2000, np.random.default_rng(7))
    masses = draws.parameters[:, 0, 0]
    assert np.all((masses >= lower) & (masses <= upper))
    assert kstest(masses, truncnorm(lower, upper).cdf).pvalue > 1e-4


def test_draws_hold_what_must_hold() -> None:
    generator = np.random.default_rng(8)
    links = 4
    posterior = a_posterior(links)
    scale = 0.5 * own_scale(posterior)
    masses = np.zeros((1, 10 * links))
    masses[0, ::10] = 1.0
    total = float(masses[0] @ posterior.start)
    single, frozen, band = np.eye(10 * links)[[10]], np.eye(10 * links)[[21, 22]], np.eye(10 * links)[[30]]
    rows = np.concatenate([masses, single, frozen, band])
    middle = rows @ posterior.start
    lower = middle - np.array([0.0, 0.0, 0.0, 0.0, 1e-4])
    upper = middle + np.array([0.0, np.inf, 0.0, 0.0, 1e-4])
    posterior = a_posterior(links, prior_root=np.linalg.inv(scale), rows=rows, lower=lower, upper=upper)
    draws = draw(posterior, 200, generator, holds=lambda parameters: parameters[:, 2, 0] < 1.1 * middle[0])
    assert np.all(is_possible(draws.parameters))
    flat = draws.parameters.reshape(200, -1)
    np.testing.assert_allclose(flat @ masses[0], total, rtol=1e-9)
    np.testing.assert_allclose(flat @ frozen.T, np.tile(middle[2:4], (200, 1)), rtol=0.0, atol=1e-9 * abs(total))
    assert np.all(flat[:, 10] >= lower[1])
    assert np.all(np.abs(flat[:, 30] - middle[4]) <= 1e-4)
    # Within a narrow band nothing is preferred.
    assert kstest((flat[:, 30] - lower[4]) / 2e-4, "uniform").pvalue > 1e-4
    assert np.all(posterior.holds(draws.parameters))
    assert np.all(np.isfinite(posterior.energy(draws.points)))
    assert np.all(np.std(flat, axis=0)[[0, 10, 20]] > 0.0)


def test_the_same_seed_gives_the_same_draws() -> None:
    posterior = a_posterior(2, weights=np.full(2, 9.0))
    first, again = (draw(posterior, 30, np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(first.points, again.points)
    other = draw(posterior, 30, np.random.default_rng(10))
    assert not np.any(first.points == other.points)
    assert first.points.shape == (30, 20)
    assert first.mixing == again.mixing


def test_units_of_the_unknowns_do_not_matter() -> None:
    scales = np.logspace(-4, 4, 20)
    plain = a_posterior(2, weights=np.full(2, 9.0))
    scaled = a_posterior(2, weights=np.full(2, 9.0), transform=np.diag(scales))
    one, other = (draw(posterior, 50, np.random.default_rng(11)) for posterior in (plain, scaled))
    np.testing.assert_allclose(one.parameters, other.parameters, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("hard", [False, True])
def test_ranks_of_the_truth_are_uniform(hard: bool) -> None:
    # Simulation-based calibration [Talts et al. 2018]: the truth from the prior, data from the truth.
    generator = np.random.default_rng(12)
    trials, count = 30, 64
    posterior = a_posterior(1)
    scale = own_scale(posterior)
    if hard:
        prior = {"prior_root": np.linalg.inv(0.5 * scale)}
        candidates = posterior.start + generator.normal(size=(4000, 10)) @ (0.5 * scale).T
        truths = candidates[is_possible(candidates)][:trials]
        assert len(truths) == trials
    else:
        prior = {"weights": np.array([8.0])}
        lower = np.linalg.cholesky(to_pseudo_inertia(posterior.reference[0]))
        drawn = wishart(df=21.0, scale=np.eye(4) / 16.0).rvs(size=trials, random_state=generator)
        truths = from_pseudo_inertia(lower @ drawn @ lower.T)
    ranks = []
    for truth in truths:
        root = generator.normal(size=(6, 10)) @ np.linalg.inv(scale)
        right = root @ (truth - posterior.start) + generator.normal(size=6)
        told = a_posterior(1, data_root=root, data_right=right, **prior)
        found = draw(told, count, generator).parameters[:, 0]
        features = [
            lambda body: body[..., 0],
            lambda body: np.linalg.slogdet(to_pseudo_inertia(body))[1],
            lambda body: np.linalg.eigvalsh(relative(posterior, body))[..., 0],
        ]
        ranks.append([np.mean(feature(found) < feature(truth)) for feature in features])
    spread = (np.array(ranks) * count + generator.uniform(size=(trials, 3))) / (count + 1)
    for column in spread.T:
        assert kstest(column, "uniform").pvalue > 1e-3


def test_chains_that_differ_are_seen() -> None:
    generator = np.random.default_rng(13)
    plain = generator.normal(size=(40, 50, 3))
    assert np.all(np.abs(r_hat(plain) - 1.0) < 0.02)
    assert np.all(np.abs(effective_counts(plain) / 2000.0 - 1.0) < 0.4)
    apart = plain + generator.normal(size=(1, 50, 3))
    assert np.all(r_hat(apart) > 1.3)
    assert np.all(effective_counts(apart) < 200.0)
    drifting = plain + np.linspace(0.0, 2.0, 40)[:, None, None]
    assert np.all(r_hat(drifting) > 1.2)
    slow = np.zeros((400, 50, 1))
    slow[0] = generator.normal(size=(50, 1))
    for time in range(1, 400):
        slow[time] = 0.8 * slow[time - 1] + 0.6 * generator.normal(size=(50, 1))
    assert effective_counts(slow)[0] == pytest.approx(20000.0 / 9.0, rel=0.25)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(SolverError, match="bound some parameters"):
        draw(a_posterior(1), 10, np.random.default_rng(14))
    root = np.linalg.inv(own_scale(a_posterior(1)))
    rows = np.eye(10)[:1]
    impossible = a_posterior(1, prior_root=root, rows=rows, lower=np.array([-2.0]), upper=np.array([-1.0]))
    with pytest.raises(SolverError, match="strictly possible"):
        draw(impossible, 10, np.random.default_rng(15))
    against = np.concatenate([rows, rows])
    both = a_posterior(1, prior_root=root, rows=against, lower=np.array([1.0, 2.0]), upper=np.array([1.0, 2.0]))
    with pytest.raises(SolverError, match="contradict"):
        draw(both, 10, np.random.default_rng(16))
    with pytest.raises(SolverError, match="near the centre"):
        draw(
            a_posterior(1, prior_root=root), 10, np.random.default_rng(17), holds=lambda each: np.zeros(len(each), bool)
        )
    for count in (0, -1, 2.5, True):
        with pytest.raises(IdentifiabilityError, match="number of draws"):
            draw(a_posterior(1, prior_root=root), count, np.random.default_rng(18))


def test_all_that_is_unknown_may_be_decided_by_equations() -> None:
    posterior = a_posterior(1)
    fixed = 1.1 * posterior.start
    told = a_posterior(1, rows=np.eye(10), lower=fixed, upper=fixed)
    draws = draw(told, 3, np.random.default_rng(19))
    np.testing.assert_allclose(draws.parameters.reshape(3, 10), np.tile(fixed, (3, 1)), rtol=1e-9)


def test_a_posterior_is_stored_and_read_again() -> None:
    generator = np.random.default_rng(20)
    posterior = a_posterior(
        2,
        weights=np.array([2.0, 0.0]),
        data_root=np.triu(generator.normal(size=(20, 20))),
        data_right=generator.normal(size=20),
        rows=np.eye(20)[:2],
        lower=np.array([-np.inf, 0.0]),
        upper=np.array([1e3, np.inf]),
    )
    again = Posterior.from_dict(json.loads(json.dumps(posterior.to_dict(), allow_nan=False)))
    for name in vars(posterior):
        if not name.startswith("_"):
            np.testing.assert_array_equal(getattr(again, name), getattr(posterior, name))
    points = 0.01 * generator.normal(size=(3, 20)) * posterior.start
    np.testing.assert_array_equal(again.energy(points), posterior.energy(points))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", [0.0]),
        ("weights", [1.0, 1.0]),
        ("weights", [-1.0]),
        ("reference", [[0.0] * 10]),
        ("start", ["a"] * 10),
        ("start", [float("nan")] * 10),
        ("possible", 1),
        ("transform", {"shape": [10, 10], "rows": [11], "columns": [0], "values": [1.0]}),
        ("transform", {"shape": [10, 10], "rows": [1, 2], "columns": [0], "values": [1.0]}),
        ("rows", {"shape": [1, 9], "rows": [], "columns": [], "values": []}),
        ("lower", [0.0]),
    ],
)
def test_a_broken_file_is_refused(name: str, value) -> None:
    stored = a_posterior(1, weights=np.ones(1)).to_dict()
    with pytest.raises((ValueError, TypeError, KeyError, IdentifiabilityError)):
        Posterior.from_dict(stored | {name: value})


def test_normal_quantiles_of_a_free_unknown() -> None:
    # A link that need not be possible, with a prior only: nothing cuts it off.
    posterior = a_posterior(1, possible=False, prior_root=2.0 * np.eye(10))
    draws = draw(posterior, 1000, np.random.default_rng(21))
    for column in draws.points.T:
        assert kstest(2.0 * column, norm.cdf).pvalue > 1e-5
