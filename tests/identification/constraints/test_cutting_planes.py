"""Directions on the sphere: how many, how even, and what their rows say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from steelyard.identification.constraints.cutting_planes import half_directions, icosahedron_directions, tensor_rows
from steelyard.model.parameters import rotational_inertia_at_origin


@pytest.mark.parametrize("subdivisions", range(6))
def test_each_subdivision_divides_each_face_into_four(subdivisions: int) -> None:
    points = icosahedron_directions(subdivisions)
    assert len(points) == 10 * 4**subdivisions + 2
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=0.0, atol=1e-14)
    assert len(np.unique(np.round(points, 9), axis=0)) == len(points)
    hull = ConvexHull(points)
    assert len(hull.simplices) == 20 * 4**subdivisions
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=1e-12)


def test_five_subdivisions_are_the_papers_10242_vectors() -> None:
    """Every direction of space is within 1.3 degrees of one of them, so that (13) misses an eigenvalue by 0.05 %."""
    points = icosahedron_directions(5)
    assert len(points) == 10_242
    random = np.random.default_rng(0).normal(size=(300, 3))
    random /= np.linalg.norm(random, axis=1)[:, None]
    nearest = np.max(random @ points.T, axis=1)
    assert np.degrees(np.arccos(np.min(nearest))) < 1.35


@pytest.mark.parametrize("subdivisions", range(6))
def test_halves_have_one_of_each_two_opposites(subdivisions: int) -> None:
    half, every = half_directions(subdivisions), icosahedron_directions(subdivisions)
    both = np.concatenate([half, -half])
    assert len(half) == len(every) // 2
    assert len(np.unique(np.round(both, 9) + 0.0, axis=0)) == len(every)
    if subdivisions:
        assert np.max(np.abs(half @ np.eye(3)), axis=0) == pytest.approx(1.0)


@given(st.integers(0, 10_000))
def test_a_row_gives_the_inertia_about_its_direction(seed: int) -> None:
    generator = np.random.default_rng(seed)
    parameters, directions = generator.normal(size=10), generator.normal(size=(5, 3))
    tensor = rotational_inertia_at_origin(parameters)
    expected = np.einsum("ni,ij,nj->n", directions, tensor, directions)
    np.testing.assert_allclose(tensor_rows(directions) @ parameters[4:], expected, rtol=1e-12, atol=1e-12)
