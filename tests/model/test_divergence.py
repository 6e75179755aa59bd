"""Distances of bodies: against their definitions, and unchanged by units and frames."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import logm
from scipy.stats import special_ortho_group

from steelyard import load_model
from steelyard.laboratory.true_robot import draw_parameters
from steelyard.model.divergence import affine_distance, log_det_divergence, log_det_gradient, log_det_hessian
from steelyard.model.parameters import change_frame_matrix, to_pseudo_inertia


@pytest.fixture(scope="module")
def bodies() -> tuple[np.ndarray, np.ndarray]:
    model = load_model("g1")
    return draw_parameters(model, 0.3, np.random.default_rng(1)), np.array(model.parameters)


def test_divergence_is_its_definition(bodies):
    found, reference = bodies
    relative = np.linalg.solve(to_pseudo_inertia(reference), to_pseudo_inertia(found))
    expected = np.trace(relative, axis1=1, axis2=2) - np.linalg.slogdet(relative)[1] - 4.0
    np.testing.assert_allclose(log_det_divergence(found, reference), expected, rtol=1e-9, atol=1e-12)


def test_distance_is_its_definition(bodies):
    found, reference = bodies
    logarithms = [
        logm(np.linalg.solve(to_pseudo_inertia(one), to_pseudo_inertia(other)))
        for one, other in zip(reference, found, strict=True)
    ]
    expected = [np.sqrt(np.trace(each @ each).real) for each in logarithms]
    np.testing.assert_allclose(affine_distance(found, reference), expected, rtol=1e-6)
    np.testing.assert_allclose(affine_distance(found, reference), affine_distance(reference, found), rtol=1e-9)


def test_close_by_divergence_is_half_the_square_of_the_distance(bodies):
    found, reference = bodies
    near = reference + 1e-3 * (found - reference)
    halves = 0.5 * affine_distance(near, reference) ** 2
    np.testing.assert_allclose(log_det_divergence(near, reference), halves, rtol=5e-3)


def test_derivatives_are_those_of_the_divergence(bodies):
    found, reference = bodies
    way = 1e-4 * (found - reference)
    ahead, behind = log_det_divergence(found + way, reference), log_det_divergence(found - way, reference)
    slope = np.einsum("lp,lp->l", log_det_gradient(found, reference), way)
    np.testing.assert_allclose(0.5 * (ahead - behind), slope, rtol=1e-5, atol=1e-12)
    bent = 0.5 * (log_det_gradient(found + way, reference) - log_det_gradient(found - way, reference))
    expected = np.einsum("lpq,lq->lp", log_det_hessian(found), way)
    np.testing.assert_allclose(bent, expected, rtol=1e-5, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["frame", "metres", "kilograms"])
def test_neither_frames_nor_units_change_them(bodies, kind):
    generator = np.random.default_rng(2)
    change = {
        "frame": change_frame_matrix(special_ortho_group.rvs(3, random_state=generator), generator.normal(size=3)),
        "metres": np.diag([1.0] + 3 * [1e3] + 6 * [1e6]),
        "kilograms": 1e3 * np.eye(10),
    }[kind]
    found, reference = bodies
    moved = found @ change.T, reference @ change.T
    np.testing.assert_allclose(log_det_divergence(*moved), log_det_divergence(found, reference), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(affine_distance(*moved), affine_distance(found, reference), rtol=1e-6)


def test_what_cannot_be_is_infinitely_far(bodies):
    found, reference = bodies
    found = found.copy()
    found[0, 0] *= -1.0
    assert np.isinf(log_det_divergence(found, reference)[0])
    assert np.isinf(affine_distance(found, reference)[0])
    assert np.all(np.isfinite(log_det_divergence(found, reference)[1:]))
