"""The Recording is a frozen table."""

import array
from dataclasses import replace

import numpy as np
import pytest

from steelyard import Recording, RecordingError, join_recordings

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


def test_memory_that_others_can_write_to_is_copied(tmp_path):
    owned, numbers = np.zeros(100), array.array("d", [0.0] * 100)
    view = owned[:]
    view.setflags(write=False)
    mapped = np.memmap(tmp_path / "x", dtype=np.float64, mode="w+", shape=(100,))
    again = np.memmap(tmp_path / "x", dtype=np.float64, mode="r", shape=(100,))
    kept = [table(x=given) for given in (view, numbers, mapped, again, np.asarray(numbers))]
    owned[0] = numbers[0] = mapped[0] = 1.0
    assert again[0] == 1.0
    for recording in kept:
        assert recording.column("x")[0] == 0.0
        assert type(recording.column("x")) is np.ndarray


def test_parts_in_memory_are_views():
    recording = table()
    for part in (recording.between(0.2, 0.5), *recording.chunks(17), recording.select(["q.knee"]), recording.loaded()):
        assert np.shares_memory(part.column("q.knee"), recording.column("q.knee"))
        assert np.shares_memory(part.time, recording.time)
        assert not part.column("q.knee").flags.writeable


def test_a_delay_of_a_sensor_moves_no_joint_and_no_pose():
    names = ("base.position.x", "base.quat.w", "base.gyro.x", "q.base.fx", "base.foot.fx", "tau.base")
    recording = table(**{name: np.sin(TIME) for name in names})
    moved = recording.without_delays({"base": 0.02})
    changed = {name for name in names if not np.array_equal(moved.column(name), recording.column(name))}
    assert changed == {"base.gyro.x"}
    with pytest.raises(RecordingError, match=r"no columns of 'q'; there are 'base', 'base.foot'"):
        recording.without_delays({"q": 0.02})


def test_too_many_rows_are_refused():
    with pytest.raises(RecordingError, match=r"more than 100000000 rows; give a lower rate"):
        table().resampled(1e12)
    assert len(table().resampled(1e4)) == 9901


def test_clocks_of_different_beginning_are_not_joined():
    since = Recording(TIME, {"q.knee": TIME}, "since", epoch=1_700_000_000)
    later = Recording(TIME + 5.0, {"q.knee": TIME}, "later")
    for recordings in ([since, later], [later, since]):
        with pytest.raises(
            RecordingError, match=r"the clock of since counts from 1970, that of later does not; give gap="
        ):
            join_recordings(recordings)
        assert len(join_recordings(recordings, gap=1.0)) == 200


def test_what_is_mapped_stays_so():
    mapped = replace(table(), mapped=True)
    assert not table().mapped
    for other in (mapped.between(0.2, 0.5), mapped.select(["q.knee"]), mapped.resampled(33.0), mapped.loaded()):
        assert other.mapped
    assert join_recordings([table(), mapped], gap=1.0).mapped


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
        ([0.0, 1.0], [1.0j, 2.0], "the column 'x' holds complex numbers; give real ones"),
        ([0.0, 1.0], [10**400, 2], "the column 'x' is not an array of numbers"),
    ],
)
def test_bad_tables_are_refused(time, values, message):
    with pytest.raises(RecordingError, match=message):
        Recording(time, {"x": values})


def test_names_are_text():
    with pytest.raises(RecordingError, match=r"a column is called 7; names must be text"):
        Recording(TIME, {7: TIME})


def test_equal_recordings_have_equal_hashes():
    assert table().sha256 == table().sha256
    assert table().sha256 != table(x=TIME).sha256
