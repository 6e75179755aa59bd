"""Traces tell what a validation tells, hide no misfit, and say who stood when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import steelyard as sy
from steelyard.exceptions import EvidenceError
from steelyard.report import trace_motions
from steelyard.report.traces import MOST_SAMPLES, thin_traces
from steelyard.validation.validation import plan_predictor
from tests.laboratory.trials import short_trial
from tests.report.reports import SENSORS, estimate, motion, trace


def test_errors_are_those_of_a_validation():
    truth = short_trial("g1", "reach", noise="default").truth
    seen = trace_motions(
        estimate(), motion("reach").chunks(7), name="reach", purpose="unseen", truth=truth, nuisance=SENSORS
    )
    validation = sy.validate(estimate(), motion("reach"), truth=truth, nuisance=SENSORS)
    for candidate in ("estimate", "reference", "corrected", "truth"):
        expected = getattr(validation.wrench, candidate).rmse
        np.testing.assert_allclose(seen.rmse[candidate], expected, rtol=1e-9, atol=0.0)
    assert seen.rows == validation.wrench.rows
    assert seen.every == 1
    np.testing.assert_array_equal(seen.time, motion("reach").time)


def test_thinning_keeps_the_worst_sample_and_whole_rows():
    dense = motion("dance", dense=True)
    assert len(dense) > MOST_SAMPLES / 2
    spoiled = {name: values.copy() for name, values in dense.wrenches.items()}
    spoiled["left_foot"][1357, 2] += 500.0
    long = [replace(dense, wrenches=spoiled), *(replace(dense, time=dense.time + 100.0 * k) for k in range(1, 9))]
    seen = trace_motions(estimate(), long, name="long", purpose="training", nuisance=SENSORS)
    assert len(seen.time) <= MOST_SAMPLES
    assert seen.every > 1
    place = int(np.argmax(np.abs(seen.predicted["estimate"] - seen.measured)[:, 2]))
    assert seen.time[place] == dense.time[1357]
    assert np.all(np.diff(seen.time) > 0.0)
    # What is kept is a sample as it was, all rows of the same instant.
    predictor, _ = plan_predictor(estimate(), dense, nuisance=SENSORS)
    whole = predictor.predict(long[0], predictor.plan).wrench
    for kept in range(0, 200, 40):
        (row,) = np.flatnonzero(dense.time == seen.time[kept])
        np.testing.assert_array_equal(seen.measured[kept], whole.measured[row])
        np.testing.assert_array_equal(seen.predicted["estimate"][kept], whole.predicted[0, row])
    assert seen.duration == pytest.approx(9 * len(dense) / dense.sample_rate)
    assert len(seen.breaks) == 8


def test_the_spectrum_holds_all_the_power():
    """Parseval: the densities' squares, added over frequency, are the variance of what is left."""
    dense = replace(motion("dance", dense=True), bandwidth=None)
    seen = trace_motions(estimate(), [dense], name="dance", purpose="training", nuisance=SENSORS)
    spectrum = seen.spectrum
    assert spectrum is not None
    step = spectrum.frequency[1] - spectrum.frequency[0]
    predictor, _ = plan_predictor(estimate(), dense, nuisance=SENSORS)
    wrench = predictor.predict(dense, predictor.plan).wrench
    left = (wrench.predicted[0] - wrench.measured).std(axis=0)
    np.testing.assert_allclose(
        np.sqrt(np.square(spectrum.residuals["estimate"]).sum(axis=0) * step), left, rtol=0.35, atol=0.0
    )
    assert trace("dance").spectrum.frequency[-1] <= 2.0 * motion("dance").bandwidth


