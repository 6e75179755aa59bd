"""A recording larger than memory says the same as one in memory."""

import gc
import tempfile

import numpy as np
import pytest

from steelyard import Recording, RecordingError, join_recordings
from steelyard.recording import columns as room
from steelyard.recording.columns import LazyColumns, Spool
from steelyard.recording.resampling import ResampledColumns, Stream, interpolate, tolerated_silence

RNG = np.random.default_rng(2)
TIME = np.arange(1000) / 100.0
NAMES = ("q.knee", "left_foot.fx", "left_foot.fz", "pelvis.quat.x", "pelvis.quat.y", "pelvis.quat.z", "pelvis.quat.w")


def table(count=1000):
    return RNG.standard_normal((count, len(NAMES)))


def spooled(rows, block=97):
    """Gives columns that lie in a temporary file, written in odd blocks."""
    spool = Spool(NAMES, "walk", memory=1000)
    for start in range(0, len(rows), block):
        spool.append(rows[start : start + block])
    return spool.finish()


def both(rows=None):
    """Gives the same recording twice: in memory, and on disk."""
    rows = table() if rows is None else rows
    in_memory = Recording(TIME, dict(zip(NAMES, rows.T, strict=True)), "walk")
    lazy = Recording(TIME, spooled(rows), "walk")
    assert isinstance(lazy.values, LazyColumns)
    return in_memory, lazy


def assert_same(one, two):
    assert one.columns == two.columns
    np.testing.assert_array_equal(one.time, two.time)
    for name in one.columns:
        np.testing.assert_array_equal(one.column(name), two.column(name), err_msg=name)


def test_the_same_on_disk_as_in_memory(monkeypatch):
    monkeypatch.setattr(room, "CHUNK_BYTES", 4000)
    in_memory, lazy = both()
    assert_same(in_memory, lazy)
    assert in_memory.sha256 == lazy.sha256
    assert_same(in_memory.between(2.0, 3.005), lazy.between(2.0, 3.005))
    assert_same(in_memory.rows(5, 700).rows(10, 20), lazy.rows(5, 700).rows(10, 20))
    assert_same(in_memory.select(NAMES[1:3]), lazy.select(NAMES[1:3]))
    assert_same(in_memory, lazy.loaded())
    for rows in (1, 97, 1000, 5000):
        pieces = list(lazy.chunks(rows))
        assert_same(in_memory, join_recordings(pieces))
        assert not isinstance(pieces[0].values, LazyColumns)
    with pytest.raises(ValueError, match=r"read-only"):
        pieces[0].column("q.knee")[0] = 1.0
    with pytest.raises(RecordingError, match=r"no column 'q.kne'; did you mean 'q.knee'"):
        lazy.select(["q.kne"])
    with pytest.raises(RecordingError, match=r"a chunk of 0 rows"):
        list(lazy.chunks(0))


@pytest.mark.parametrize("rate", [None, 73.0, 250.0])
def test_resampling_does_not_depend_on_where_it_lies(rate):
    rows = table()
    rows[300:330, 1] = np.nan
    rows[:, 2] = np.where(np.arange(1000) % 5 == 0, rows[:, 2], np.nan)
    in_memory, lazy = both(rows)
    whole = in_memory.resampled(rate)
    assert_same(whole, lazy.resampled(rate))
    assert_same(whole, join_recordings(list(lazy.resampled(rate).chunks(33))))


