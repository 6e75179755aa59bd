"""Sensor errors of single recordings: eliminating and adding equals one joint solve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from steelyard import Evidence, gather_evidence, identify, load_evidence, load_model
from steelyard.exceptions import EvidenceError
from tests.humanoids import shaken
from tests.regression.motions import standing_motion

GROUPS = ["wrench_offset", "accelerometer_bias", "imu_mounting"]


@pytest.fixture(scope="module")
def model():
    return load_model("g1")


@pytest.fixture(scope="module")
def true(model):
    return shaken(model, seed=5)


def zeroed_motion(model, true, seed: int, count: int = 90, origin: str | None = None):
    """Gives a noisy motion whose wrench sensors have offsets of their own, and these."""
    clean = standing_motion(model, count, seed=seed, parameters=true)
    generator = np.random.default_rng([seed, 1])
    offsets = {name: generator.normal(size=6) * [4, 4, 4, 0.4, 0.4, 0.4] for name in clean.wrenches}
    noise = np.array([1.0, 1.0, 1.0, 0.05, 0.05, 0.05])
    wrenches = {
        name: values + offsets[name] + noise * generator.normal(size=values.shape)
        for name, values in clean.wrenches.items()
    }
    return replace(clean, wrenches=wrenches, origin=f"{seed:064d}" if origin is None else origin), offsets


@pytest.fixture(scope="module")
def evidence(model, true):
    return [gather_evidence(model, zeroed_motion(model, true, seed)[0], nuisance=GROUPS) for seed in range(3)]


def solve_jointly(parts):
    """Solves for the independent parameters, the robot's nuisances, and the own errors of each part as columns."""
    first = parts[0]
    count = len(first.independent)
    own = [count + place for place, name in enumerate(first.key.nuisance) if name in first.key.own]
    common = [place for place in range(first.factor.shape[1] - 1) if place not in own]
    blocks, right = [], []
    for number, part in enumerate(parts):
        columns = np.zeros((len(part.factor) + len(own), len(common) + len(own) * len(parts)))
        mine = slice(len(common) + len(own) * number, len(common) + len(own) * (number + 1))
        columns[: len(part.factor), : len(common)] = part.factor[:, common]
        columns[: len(part.factor), mine] = part.factor[:, own]
        columns[len(part.factor) :, mine] = np.diag(part.closed().errors[0].noise / np.array(part.key.own_priors))
        blocks.append(columns)
        right.append(np.append(part.factor[:, -1], np.zeros(len(own))))
    matrix = np.concatenate(blocks)
    lengths = np.linalg.norm(matrix, axis=0)
    solution = np.linalg.lstsq(matrix / lengths, np.concatenate(right), rcond=None)[0] / lengths
    return solution[: len(common)], solution[len(common) :].reshape(len(parts), -1)


def solve_sum(total):
    lengths = np.linalg.norm(total.factor[:, :-1], axis=0)
    return np.linalg.lstsq(total.factor[:, :-1] / lengths, total.factor[:, -1], rcond=None)[0] / lengths


def test_adding_then_solving_is_one_joint_solve(evidence) -> None:
    joint, errors = solve_jointly(evidence)
    total = sum(evidence)
    found = solve_sum(total)
    sizes = np.linalg.norm(total.factor[:, :-1], axis=0)
    assert np.max(np.abs(sizes * (found - joint))) < 1e-9 * np.max(np.abs(sizes * joint))
    # Reading back gives the errors of the joint solve.
    phi = np.zeros(total.parameter_count)
    phi[total.independent] = found[: len(total.independent)]
    back = total.sensor_errors(phi, found[len(total.independent) :])
    for read, solved in zip(back, errors, strict=True):
        np.testing.assert_allclose(list(read.values()), solved, rtol=0.0, atol=1e-9 * np.max(np.abs(solved)))


def test_the_order_of_adding_does_not_matter(evidence) -> None:
    one, two, three = evidence
    sums = [(one + two) + three, one + (two + three), three + (one + two)]
    grams = [each.factor.T @ each.factor for each in sums]
    for gram in grams[1:]:
        np.testing.assert_allclose(gram, grams[0], rtol=0.0, atol=1e-12 * np.abs(grams[0]).max())
    assert [each.spent for each in sums] == pytest.approx([sums[0].spent] * 3)


def test_determining_errors_takes_as_many_equations_as_the_data_decide(evidence) -> None:
    part = evidence[0].closed()
    assert 0.0 < part.spent < len(evidence[0].key.own)
    certain = replace(evidence[0], key=replace(evidence[0].key, priors=tuple(1e-9 for _ in evidence[0].key.priors)))
    assert certain.closed(1.0).spent < 1e-6


