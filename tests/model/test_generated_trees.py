"""Trees of every joint type, drawn by hypothesis: reading against two other engines, and writing back."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given

from steelyard.model import load_model
from steelyard.model.write_back import ROUND_TRIP, round_trip_error
from tests.generated_trees import MJCF_KINDS, URDF_KINDS, mjcf_text, trees, urdf_text
from tests.humanoids import random_bodies, random_configuration
from tests.second_engine import assert_close, mass_matrix_and_com, mujoco_mass_matrix_and_com


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def pinocchios_positions(model, theirs, positions):
    """Maps our q to Pinocchio's, in which a continuous joint is a cosine and a sine."""
    mapped = pin.neutral(theirs)
    mapped[:7] = positions[:7]
    for name in model.joints:
        joint, own = theirs.getJointId(name), positions[model.tree.q_starts[model.joint_body(name)]]
        start, size = theirs.idx_qs[joint], theirs.nqs[joint]
        mapped[start : start + size] = own if size == 1 else [np.cos(own), np.sin(own)]
    return mapped


@given(trees(URDF_KINDS))
def test_urdf_agrees_with_pinocchio(folder, tree) -> None:
    file = folder / "tree.urdf"
    file.write_text(urdf_text(tree))
    model = load_model(file)
    theirs = pin.buildModelFromXML(file.read_text(), pin.JointModelFreeFlyer())
    assert list(model.joints) == list(theirs.names)[2:]
    assert model.total_mass == pytest.approx(pin.computeTotalMass(theirs), rel=1e-12)
    positions = random_configuration(model, np.random.default_rng(tree[2]))
    data = theirs.createData()
    mapped = pinocchios_positions(model, theirs, positions)
    wanted = np.array(pin.crba(theirs, data, mapped))
    matrix, com = mass_matrix_and_com(model, positions)
    assert_close(matrix, np.triu(wanted) + np.triu(wanted, 1).T, 1e-9)
    assert_close(com, np.array(pin.centerOfMass(theirs, data, mapped)), 1e-9)


@given(trees(MJCF_KINDS))
def test_mjcf_agrees_with_mujoco(folder, tree) -> None:
    file = folder / "tree.xml"
    file.write_text(mjcf_text(tree))
    model = load_model(file)
    compiled = mujoco.MjModel.from_xml_path(str(file))
    assert model.base == ("floating" if tree[2] % 2 else "fixed")
    if model.base == "floating":
        assert model.total_mass == pytest.approx(compiled.body_mass.sum(), rel=1e-12)
    positions = random_configuration(model, np.random.default_rng(tree[2]))
    matrix, com = mass_matrix_and_com(model, positions)
    wanted, wanted_com = mujoco_mass_matrix_and_com(model, compiled, positions)
    assert_close(matrix, wanted, 1e-9)
    if model.base == "floating":
        assert_close(com, wanted_com, 1e-9)


@pytest.mark.parametrize("kind", ["urdf", "xml"])
@given(trees(("revolute", "prismatic", "fixed")))
def test_what_is_written_is_read_again(folder, kind, tree) -> None:
    parents, kinds, seed = tree
    file = folder / f"source.{kind}"
    names = {"revolute": "two hinges", "prismatic": "slide", "fixed": "weld"}
    text = urdf_text(tree) if kind == "urdf" else mjcf_text((parents, [names[one] for one in kinds], seed))
    file.write_text(text)
    model = load_model(file)
    changed = model.with_parameters(random_bodies(np.random.default_rng(seed + 1), len(model.links)))
    changed.write(folder / f"written.{kind}")
    again = load_model(folder / f"written.{kind}")
    assert again.links == model.links
    for wanted, found in zip(changed.parameters, again.parameters, strict=True):
        assert round_trip_error(wanted, found) <= ROUND_TRIP
    assert without_inertials((folder / f"written.{kind}").read_text()) == without_inertials(text)
    model.write(folder / f"same.{kind}")
    assert (folder / f"same.{kind}").read_bytes() == file.read_bytes()


def without_inertials(text: str) -> str:
    """Takes out what writing may touch, with the white space around it."""
    text = re.sub(r"(?s)<inertial\b[^>]*/>|<inertial>.*?</inertial>", "", text)
    text = re.sub(r"(<(?:link|body)\b[^>]*?)\s*/?>\s*(?:</(?:link|body)>)?", r"\1>", text)
    return re.sub(r"\s+", "", text)
