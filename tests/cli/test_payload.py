"""`steelyard payload`: a load is found without knowing how evidence has to be gathered."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

import steelyard as sy
from tests.cli.running import long_dance, run
from tests.laboratory.trials import robot, short_trial

SENSORS = ["wrench_offset", "accelerometer_bias", "imu_mounting", "gyro_bias"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("loads")
    long_dance().recording.write(place / "empty.npz")
    long_dance(1.0).recording.write(place / "loaded.npz")
    short_trial("g1", "reach", noise="default").recording.write(place / "reach.npz")
    return place


def test_the_load_is_found_as_the_page_on_payloads_finds_it(folder, tmp_path):
    ran = run("payload", "g1", folder / "loaded.npz", "--baseline", folder / "empty.npz", "-o", tmp_path / "load.json")
    assert (ran.code, ran.told) == (0, "")
    plain = json.loads((tmp_path / "load.json").read_text())
    assert plain["status"] == "found"
    (load,) = plain["payloads"]
    assert load["link"] == "left_wrist_yaw_link"
    assert abs(load["mass"] - 1.0) < 4.0 * load["mass_error"] < 0.2
    # By the functions, as docs/payload.md has it.
    model = robot("g1")
    recordings = [long_dance().recording, long_dance(1.0).recording]
    rivals = ["auto", "wrench_gain", "wrench_drift", "encoder_offset"]
    prepared = sy.prepare(model, recordings, delays="all", shared_offsets=True, nuisance=rivals)
    evidence = [prepared.gather(each) for each in reversed(recordings)]
    wanted = sy.find_payload(model, *evidence).to_dict()
    assert load["mass"] == pytest.approx(wanted["payloads"][0]["mass"], rel=1e-6)
    assert load["position"] == pytest.approx(wanted["payloads"][0]["position"], rel=1e-5)
    assert plain["nuisance"] == [*SENSORS, *rivals[1:]]
    assert plain["changes"]["none"] > 0.5
    assert plain["delays"] == pytest.approx(dict(prepared.delays))
    assert "left_wrist_yaw_link" in ran.printed
    assert "a recording without the load" in ran.printed
    assert max(len(line) for line in ran.printed.splitlines() if not line.startswith("written")) <= 80


def test_without_a_load_none_is_found(folder):
    plain = json.loads(run("payload", "g1", folder / "reach.npz", "--baseline", folder / "empty.npz", "--json").printed)
    assert plain["status"] in ("nothing", "cannot tell")
    assert not plain["payloads"]


def test_a_recording_too_short_to_tell_noise_is_weighed_as_usual_and_that_is_said(folder):
    plain = json.loads(run("payload", "g1", folder / "reach.npz", "--json").printed)
    assert any("default weights" in note for note in plain["notes"]), plain["notes"]
    assert "the default sensor noise is assumed: " in run("payload", "g1", folder / "reach.npz").printed


def test_options_arrive(folder, monkeypatch):
    common = ["payload", "g1", folder / "loaded.npz", "--json"]
    beside = [*common, "--baseline", folder / "empty.npz"]
    given = {}

    found = []

    def listening(*evidence, **options):
        given.update(options)
        # What is found is not at stake here: a quick search, once, is enough.
        found[:] = found or [sy.find_payload(*evidence, links=options["links"], most=1)]
        return found[0]

    monkeypatch.setattr(import_module("steelyard.cli.payload"), "find_payload", listening)
    options = ["--zeroed", "--removed", "--most", 1, "--least-mass", 0.1, "--spread", 0.1]
    plain = json.loads(run(*beside, *options, "--link", "torso*", "--link", "pelvis").printed)
    assert set(plain["limits"]) == {"torso_link", "pelvis"}
    links = ["torso*", "pelvis"]
    assert given == {
        "cad_spread": 0.1, "same_sensors": False, "links": links, "removed": True, "most": 1, "least_mass": 0.1
    }  # fmt: skip
    standing = json.loads(run(*beside, "--base", "sole").printed)
    assert standing["nuisance"] == ["wrench_offset", "wrench_gain", "wrench_drift", "encoder_offset"]
    assert json.loads(run(*beside, "--nuisance", "none").printed)["nuisance"] == []
    ran = run(*beside[:-3], "--baseline", folder / "empty.npz", "--quiet")
    assert (ran.code, ran.printed, ran.told) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["loaded.npz", "--baseline", "loaded.npz"], 1, "loaded.npz is given twice"),
        (["loaded.npz", "--link", "hand"], 1, "no link is called 'hand'"),
        (["loaded.npz", "--nuisance", "viscous_friction"], 1, "loaded.npz: viscous_friction shows in joint torques"),
        (["loaded.npz", "--nuisance", "offset"], 2, "did you mean 'wrench_offset'"),
        (["loaded.npz", "--most", "0"], 2, "'--most'"),
        (["loaded.npz", "--baseline", "gone.npz"], 1, "there is no file 'gone.npz'"),
        (["loaded.npz", "-o", "loaded.npz"], 1, "loaded.npz already exists"),
        ([], 2, "Missing argument 'RECORDING'"),
    ],
)
def test_mistakes_are_told_in_one_line(folder, monkeypatch, arguments, code, message):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    ran = run("payload", "g1", *arguments)
    assert ran.code == code, ran
    assert message in " ".join(ran.told.replace("│", " ").split())
    if code == 1:
        assert len(ran.told.splitlines()) == 1
    assert sorted(folder.iterdir()) == before