def test_offsets_are_found_within_their_uncertainty(model, true) -> None:
    total = sum(gather_evidence(model, zeroed_motion(model, true, seed, 200)[0], nuisance=GROUPS) for seed in range(4))
    found = solve_sum(total)
    phi = np.zeros(total.parameter_count)
    phi[total.independent] = found[: len(total.independent)]
    errors = []
    for seed, read in enumerate(total.sensor_errors(phi, found[len(total.independent) :])):
        offsets = zeroed_motion(model, true, seed, 200)[1]
        errors += [
            (read[f"{name}.{axis}.offset"] - values[k]) / (1.0 if k < 3 else 0.1)
            for name, values in offsets.items()
            for k, axis in enumerate(("fx", "fy", "fz", "nx", "ny", "nz"))
        ]
    assert np.sqrt(np.mean(np.square(errors))) < 1.0  # drawn with 4 N and 0.4 N m


def test_parts_of_one_recording_share_their_errors(model, true) -> None:
    motion, _ = zeroed_motion(model, true, seed=7)
    whole = gather_evidence(model, motion, nuisance=GROUPS)
    parts = [gather_evidence(model, motion.between(*ends), nuisance=GROUPS) for ends in ((0, 40), (40, 90))]
    total = parts[0] + parts[1]
    assert total.is_open
    np.testing.assert_allclose(
        total.factor.T @ total.factor, whole.factor.T @ whole.factor, atol=1e-9 * np.abs(whole.factor).max() ** 2
    )
    other = gather_evidence(model, zeroed_motion(model, true, seed=8)[0], nuisance=GROUPS)
    with pytest.raises(EvidenceError, match="add the parts of each recording before others"):
        (parts[0] + other) + parts[1]


def test_shared_offsets_stay_columns(model, true) -> None:
    parts = [
        gather_evidence(model, zeroed_motion(model, true, seed)[0], nuisance=GROUPS, shared_offsets=True)
        for seed in (1, 2)
    ]
    total = parts[0] + parts[1]
    assert total.key.nuisance == parts[0].key.nuisance
    assert not total.errors
    with pytest.raises(EvidenceError, match="gather both with the same nuisance and shared_offsets"):
        parts[0] + gather_evidence(model, zeroed_motion(model, true, 3)[0], nuisance=GROUPS)


def test_evidence_of_unlike_noise_adds(model, true) -> None:
    quiet, loud = (
        gather_evidence(model, zeroed_motion(model, true, seed)[0], nuisance=GROUPS, weights={"force": sd})
        for seed, sd in ((1, 1.0), (2, 3.0))
    )
    total = quiet + loud
    assert total.key.weights[0] == pytest.approx(np.sqrt(5.0))
    with pytest.raises(EvidenceError, match="different weights"):
        quiet + gather_evidence(model, zeroed_motion(model, true, 3)[0], nuisance=GROUPS, weights=None)


def test_every_method_takes_a_sum(model, evidence) -> None:
    for method in ("truncated", "base", "geometric"):
        estimate = identify(model, sum(evidence), method=method)
        assert estimate.status in ("solved", "weak")
        assert estimate.fit.freedom < estimate.fit.row_count


def test_it_is_stored_with_its_errors(evidence, tmp_path, true) -> None:
    total = evidence[0] + evidence[1]
    total.save(tmp_path / "sum.npz")
    again = load_evidence(tmp_path / "sum.npz")
    assert again.key == total.key
    assert again.spent == total.spent
    assert again.sensor_errors(true) == total.sensor_errors(true)
    assert (again + evidence[2]).row_count == sum(each.row_count for each in evidence)


def test_rows_from_elsewhere_are_evidence(model, true) -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(400, 300))
    forces = rows @ true.ravel() + 0.01 * generator.normal(size=400)
    whole = Evidence.from_rows(model, rows, forces, weights=0.01)
    halves = [Evidence.from_rows(model, rows[part], forces[part], weights=np.full(200, 0.01))
              for part in (slice(0, 200), slice(200, 400))]  # fmt: skip
    np.testing.assert_allclose(sum(halves).cost(true), whole.cost(true), rtol=1e-9)
    assert whole.cost(true) == pytest.approx(np.sum(np.square((rows @ true.ravel() - forces) / 0.01)))
    estimate = identify(model, whole, method="truncated", c_max=1e12)
    assert np.max(np.abs(estimate.parameters - true) / np.maximum(estimate.standard_errors, 1e-12)) < 6.0


@pytest.mark.parametrize(
    ("rows", "forces", "options", "message"),
    [
        (np.ones((5, 299)), np.ones(5), {}, r"needs \(n, 300\), ten for each link"),
        (np.ones((5, 300)), np.ones(4), {}, "5 rows need as many numbers"),
        (np.full((5, 300), np.nan), np.ones(5), {}, "not finite"),
        (np.ones((5, 300)), np.ones(5), {"weights": 0.0}, "one positive number"),
        (np.ones((5, 300)), np.ones(5), {"weights": np.ones(3)}, "one positive number, or one for each of 5 rows"),
        (np.ones((5, 300)), np.ones(5), {"effective_count": 6.0}, "at most 5"),
    ],
)
def test_bad_rows_are_refused(model, rows, forces, options, message) -> None:
    with pytest.raises(EvidenceError, match=message):
        Evidence.from_rows(model, rows, forces, **options)
