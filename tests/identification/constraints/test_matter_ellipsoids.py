"""All matter inside a volume: laws of ellipsoids, boxes and hulls around shapes, and of their rows."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.stats import special_ortho_group

from steelyard import IdentifiabilityError, MatterInside, ModelError, identify, load_model
from steelyard.identification.constraints.matter_ellipsoids import (
    Ellipsoid,
    ellipsoid_rows,
    enclosing_ellipsoid,
    outer_points,
    slab_rows,
)
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.model.parameters import change_frame, from_mass_com_inertia
from tests.identification.constrained_worlds import arm, arm_evidence
from tests.identification.constraints.test_resolve import ROUND, SHAPES, filled_parameters, loaded, surface

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import ConstraintSystem

PLACES = ("ellipsoid", "box", "hull")


def lumps(points: FloatArray, masses: FloatArray) -> FloatArray:
    """Gives the parameters of point masses together."""
    return from_mass_com_inertia(masses, points, np.zeros((len(points), 3, 3))).sum(axis=0)


def drawn_points(seed: int, count: int = 40) -> FloatArray:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(count, 3)) @ generator.normal(size=(3, 3)) * 0.1 + generator.normal(size=3)


def values(ellipsoid: Ellipsoid, points: FloatArray) -> FloatArray:
    apart = points - ellipsoid.centre
    return np.einsum("ni,ij,nj->n", apart, np.linalg.inv(ellipsoid.shape), apart)


@pytest.mark.parametrize("seed", range(6))
def test_the_ellipsoid_holds_every_point_and_no_smaller_one_does(seed: int) -> None:
    points = drawn_points(seed)
    found = enclosing_ellipsoid(points)
    reached = values(found, points)
    assert np.max(reached) <= 1.0 + 1e-12
    # John's conditions: some points touch it, and weights on these balance it and make it round.
    touching = points[reached > 1.0 - 1e-5]
    root = np.linalg.cholesky(found.shape)
    units = np.linalg.solve(root, (touching - found.centre).T).T
    conditions = np.concatenate([units, np.einsum("ni,nj->nij", units, units).reshape(-1, 9)], axis=1).T
    _, left = nnls(conditions, np.concatenate([np.zeros(3), np.eye(3).ravel()]))
    assert left < 1e-3


def test_known_ellipsoids_are_found() -> None:
    corners = np.array(np.meshgrid([-1, 1], [-2, 2], [-3, 3])).reshape(3, -1).T + np.array([5.0, 0.0, 1.0])
    found = enclosing_ellipsoid(corners)
    np.testing.assert_allclose(found.centre, [5.0, 0.0, 1.0], atol=1e-9)
    np.testing.assert_allclose(found.shape, np.diag([3.0, 12.0, 27.0]), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_another_frame_turns_the_ellipsoid_and_nothing_else(seed: int) -> None:
    generator = np.random.default_rng(seed)
    points, rotation, shift = (
        drawn_points(seed),
        special_ortho_group.rvs(3, random_state=generator),
        generator.normal(size=3),
    )
    found, moved = enclosing_ellipsoid(points), enclosing_ellipsoid(points @ rotation.T + shift)
    np.testing.assert_allclose(moved.centre, rotation @ found.centre + shift, atol=1e-5)
    np.testing.assert_allclose(moved.shape, rotation @ found.shape @ rotation.T, atol=1e-5)
    body = lumps(drawn_points(seed + 10), np.full(40, 0.1))
    for margin in (0.0, 0.05):
        here = body @ found.widened(margin).row()
        there = change_frame(body, rotation, shift) @ moved.widened(margin).row()
        assert there == pytest.approx(here, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("flat", [1, 2, 3])
def test_flat_points_have_an_ellipsoid(flat: int) -> None:
    points = drawn_points(0)
    points[:, :flat] = 0.3
    found = enclosing_ellipsoid(points)
    assert np.max(values(found, points)) <= 1.0 + 1e-9
    assert np.min(np.linalg.eigvalsh(found.shape)) > 0.9e-6


@pytest.mark.parametrize("seed", range(4))
def test_a_margin_holds_all_that_is_no_farther_away(seed: int) -> None:
    generator = np.random.default_rng(seed)
    points, margin = drawn_points(seed), 0.03
    steps = generator.normal(size=points.shape)
    moved = points + margin * steps / np.linalg.norm(steps, axis=1)[:, None]
    assert np.max(values(enclosing_ellipsoid(points).widened(margin), moved)) <= 1.0 + 1e-12


@pytest.mark.parametrize("where", ["ellipsoid", "box"])
def test_matter_inside_holds_and_a_point_mass_outside_breaks_it(where: str) -> None:
    generator = np.random.default_rng(1)
    corners = drawn_points(4)
    box = np.stack([corners.min(axis=0), corners.max(axis=0)])
    ellipsoid = enclosing_ellipsoid(corners)
    rows = slab_rows(("a", "b"), 1, box) if where == "box" else ellipsoid_rows(("a", "b"), 1, ellipsoid)
    root = np.linalg.cholesky(ellipsoid.shape)

    def draw(size: float) -> FloatArray:
        if where == "box":
            side = generator.uniform(-1.0, 1.0, size=3)
            return box.mean(axis=0) + 0.5 * size * (box[1] - box[0]) * side / np.max(np.abs(side))
        direction = generator.normal(size=3)
        return ellipsoid.centre + size * root @ direction / np.linalg.norm(direction)

    other = np.zeros(10)
    for _ in range(50):
        inside = np.array([draw(size) for size in generator.uniform(0.0, 1.0, size=8)])
        body = lumps(inside, generator.uniform(0.0, 1.0, size=8))
        assert np.max(rows.violation([other, body])) < 1e-12
        outside = lumps(draw(1.01)[None], np.ones(1))
        assert np.max(rows.violation([other, outside])) > 1e-6


def test_a_possible_body_that_an_ellipsoid_allows_is_made_of_matter_inside() -> None:
    # Six point masses on the axes of an ellipsoid's own coordinates make any body that is balanced there.
    generator = np.random.default_rng(2)
    row = Ellipsoid(np.zeros(3), np.eye(3)).row()
    for _ in range(20):
        radii = generator.dirichlet(np.ones(3)) * generator.uniform(0.0, 1.0)
        points = np.concatenate([side * np.diag(np.sqrt(3.0 * radii)) for side in (-1.0, 1.0)])
        body = lumps(points, np.full(6, 1.0 / 6.0))
        assert (body @ row >= 0.0) == (np.sum(radii) <= 1.0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("where", ["ellipsoid", "box"])
def test_round_shapes_count_in_full(shape: str, where: str, tmp_path) -> None:
    (tmp_path / "round.urdf").write_text(ROUND.format(SHAPES[shape][0]))
    model = load_model(tmp_path / "round.urdf")
    rows = resolve_constraints(model, [MatterInside(where)]).rows
    placement = model.bodies[0].members[0].part.geometries[0].placement
    points = surface(shape, 5000) @ placement.rotation.T + placement.translation
    room = from_mass_com_inertia(np.ones(5000), points, np.zeros((5000, 3, 3))) @ rows.matrix.T
    assert np.min(room) >= -1e-12
    # And not much more than in full.
    assert np.min(room) < 0.03


@cache
def inside(name: str, where: str) -> ConstraintSystem:
    return resolve_constraints(loaded(name), [MatterInside(where)])


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", ["g1", "talos", "romeo"])
def test_robots_filled_with_matter_satisfy_it(name: str, where: str) -> None:
    model, system = loaded(name), inside(name, where)
    drawn = {link for link in model.links if len(outer_points(model, link))}
    assert {text.partition(":")[0] for text in system.rows.names} == drawn
    assert {family.kind for family in system.cut_families} == ({"matter_inside"} if where == "hull" else set())
    for seed in range(2):
        assert system.worst(filled_parameters(model, seed))[0] < 1e-12


@pytest.mark.parametrize("method", ["quadratic", "hierarchical", "conic", "geometric"])
@pytest.mark.parametrize("where", PLACES)
def test_methods_with_constraints_hold_it(method: str, where: str) -> None:
    estimate = identify(arm(), arm_evidence(), method=method, constraints=[f"matter_inside={where}"])
    assert resolve_constraints(arm(), [MatterInside(where)]).worst(estimate.parameters)[0] < 1e-8
    assert estimate.status == "solved"


def test_links_without_shapes_are_free_unless_they_are_named() -> None:
    model = loaded("romeo")
    bare = [link for link in model.links if not len(outer_points(model, link))]
    if bare:
        assert any(bare[0] in remark for remark in inside("romeo", "box").remarks)
        with pytest.raises(IdentifiabilityError, match=rf"matter_inside: {bare[0]} has no shapes"):
            resolve_constraints(model, [MatterInside("box", bare[0])])


def test_a_reference_outside_is_remarked_on() -> None:
    model = arm().with_parameters(arm().parameters * np.array([1.0, 1.0, 1.0, 1.0, *[3.0] * 6]))
    (remark,) = resolve_constraints(model, [MatterInside()]).remarks
    assert remark.startswith("The reference has matter outside the volume that must contain it: ")
    assert not resolve_constraints(arm(), [MatterInside(margin=0.01)]).remarks


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MatterInside("sphere"), "where is 'sphere'; write one of 'ellipsoid', 'box', 'hull'"),
        (lambda: MatterInside(margin=-0.1), "margin is -0.1; write a margin in m"),
    ],
)
def test_what_makes_no_sense_is_refused(make, words: str) -> None:
    with pytest.raises(IdentifiabilityError, match=words):
        make()


def test_shapes_that_cannot_be_read_are_an_error(tmp_path) -> None:
    (tmp_path / "round.urdf").write_text(ROUND.format('<mesh filename="lost.stl"/>'))
    with pytest.raises(ModelError, match=r"lost\.stl"):
        resolve_constraints(load_model(tmp_path / "round.urdf"), [MatterInside()])
