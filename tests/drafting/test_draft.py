"""Drafts as files that load: locks, names, target paths, unusual robots."""

from __future__ import annotations

import re
import tempfile
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.drafting import draft_setup
from steelyard.exceptions import ModelError
from steelyard.model import load_model
from steelyard.stance.footing import plant_feet
from tests.drafting.references import sole_distances
from tests.drafting.small_models import biped, draft_of, finding, joint, link, urdf
from tests.generated_trees import MJCF_KINDS, URDF_KINDS, mjcf_text, trees, urdf_text
from tests.humanoids import LOCKS, path_of


def test_followers_and_massless_ends_are_locked_so_that_the_draft_loads(tmp_path) -> None:
    more = link("finger") + joint("finger_joint", "pelvis", "finger", "0.1 0 0")
    more += link("thumb") + joint("thumb_joint", "pelvis", "thumb", "0.2 0 0", inside='<mimic joint="finger_joint"/>')
    more += link("tip", mass=False) + joint("tip_joint", "thumb", "tip", "0.1 0 0")
    draft = draft_of(tmp_path, biped(more=more))
    assert dict(draft.setup.locks) == {"finger_joint": 0.0, "tip_joint": 0.0}
    assert finding(draft, "lock")[0] == "guessed"


@pytest.mark.parametrize("name", ["talos_full", "alex_psyonic", "romeo_full"])
def test_known_robots_that_need_locks_get_them(name: str) -> None:
    by_hand = load_model(path_of(name), lock=LOCKS[name])
    draft = draft_setup(path_of(name))
    assert set(draft.model.joints) >= set(by_hand.joints)  # none is locked that need not be


NASTY = '<img src=x onerror=alert(1)> "quoted" \\back\nslash\t# = [x] \x7f\u2028'


def test_names_from_files_stay_names(tmp_path) -> None:
    text = biped().replace('"pelvis"', _as_attribute(NASTY)).replace('"left_foot"', _as_attribute(f"left {NASTY}"))
    draft = draft_of(tmp_path, text.replace('name="small"', f"name={_as_attribute(NASTY)}"))
    assert NASTY in draft.model.links
    contents = tomllib.loads((tmp_path / "setup.toml").read_text(encoding="utf-8"))
    assert contents["sole"][0]["frame"] == f"left {NASTY}"
    assert {"model", "wrench_sensor", "sole", "mirror"} == {*contents}
    assert all(line.isprintable() for line in draft.text.split("\n") if line.startswith("#"))


def _as_attribute(text: str) -> str:
    special = {"&": "&amp;", "<": "&lt;", '"': "&quot;", "\n": "&#10;", "\t": "&#9;"}
    return '"' + "".join(special.get(letter, letter) for letter in text) + '"'


def test_model_and_setup_move_together(tmp_path) -> None:
    (tmp_path / "old" / "models").mkdir(parents=True)
    (tmp_path / "old" / "setups").mkdir()
    (tmp_path / "old" / "models" / "my robot.urdf").write_text(biped())
    draft = draft_setup(tmp_path / "old" / "models" / "my robot.urdf")
    draft.write(tmp_path / "old" / "setups" / "mine.toml")
    (tmp_path / "old").rename(tmp_path / "new")
    assert load_model(tmp_path / "new" / "setups" / "mine.toml").links == draft.model.links
    assert 'file = "../models/my robot.urdf"' in (tmp_path / "new" / "setups" / "mine.toml").read_text()


def test_packages_are_found_and_stay_packages(tmp_path) -> None:
    folder = tmp_path / "packages" / "my_robot" / "urdf"
    folder.mkdir(parents=True)
    (folder / "robot.urdf").write_text(biped())
    draft = draft_setup("package://my_robot/urdf/robot.urdf", packages=[tmp_path / "packages"])
    written = draft.write(tmp_path / "mine.toml")
    assert 'file = "package://my_robot/urdf/robot.urdf"' in written.read_text()
    assert load_model(written, packages=[tmp_path / "packages"]).links == draft.model.links


def test_a_file_that_is_there_is_not_replaced_unasked(tmp_path) -> None:
    draft = draft_of(tmp_path, biped())
    (tmp_path / "mine.toml").write_text("# precious")
    with pytest.raises(ModelError, match="already exists"):
        draft.write(tmp_path / "mine.toml")
    assert (tmp_path / "mine.toml").read_text() == "# precious"
    draft.write(tmp_path / "mine.toml", force=True)
    assert load_model(tmp_path / "mine.toml").links == draft.model.links