@pytest.mark.parametrize("size", [1, 4, 8])
def test_bursts_are_no_gaps(size):
    count = 8000
    received = np.repeat(np.arange(count // size) * size * 1e-3, size) + np.tile(np.arange(size) * 2e-5, count // size)
    bursts = Stream("imu", received, {"pelvis.gyro.x": np.sin(received)})
    clock = np.arange(0.0131, 7.9, 0.005)
    values = ResampledColumns(clock, [bursts])["pelvis.gyro.x"]
    assert np.isfinite(values).mean() > 0.95
    silent = (received < 3.0) | (received > 3.2)
    gap = Stream("imu", received[silent], {"pelvis.gyro.x": np.sin(received[silent])})
    values = ResampledColumns(clock, [gap])["pelvis.gyro.x"]
    inside = (clock > 3.01) & (clock < 3.19)
    assert np.isnan(values[inside]).all()
    assert np.isfinite(values[~inside]).mean() > 0.95


def uneven_columns(count=60_000):
    """Gives columns that are now dense, now sparse, or have a reading once in thousands of rows."""
    row = np.arange(count)
    time = row * 1e-3 + np.where(row > 20_000, 0.02, 0.0)
    sine = np.sin(time)
    return time, {
        "left_foot.fx": np.where((row < 50_000) | (row % 10 == 0), sine, np.nan),
        "left_foot.fy": np.where((row < 10_000) | (row % 10 == 0), sine, np.nan),
        "left_foot.fz": np.where(row % 7000 == 0, sine, np.nan),
        "left_foot.nx": np.where((row > 30_000) & (row < 45_000), np.nan, sine),
        "left_foot.ny": np.full(count, np.nan),
        "left_foot.nz": sine,
    }


def test_what_is_read_together_does_not_matter():
    time, values = uneven_columns()
    delay = {"left_foot": 0.0033}
    whole = Recording(time, values).without_delays(delay)

    def on_disk():
        spool = Spool(tuple(values), "walk", memory=1000)
        spool.append(np.stack(list(values.values()), axis=1))
        return Recording(time, spool.finish()).without_delays(delay)

    for rows in (613, 5000, 59_999):
        assert_same(whole, join_recordings(list(on_disk().chunks(rows))))
    for start in (55_000, 19_990, 40_000):
        assert_same(whole.rows(start, start + 77), on_disk().rows(start, start + 77).loaded())
    assert whole.measured("left_foot.fz").mean() > 0.9
    assert not whole.measured("left_foot.nx")[30_010:44_980].any()


def test_lines_are_exact_and_gaps_are_left_empty():
    time = np.cumsum(RNG.uniform(0.008, 0.012, 500))
    keep = np.ones(500, dtype=bool)
    keep[200:230] = False
    at = np.arange(0.1, 4.5, 0.003)
    values = interpolate(at, time[keep], 3.0 * time[keep] + 1.0, tolerated_silence(time))
    silent = (at > time[199]) & (at < time[230])
    assert np.isnan(values[silent]).all()
    np.testing.assert_allclose(values[~silent], 3.0 * at[~silent] + 1.0, rtol=1e-12)
    outside = interpolate(np.array([time[0] - 0.001, time[-1] + 0.001]), time, time, 0.025)
    assert np.isnan(outside).all()


def test_streams_on_the_clock_are_not_touched():
    half = TIME[::2]
    columns = ResampledColumns(TIME, [Stream("slow", half, {"left_foot.fz": half**2})])
    values = columns["left_foot.fz"]
    np.testing.assert_array_equal(values[::2], half**2)
    assert np.isnan(values[1::2]).all()


def test_orientations_take_the_shorter_way():
    angle = 0.3 * TIME
    quaternion = np.stack([np.zeros(1000), np.zeros(1000), np.sin(angle / 2.0), np.cos(angle / 2.0)], axis=1)
    quaternion[RNG.uniform(size=1000) < 0.5] *= -1.0
    names = [f"pelvis.quat.{axis}" for axis in "xyzw"]
    turned = Recording(TIME, dict(zip(names, quaternion.T, strict=True))).resampled(333.0)
    found = np.stack([turned.column(name) for name in names], axis=1)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-12)
    expected = np.abs(np.cos(0.15 * turned.time))
    np.testing.assert_allclose(np.abs(found[:, 3]), expected, atol=1e-6)


def test_a_delay_moves_one_sensor_and_no_other():
    late = Recording(TIME, {"left_foot.fz": np.sin(TIME - 0.025), "q.knee": np.sin(TIME)})
    for mended in (late.without_delays({"left_foot": 0.025}), both()[1].without_delays({"left_foot": 0.025})):
        assert len(mended) == 1000
        assert np.isnan(mended.column("left_foot.fz")[-2:]).all()
    mended = late.without_delays({"left_foot": 0.025})
    np.testing.assert_allclose(mended.column("left_foot.fz")[:-3], np.sin(TIME[:-3]), atol=2e-5)
    np.testing.assert_array_equal(mended.column("q.knee"), late.column("q.knee"))
    assert mended.columns == late.columns
    exact = late.without_delays({"left_foot": 0.02})
    np.testing.assert_array_equal(exact.column("left_foot.fz")[:-2], late.column("left_foot.fz")[2:])
    assert late.without_delays({"left_foot": 0.0}) is late
    with pytest.raises(RecordingError, match=r"no columns of 'left_fot'; did you mean 'left_foot'"):
        late.without_delays({"left_fot": 0.01})
    with pytest.raises(RecordingError, match=r"the delay of 'left_foot' is nan"):
        late.without_delays({"left_foot": float("nan")})


def test_recordings_are_joined_by_their_clocks_or_set_apart():
    in_memory, lazy = both()
    first, second = in_memory.rows(0, 400), lazy.rows(400, 1000)
    assert_same(in_memory, join_recordings([first, second]))
    with pytest.raises(RecordingError, match=r"begins at 0.000 s, before the previous recording ends at 9.990 s"):
        join_recordings([second, first])
    apart = join_recordings([second, first], gap=2.0)
    assert apart.time[600] - apart.time[599] == pytest.approx(2.0)
    other = Recording([0.0, 0.01], {"tau.knee": [1.0, 2.0]}, epoch=100)
    both_columns = join_recordings([Recording([0.0], {"q.knee": [1.0]}, epoch=90), other])
    np.testing.assert_array_equal(both_columns.time, [0.0, 10.0, 10.01])
    np.testing.assert_array_equal(both_columns.column("tau.knee"), [np.nan, 1.0, 2.0])
    for wrong in (0.0, -1.0, float("inf")):
        with pytest.raises(RecordingError, match=r"the gap between recordings"):
            join_recordings([first, second], gap=wrong)
    with pytest.raises(RecordingError, match=r"no recordings"):
        join_recordings([])


def test_the_temporary_file_goes_with_the_last_recording():
    opened = []
    real = tempfile.TemporaryFile

    def watched(*arguments, **options):
        opened.append(real(*arguments, **options))
        return opened[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", watched)
        lazy = both()[1]
        Spool(NAMES, "never finished", memory=10).append(table())
    part = lazy.between(1.0, 2.0)
    del lazy
    gc.collect()
    assert np.isfinite(part.column("q.knee")).all(), "a part keeps what it needs"
    del part
    gc.collect()
    assert len(opened) == 2
    assert all(file.closed for file in opened)


def test_no_room_is_said_in_one_sentence(tmp_path):
    spool = Spool(NAMES, "walk.csv", memory=10, folder=tmp_path / "nowhere")
    with pytest.raises(RecordingError, match=r"walk.csv: no space in .* set TMPDIR"):
        spool.append(table())


def test_columns_must_fit_the_clock():
    with pytest.raises(RecordingError, match=r"the columns have 999 rows, time has 1000"):
        Recording(TIME, spooled(table(999)))