def test_contacts_are_what_the_soles_carry_or_what_the_motion_says():
    seen = trace("dance")
    assert set(seen.contacts) == {"left", "right"}
    for stretches in seen.contacts.values():
        ((start, end),) = stretches
        assert start == pytest.approx(motion("dance", dense=True).time[0])
        assert end == pytest.approx(motion("dance", dense=True).time[-1])
    loads = sum(seen.loads.values())
    weight = 9.81 * sum(short_trial("g1", "dance", noise="default").truth.masses.values())
    assert np.median(loads) == pytest.approx(weight, rel=0.1)

    dense = motion("dance", dense=True)
    standing = np.ones(len(dense), dtype=bool)
    standing[100:200] = False
    told = trace_motions(
        estimate(), replace(dense, contacts={"left": standing}).chunks(150), name="x", purpose="training"
    )
    assert told.contacts["left"] == (
        (dense.time[0], dense.time[99]),
        (pytest.approx(dense.time[200]), pytest.approx(dense.time[-1])),
    )
    assert len(told.contacts["right"]) == 1


def test_a_foot_in_the_air_is_seen_by_what_it_carries():
    dense = motion("dance", dense=True)
    lifted = {name: values.copy() for name, values in dense.wrenches.items()}
    lifted["right_foot"][300:600] = 0.0
    seen = trace_motions(estimate(), [replace(dense, wrenches=lifted)], name="x", purpose="training")
    first, second = seen.contacts["right"]
    assert first[1] == dense.time[299]
    assert second[0] == dense.time[600]


def test_no_motion_is_told():
    with pytest.raises(EvidenceError, match="no motion in walk"):
        trace_motions(estimate(), [], name="walk", purpose="unseen")


def test_joint_torques_are_traced_where_they_are_measured(tmp_path):
    (tmp_path / "arm.xml").write_text(
        '<mujoco model="arm"><worldbody><body name="upper"><joint name="a" axis="0 1 0"/>'
        '<inertial mass="2" pos="0.1 0 -0.2" diaginertia="0.02 0.03 0.01"/></body></worldbody></mujoco>'
    )
    (tmp_path / "arm.toml").write_text('[model]\nfile = "arm.xml"\nbase = "fixed"\n[torque]\nmeasured = "all"\n')
    model = sy.load_model(tmp_path / "arm.toml")
    time = np.arange(0.0, 6.0, 0.01)
    q, v, a = np.sin(time)[:, None], np.cos(time)[:, None], -np.sin(time)[:, None]
    import pinocchio as pin

    built = model.pinocchio
    data = built.createData()
    torque = np.array([pin.rnea(built, data, *rows)[0] for rows in zip(q, v, a, strict=True)])
    moved = sy.motion_from_generalized(model, time, q, v, a, torques={"a": 1.1 * torque})
    found = sy.identify(model, sy.gather_evidence(model, moved, nuisance=()), method="truncated")
    seen = trace_motions(found, [moved], name="arm", purpose="training")
    assert seen.rows == ("a",)
    assert seen.units == ("N m",)
    np.testing.assert_allclose(seen.predicted["reference"][:, 0], torque, rtol=1e-9, atol=1e-9)
    assert seen.rmse["estimate"][0] < 1e-6
    assert seen.contacts == {}
    assert seen.loads == {}


def test_what_was_learned_from_is_never_called_unseen():
    recording = short_trial("g1", "dance", noise="default").recording
    assert estimate().origins[0].sha256 == recording.origin
    seen = trace_motions(estimate(), [motion("dance")], name="again.csv", purpose="unseen")
    assert seen.purpose == "training"
    assert trace("reach").purpose == "unseen"