@pytest.mark.parametrize("place", ["mine.txt", "gone/mine.toml", "file/mine.toml", "folder.toml", "x" * 300 + ".toml"])
def test_a_place_that_cannot_be_written_is_said(tmp_path, place: str) -> None:
    draft = draft_of(tmp_path, biped())
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.toml").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ModelError) as raised:
        draft.write(tmp_path / place)
    assert "\n" not in str(raised.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_humanoid_in_the_style_of_mujocos_own(tmp_path) -> None:
    """Several joints on one body, sides at the end of names, feet of two capsules, knees that cannot be straight."""
    leg = """
      <body name="thigh_{side}" pos="0 {y} -0.1">
        <joint name="hip_x_{side}" axis="1 0 0" range="-25 5"/>
        <joint name="hip_z_{side}" axis="0 0 1" range="-60 35"/>
        <joint name="hip_y_{side}" axis="0 1 0" range="-110 20"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.34" size="0.06"/>
        <body name="shin_{side}" pos="0 0 -0.4">
          <joint name="knee_{side}" axis="0 -1 0" range="-160 -2"/>
          <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.05"/>
          <body name="foot_{side}" pos="0 0 -0.39">
            <joint name="ankle_y_{side}" axis="0 1 0" range="-50 50" pos="0 0 0.08"/>
            <joint name="ankle_x_{side}" axis="1 0 0" range="-50 50" pos="0 0 0.04"/>
            <geom type="capsule" fromto="-0.07 -0.02 0 0.14 -0.04 0" size="0.027"/>
            <geom type="capsule" fromto="-0.07 0.02 0 0.14 0.04 0" size="0.027"/>
          </body>
        </body>
      </body>"""
    legs = "".join(leg.format(side=side, y=y) for side, y in (("right", -0.1), ("left", 0.1)))
    text = (
        f'<mujoco model="humanoid"><worldbody><body name="torso" pos="0 0 1.3"><freejoint/>'
        f'<geom type="sphere" size="0.15"/>{legs}</body></worldbody></mujoco>'
    )
    draft = draft_of(tmp_path, text, "humanoid.xml")
    assert draft.setup.mirror is not None
    assert draft.setup.mirror.pairs == (("*_left", "*_right"),)
    assert {sole.name: sole.frame for sole in draft.setup.soles} == {"left": "foot_left", "right": "foot_right"}
    # The knees cannot be straight (2° at least), which tilts the feet: 7 mm over the capsules' length.
    lines = np.array([[0.14, 0.04, -0.027], [-0.07, 0.02, -0.027], [-0.07, -0.02, -0.027], [0.14, -0.04, -0.027]])
    for sole in draft.setup.soles:
        distance, height = sole_distances(sole.vertices, lines)
        assert distance < 2e-3
        assert height < 2e-3
    assert len(plant_feet(draft.model).feet) == 2


def test_a_chain_as_long_as_one_likes(tmp_path) -> None:
    links = [link(f"l{k}") for k in range(600)]
    joints = [joint(f"j{k}", f"l{k}", f"l{k + 1}", "0 0 0.01") for k in range(599)]
    (tmp_path / "rope.urdf").write_text(urdf(*links, *joints))
    assert draft_setup(tmp_path / "rope.urdf").model.base == "fixed"


NAMES = ("link_{}", "left_leg_{}", "{}_foot_l", "R{}", "imu_{}", "ft_{}", "sole_{}")


@settings(max_examples=25)
@given(trees(URDF_KINDS), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_any_urdf_tree_gets_a_draft_that_loads(tree, even: str, odd: str) -> None:
    """Misleading names of legs, sensors and soles must not keep a draft from loading."""
    text = re.sub(r"link_(\d+)", lambda match: (odd if int(match[1]) % 2 else even).format(match[1]), urdf_text(tree))
    with tempfile.TemporaryDirectory() as folder:
        draft_of(Path(folder), text)


@settings(max_examples=15)
@given(trees(MJCF_KINDS), st.sampled_from(NAMES))
def test_any_mjcf_tree_gets_a_draft_that_loads(tree, name: str) -> None:
    text = re.sub(r'name="b(\d+)"', lambda match: f'name="{name.format(match[1])}"', mjcf_text(tree))
    with tempfile.TemporaryDirectory() as folder:
        draft_of(Path(folder), text, "tree.xml")


def test_a_model_with_y_up_has_soles_too() -> None:
    draft = draft_setup(path_of("human"))
    assert [sole.name for sole in draft.setup.soles] == ["left", "right"]
    for sole in draft.setup.soles:
        np.testing.assert_allclose(np.ptp(sole.vertices[:, 1]), 0.0, rtol=0, atol=1e-4)
    assert draft.setup.mirror is not None
    assert draft.setup.mirror.plane == "xy"
    assert finding(draft, "up")[0] == "guessed"


def test_a_drone_of_one_body_floats(tmp_path) -> None:
    draft = draft_of(tmp_path, urdf(link("body")))
    assert draft.model.base == "floating"
    assert finding(draft, "soles") == ("missing", "no legs were found")
