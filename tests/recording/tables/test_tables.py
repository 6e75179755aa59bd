"""Columns are found by the setup's map, by their names, and by nothing else."""

import numpy as np
import pytest

from steelyard import Recording, RecordingError
from steelyard.exceptions import RecordingWarning
from steelyard.model.recording_map import RecordingMap
from steelyard.model.setup import parse_setup
from steelyard.recording import columns, read_recording
from steelyard.recording.clocks import read_clock
from steelyard.recording.column_names import ColumnName, parse_column
from steelyard.recording.tables.column_plan import Contents, plan_columns
from steelyard.recording.tables.table import apply_map, read_table


class Table:
    """A table in memory, given in blocks of a few rows."""

    mark = None
    row_estimate = 0

    def __init__(self, size=3, arrays=None, **named):
        self.table = {name: np.asarray(values) for name, values in named.pop("columns", named).items()}
        self.contents = Contents("walk.csv", tuple(self.table), arrays or {})
        self.notes = []
        self.size = size

    def blocks(self, time, wanted):
        for start in range(0, len(self.table[time]), self.size):
            part = slice(start, start + self.size)
            yield self.table[time][part], np.stack([self.table[name][part] for name in wanted], axis=1).astype(float)


def read(columns, recording=None, *, joints=(), arrays=None):
    return read_table(Table(columns=columns, arrays=arrays), recording_map(**(recording or {})), joints)


def recording_map(**contents):
    return parse_setup({"recording": contents}).recording


# The temporary file of a recording lives as long as it does, and closes with it.

ROWS = np.arange(7.0)
FEET = {
    "time": ROWS,
    **{f"{side}_foot.{axis}": ROWS + n for n, side in enumerate(("left", "right")) for axis in ("fx", "fz")},
}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("q.knee", ColumnName("knee", "q")),
        ("q_command.left knee/a.b", ColumnName("left knee/a.b", "q_command")),
        ("tau.q.fx", ColumnName("q.fx", "tau")),
        ("left.foot.nz", ColumnName("left.foot", "wrench", "nz")),
        ("pelvis.gyro.z", ColumnName("pelvis", "gyro", "z")),
        ("/imu/a b.quat.w", ColumnName("/imu/a b", "quat", "w")),
        ("base.position.y", ColumnName("base", "position", "y")),
        ("base.quat.w", ColumnName("base", "quat", "w")),
        *[
            (name, None)
            for name in ("q.", "q", "knee", "gyro.x", "fx", ".fx", "pelvis.gyro.w", "pelvis.position.x", "")
        ],
    ],
)
def test_the_grammar_of_columns(name, parts):
    assert parse_column(name) == parts
    assert parts is None or str(parts) == name


def test_only_the_model_knows_a_ball_joint():
    assert parse_column("q.hip.x") == ColumnName("hip.x", "q")
    assert parse_column("q.hip.x", ["hip"]) == ColumnName("hip", "q", "x")
    assert parse_column("q.hip.x", ["hip", "hip.x"]) == ColumnName("hip.x", "q")
    assert str(parse_column("q.hip.x", ["hip"])) == "q.hip.x"


@pytest.mark.parametrize(
    ("name", "stamps", "step"),
    [
        ("time", [0.0, 0.5], 0.5),
        ("T", [0.0, 0.5], 0.5),
        ("__time", [5.0, 5.5], 0.5),
        ("Time [ms]", [0, 500], 0.5),
        ("timestamp (µs)", [0, 500], 0.0005),
        ("time_ns", [10**18 + 1, 10**18 + 500], 499e-9),
        ("header.stamp", [0.0, 0.5], 0.5),
        ("imu/header.stamp", [0.0, 0.5], 0.5),
        ("elapsed time/s", [0.0, 0.5], 0.5),
    ],
)
def test_time_and_its_unit_are_found_by_name(name, stamps, step):
    recording = read({"other": [1.0, 1.0], name: np.array(stamps), "q.a": [1.0, 2.0]})
    assert np.diff(recording.time)[0] == pytest.approx(step, rel=1e-12)


