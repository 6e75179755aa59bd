"""Outliers: wrong readings are found, right ones are not, and neither moves what follows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import steelyard as sy
from steelyard.inspection import detect_outliers, inspect_recording, mask_outliers
from steelyard.inspection.outliers import describe_outliers
from steelyard.recording import Recording
from steelyard.recording.columns import LazyColumns
from tests.laboratory.trials import robot, short_trial
from tests.recording.real_data import ICUB, KUKA, load_real

JOINT = "q.left_knee_joint"


@pytest.fixture(scope="module")
def trial() -> Recording:
    return short_trial("g1", "dance", noise="default").recording


def spoilt(recording: Recording, column: str, rows: slice, change) -> Recording:
    values = recording.column(column).copy()
    values[rows] = change(values[rows])
    return Recording(recording.time, dict(recording.values) | {column: values})


class Unread(LazyColumns):
    """Columns that are read on request, never all rows of them."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording.columns, len(recording))
        self._recording = recording

    def read(self, names, start, stop):
        assert stop - start < self.row_count
        return {name: self._recording.values[name][start:stop].copy() for name in names}


@pytest.mark.parametrize(("name", "motion"), [("g1", "dance"), ("romeo", "limp")])
def test_clean_recordings_have_none(name, motion) -> None:
    recording = short_trial(name, motion, noise="default").recording
    assert detect_outliers(recording) == ()
    for step in (2, 5, 20):
        slow = Recording(recording.time[::step], {key: each[::step] for key, each in recording.values.items()})
        assert detect_outliers(slow) == (), f"at {500 / step:g} Hz"
        rows = np.arange(len(recording)) // step * step
        held = {key: each[rows] for key, each in recording.values.items() if ".quat." not in key}
        assert detect_outliers(Recording(recording.time, held)) == (), f"held at {500 / step:g} Hz"


@pytest.mark.parametrize("resolution", [1e-4, 1e-3, 5e-3, 2e-2])
def test_coarse_encoders_have_none(trial, resolution) -> None:
    perfect = short_trial("g1", "dance").recording
    for source in (trial, perfect):
        coarse = {name: resolution * np.round(each / resolution) for name, each in source.values.items()
                  if name.startswith("q.")}  # fmt: skip
        assert detect_outliers(Recording(source.time, coarse)) == ()


@pytest.mark.parametrize(("contents", "file"), [(ICUB, "icub_sway/com-sinusoid.mat"),
                                                (KUKA, "kuka_lwr4/measurements_1.npz")])  # fmt: skip
def test_real_recordings_lose_next_to_nothing(contents, file) -> None:
    recording = load_real(contents, file)[1]
    assert sum(each.count for each in detect_outliers(recording)) <= 1


@pytest.mark.parametrize("count", [1, 2, 7, 20])
@pytest.mark.parametrize("change", [lambda values: values + 0.3, lambda values: values - 3.0, np.zeros_like])
def test_wrong_encoder_readings_are_found_exactly_and_replaced(trial, count, change) -> None:
    bad = spoilt(trial, JOINT, slice(1500, 1500 + count), change)
    found = detect_outliers(bad)
    assert [(each.column, each.start, each.stop, each.count) for each in found] == [(JOINT, 1500, 1500 + count, count)]
    assert found[0].kind == ("zero" if change is np.zeros_like else "jump")
    masked = mask_outliers(bad, found)
    noise = 0.03 * np.pi / 180.0
    assert np.max(np.abs(masked.column(JOINT) - trial.column(JOINT))) < 5.0 * noise
    np.testing.assert_array_equal(masked.column("left_foot.fz"), trial.column("left_foot.fz"))
    assert masked.origin == bad.origin
    assert detect_outliers(masked) == ()


def test_a_held_reading_is_found_where_the_joint_moves(trial) -> None:
    fast = int(np.argmax(np.abs(np.gradient(trial.column(JOINT)[200:-200])))) + 180
    bad = spoilt(trial, JOINT, slice(fast, fast + 25), lambda values: np.full_like(values, values[0]))
    (found,) = detect_outliers(bad)
    assert found.kind == "held"
    assert fast <= found.start < found.stop <= fast + 26
    assert "repeats its last reading" in mask_outliers(bad, (found,)).notes[-1]


