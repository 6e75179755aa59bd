"""Sensors that changed between two recordings are no load, and hide none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steelyard import find_payload, gather_evidence
from steelyard.payload import RIVAL_NUISANCE
from steelyard.payload.load_problem import build_payload_problem
from tests.identification.worlds import reference
from tests.payload.test_payload import HAND, g1_motion

CHANGED = ("wrench_offset", "wrench_drift", "wrench_gain", "encoder_offset")
GROUPS = ("wrench_offset", *RIVAL_NUISANCE[1:])
LINKS = (HAND, "torso*", "left_knee*")
SECONDS = 20.0


def changed(motion, change: str, seed: int = 7):
    """Gives a motion as it is measured by sensors that changed."""
    generator = np.random.default_rng(seed)
    if change == "encoder_offset":
        return replace(motion, q=motion.q + np.radians(0.3) * generator.uniform(-1.0, 1.0, size=motion.q.shape[1]))
    wrenches = {}
    for name, values in motion.wrenches.items():
        sizes = generator.choice([-1.0, 1.0], size=6) * np.repeat([4.0, 0.4], 3)
        share = (motion.time - motion.time[0])[:, None] / SECONDS
        wrenches[name] = {
            "": values,
            "wrench_offset": values + sizes,
            "wrench_drift": values + sizes * share,
            "wrench_gain": values * (1.0 + 0.01 * generator.normal(size=6)),
        }[change]
    return replace(motion, wrenches=wrenches)


def evidence_of(motion, change: str = "", *, noise: float, seed: int = 0, nuisance=GROUPS):
    """Gives the Evidence of twenty seconds of a motion, with noise (N; a tenth, N m) and changed sensors."""
    generator = np.random.default_rng(seed)
    motion = replace(motion, time=np.linspace(0.0, SECONDS, len(motion)))
    motion = changed(motion, change)
    wrenches = {
        name: values + noise * np.repeat([1.0, 0.1], 3) * generator.normal(size=values.shape)
        for name, values in motion.wrenches.items()
    }
    weights = {"left_foot": (1.0, 0.1), "right_foot": (1.0, 0.1)}
    return gather_evidence(
        reference("g1"), replace(motion, wrenches=wrenches), weights=weights, nuisance=nuisance, shared_offsets=True
    )


@pytest.mark.parametrize(
    ("change", "noise"), [*((change, 0.3) for change in CHANGED), ("wrench_drift", 0.0), ("encoder_offset", 0.0)]
)
def test_changed_sensors_are_no_load(change, noise):
    evidence, baseline = evidence_of(g1_motion(1), change, noise=noise), evidence_of(g1_motion(2), noise=noise, seed=1)
    finding = find_payload(reference("g1"), evidence, baseline, links=LINKS)
    assert not finding.payloads
    assert finding.status in ("nothing", "cannot tell")
    assert finding.nothing > 0.5
    assert finding.changes[change] > 0.9
    assert any("record both again" in note for note in finding.notes)


@pytest.mark.parametrize("change", CHANGED)
def test_a_load_is_found_with_changed_sensors(change):
    evidence = evidence_of(g1_motion(1, hand=1.0), change, noise=0.3)
    baseline = evidence_of(g1_motion(2), noise=0.3, seed=1)
    finding = find_payload(reference("g1"), evidence, baseline, links=LINKS)
    (payload,) = finding.payloads
    assert finding.status == "found"
    assert payload.link == HAND
    assert payload.mass == pytest.approx(1.0, abs=3.0 * payload.mass_error)
    assert payload.mass_error < 0.1
    assert finding.changes[change] > 0.9
    assert any("Beside the load" in note for note in finding.notes)


def test_sensors_that_did_not_change_cost_a_load_nothing():
    evidence = evidence_of(g1_motion(1, hand=1.0), noise=0.3)
    baseline = evidence_of(g1_motion(2), noise=0.3, seed=1)
    finding = find_payload(reference("g1"), evidence, baseline, links=LINKS)
    plain = [evidence_of(motion, noise=0.3, seed=seed, nuisance=("wrench_offset",))
             for seed, motion in enumerate((g1_motion(1, hand=1.0), g1_motion(2)))]  # fmt: skip
    before = find_payload(reference("g1"), *plain, links=LINKS)
    assert finding.changes["none"] > 0.5
    assert sum(finding.changes.values()) == pytest.approx(1.0)
    assert finding.payloads[0].mass_error < 1.2 * before.payloads[0].mass_error
    assert "Sensors changed:   none" in finding.summary()
    assert any("wrench_gain" in note for note in before.notes)
    assert not any("wrench_gain" in note for note in finding.notes)


def test_changes_in_the_noise_are_marginalised():
    # The marginal likelihood equals that of the Gaussian with the changes' covariance.
    evidence, baseline = evidence_of(g1_motion(1), noise=0.3), evidence_of(g1_motion(2), noise=0.3, seed=1)
    problem = build_payload_problem(reference("g1"), evidence, baseline, cad_spread=None, same_sensors=True)
    names = ("wrench_gain", "encoder_offset")
    effects = np.concatenate([problem.changes[name] for name in names], axis=1)
    covariance = np.eye(len(problem.right)) + effects @ effects.T
    wider = problem.explained_by(names)
    np.testing.assert_allclose(
        wider.right @ wider.right, problem.right @ np.linalg.solve(covariance, problem.right), rtol=1e-8
    )
    np.testing.assert_allclose(wider.log_volume, 0.5 * np.linalg.slogdet(covariance)[1], rtol=1e-8)
    np.testing.assert_allclose(wider.directions.T @ wider.directions, np.eye(wider.directions.shape[1]), atol=1e-9)
