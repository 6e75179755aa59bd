"""Drafts of seven robots compared with hand-made setups."""

from __future__ import annotations

import re

import numpy as np
import pytest

import steelyard as sy
from steelyard.model import load_model
from steelyard.stance.footing import plant_feet
from tests.drafting.references import (
    REFERENCES,
    corners,
    drafted,
    made_by_hand,
    paired_links,
    part_placement,
    sole_distances,
)

SQUARE = np.array([[0.1, 0.05, 0.0], [-0.1, 0.05, 0.0], [-0.1, -0.05, 0.0], [0.1, -0.05, 0.0]])


def test_the_distance_of_soles_is_sharp() -> None:
    """A polygon moved by 7 mm is 7 mm away, one raised by 3 mm is 3 mm away, and a missing corner counts in full."""
    assert sole_distances(SQUARE + np.array([0.007, 0.0, 0.0]), SQUARE) == pytest.approx((0.007, 0.0), abs=1e-12)
    assert sole_distances(SQUARE + np.array([0.0, 0.0, 0.003]), SQUARE) == pytest.approx((0.0, 0.003), abs=1e-12)
    triangle = SQUARE[:3]
    half_diagonal = 0.2 * 0.1 / np.hypot(0.2, 0.1)
    assert sole_distances(triangle, SQUARE)[0] == pytest.approx(half_diagonal, abs=1e-12)
    assert sole_distances(SQUARE, triangle)[0] == pytest.approx(half_diagonal, abs=1e-12)


@pytest.mark.parametrize("name", REFERENCES)
def test_soles_are_within_a_centimetre(name: str) -> None:
    hand, draft = made_by_hand(name), drafted(name).model
    known = {part_placement(hand, sole.frame)[0]: sole for sole in hand.setup.soles}
    found = {part_placement(draft, sole.frame)[0]: sole for sole in draft.setup.soles}
    # Alex has no legs, and the feet of simple_humanoid no shapes: there is nothing to compare.
    assert bool(known) == (name not in ("alex", "simple_humanoid"))
    # A wrench sensor inside the foot cuts it in two: then the part that carries the sole has another name.
    assert len(found) == len(known)
    for part, sole in known.items():
        assert part in found
        assert found[part].name == sole.name
        distance, height = sole_distances(corners(draft, found[part]), corners(hand, sole))
        assert distance < 0.01
        assert height < 0.002
        assert len(found[part].vertices) <= 8


@pytest.mark.parametrize("name", REFERENCES)
def test_mirror_pairs_are_complete(name: str) -> None:
    hand, draft = made_by_hand(name), drafted(name).model
    assert hand.setup.mirror is not None
    assert draft.setup.mirror is not None
    assert draft.setup.mirror.plane == hand.setup.mirror.plane
    assert paired_links(draft) == paired_links(hand)