@pytest.mark.parametrize(("factor", "unit"), [(10**3, "milli"), (10**6, "micro"), (10**9, "nano")])
def test_times_since_1970_tell_their_unit_by_their_size(factor, unit):
    seconds = 1_700_000_000
    recording = read({"time": np.array([seconds * factor + 7, (seconds + 1) * factor + 9]), "q.a": [0.0, 0.0]})
    assert recording.epoch == seconds
    np.testing.assert_array_equal(recording.time, [7 / factor, (factor + 9) / factor])
    assert f"{unit}seconds since 1970" in recording.notes[0]


def test_no_nanosecond_is_lost():
    stamps = 1_700_000_000_000_000_000 + np.arange(9, dtype=np.int64) * 1_000_003
    recording = read({"time_ns": stamps, "q.a": np.zeros(9)})
    np.testing.assert_array_equal(np.rint(recording.time * 1e9).astype(int), stamps % 10**9)
    split = read({"stamp.sec": stamps // 10**9, "stamp.nanosec": stamps % 10**9, "q.a": np.zeros(9)})
    np.testing.assert_array_equal(split.time, recording.time)
    assert split.epoch == recording.epoch
    assert split.columns == ("q.a",)


def test_time_is_asked_for_where_it_is_not_clear():
    with pytest.raises(RecordingError, match=r"no column of time among 'clock' and 'q.a'; .*\[recording\] time"):
        read({"clock": ROWS, "q.a": ROWS})
    with pytest.raises(RecordingError, match=r"'imu/time' and 'foot/time' could each be the time"):
        read({"imu/time": ROWS, "foot/time": ROWS, "q.a": ROWS})
    chosen = read({"imu/time": ROWS, "foot/time": 2 * ROWS, "q.a": ROWS}, {"time": "foot/time", "time_unit": "ms"})
    np.testing.assert_array_equal(chosen.time, 0.002 * ROWS)
    with pytest.raises(RecordingError, match=r"no column 'stamp', which the setup's \[recording\] names as time"):
        read({"t": ROWS, "q.a": ROWS}, {"time": "stamp"})


def test_a_clock_tells_its_unit_by_most_of_its_stamps():
    seconds = 1_700_000_000
    stamps = np.array([0, *((seconds * 1000 + 10 * np.arange(6)) * 10**6)])
    recording = read({"time": stamps, "q.a": np.zeros(7)})
    assert recording.epoch == seconds
    np.testing.assert_allclose(np.diff(recording.time)[1:], 0.01, rtol=1e-9)
    assert "nanoseconds since 1970" in recording.notes[0]
    assert recording.notes[1].startswith("time leaps by 1700000000.000 s after -1700000000.0000 s (row 0); two clocks")


@pytest.mark.parametrize(("step", "shown"), [(4000.0, "4000"), (2.5, "2.5"), (2e-6, "2e-06")])
def test_steps_that_no_robot_takes_are_told_unless_the_unit_is_stated(step, shown):
    remedy = "if time is not in seconds, set time_unit in [recording] of the setup"
    note = f"the usual step of the clock is {shown} s; {remedy}"
    table = {"time": step * ROWS, "q.a": ROWS}
    assert read(table).notes == (note,)
    assert read(table, {"time_unit": "s"}).notes == ()
    assert read({"time_s": step * ROWS, "q.a": ROWS}).notes == ()
    assert read({"time": 1e-5 * ROWS, "q.a": ROWS}).notes == read({"time": ROWS, "q.a": ROWS}).notes == ()


def test_a_split_stamp_is_found_in_any_case():
    recording = read({"Header.Stamp.Sec": [5, 6], "Header.Stamp.Nanosec": [10, 20], "q.a": [0.0, 0.0]})
    np.testing.assert_array_equal(recording.time, [5.00000001, 6.00000002])
    assert recording.columns == ("q.a",)
    assert recording.notes == ()


def test_a_clock_that_repeats_itself_is_too_coarse():
    coarse = np.floor(np.arange(100) / 4.0)
    with pytest.raises(RecordingError, match=r"too coarse: 75 of 100 rows repeat the time before them; record finer"):
        read({"time": coarse, "q.a": np.zeros(100)})
    twice = read({"time": np.floor(np.arange(100) / 2.0), "q.a": np.zeros(100)})
    assert len(twice) == 50


def test_a_leap_ahead_is_told():
    time = np.arange(100) * 0.01
    time[60:] += 3600.0
    recording = read({"time": time, "q.a": time})
    assert recording.notes == ("time leaps by 3600.010 s after 0.5900 s (row 59); two clocks may be mixed",)
    time[60:] -= 3550.0
    assert read({"time": time, "q.a": time}).notes == ()


@pytest.mark.parametrize("stamp", [2**63 - 1, -(2**63), 2**64 - 1])
def test_no_stamp_is_too_large_for_the_clock(stamp):
    with pytest.raises(RecordingError, match=r"the time of row 1 is .*, which is out of range"):
        read_clock(np.array([5, stamp], dtype=np.uint64 if stamp >= 2**63 else np.int64), "ns", "walk.csv")


def test_a_map_exchanges_columns():
    swapped = read(FEET, {"columns": {"left_foot.*": "right_foot.*", "right_foot.*": "left_foot.*"}})
    for axis in ("fx", "fz"):
        np.testing.assert_array_equal(swapped.column(f"left_foot.{axis}"), FEET[f"right_foot.{axis}"])
        np.testing.assert_array_equal(swapped.column(f"right_foot.{axis}"), FEET[f"left_foot.{axis}"])


def test_a_map_scales_and_shifts():
    source = {"from": "left_foot.fz", "scale": -2.0, "offset": 3.0}
    mapped = {"columns": {"left_foot.fz": source, "q.knee": {"from": "angle", "unit": "deg"}}}
    changed = read(FEET | {"angle": 90.0 * ROWS}, mapped)
    np.testing.assert_array_equal(changed.column("left_foot.fz"), -2.0 * ROWS + 3.0)
    np.testing.assert_allclose(changed.column("q.knee"), np.pi / 2 * ROWS, rtol=1e-15)
    np.testing.assert_array_equal(changed.column("left_foot.fx"), FEET["left_foot.fx"])


@pytest.mark.parametrize("unit", ["rad", "rad/s", "m", "N", "N m", "Nm", "m/s^2", "m/s²"])
def test_si_units_change_nothing(unit):
    same = read(FEET, {"columns": {"left_foot.fz": {"from": "left_foot.fz", "unit": unit}}})
    np.testing.assert_array_equal(same.column("left_foot.fz"), FEET["left_foot.fz"])


def test_a_name_goes_before_a_pattern_and_the_map_before_own_names():
    table = {"time": ROWS, "pos_a": ROWS, "pos_b": 2 * ROWS, "q.a": 3 * ROWS, "better_b": 4 * ROWS}
    recording = read(table, {"columns": {"q.*": "pos_*", "q.b": "better_b"}})
    np.testing.assert_array_equal(recording.column("q.a"), ROWS)
    np.testing.assert_array_equal(recording.column("q.b"), 4 * ROWS)
    assert recording.notes == ("2 columns are not used: 'pos_b' and 'q.a'",)


def test_arrays_are_named_channel_by_channel():
    table = {"time": ROWS, **{f"pos[{n}]": n * ROWS for n in range(3)}, "f": ROWS}
    arrays = {"arrays": {"pos": {"columns": ["q.a", "", "q.b"], "unit": "deg"}, "f": ["left_foot.fz"]}}
    for counts in ({"pos": 3, "time": 1, "f": 1}, {"f": 1}):
        recording = read(table, arrays, arrays=counts)
        assert recording.columns == ("q.a", "q.b", "left_foot.fz")
        np.testing.assert_allclose(recording.column("q.b"), 2 * ROWS * np.pi / 180, rtol=1e-15)
    with pytest.raises(RecordingError, match=r"'pos' has 3 channels, the setup's \[recording.arrays\] names 2"):
        read(table, {"arrays": {"pos": ["q.a", "q.b"]}}, arrays={"pos": 3})
    with pytest.raises(RecordingError, match=r"no array 'poss'.*did you mean 'pos'"):
        read(table, {"arrays": {"poss": ["q.a", "q.b", "q.c"]}}, arrays={"pos": 3})
    with pytest.raises(RecordingError, match=r"'pos' is an array of 3 channels"):
        read(table, {"columns": {"q.a": "pos"}}, arrays={"pos": 3})


def test_what_the_map_names_must_be_there_under_one_name_or_the_other():
    assert read(FEET, {"columns": {"left_foot.fz": "lf_z", "right_*": "r_*"}}).columns == tuple(FEET)[1:]
    assert read(FEET, {"time": "stamp", "time_unit": "ms"}).time[1] == 1.0
    with pytest.raises(
        RecordingError, match=r"no column 'left_fot.fz', which the setup maps to 'q.a'; did you mean 'left_foot.fz'"
    ):
        read(FEET, {"columns": {"q.a": "left_fot.fz"}})
    with pytest.raises(RecordingError, match=r"no columns 'pos_\*', which the setup maps to 'q.\*'"):
        read(FEET, {"columns": {"q.*": "pos_*"}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": {"q_left.gx": "left_foot.fz"}},
        {"columns": {"q_*_z": "left_foot.*"}},
        {"arrays": {"left_foot.fz": ["f"]}},
    ],
)
def test_targets_must_be_names_of_steelyards(wrong):
    with pytest.raises(RecordingError, match=r"which is no name of Steelyard's; these are 'q.<joint>'"):
        read(FEET, wrong)


def test_what_is_not_known_is_told():
    recording = read({"time": ROWS, "q.a": ROWS, **{f"x{number}": ROWS for number in range(6)}})
    assert recording.notes == ("6 columns are not used: 'x0', 'x1', 'x2', 'x3' and 2 more",)
    with pytest.raises(
        RecordingError, match=r"no column that Steelyard knows, only 'x' and 'y'; .*\[recording.columns\]"
    ):
        read({"time": ROWS, "x": ROWS, "y": ROWS})


def test_plain_joint_names_are_positions_where_nothing_else_is_known():
    recording = read({"time": ROWS, "knee": ROWS, "x": ROWS}, joints=("knee", "hip"))
    assert recording.columns == ("q.knee",)
    assert "read as joint angles" in recording.notes[0]
    assert read({"time": ROWS, "knee": ROWS, "q.hip": ROWS}, joints=("knee", "hip")).columns == ("q.hip",)


def test_infinite_numbers_are_missing():
    table = {"time": ROWS, "q.a": np.where(ROWS > 4, -np.inf, ROWS)}
    recording = read(table, {"columns": {"q.b": {"from": "q.a", "scale": 1e308}}})
    np.testing.assert_array_equal(np.isnan(recording.column("q.a")), ROWS > 4)
    np.testing.assert_array_equal(np.isnan(recording.column("q.b")), ROWS > 1)
    assert recording.notes == ("7 numbers are infinite, first in 'q.b' at 2.0000 s, and treated as missing",)


def test_rows_whose_time_does_not_increase_are_dropped_everywhere():
    time = np.array([0.0, 0.1, 0.1, 0.2, 0.3])
    for memory in (columns.MEMORY, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(columns, "MEMORY", memory)
            recording = read({"time": time, "q.a": np.arange(5.0)})
        np.testing.assert_array_equal(recording.column("q.a"), [0.0, 1.0, 3.0, 4.0])
        assert "1 of 5 rows" in recording.notes[0]


def test_a_clock_that_stands_still_is_refused():
    with pytest.raises(RecordingError, match=r"time stays at 3.0 for 20000 rows; check that 'time' is the time"):
        read_table(Table(20000, columns={"time": np.full(30000, 3.0), "q.a": np.zeros(30000)}), RecordingMap())


@pytest.mark.parametrize("stamps", [[2**63 - 1, 5], [-(2**63), 5], [1e300, 5.0]])
def test_times_beyond_reason_are_refused(stamps):
    with pytest.raises(RecordingError, match=r"which is out of range"):
        read({"time_ns": np.array(stamps), "q.a": [0.0, 0.0]})


def test_a_table_without_rows_is_refused():
    with pytest.raises(RecordingError, match=r"walk.csv has no rows"):
        read({"time": [], "q.a": []})


def test_a_read_through_a_temporary_file_equals_one_in_memory(monkeypatch):
    rng = np.random.default_rng(3)
    table = {"time": np.arange(1000) * 0.01, **{f"q.j{number}": rng.normal(size=1000) for number in range(5)}}
    inside = read(table)
    monkeypatch.setattr(columns, "MEMORY", 2000)
    monkeypatch.setattr(columns, "CHUNK_BYTES", 1111)
    outside = read(table)
    assert isinstance(outside.values, columns.LazyColumns)
    assert outside.sha256 == inside.sha256
    pieces = list(outside.chunks(rows=77))
    for name in inside.columns:
        np.testing.assert_array_equal(np.concatenate([piece.column(name) for piece in pieces]), inside.column(name))


def test_a_map_works_on_recordings_of_messages_too():
    recording = Recording(ROWS, {name: values for name, values in FEET.items() if name != "time"}, "walk.mcap")
    map_ = recording_map(columns={"left_foot.*": "right_foot.*", "right_foot.*": {"from": "left_foot.*", "scale": 2.0}})
    mapped = apply_map(recording, map_)
    np.testing.assert_array_equal(mapped.column("left_foot.fz"), FEET["right_foot.fz"])
    np.testing.assert_array_equal(mapped.column("right_foot.fz"), 2.0 * FEET["left_foot.fz"])
    assert apply_map(recording, RecordingMap()) is recording


def test_every_note_is_a_warning(tmp_path):
    (tmp_path / "walk.csv").write_text("time,q.a,x\n0,1,1\n1,2,1\n")
    with pytest.warns(RecordingWarning, match=r"walk.csv: 1 column is not used: 'x'") as caught:
        recording = read_recording(tmp_path / "walk.csv")
    assert len(caught) == len(recording.notes) == 1
    assert caught[0].filename == __file__


def test_hostile_names_stay_short_in_messages():
    name = "q" * 10_000
    with pytest.raises(RecordingError) as caught:
        plan_columns(Contents("walk.csv", ("time", name, f"{name}2")), RecordingMap())
    assert len(str(caught.value)) < 400


def test_formats_are_found_and_strangers_refused(tmp_path):
    recording = Recording(ROWS, {"q.a": ROWS})
    for ending in (".csv", ".csv.gz", ".parquet", ".npz", ".h5", ".mcap", ".bag"):
        recording.write(tmp_path / f"walk{ending}")
        stranger = (tmp_path / f"walk{ending}").rename(tmp_path / f"stranger{ending.replace('.', '_')}")
        np.testing.assert_array_equal(read_recording(stranger).column("q.a"), ROWS)
    (tmp_path / "picture.xyz").write_bytes(b"\x00\x01\x02\x03")
    (tmp_path / "empty folder").mkdir()
    for name, message in (
        ("picture.xyz", r"the format '.xyz' is not supported"),
        ("missing.csv", r"there is no file .*missing.csv'; check the path"),
        ("empty folder", r"holds no ROS 2 bag"),
        ("walk.csv/inside.csv", r"there is no file|cannot be read"),
        ("x" * 300 + ".csv", r"cannot be read|there is no file"),
    ):
        with pytest.raises(RecordingError, match=message):
            read_recording(tmp_path / name)
    with pytest.raises(RecordingError, match=r"the clock is 'wall'"):
        read_recording(tmp_path / "walk.csv", clock="wall")
