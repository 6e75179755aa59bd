"""Soles of small models, one feature each; and robots without soles."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.drafting import draft_setup
from steelyard.model import find_pairs
from steelyard.model.files.packages import find_file
from steelyard.stance.footing import plant_feet
from tests.drafting.references import sole_distances
from tests.drafting.small_models import FOOT_BOX, biped, draft_of, finding, joint, link
from tests.humanoids import ROBOTS

BOX_SOLE = np.array([[0.13, 0.05, -0.05], [-0.07, 0.05, -0.05], [-0.07, -0.05, -0.05], [0.13, -0.05, -0.05]])


def test_a_box_gives_its_four_corners(tmp_path) -> None:
    draft = draft_of(tmp_path, biped())
    for sole in draft.setup.soles:
        assert sole_distances(sole.vertices, BOX_SOLE) == pytest.approx((0.0, 0.0), abs=1e-9)
        assert len(sole.vertices) == 4
    assert [sole.frame for sole in draft.setup.soles] == ["left_foot", "right_foot"]


def test_a_sole_frame_is_used_where_there_is_one(tmp_path) -> None:
    frames = [
        link(f"{side}_sole", mass=False)
        + joint(f"{side}_sole_fixed", f"{side}_foot", f"{side}_sole", "0 0 -0.05", None)
        for side in ("left", "right")
    ]
    draft = draft_of(tmp_path, biped(more="".join(frames)))
    assert [sole.frame for sole in draft.setup.soles] == ["left_sole", "right_sole"]
    np.testing.assert_allclose(draft.setup.soles[0].vertices[:, 2], 0.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("angle", [0.02, 0.05, 0.3, -0.6])
def test_a_sole_that_is_tilted_at_rest_is_found_by_its_face(tmp_path, angle: float) -> None:
    """A box rotated about its side touches the ground with an edge; its whole underside is the sole."""
    tilted = FOOT_BOX.replace('xyz="0.03 0 -0.04"', f'xyz="0.03 0 -0.04" rpy="0 {angle} 0"')
    draft = draft_of(tmp_path, biped(foot=tilted))
    cosine, sine = np.cos(angle), np.sin(angle)
    turn = np.array([[cosine, 0, sine], [0, 1, 0], [-sine, 0, cosine]])
    flat = BOX_SOLE - [0.03, 0.0, -0.04]
    expected = flat @ turn.T + [0.03, 0.0, -0.04]
    for sole in draft.setup.soles:
        # Corners are written to a tenth of a millimetre.
        assert max(sole_distances(sole.vertices, expected)) < 2e-4
    assert finding(draft, "sole left")[0] == "guessed"
    assert len(plant_feet(draft.model).feet) == 2


def test_a_ball_gives_a_patch_that_is_a_guess(tmp_path) -> None:
    ball = '<collision><origin xyz="0 0 -0.03"/><geometry><sphere radius="0.02"/></geometry></collision>'
    draft = draft_of(tmp_path, biped(foot=ball))
    vertices = draft.setup.soles[0].vertices
    np.testing.assert_allclose(vertices[:, 2], -0.05, rtol=0, atol=1e-9)
    # 2 mm above the lowest point of a ball of 20 mm its cross-section has a radius of 8.7 mm, to first order 8.9.
    np.testing.assert_allclose(np.hypot(*vertices[:, :2].T), np.sqrt(2 * 0.02 * 0.002), rtol=0, atol=1e-4)
    assert finding(draft, "sole left")[0] == "guessed"


def test_capsules_that_lie_give_their_lowest_lines(tmp_path) -> None:
    bars = "".join(
        f'<collision><origin xyz="0.02 {y} -0.03" rpy="0 1.5707963267948966 0"/><geometry>'
        '<capsule radius="0.02" length="0.2"/></geometry></collision>'
        for y in (-0.04, 0.04)
    )
    expected = np.array([[0.12, 0.04, -0.05], [-0.08, 0.04, -0.05], [-0.08, -0.04, -0.05], [0.12, -0.04, -0.05]])
    (left, _) = draft_of(tmp_path, biped(foot=bars)).setup.soles
    assert sole_distances(left.vertices, expected) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_collision_shapes_take_precedence_over_visual_shapes(tmp_path) -> None:
    drawn = FOOT_BOX.replace("collision", "visual").replace("0.2 0.1 0.02", "0.4 0.3 0.04")
    (left, _) = draft_of(tmp_path, biped(foot=FOOT_BOX + drawn)).setup.soles
    assert sole_distances(left.vertices, BOX_SOLE) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_a_robot_without_shapes_has_feet_but_no_soles(tmp_path) -> None:
    draft = draft_of(tmp_path, biped(foot=""))
    assert draft.model.base == "floating"
    assert not draft.setup.soles
    assert [sensor.frame for sensor in draft.setup.wrench_sensors] == ["left_foot", "right_foot"]
    assert finding(draft, "sole left") == ("missing", "left_foot has no shapes, or none with a flat underside")
    assert "# [[sole]]" in draft.text


def test_lost_meshes_are_reported(tmp_path) -> None:
    mesh = '<visual><geometry><mesh filename="package://nowhere/foot.stl"/></geometry></visual>'
    draft = draft_of(tmp_path, biped(foot=mesh))
    assert finding(draft, "sole left") == ("missing", "the shapes of left_foot cannot be read")
    assert "package://nowhere/foot.stl is not found" in " ".join(draft.text.replace("#", "").split())


def test_toes_are_reported_and_the_larger_part_of_the_foot_is_the_sole(tmp_path) -> None:
    toe = FOOT_BOX.replace("0.2 0.1", "0.05 0.1").replace("0.03 0 -0.04", "0.02 0 -0.04")
    toes = [
        link(f"{side}_toe", toe) + joint(f"{side}_toe_pitch", f"{side}_foot", f"{side}_toe", "0.14 0 0")
        for side in ("left", "right")
    ]
    draft = draft_of(tmp_path, biped(more="".join(toes)))
    assert [sole.frame for sole in draft.setup.soles] == ["left_foot", "right_foot"]
    kind, source = finding(draft, "sole left")
    assert kind == "guessed"
    assert "left_toe also touches the ground" in source


def test_a_quadruped_has_four_soles() -> None:
    draft = draft_setup(find_file(f"{ROBOTS}solo_description/robots/solo12.urdf"))
    assert [sole.name for sole in draft.setup.soles] == ["fl", "fr", "hl", "hr"]
    assert [sole.frame for sole in draft.setup.soles] == ["FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"]
    assert len(plant_feet(draft.model).feet) == 4
    assert len(find_pairs(draft.model)) == 6


@pytest.mark.parametrize(
    ("file", "kind", "why"),
    [
        ("ur_description/urdf/ur5_robot.urdf", "found", "fixed: the root link is named world"),
        ("panda_description/urdf/panda.urdf", "guessed", "fixed: no legs were found, so the root is held; write"),
    ],
)
def test_an_arm_is_fixed_and_has_no_soles(file: str, kind: str, why: str) -> None:
    draft = draft_setup(find_file(ROBOTS + file))
    assert draft.model.base == "fixed"
    assert not draft.setup.soles
    assert finding(draft, "base")[0] == kind
    assert finding(draft, "base")[1].startswith(why)
    assert finding(draft, "soles") == ("missing", "the base is fixed: no feet are expected")
    assert finding(draft, "wrench sensors")[0] == "missing"