@pytest.mark.parametrize("name", REFERENCES)
def test_inertial_sensors_are_where_the_file_has_them(name: str) -> None:
    hand, draft = made_by_hand(name), drafted(name).model
    places = [
        sorted(
            (part_placement(model, imu.frame) for imu in model.setup.imus), key=lambda place: (place[0], *place[1].flat)
        )
        for model in (hand, draft)
    ]
    assert [part for part, _ in places[0]] == [part for part, _ in places[1]]
    for (_, one), (_, other) in zip(*places, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


def test_the_inertial_sensor_nearest_to_the_root_comes_first() -> None:
    assert [imu.name for imu in drafted("g1").setup.imus] == ["pelvis", "torso"]
    assert [imu.name for imu in drafted("romeo").setup.imus] == ["torso", "head"]


@pytest.mark.parametrize(("name", "more"), [("icub", 4), ("talos", 2)])
def test_sensors_behind_a_hash_work_when_it_is_taken_away(name: str, more: int, tmp_path) -> None:
    draft = drafted(name)
    draft.write(tmp_path / "mine.toml")
    text = (tmp_path / "mine.toml").read_text()
    opened = re.sub(r"(?m)^# (\[\[wrench_sensor\]\]|(?:name|frame|at|sign|axes) +=)", r"\1", text)
    (tmp_path / "all.toml").write_text(opened)
    model = load_model(tmp_path / "all.toml")
    assert len(model.setup.wrench_sensors) == len(draft.setup.wrench_sensors) + more
    assert len(model.links) > len(draft.model.links)
    assert model.total_mass == pytest.approx(draft.model.total_mass, rel=1e-12)


@pytest.mark.parametrize("name", REFERENCES)
def test_wrench_sensors_are_as_by_hand(name: str) -> None:
    hand, draft = made_by_hand(name), drafted(name).model
    assert len(draft.setup.wrench_sensors) == len(hand.setup.wrench_sensors)
    known = {part_placement(hand, sensor.frame)[0]: sensor for sensor in hand.setup.wrench_sensors}
    for sensor in draft.setup.wrench_sensors:
        part, place = part_placement(draft, sensor.frame)
        assert (sensor.at, sensor.sign, sensor.axes) == (known[part].at, known[part].sign, known[part].axes)
        if sensor.at == "joint":
            np.testing.assert_allclose(place, part_placement(hand, known[part].frame)[1], rtol=0, atol=1e-9)
    felt = {sole.wrench for sole in draft.setup.soles}
    assert not draft.setup.soles or felt == {sensor.name for sensor in draft.setup.wrench_sensors}


@pytest.mark.parametrize("name", REFERENCES)
def test_base_and_links_are_as_by_hand(name: str) -> None:
    """Both setups give the same tree of links, so everything computed from it agrees."""
    assert drafted(name).model.base == made_by_hand(name).base
    assert drafted(name).model.links == made_by_hand(name).links
    assert drafted(name).model.tree.sha256 == made_by_hand(name).tree.sha256


def test_what_could_not_be_found_is_said() -> None:
    missing = {finding.what for finding in drafted("simple_humanoid").findings if finding.kind == "missing"}
    assert {"imu", "sole left", "sole right"} <= missing
    missing = {finding.what for finding in drafted("alex").findings if finding.kind == "missing"}
    assert {"soles", "wrench sensors"} <= missing
    assert not [
        finding for finding in drafted("talos").findings if finding.kind == "missing" and "sole" in finding.what
    ]


def test_what_was_guessed_is_marked() -> None:
    guessed = {finding.what for finding in drafted("g1").findings if finding.kind == "guessed"}
    assert {"wrench sensor left_foot", "wrench sensor right_foot"} <= guessed
    found = {finding.what for finding in drafted("icub").findings if finding.kind == "found"}
    assert {"wrench sensor left_foot", "wrench sensor right_foot", "imu head"} <= found


@pytest.mark.parametrize("name", [name for name in REFERENCES if name not in ("alex", "simple_humanoid")])
def test_a_drafted_robot_stands(name: str) -> None:
    """The stance room, which did not draft the soles, places the feet flat."""
    footing = plant_feet(drafted(name).model)
    assert len(footing.feet) == 2


def test_a_drafted_robot_goes_through_the_whole_pipeline() -> None:
    """Alexander stands and sways in the laboratory with its draft alone, and its feet carry its weight."""
    model = drafted("alexander").model
    trial = sy.simulate(model, "sway", seed=0, duration=5.0, noise=None)
    assert not trial.events
    motion = sy.reconstruct_motion(model, trial.recording)
    evidence = sy.gather_evidence(model, motion, nuisance=())
    assert evidence.rank > 50
    forces = [motion.wrenches[sensor.name][:, :3] for sensor in model.setup.wrench_sensors]
    weight = float(np.mean(np.linalg.norm(sum(forces), axis=1)))
    assert weight == pytest.approx(9.81 * trial.truth.model.total_mass, rel=0.01)


@pytest.mark.parametrize("name", ["talos", "alex"])
def test_a_written_draft_is_the_draft(name: str, tmp_path) -> None:
    draft = drafted(name)
    draft.write(tmp_path / "mine.toml")
    again = load_model(tmp_path / "mine.toml")
    assert again.links == draft.model.links
    assert again.setup.mirror == draft.model.setup.mirror
    for one, other in zip(again.setup.soles, draft.setup.soles, strict=True):
        np.testing.assert_array_equal(one.vertices, other.vertices)