def wide_trace(rows, count, *, seed=0):
    """Returns a trace of many rows: smooth values, with a spike of 500 in one sample of each row."""
    generator = np.random.default_rng(seed)
    time = np.arange(count) / 100.0
    measured = np.sin(time[:, None] + generator.uniform(0.0, 6.0, rows))
    spikes = generator.permutation(count)[:rows]
    measured[spikes, np.arange(rows)] += 500.0
    loads = {"left": np.abs(measured[:, 0]), "right": np.abs(measured[:, 1])}
    loads["right"][count // 3 : count // 3 + 5] = np.nan
    predicted = {name: measured + 0.1 * generator.normal(size=measured.shape) for name in ("estimate", "reference")}
    return replace(
        trace("dance"),
        rows=tuple(f"row {number}" for number in range(rows)),
        units=("N",) * rows,
        time=time,
        measured=measured,
        predicted=predicted,
        rmse={name: np.full(rows, 0.1) for name in predicted},
        loads=loads,
    )


@pytest.mark.parametrize(("recordings", "rows", "count"), [(5, 6, 2500), (1, 35, 2500), (40, 6, 2500), (1, 2, 7)])
def test_thinning_keeps_the_extremes_of_every_channel_and_gaps(recordings, rows, count):
    given = [wide_trace(rows, count, seed=seed) for seed in range(recordings)]
    thinned = thin_traces(given, 60_000)
    for before, after in zip(given, thinned, strict=True):
        for one, other in (
            (before.measured, after.measured),
            *((before.predicted[name], after.predicted[name]) for name in before.predicted),
            *(
                (before.predicted[name] - before.measured, after.predicted[name] - after.measured)
                for name in before.rmse
            ),
            *((before.loads[name], after.loads[name]) for name in before.loads),
        ):
            np.testing.assert_array_equal(np.nanmax(other, axis=0), np.nanmax(one, axis=0))
            np.testing.assert_array_equal(np.nanmin(other, axis=0), np.nanmin(one, axis=0))
        assert np.all(np.diff(after.time) > 0.0)
        # A line that was broken where the load is missing is broken there still.
        missing = after.time[np.isnan(after.loads["right"])]
        assert len(missing)
        assert before.time[count // 3] <= missing.min() <= missing.max() <= before.time[count // 3 + 4]
    # Beyond the budget are at most two samples of each channel, and one for each gap.
    extremes = recordings * (2 * (5 * rows + 2) + 1)
    assert sum(each.measured.size * 3 for each in thinned) <= 66_000 + 3 * rows * extremes


def test_a_long_recording_keeps_the_extremes_of_every_channel():
    dense = motion("dance", dense=True)
    long = [replace(dense, time=dense.time + 100.0 * k) for k in range(9)]
    spoiled = {name: values.copy() for name, values in dense.wrenches.items()}
    for axis in range(6):
        # Neighbours with different axes spoiled: one sample of each group is not enough.
        spoiled["left_foot"][1357 + axis, axis] += 500.0
    long[4] = replace(long[4], wrenches=spoiled)
    seen = trace_motions(estimate(), long, name="long", purpose="training", nuisance=SENSORS)
    assert len(seen.time) <= MOST_SAMPLES
    predictor, _ = plan_predictor(estimate(), dense, nuisance=SENSORS)
    parts = [predictor.predict(part, predictor.plan).wrench for part in long]
    measured = np.concatenate([part.measured for part in parts])
    np.testing.assert_array_equal(seen.measured.max(axis=0), measured.max(axis=0))
    np.testing.assert_array_equal(seen.measured.min(axis=0), measured.min(axis=0))
    residuals = np.concatenate([part.predicted[0] - part.measured for part in parts])
    left = seen.predicted["estimate"] - seen.measured
    np.testing.assert_array_equal(left.max(axis=0), residuals.max(axis=0))
    np.testing.assert_array_equal(left.min(axis=0), residuals.min(axis=0))
    assert max(seen.loads["left"]) == max(np.linalg.norm(spoiled["left_foot"][:, :3], axis=1))


def test_many_recordings_share_one_budget():
    many = thin_traces([trace("dance")] * 9, 60_000)
    assert sum(each.measured.size * (1 + len(each.predicted)) for each in many) <= 60_000 * 1.1
    assert many[0].every == trace("dance").every * -(-9 * trace("dance").measured.size * 4 // 60_000)
    assert len(many[0].loads["left"]) == len(many[0].time)
    (same,) = thin_traces([trace("dance")], 10**9)
    np.testing.assert_array_equal(same.measured, trace("dance").measured)
