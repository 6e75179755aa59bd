"""The Recording is a frozen table."""

import numpy as np
import pytest

from steelyard import Recording, RecordingError

TIME = np.arange(100) * 0.01


def table(**columns):
    return Recording(TIME, columns or {"q.knee": np.sin(TIME), "left_foot.fz": np.full(100, 300.0)}, "walk")


def test_columns_are_found_by_name_and_the_nearest_is_offered():
    recording = table()
    assert recording.columns == ("q.knee", "left_foot.fz")
    np.testing.assert_array_equal(recording.column("q.knee"), np.sin(TIME))
    with pytest.raises(RecordingError, match=r"walk has no column 'q.kne'.*'q.knee'"):
        recording.column("q.kne")


def test_it_cannot_be_changed():
    recording = table()
    with pytest.raises(ValueError, match="read-only"):
        recording.column("q.knee")[0] = 1.0
    given = np.zeros(100)
    kept = table(x=given)
    given[0] = 1.0
    assert kept.column("x")[0] == 0.0
    with pytest.raises(TypeError, match="does not support item assignment"):
        kept.values["x"] = given
    with pytest.raises(RecordingError, match="columns by name, not NoneType"):
        Recording(TIME, None)


def test_missing_values_are_masked():
    values = np.where(np.arange(100) % 2, np.nan, 1.0)
    assert table(x=values).measured("x").sum() == 50


def test_a_part_is_cut_by_time():
    part = table().between(0.2, 0.5)
    assert len(part) == 30
    assert part.time[0] == pytest.approx(0.2)
    with pytest.raises(RecordingError, match="no rows between 5 s and 6 s"):
        table().between(5.0, 6.0)


@pytest.mark.parametrize(
    ("time", "values", "message"),
    [
        ([0.0, 2.0, 1.0], [1.0, 2.0, 3.0], r"time does not increase after 2.0000 s \(row 1\)"),
        ([0.0, np.nan, 1.0], [1.0, 2.0, 3.0], "finite seconds"),
        ([0.0, 1.0, 2.0], [1.0, 2.0], r"the column 'x' has the shape \(2,\)"),
        ([0.0, 1.0, 2.0], ["a", "b", "c"], "the column 'x' is not an array of numbers"),
        ([], [], "finite seconds"),
    ],
)
def test_bad_tables_are_refused(time, values, message):
    with pytest.raises(RecordingError, match=message):
        Recording(time, {"x": values})


def test_equal_recordings_have_equal_hashes():
    assert table().sha256 == table().sha256
    assert table().sha256 != table(x=TIME).sha256