def test_a_step_interrupts_the_motion_and_two_make_a_jump(trial) -> None:
    bad = spoilt(trial, JOINT, slice(2000, None), lambda values: values + 0.2)
    (found,) = detect_outliers(bad)
    assert found.kind == "step"
    assert np.isnan(mask_outliers(bad, (found,)).column(JOINT)[1990:2010]).all()
    bad = spoilt(trial, JOINT, slice(2000, 2300), lambda values: values + 0.2)
    (found,) = detect_outliers(bad)
    assert (found.kind, found.start, found.stop) == ("jump", 2000, 2300)
    assert np.isnan(mask_outliers(bad, (found,)).column(JOINT)[2000:2300]).all()


@pytest.mark.parametrize("column", ["left_foot.fz", "right_foot.nx", "pelvis.gyro.y", "pelvis.accel.z"])
def test_a_spike_of_one_axis_alone_is_found_and_an_impact_is_not(trial, column) -> None:
    size = 300.0 if column.endswith("fz") else 30.0
    bad = spoilt(trial, column, slice(1800, 1802), lambda values: values + size)
    (found,) = detect_outliers(bad)
    assert (found.column, found.kind, found.start, found.stop) == (column, "spike", 1800, 1802)
    if "foot" not in column:
        return
    stem = column.rpartition(".")[0]
    for axis in ("fx", "fy", "fz", "nx", "ny", "nz"):
        bad = spoilt(bad if axis != "fx" else trial, f"{stem}.{axis}", slice(1800, 1802),
                     lambda values: values + size)  # fmt: skip
    assert detect_outliers(bad) == (), "an impact moves all axes"


def test_a_ceiling_is_found_and_what_it_cut_off_is_predicted_from_the_other_foot(trial) -> None:
    column = "left_foot.fz"
    values = trial.column(column)
    ceiling = float(np.quantile(values, 0.97))
    bad = spoilt(trial, column, slice(None), lambda values: np.minimum(values, ceiling))
    found = detect_outliers(bad)
    assert {(each.column, each.kind, each.size) for each in found} == {(column, "clipped", ceiling)}
    assert all(one.stop <= two.start for one, two in itertools.pairwise(found))
    masked = mask_outliers(bad, found).column(column)
    wrong = values > ceiling
    lost = [np.abs(np.sum(each[wrong] - values[wrong])) for each in (masked, bad.column(column))]
    assert lost[0] < 0.5 * lost[1]


def test_blocks_of_a_large_recording_are_found_alike(trial) -> None:
    long = sy.join_recordings([trial.select([JOINT, "left_foot.fz"])] * 6, gap=0.002)
    rows = [100, 16383, 16500, 20000]
    values = long.column(JOINT).copy()
    for row in rows:
        values[row : row + 3] += 0.3
    steps = {int(each.start) for each in detect_outliers(long)}
    bad = Recording(long.time, dict(long.values) | {JOINT: values})
    read = Recording(long.time, Unread(bad))
    found = detect_outliers(read)
    assert found == detect_outliers(bad)
    assert {each.start for each in found if each.column == JOINT} - steps == set(rows)
    masked = mask_outliers(read, found)
    part = masked.rows(16300, 16500).loaded()
    np.testing.assert_array_equal(part.column(JOINT), mask_outliers(bad, found).column(JOINT)[16300:16500])


def test_a_channel_that_is_wrong_everywhere_is_named_and_left_as_it_is(trial) -> None:
    values = np.where(np.arange(len(trial)) % 100 < 12, 0.0, trial.column(JOINT))
    bad = Recording(trial.time, dict(trial.values) | {JOINT: values})
    (found,) = detect_outliers(bad)
    assert (found.column, found.kind) == (JOINT, "erratic")
    np.testing.assert_array_equal(mask_outliers(bad, (found,)).column(JOINT), values)


def test_inspection_names_channel_and_time_and_blames_nothing_else(trial) -> None:
    model = robot("g1")
    before = inspect_recording(trial, model)
    bad = spoilt(trial, JOINT, slice(1500, 1510), lambda values: values + 3.0)
    after = inspect_recording(bad, model)
    assert after.codes() - before.codes() == {("outlier", JOINT)}
    (finding,) = (each for each in after.findings if each.code == "outlier")
    assert finding.time == pytest.approx(trial.time[1500])
    assert f"{JOINT} jumps by up to 3 and back for 10 readings from {trial.time[1500]:.3f} s on" in finding.words


def test_outliers_are_described_by_column_and_kind(trial) -> None:
    bad = trial
    for row in (1000, 1500, 2500):
        bad = spoilt(bad, JOINT, slice(row, row + 2), lambda values: values + 0.3)
    ((first, words),) = describe_outliers(detect_outliers(bad))
    assert first.start == 1000
    assert "for 6 readings at 3 places, the first from 2.000 s on" in words
