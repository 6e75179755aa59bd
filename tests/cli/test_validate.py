"""`steelyard validate`: what it prints and writes is what the functions give."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import steelyard as sy
from tests.cli.running import run, short_estimate
from tests.laboratory.trials import robot, short_trial

SENSORS = ("wrench_offset",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("estimates")
    short_estimate().save(place / "estimate.json")
    for motion in ("dance", "reach"):
        short_trial("g1", motion, noise="default").recording.write(place / f"{motion}.npz")
    return place


def expected(nuisance=SENSORS, offsets=None, zeroed=None) -> sy.Validation:
    """Gives the validation as the functions give it, the sensors that are clearly late put right."""
    recording = short_trial("g1", "reach", noise="default").recording
    delays = sy.estimate_delays(robot("g1"), recording).by_sensor.values()
    late = {each.sensor: each.value for each in delays if abs(each.value) > 1e-3 and each.low > 0.0}
    aligned = recording.without_delays(late)
    motion = sy.reconstruct_motion(robot("g1"), aligned, offsets=offsets)
    return sy.validate(short_estimate(), motion, nuisance=nuisance, zeroed=zeroed)


def told(found: sy.Validation, printed: dict) -> dict:
    """Gives what the command prints of a validation; it alone has the recording, and so its noise floor and verdict."""
    floor = printed["noise_floor"]
    assert all(level > 0.0 for level in floor.values())
    known = replace(found, noise_floor=floor)
    return {**known.to_dict(), "verdict": sy.judge(short_estimate(), known).to_dict()}


def test_it_prints_and_writes_what_the_function_gives(folder, tmp_path):
    ran = run("validate", folder / "estimate.json", folder / "reach.npz", "-o", tmp_path / "new" / "v.json")
    assert (ran.code, ran.told) == (0, "")
    assert expected().summary() in ran.printed
    assert "reach.npz: 8.00 s" in ran.printed
    stored = json.loads((tmp_path / "new" / "v.json").read_text())
    assert stored == told(expected(), stored)
    assert stored["verdict"]["reasons"][0][:60] in ran.printed
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["v.json"]
    assert max(len(line) for line in ran.printed.splitlines() if not line.startswith("written")) <= 80


def test_options_arrive(folder, tmp_path):
    arguments = ["validate", folder / "estimate.json", folder / "reach.npz", "--json"]
    for given in ([], ["--nuisance", "wrench_offset"]):
        printed = json.loads(run(*arguments, *given).printed)
        assert printed == told(expected(), printed)
    bare = expected(nuisance=()).to_dict()
    assert bare["wrench"] != expected().to_dict()["wrench"]
    assert json.loads(run(*arguments, "--nuisance", "none").printed)["wrench"] == bare["wrench"]
    zeroed = json.loads(run(*arguments, "--zeroed").printed)
    assert zeroed["zeroed"]
    assert zeroed["wrench"] == expected(zeroed=True).to_dict()["wrench"]
    assert not json.loads(run(*arguments, "--not-zeroed").printed)["zeroed"]
    sy.write_offsets(tmp_path / "o.json", {"left_knee_joint": 0.05})
    turned = json.loads(run(*arguments, "--offsets", tmp_path / "o.json").printed)
    np.testing.assert_allclose(
        turned["wrench"]["estimate"]["rmse"], expected(offsets={"left_knee_joint": 0.05}).rmse, rtol=1e-9
    )
    standing = json.loads(run(*arguments, "--base", "sole").printed)
    assert standing["base"] == "pelvis"
    assert standing["wrench"] != expected().to_dict()["wrench"]


def test_data_that_it_was_made_from_are_recognised(folder):
    assert (
        "Validation of g1_29dof_rev_1_0: direct"
        in run("validate", folder / "estimate.json", folder / "dance.npz").printed
    )


def test_several_recordings_count_together_and_quiet_says_nothing(folder, tmp_path):
    both = [folder / "reach.npz", folder / "dance.npz"]
    ran = run("validate", folder / "estimate.json", *both, "-o", tmp_path / "v.json", "--quiet")
    assert (ran.code, ran.printed, ran.told) == (0, "", "")
    plain = json.loads((tmp_path / "v.json").read_text())
    assert plain["kind"] == "partly direct"
    assert plain["sample_count"] > expected().sample_count


def test_a_file_that_is_there_is_replaced_only_by_force(folder, tmp_path):
    (tmp_path / "v.json").write_text("mine")
    arguments = ["validate", folder / "estimate.json", folder / "reach.npz", "-o", tmp_path / "v.json"]
    ran = run(*arguments)
    assert ran.code == 1
    assert ran.told.endswith("v.json already exists; name another file, or replace it with --force\n")
    assert (tmp_path / "v.json").read_text() == "mine"
    assert run(*arguments, "--force").code == 0
    assert json.loads((tmp_path / "v.json").read_text())["kind"] == "cross"


def test_calls_that_make_no_sense_exit_with_two(folder):
    assert run("validate", folder / "estimate.json").code == 2
    ran = run("validate", folder / "estimate.json", folder / "reach.npz", "--nuisance", "wrench_ofset")
    assert ran.code == 2
    assert "wrench_offset" in ran.told
