"""Robots drawn from an estimate: possible, within its constraints, and the same when their files are read again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

from steelyard import (
    IdentifiabilityError,
    ModelError,
    SolverError,
    gather_evidence,
    identify,
    load_estimate,
    load_model,
)
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.identification.sampling.drawn_models import DrawnModels, sample_models
from steelyard.identification.sampling.draws import Mixing, draw
from steelyard.model import is_possible
from steelyard.model.constraint_tables import parse_constraints
from steelyard.motion import motion_from_generalized
from steelyard.regression.rows import joint_torques
from tests.humanoids import humanoid, shaken
from tests.identification.worlds import reference, rich_motion, with_noise
from tests.model.test_write_back import ARM, assert_written

SETTLED = Mixing(100, 40, 20, 4, 0.8, 1.02, 500.0)


@pytest.fixture(scope="module")
def evidence():
    return gather_evidence(reference("g1"), with_noise(rich_motion("g1"), 1), torques=[], nuisance=())


@pytest.fixture(scope="module")
def estimate(evidence):
    return identify(reference("g1"), evidence, method="geometric", mirror=True)


@pytest.fixture(scope="module")
def draws(estimate):
    return sample_models(estimate, 40, seed=3)


def some_draws(model, count: int = 3, **changes) -> DrawnModels:
    """Gives draws of a model that no estimate stands behind."""
    parameters = np.stack([shaken(model, seed) for seed in range(count)])
    return DrawnModels(
        **(
            {"model": model, "parameters": parameters, "seed": 0, "method": "geometric", "diagnostics": SETTLED}
            | changes
        )
    )


def test_draws_are_possible_and_scatter_about_the_estimate(estimate, draws) -> None:
    assert len(draws) == 40
    assert draws.parameters.shape == (40, len(estimate.model.links), 10)
    assert np.all(is_possible(draws.parameters))
    assert all(model.check().possible for model in list(draws)[:3])
    assert np.all(estimate.posterior.holds(draws.parameters))
    spread = np.std(draws.total_masses)
    assert abs(np.mean(draws.total_masses) - estimate.total_mass) < 5.0 * max(spread, 1e-9)
    for link, masses in draws.masses.items():
        assert masses.shape == (40,)
        assert abs(np.mean(masses) - estimate.masses[link]) < 1.5 * np.std(masses)
    np.testing.assert_array_equal(draws[5].parameters, draws.parameters[5])
    np.testing.assert_array_equal(draws[-1].parameters, draws.parameters[39])
    with pytest.raises(IndexError):
        draws[40]


def test_draws_of_a_whole_robot_fulfil_the_virial_law(estimate) -> None:
    # By parts, the mean of (z − c)·∇energy is the number of unknowns, whatever c: sharper than any look at masses.
    posterior = estimate.posterior
    points = draw(posterior, 200, np.random.default_rng(5)).points
    virial = np.sum((points - posterior.mode) * posterior.gradient(points), axis=1)
    assert abs(np.mean(virial) - len(posterior)) < 4.5 * np.std(virial) / np.sqrt(200)
    assert np.std(virial) < 0.3 * len(posterior)


def test_left_and_right_stay_images_where_they_are_tied(draws) -> None:
    for left in (name for name in draws.masses if name.startswith("left_")):
        np.testing.assert_allclose(draws.masses[left], draws.masses[left.replace("left_", "right_", 1)], rtol=1e-9)


def test_the_summary_says_how_many_and_how_well(draws) -> None:
    text = draws.summary()
    assert "40 robots drawn by 'geometric', seed 3" in text
    assert "all together" in text
    assert "independent draws." in text
    assert all(link in text for link in draws.model.links)


def test_a_stored_estimate_gives_the_same_robots(estimate, draws, tmp_path) -> None:
    estimate.save(tmp_path / "g1.json")
    again = load_estimate(tmp_path / "g1.json").sample(40, seed=3)
    np.testing.assert_array_equal(again.parameters, draws.parameters)
    assert not np.any(estimate.sample(40, seed=4).masses["torso_link"] == draws.masses["torso_link"])


def test_constraints_hold_in_every_draw(evidence) -> None:
    model = reference("g1")
    total = model.total_mass
    wanted = [f"total_mass={total}", "mass_within=0.3", "com.torso*=hull", "frozen=left_wrist_yaw*"]
    estimate = identify(model, evidence, method="conic", parameters="L", constraints=wanted)
    draws = estimate.sample(20)
    np.testing.assert_allclose(draws.total_masses, total, rtol=1e-9)
    ratios = draws.parameters[:, :, 0] / model.parameters[:, 0]
    assert np.all((ratios > 0.7 - 1e-9) & (ratios < 1.3 + 1e-9))
    row = model.link_index("left_wrist_yaw_link")
    size = np.abs(model.parameters[row]).max()
    np.testing.assert_allclose(draws.parameters[:, row], np.tile(model.parameters[row], (20, 1)), atol=1e-9 * size)
    assert np.all(is_possible(draws.parameters))
    assert np.std(draws.masses["torso_link"]) > 0.0


def test_written_urdfs_are_the_robots_that_were_drawn(draws, tmp_path) -> None:
    few = replace(draws, parameters=draws.parameters[:3])
    paths = few.write(tmp_path / "robots")
    stem = draws.model.description.file.path.stem
    assert [path.name for path in paths] == [f"{stem}-00{index}.urdf" for index in range(3)]
    for model, path in zip(few, paths, strict=True):
        assert_written(model, path)
        again = load_model(path, setup="g1")
        assert again.check().possible
    index = json.loads((tmp_path / "robots" / f"{stem}.json").read_text())
    assert index["seed"] == 3
    assert index["method"] == "geometric"
    assert [each["name"] for each in index["files"]] == [path.name for path in paths]
    assert [each["sha256"] for each in index["files"]] == [hashlib.sha256(p.read_bytes()).hexdigest() for p in paths]
    assert index["provenance"]["model"]["sha256"] == draws.model.description.file.sha256
    assert sorted(path.name for path in (tmp_path / "robots").iterdir()) == sorted(
        [*(p.name for p in paths), f"{stem}.json"]
    )


def test_written_mjcfs_are_too_welded_parts_and_all(tmp_path) -> None:
    file = tmp_path / "arm.xml"
    file.write_text(ARM.format(compiler=""))
    model = load_model(file)
    assert any(len(body.members) > 1 for body in model.bodies)
    few = some_draws(model)
    paths = few.write(tmp_path / "robots", stem="limb")
    assert [path.name for path in paths] == [f"limb-00{index}.xml" for index in range(3)]
    for drawn, path in zip(few, paths, strict=True):
        assert_written(drawn, path)
        assert load_model(path).check().possible
        assert "a comment that must survive" in path.read_text()


def test_an_estimate_of_an_mjcf_gives_mjcfs(tmp_path) -> None:
    file = tmp_path / "arm.xml"
    file.write_text(ARM.format(compiler="").replace("<freejoint/>", ""))
    model = load_model(file, base="fixed")
    generator = np.random.default_rng(2)
    q, v, a = generator.normal(size=(3, 60, model.velocity_size)) * np.array([1.0, 2.0, 6.0])[:, None, None]
    motion = motion_from_generalized(model, np.arange(60) / 100.0, q, v, a)
    torques = joint_torques(model.with_parameters(1.2 * model.parameters), motion)
    torques = torques + 0.05 * generator.normal(size=torques.shape)
    measured = replace(motion, torques=dict(zip(model.joints, torques.T, strict=True)))
    draws = identify(model, gather_evidence(model, measured, torques=["*"], weights=None, nuisance=())).sample(
        3, seed=1
    )
    paths = draws.write(tmp_path / "robots")
    assert [path.name for path in paths] == [f"arm-00{index}.xml" for index in range(3)]
    for robot, path in zip(draws, paths, strict=True):
        assert_written(robot, path)
        assert load_model(path, base="fixed").check().possible
    assert np.std(draws.total_masses) > 0.0


def test_files_that_are_there_are_replaced_only_when_asked(tmp_path) -> None:
    model = humanoid("simple_humanoid")
    many, few = some_draws(model, 4), some_draws(model, 2, seed=9)
    many.write(tmp_path, stem="robot")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ModelError, match="already"):
        few.write(tmp_path, stem="robot")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "robot-007.urdf").write_text("mine")
    few.write(tmp_path, stem="robot", force=True)
    # Those of the earlier call are gone, those of others are not.
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["robot-000.urdf", "robot-001.urdf", "robot-007.urdf", "robot.json"]
    assert json.loads((tmp_path / "robot.json").read_text())["seed"] == 9


@pytest.mark.parametrize("name", ["precious.txt", "..", "", "robot-009.urdf"])
def test_an_index_cannot_name_what_is_deleted(tmp_path, name) -> None:
    (tmp_path / "robot-009.urdf").write_text("mine")
    (tmp_path / "precious.txt").write_text("mine")
    (tmp_path / "robot.json").write_text(json.dumps({"files": [{"name": name, "sha256": "0" * 64}]}))
    some_draws(humanoid("simple_humanoid"), 1).write(tmp_path, stem="robot", force=True)
    assert (tmp_path / "robot-009.urdf").read_text() == (tmp_path / "precious.txt").read_text() == "mine"


def test_all_are_written_or_none(tmp_path) -> None:
    model = humanoid("simple_humanoid")
    draws = some_draws(model)
    broken = np.array(draws.parameters)
    broken[2, 0, 0] = -1.0
    with pytest.raises(ModelError, match="mass"):
        replace(draws, parameters=broken).write(tmp_path, stem="robot")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="folder"):
        draws.write(tmp_path / "file")
    with pytest.raises(ModelError, match="folder"):
        draws.write(tmp_path / "missing" / "deep")
    with pytest.raises(ModelError, match="stem"):
        draws.write(tmp_path, stem="../robot")


def test_what_cannot_be_drawn_from_is_refused(estimate, evidence) -> None:
    truncated = identify(reference("g1"), evidence, method="truncated")
    with pytest.raises(IdentifiabilityError, match=r"'truncated' gives none; .* 'geometric' or 'conic'"):
        truncated.sample(3)
    with pytest.raises(IdentifiabilityError, match="no noise"):
        replace(estimate, posterior=None).sample(3)
    with pytest.raises(SolverError, match="failed"):
        replace(estimate, status="failed").sample(3)
    for count in (0, 2.0, None):
        with pytest.raises(IdentifiabilityError, match="number of draws"):
            estimate.sample(count)
    for seed in (-1, 0.5, True):
        with pytest.raises(IdentifiabilityError, match="seed"):
            estimate.sample(3, seed=seed)


def test_centres_of_mass_stay_in_their_hulls(evidence) -> None:
    # Thousands of facets: chains bounce off a few of them, and are held to all.
    model = reference("g1")
    estimate = identify(model, evidence, method="geometric", constraints=["com.left_*=hull", "inertia=0.2"])
    draws = estimate.sample(10)
    system = resolve_constraints(model, parse_constraints(["com.left_*=hull", "inertia=0.2"]))
    assert len(system.cut_families) == 2
    for robot in draws:
        for family in system.cut_families:
            assert np.all(family.violation(robot.parameters) == 0.0)
