"""The picture is the robot: its centre of mass is Pinocchio's, and its ellipsoids have its inertia."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

import steelyard as sy
from steelyard.model.geometry.points import link_points
from steelyard.model.geometry.scene import MOST_TRIANGLES, build_scene
from steelyard.model.geometry.surfaces import body_surfaces, hull_surface
from steelyard.stance import resting_posture
from tests.humanoids import path_of
from tests.laboratory.trials import ROBOTS, robot


def scene_of(model, parameters=None):
    """Gives the picture of a model before and after."""
    after = model.parameters if parameters is None else parameters
    return build_scene(model, resting_posture(model), (model.parameters, after))


@pytest.mark.parametrize("name", ROBOTS)
def test_centres_of_mass_and_ellipsoids_are_the_robots(name):
    model = robot(name)
    after = sy.project_to_interior(1.2 * model.parameters)
    scene = scene_of(model, after)
    built = model.with_parameters(after).pinocchio
    data = built.createData()
    whole = pin.centerOfMass(built, data, resting_posture(model))
    masses = after[:, 0]
    coms = np.array([link.coms[1] for link in scene.links])
    np.testing.assert_allclose(masses @ coms / masses.sum(), whole, rtol=0.0, atol=1e-9)

    # A solid ellipsoid with half axes A has the second moment m A Aᵀ / 5 about its centre: added up, the whole inertia.
    total = np.zeros((3, 3))
    for mass, com, link in zip(masses, coms, scene.links, strict=True):
        axes = link.ellipsoids[1]
        total += mass * (axes @ axes.T / 5.0 + np.outer(com - whole, com - whole))
    pin.ccrba(built, data, resting_posture(model), np.zeros(built.nv))
    np.testing.assert_allclose(np.trace(total) * np.eye(3) - total, data.Ig.inertia, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("name", ROBOTS)
def test_links_are_drawn_within_their_shapes_and_not_too_fine(name):
    model = robot(name)
    scene = scene_of(model)
    assert scene.unread == ()
    # Meshes of many loose parts give way less than they are asked to.
    assert sum(len(link.triangles) for link in scene.links) < 2 * MOST_TRIANGLES
    data = model.pinocchio.createData()
    pin.framesForwardKinematics(model.pinocchio, data, resting_posture(model))
    for row, (link, body) in enumerate(zip(scene.links, model.link_bodies, strict=True)):
        if len(link.triangles):
            assert link.triangles.max() < len(link.vertices)
            points = link_points(model, model.links[row])
            # Extents do not depend on where the link stands.
            before = np.linalg.norm(points - points.mean(axis=0), axis=1).max()
            after = np.linalg.norm(link.vertices - link.vertices.mean(axis=0), axis=1).max()
            assert after < 2.0 * before + 0.01, body


def test_surfaces_have_the_corners_of_their_shapes():
    model = robot("icub")
    for body in model.link_bodies[:8]:
        surfaces, unread = body_surfaces(model, body)
        assert not unread
        points = link_points(model, model.bodies[body].name, purpose="visual")
        if surfaces:
            vertices = np.concatenate([surface.vertices for surface in surfaces])
            np.testing.assert_allclose(vertices.min(axis=0), points.min(axis=0), rtol=0.0, atol=1e-6)
            np.testing.assert_allclose(vertices.max(axis=0), points.max(axis=0), rtol=0.0, atol=1e-6)


def test_hulls_face_outwards_and_flat_ones_are_none():
    rng = np.random.default_rng(0)
    hull = hull_surface(rng.normal(size=(60, 3)))
    corners = hull.vertices[hull.triangles]
    # Gauss: the flux of x/3 through a closed surface that faces outwards is its volume, which is positive.
    volume = np.einsum("ij,ij->i", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6.0
    from scipy.spatial import ConvexHull

    assert volume == pytest.approx(ConvexHull(hull.vertices).volume, rel=1e-9)
    assert len(hull_surface(np.zeros((5, 3))).triangles) == 0


def test_a_missing_mesh_is_said_and_the_rest_is_drawn(tmp_path):
    text = path_of("simple_humanoid").read_text()
    (tmp_path / "robot.urdf").write_text(text.replace("meshes/box.stl", "meshes/none.stl", 1))
    scene = scene_of(sy.load_model(tmp_path / "robot.urdf"))
    assert scene.unread
    assert all("none.stl" in words for words in scene.unread)
    assert len(scene.links[0].triangles), "the cylinder beside it"
    assert len(scene.joints) == 29, "limbs without shapes are drawn as lines"
