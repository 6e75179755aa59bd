"""Left and right: by name, by position, and in which posture."""

from __future__ import annotations

import pytest

from steelyard.drafting import draft_setup
from steelyard.model import find_pairs
from steelyard.model.files.packages import find_file
from tests.drafting.small_models import biped, draft_of, finding, joint, link
from tests.humanoids import ROBOTS


@pytest.mark.parametrize(
    ("left", "right", "patterns"),
    [
        ("left_", "right_", (("left_*", "right_*"),)),
        ("L", "R", (("L*", "R*"),)),
        ("l_", "r_", (("l_*", "r_*"),)),
        ("LeftLeg", "RightLeg", (("Left*", "Right*"),)),
        ("leg_left_", "leg_right_", (("*_left_*", "*_right_*"),)),
        ("LF_", "RF_", (("L*", "R*"),)),
    ],
)
def test_pairs_by_names(tmp_path, left: str, right: str, patterns) -> None:
    draft = draft_of(tmp_path, biped(left, right))
    assert draft.setup.mirror is not None
    assert draft.setup.mirror.pairs == patterns
    assert len(find_pairs(draft.model)) == 3
    assert [sole.frame for sole in draft.setup.soles] == [f"{left}foot", f"{right}foot"]


def test_suffixes_mark_sides_too(tmp_path) -> None:
    text = biped("A", "B")
    for part in ("thigh", "shank", "foot", "hip", "knee", "ankle"):
        text = text.replace(f"A{part}", f"{part}_l").replace(f"B{part}", f"{part}_r")
    draft = draft_of(tmp_path, text)
    assert draft.setup.mirror is not None
    assert draft.setup.mirror.pairs == (("*_l", "*_r"),)


def test_pairs_by_position_where_names_have_no_side(tmp_path) -> None:
    draft = draft_of(tmp_path, biped("one_", "two_"))
    assert draft.setup.mirror is not None
    assert draft.setup.mirror.pairs == (
        ("one_thigh", "two_thigh"),
        ("one_shank", "two_shank"),
        ("one_foot", "two_foot"),
    )
    assert finding(draft, "mirror")[0] == "guessed"


def test_a_misleading_name_is_not_believed(tmp_path) -> None:
    """Antennas named left and right that are not mirror images are not paired: positions decide."""
    more = [link("left_antenna"), joint("la", "pelvis", "left_antenna", "0.1 0.2 0.3")]
    more += [link("right_antenna"), joint("ra", "pelvis", "right_antenna", "0.1 0.4 0.9")]
    draft = draft_of(tmp_path, biped(more="".join(more)))
    assert {frozenset((draft.model.links[p.left], draft.model.links[p.right])) for p in find_pairs(draft.model)} == {
        frozenset((f"left_{part}", f"right_{part}")) for part in ("thigh", "shank", "foot")
    }
    assert "left_antenna" in finding(draft, "mirror")[1]


def test_a_posture_is_found_in_which_the_robot_is_symmetric(tmp_path) -> None:
    """The right hip's zero differs by 0.4 rad from the left one's; the signs agree."""
    turned = joint("right_hip", "pelvis", "right_thigh", "0 -0.1 -0.1", rpy="0 0.4 0")
    text = biped().replace(joint("right_hip", "pelvis", "right_thigh", "0 -0.1 -0.1"), turned)
    assert turned in text
    draft = draft_of(tmp_path, text)
    assert draft.setup.mirror is not None
    assert draft.setup.mirror.posture == pytest.approx({"right_hip": -0.4}, abs=1e-6)
    assert max(pair.origin_error for pair in find_pairs(draft.model)) < 1e-6
    assert finding(draft, "mirror")[0] == "guessed"


def test_the_position_of_an_origin_along_its_axis_does_not_count(tmp_path) -> None:
    """The right knee's origin is moved by 8 cm along its axis, and the foot back: the same robot in other frames."""
    text = biped()
    for old, new in (
        ("right_thigh right_shank 0 0 -0.4", "0 0.08 -0.4"),
        ("right_shank right_foot 0 0 -0.4", "0 -0.08 -0.4"),
    ):
        parent, child, xyz = old.split(" ", 2)
        name = "right_knee" if child == "right_shank" else "right_ankle"
        assert joint(name, parent, child, xyz) in text
        text = text.replace(joint(name, parent, child, xyz), joint(name, parent, child, new))
    draft = draft_of(tmp_path, text)
    assert draft.setup.mirror is not None
    assert not draft.setup.mirror.posture
    assert len(find_pairs(draft.model)) == 3


def test_arms_with_shifted_origins_are_mirror_images_at_zero() -> None:
    """TIAGo Pro's joints 2, 4 and 6 have their origins on different sides of the arms; all axes mirror at zero."""
    draft = draft_setup(find_file(f"{ROBOTS}tiago_pro_description/robots/tiago_pro.urdf"))
    assert draft.setup.mirror is not None
    assert not draft.setup.mirror.posture
    assert len(find_pairs(draft.model)) == 9
    assert max(pair.axis_error for pair in find_pairs(draft.model)) < 0.01
