"""Which bodies can exist, how far the others are, and where the projection puts them."""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from steelyard.model.consistency import EXTENT_FLOOR, MASS_FLOOR, diagnose, is_possible, project_to_interior
from steelyard.model.parameters import change_frame, from_mass_com_inertia, to_mass_com_inertia, to_pseudo_inertia
from tests.humanoids import humanoid, random_bodies


def box(mass: float, x: float, y: float, z: float, com=(0.0, 0.0, 0.0)):
    tensor = mass / 12.0 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])
    return from_mass_com_inertia(mass, np.array(com), tensor)


def test_a_solid_box_is_possible_and_a_plate_is_singular() -> None:
    assert diagnose(box(1.0, 0.1, 0.2, 0.3)).status == "possible"
    plate = diagnose(box(1.0, 0.1, 0.2, 0.0))
    assert plate.status == "singular"
    assert "sheet" in plate.reasons[0]
    assert "rod" in diagnose(box(1.0, 0.3, 0.0, 0.0)).reasons[0]
    assert "point" in diagnose(box(1.0, 0.0, 0.0, 0.0, com=(0.1, 0.0, 0.0))).reasons[0]


def test_words_name_the_law_that_is_broken() -> None:
    broken = from_mass_com_inertia(1.0, np.zeros(3), np.diag([0.01, 0.02, 0.04]))
    assert "triangle inequality: 0.04 > 0.01 + 0.02" in diagnose(broken).reasons[0]
    negative = from_mass_com_inertia(1.0, np.zeros(3), np.diag([0.01, -0.02, 0.04]))
    assert "negative principal moment" in diagnose(negative).reasons[0]
    assert "mass is -1" in diagnose(-box(1.0, 0.1, 0.1, 0.1)).reasons[0]
    only_inertia = np.zeros(10)
    only_inertia[4] = 0.1
    assert "zero but its inertia is not" in diagnose(only_inertia).reasons[0]


def test_distance_is_that_of_the_nearest_possible_body() -> None:
    """The eigenvalue clip against a semidefinite programme that knows nothing of eigenvalues."""
    second_moment = np.diag([-0.004, 0.01, 0.02])
    tensor = np.trace(second_moment) * np.eye(3) - second_moment
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    found = diagnose(from_mass_com_inertia(2.0, np.array([0.3, 0.1, -0.2]), rotation @ tensor @ rotation.T))
    assert found.status == "impossible"
    assert found.distance == pytest.approx(_distance_by_programme(rotation @ second_moment @ rotation.T), rel=1e-5)
    assert found.relative_distance == pytest.approx(0.004 / np.linalg.norm([0.004, 0.01, 0.02]))
    assert np.linalg.eigvalsh(to_pseudo_inertia(found.nearest))[0] > -1e-12
    np.testing.assert_array_equal(found.nearest[:4], [2.0, 0.6, 0.2, -0.4])


def _distance_by_programme(target: np.ndarray) -> float:
    """Minimises ‖X − target‖ over X ⪰ 0 with Clarabel, on the scaled upper triangle that it uses."""
    rows, columns = np.triu_indices(3)
    order = np.lexsort((rows, columns))
    scale = np.where(rows == columns, 1.0, np.sqrt(2.0))[order]
    vector = scale * target[rows[order], columns[order]]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix(np.eye(6)),
        -vector,
        sparse.csc_matrix(-np.eye(6)),
        np.zeros(6),
        [clarabel.PSDTriangleConeT(3)],
        settings,
    ).solve()
    return float(np.linalg.norm(np.array(solution.x) - vector))


def test_verdict_does_not_depend_on_the_frame() -> None:
    generator = np.random.default_rng(4)
    bodies = np.concatenate([random_bodies(generator, 20), random_bodies(generator, 20)])
    bodies[20:, 4] -= 3.0 * np.abs(bodies[20:, 4:]).max(axis=1)
    rotation = np.linalg.qr(generator.normal(size=(3, 3)))[0]
    moved = change_frame(bodies, rotation, np.array([0.5, -0.2, 0.1]))
    np.testing.assert_array_equal(is_possible(moved), is_possible(bodies))
    for one, other in zip(bodies, moved, strict=True):
        assert diagnose(one).status == diagnose(other).status
        assert diagnose(one).distance == pytest.approx(diagnose(other).distance, rel=1e-6, abs=1e-12)


@given(st.integers(0, 10_000), st.booleans())
def test_projection_lands_strictly_inside_and_stays(seed: int, any_mass: bool) -> None:
    generator = np.random.default_rng(seed)
    bodies = generator.normal(size=(8, 10)) * np.array([3.0] + 3 * [0.5] + 6 * [0.1])
    if not any_mass:
        bodies[:, 0] = np.abs(bodies[:, 0]) + 0.01
    projected = project_to_interior(bodies)
    assert np.all(is_possible(projected, extent=EXTENT_FLOOR))
    np.testing.assert_array_equal(project_to_interior(projected), projected)
    heavy = bodies[:, 0] > 0.0
    np.testing.assert_array_equal(projected[heavy, :4], bodies[heavy, :4])
    assert np.all(projected[:, 0] >= np.where(heavy, bodies[:, 0], MASS_FLOOR))


def test_possible_bodies_come_back_bit_by_bit() -> None:
    for name in ("g1", "talos"):
        parameters = humanoid(name).parameters
        np.testing.assert_array_equal(project_to_interior(parameters), parameters)


def test_floor_is_the_stated_one() -> None:
    point = box(2.0, 0.0, 0.0, 0.0, com=(0.1, 0.2, 0.3))
    tensor = to_mass_com_inertia(project_to_interior(point))[2]
    np.testing.assert_allclose(tensor, 2.0 * 2.0 * EXTENT_FLOOR**2 * np.eye(3), rtol=1e-6, atol=1e-15)
