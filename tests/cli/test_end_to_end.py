"""The workflow of a user from a humanoid's CSV to a model file: simulate, inspect, calibrate, identify, validate."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

import steelyard as sy
from tests.cli.running import run

MOTIONS = {"limp": 11.0, "dance": 8.0, "reach": 8.0}
"""Seconds of each motion: as short as each can be planned, since this is a test of the commands, not of the numbers."""


def test_from_a_csv_to_an_identified_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for motion, seconds in MOTIONS.items():
        truth = ["--truth", "truth.json"] if motion == "dance" else []
        done = run("simulate", "g1", motion, "-o", f"{motion}.csv", "--seed", 1, "--duration", seconds, *truth)
        assert (done.code, done.told) == (0, "")
    true = json.loads(Path("truth.json").read_text())

    inspected = run("inspect", "g1", "dance.csv", columns=200)
    assert inspected.code == 0, inspected.printed
    assert not re.search(r"(?m)^fault: ", inspected.printed)

    calibrated = run("calibrate", "g1", "limp.csv", "--poses", 20, "-o", "calibrated")
    assert (calibrated.code, calibrated.told) == (0, "")
    assert "next: steelyard identify ... --offsets calibrated/offsets.json" in calibrated.printed
    offsets = sy.read_offsets("calibrated/offsets.json")

    # The report has tests of its own.
    asked = ["--validate", "reach.csv", "--offsets", "calibrated", "-o", "results", "--no-report"]
    identified = run("identify", "g1", "dance.csv", *asked)
    assert (identified.code, identified.told) == (0, "")
    assert {path.name for path in Path("results").iterdir()} == {
        "estimate.json",
        "g1_identified.urdf",
        "links.csv",
        "validation.json",
    }
    estimate = sy.load_estimate("results/estimate.json")
    assert estimate.preparation["offsets"] == offsets
    assert f"{estimate.total_mass:.2f} kg" in identified.printed
    assert abs(estimate.total_mass - true["total_mass"]) < abs(estimate.reference[:, 0].sum() - true["total_mass"])

    written = sy.load_model("results/g1_identified.urdf", setup="g1")
    assert written.links == estimate.model.links
    np.testing.assert_allclose(
        list(written.masses.values()), list(estimate.masses.values()), rtol=1e-9, atol=1e-12, err_msg="masses"
    )
    assert run("check", "results/g1_identified.urdf", "--setup", "g1", "--quiet").code == 0

    validated = run("validate", "results/estimate.json", "reach.csv", "-o", "again.json")
    assert (validated.code, validated.told) == (0, "")
    assert json.loads(Path("again.json").read_text()) == json.loads(Path("results/validation.json").read_text())
