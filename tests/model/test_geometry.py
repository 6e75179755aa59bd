"""Shapes as points, and the soles of the ready setups against the feet they were taken from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import ConvexHull, Delaunay

from steelyard.exceptions import ModelError
from steelyard.model import load_model
from steelyard.model.files.packages import resolve_uri
from steelyard.model.geometry.points import link_points
from tests.humanoids import path_of

SHAPES = """<robot name="shapes"><link name="a">
<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
<collision><origin xyz="1 0 0"/><geometry>{}</geometry></collision></link></robot>"""


@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [
        ('<box size="0.2 0.4 0.6"/>', [0.9, -0.2, -0.3], [1.1, 0.2, 0.3]),
        ('<sphere radius="0.5"/>', [0.5, -0.5, -0.5], [1.5, 0.5, 0.5]),
        ('<cylinder radius="0.5" length="2"/>', [0.5, -0.5, -1.0], [1.5, 0.5, 1.0]),
        ('<capsule radius="0.5" length="2"/>', [0.5, -0.5, -1.5], [1.5, 0.5, 1.5]),
    ],
)
def test_shapes_have_their_sizes(shape: str, low, high, tmp_path) -> None:
    (tmp_path / "shapes.urdf").write_text(SHAPES.format(shape))
    points = link_points(load_model(tmp_path / "shapes.urdf"), "a")
    np.testing.assert_allclose(points.min(axis=0), low, atol=1e-12)
    np.testing.assert_allclose(points.max(axis=0), high, atol=1e-12)
    assert len(link_points(load_model(tmp_path / "shapes.urdf"), "a", purpose="visual")) == 0


def test_missing_and_broken_meshes_are_named(tmp_path) -> None:
    (tmp_path / "shapes.urdf").write_text(SHAPES.format('<mesh filename="gone.stl"/>'))
    model = load_model(tmp_path / "shapes.urdf")
    with pytest.raises(ModelError, match=r"mesh gone\.stl is not found"):
        link_points(model, "a")
    assert [finding.words for finding in model.check().findings] == ["its mesh gone.stl is not found"]
    (tmp_path / "gone.stl").write_text("this is no mesh")
    assert "cannot be read" in model.check().summary()
    with pytest.raises(ModelError, match="cannot be read"):
        link_points(model, "a")


@pytest.mark.parametrize("name", ["g1", "talos", "icub", "romeo"])
def test_soles_lie_on_the_undersides_of_the_feet(name: str) -> None:
    """Every corner within 2 mm of the lowest face, inside its outline, and covering most of it."""
    model = load_model(name)
    for sole in model.setup.soles:
        frame = model.frame(sole.frame)
        foot = model.bodies[frame.body].name
        back = frame.placement.inverse()
        points = link_points(model, foot) @ back.rotation.T + back.translation
        lowest = points[:, 2].min()
        assert np.all(np.abs(sole.vertices[:, 2] - lowest) < 2e-3)
        assert np.ptp(sole.vertices[:, 2]) < 1e-9
        underside = points[points[:, 2] < lowest + 2e-3][:, :2]
        # Half a millimetre of room for corners that were rounded to tenths.
        room = np.concatenate([underside + step for step in 5e-4 * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])])
        assert np.all(Delaunay(room).find_simplex(sole.vertices[:, :2]) >= 0)
        share = ConvexHull(sole.vertices[:, :2]).volume / ConvexHull(underside).volume
        assert share > 0.65, f"{name} {sole.name}: {share:.2f}"


@pytest.mark.parametrize("name", ["g1", "talos", "icub", "romeo"])
def test_soles_face_down_and_mirror_each_other(name: str) -> None:
    """At zero the corners of both soles are at one height, below every joint, and mirror images."""
    model = load_model(name)
    clouds = []
    for sole in model.setup.soles:
        frame = model.frame(sole.frame)
        index, placement = frame.body, frame.placement
        while index >= 0:
            placement = model.bodies[index].placement * placement
            index = model.bodies[index].parent
        clouds.append(sole.vertices @ placement.rotation.T + placement.translation)
    joints = []
    for moved in (body for body in model.bodies if body.joint.kind != "fixed"):
        placement, body = moved.placement, moved.parent
        while body >= 0:
            placement = model.bodies[body].placement * placement
            body = model.bodies[body].parent
        joints.append(placement.translation[2])
    left, right = clouds
    assert left[:, 2].max() < min(joints)
    assert np.ptp(np.concatenate(clouds)[:, 2]) < 1e-5
    image = left * np.array([1.0, -1.0, 1.0])
    distances = np.linalg.norm(image[:, None] - right[None], axis=2).min(axis=1)
    assert np.all(distances < 1e-3)


def test_packages_are_found_where_ros_says(tmp_path, monkeypatch) -> None:
    (tmp_path / "src" / "my_robot" / "urdf").mkdir(parents=True)
    file = tmp_path / "src" / "my_robot" / "urdf" / "r.urdf"
    file.write_text(path_of("simple_humanoid").read_text())
    assert resolve_uri("package://my_robot/urdf/r.urdf") is None
    monkeypatch.setenv("ROS_PACKAGE_PATH", f"/nowhere:{tmp_path / 'src'}")
    assert resolve_uri("package://my_robot/urdf/r.urdf") == file
    assert load_model("package://my_robot/urdf/r.urdf").total_mass == pytest.approx(130.8)
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path / "src" / "my_robot"))
    assert resolve_uri("package://my_robot/urdf/r.urdf") == file
    monkeypatch.delenv("ROS_PACKAGE_PATH")
    assert resolve_uri("package://my_robot/urdf/r.urdf", beside=file) == file
    (tmp_path / "install" / "share").mkdir(parents=True)
    (tmp_path / "install" / "share" / "my_robot").symlink_to(tmp_path / "src" / "my_robot")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "install"))
    assert resolve_uri("package://my_robot/urdf/r.urdf") is not None
    assert resolve_uri(file.as_uri()) == file


def test_packages_given_to_load_model_are_remembered(tmp_path) -> None:
    (tmp_path / "store" / "shapes" / "meshes").mkdir(parents=True)
    tetrahedron = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"
    (tmp_path / "store" / "shapes" / "meshes" / "t.obj").write_text(tetrahedron)
    (tmp_path / "r.urdf").write_text(SHAPES.format('<mesh filename="package://shapes/meshes/t.obj"/>'))
    assert "not found" in load_model(tmp_path / "r.urdf").check().summary()
    model = load_model(tmp_path / "r.urdf", packages=[tmp_path / "store"])
    assert "not found" not in model.check().summary()
    np.testing.assert_allclose(link_points(model, "a").max(axis=0), [2.0, 1.0, 1.0])
