"""Laws of the ten parameters, with Pinocchio's own conversions as the oracle."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from steelyard.exceptions import ConsistencyError
from steelyard.model import parameters as ten
from tests.humanoids import random_bodies
from tests.log_cholesky import from_log_cholesky, to_log_cholesky

BODIES = random_bodies(np.random.default_rng(1), 40)


def random_placement(generator: np.random.Generator) -> pin.SE3:
    quaternion = generator.normal(size=4)
    return pin.SE3(pin.Quaternion(quaternion / np.linalg.norm(quaternion)).matrix(), generator.normal(size=3))


def test_order_is_pinocchios() -> None:
    inertia = pin.Inertia(2.0, np.array([0.1, -0.2, 0.3]), np.diag([0.03, 0.04, 0.05]))
    ours = ten.from_mass_com_inertia(inertia.mass, inertia.lever, inertia.inertia)
    np.testing.assert_allclose(ours, inertia.toDynamicParameters(), rtol=1e-14)
    assert ten.PARAMETER_SYMBOLS == ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
    assert ten.parameter_names(["a", "b"])[10:12] == ["b.m", "b.mx"]


def test_conversions_agree_with_pinocchio() -> None:
    mass, com, tensor = ten.to_mass_com_inertia(BODIES)
    pseudo = ten.to_pseudo_inertia(BODIES)
    for row, body in enumerate(BODIES):
        inertia = pin.Inertia.FromDynamicParameters(body)
        np.testing.assert_allclose(mass[row], inertia.mass, rtol=1e-14)
        np.testing.assert_allclose(com[row], inertia.lever, rtol=1e-14)
        np.testing.assert_allclose(tensor[row], inertia.inertia, rtol=1e-9, atol=1e-14)
        np.testing.assert_allclose(pseudo[row], pin.PseudoInertia.FromDynamicParameters(body).toMatrix(), atol=1e-14)


def test_log_cholesky_agrees_with_pinocchio() -> None:
    vectors = to_log_cholesky(BODIES)
    for vector, body in zip(vectors, BODIES, strict=True):
        theirs = pin.LogCholeskyParameters(vector).toDynamicParameters()
        np.testing.assert_allclose(theirs, body, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(
    ("there", "back"),
    [
        (ten.to_mass_com_inertia, lambda values: ten.from_mass_com_inertia(*values)),
        (ten.to_pseudo_inertia, ten.from_pseudo_inertia),
        (to_log_cholesky, from_log_cholesky),
    ],
)
def test_every_form_leads_back(there, back) -> None:
    np.testing.assert_allclose(back(there(BODIES)), BODIES, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(back(there(BODIES[3])), BODIES[3], rtol=1e-12, atol=1e-15)
    batch = BODIES.reshape(4, 10, 10)
    np.testing.assert_allclose(back(there(batch)), batch, rtol=1e-12, atol=1e-15)


def test_change_of_frame_is_pinocchios_action() -> None:
    generator = np.random.default_rng(2)
    for body in BODIES:
        placement = random_placement(generator)
        theirs = placement.act(pin.Inertia.FromDynamicParameters(body)).toDynamicParameters()
        ours = ten.change_frame(body, placement.rotation, placement.translation)
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-13)


def test_changes_of_frame_compose_and_are_linear() -> None:
    generator = np.random.default_rng(3)
    first, second = random_placement(generator), random_placement(generator)
    once = ten.change_frame(BODIES, first.rotation, first.translation)
    twice = ten.change_frame(once, second.rotation, second.translation)
    both = second * first
    np.testing.assert_allclose(twice, ten.change_frame(BODIES, both.rotation, both.translation), atol=1e-12)
    matrix = ten.change_frame_matrix(both.rotation, both.translation)
    np.testing.assert_allclose(BODIES @ matrix.T, twice, atol=1e-12)


def test_mirror_image_keeps_the_eigenvalues() -> None:
    reflection = np.diag([1.0, -1.0, 1.0])
    image = ten.change_frame(BODIES, reflection, np.zeros(3))
    np.testing.assert_array_equal(image[:, 0], BODIES[:, 0])
    np.testing.assert_array_equal(image[:, 2], -BODIES[:, 2])
    np.testing.assert_allclose(
        np.linalg.eigvalsh(ten.to_pseudo_inertia(image)), np.linalg.eigvalsh(ten.to_pseudo_inertia(BODIES)), atol=1e-13
    )


def test_bad_shapes_and_bodies_without_mass_are_refused() -> None:
    with pytest.raises(ConsistencyError, match="ten parameters"):
        ten.as_parameters(np.zeros(9))
    with pytest.raises(ConsistencyError, match="no centre of mass") as caught:
        ten.to_mass_com_inertia(np.concatenate([BODIES[:2], np.zeros((1, 10))]))
    assert caught.value.rows == (2,)
