"""The pass over all bodies agrees with the walk along each chain, from any base, and with differences in time."""

import numpy as np
import pytest
from hypothesis import given, settings

from steelyard import load_model
from steelyard.kinematics import (
    ANGULAR_ACCELERATION,
    ANGULAR_VELOCITY,
    JOINT_CODES,
    POSITION,
    PROPER_ACCELERATION,
    ROTATION,
    STATE_SIZE,
    VELOCITY,
    TreeMotion,
    move_along,
    place_bodies,
    spread_blocks,
    spread_motion,
    traverse,
    tree_pass,
)
from steelyard.motion import tree_motion
from tests.generated_trees import MJCF_KINDS, mjcf_text, trees
from tests.kinematics.test_chain_motion import random_motion


def part(states, start, size=3):
    return states[..., start : start + size]


def assert_chains_agree(model, motion):
    tree = model.tree
    states = spread_motion(tree, 0, motion)
    known = {}
    for body in range(len(tree.parents)):
        move_along(tree, tree.chain(0, body), motion, known)
        found, seen = states[:, body], known[body]
        np.testing.assert_allclose(part(found, ROTATION, 9).reshape(-1, 3, 3), seen.rotation, atol=1e-12)
        np.testing.assert_allclose(part(found, POSITION), seen.position, atol=1e-12)
        np.testing.assert_allclose(part(found, ANGULAR_VELOCITY), seen.angular_velocity, atol=1e-11)
        np.testing.assert_allclose(part(found, ANGULAR_ACCELERATION), seen.angular_acceleration, atol=1e-10)
        np.testing.assert_allclose(part(found, PROPER_ACCELERATION), seen.proper_acceleration, atol=1e-10)
    placed = place_bodies(tree, range(1, len(tree.parents)), motion.q)
    for body, at in placed.items():
        np.testing.assert_array_equal(at.rotation, known[body].rotation)
        np.testing.assert_array_equal(at.position, known[body].position)


@settings(max_examples=25)
@given(trees(MJCF_KINDS))
def test_the_pass_moves_generated_trees_as_chains_do(tmp_path_factory, tree):
    file = tmp_path_factory.mktemp("tree") / "tree.xml"
    file.write_text(mjcf_text(tree))
    model = load_model(file, base="floating")
    assert_chains_agree(model, tree_motion(random_motion(model, 4, tree[2])[3]))


@pytest.mark.parametrize("base", [0, 5, 17])
def test_velocity_is_the_rate_of_the_position(base):
    model = load_model("g1")
    motion = tree_motion(random_motion(model, 6, 2)[3])
    states = spread_motion(model.tree, base, motion)
    step = 1e-6
    after, before = (
        part(spread_motion(model.tree, base, motion._replace(q=motion.q + sign * step * motion.v)), POSITION)
        for sign in (1.0, -1.0)
    )
    rates = part(states, ANGULAR_VELOCITY)[:, [base]]
    relative = part(states, VELOCITY) - np.cross(rates, part(states, POSITION))
    np.testing.assert_allclose(relative, (after - before) / (2.0 * step), atol=1e-8)


def test_a_body_moves_alike_whichever_body_the_pass_starts_from():
    model = load_model("g1")
    motion = tree_motion(random_motion(model, 5, 3)[3])
    tree, base = model.tree, 12
    first = spread_motion(tree, 0, motion)
    to_base = part(first, ROTATION, 9)[:, base].reshape(-1, 3, 3)
    starts = (ANGULAR_VELOCITY, ANGULAR_ACCELERATION, PROPER_ACCELERATION)
    own = [np.einsum("nji,nj->ni", to_base, part(first, start)[:, base]) for start in starts]
    second = spread_motion(tree, base, TreeMotion(motion.q, motion.v, motion.a, *own))
    for start in starts:
        np.testing.assert_allclose(
            np.einsum("nij,nbj->nbi", to_base, part(second, start)), part(first, start), atol=1e-9
        )


def test_blocks_are_the_whole_and_hold_few_samples(monkeypatch):
    model = load_model("g1")
    motion = tree_motion(random_motion(model, 25, 4)[3])
    monkeypatch.setattr(tree_pass, "BLOCK", 10)
    whole = spread_motion(model.tree, 3, motion)
    assert whole.shape == (25, len(model.bodies), STATE_SIZE)
    sizes = []
    for block, states in spread_blocks(model.tree, 3, motion):
        np.testing.assert_array_equal(states, whole[block])
        sizes.append(len(states))
    assert sizes == [10, 10, 5]


def test_traversals_reach_every_body_once_and_subtrees_hold_what_is_below():
    tree = load_model("g1").tree
    for base in (0, 9):
        walk = traverse(tree, base)
        assert sorted(walk.order) == list(range(len(tree.parents)))
        assert walk.order[0] == base
        reached = {base}
        for body, source in zip(walk.order[1:], walk.source[1:], strict=True):
            assert source in reached
            reached.add(body)
    for body, parent in enumerate(tree.parents):
        assert tree.subtrees[body, body]
        assert parent < 0 or (tree.subtrees[parent] >= tree.subtrees[body]).all()
    assert tree.chain(9, 0) == []


def test_codes_of_joints_stay_as_stored_evidence_has_them():
    assert JOINT_CODES == {"revolute": 0, "continuous": 1, "prismatic": 2, "ball": 3, "fixed": 4, "free": 5}
