"""NPZ, Parquet and HDF5 files: arrays of any order become columns, and nothing is believed before it is there."""

import os
import sys
import tracemalloc
import warnings
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard import Recording, RecordingError
from steelyard.exceptions import RecordingWarning
from steelyard.model.setup import parse_setup
from steelyard.recording import columns, read_recording
from steelyard.recording.tables.hdf5_file import Hdf5Source
from steelyard.recording.tables.npz_file import NpzSource
from steelyard.recording.tables.parquet_file import read_parquet
from steelyard.recording.tables.table import read_table
from tests.recording.fuzzing import npy_bytes, zip_bytes
from tests.recording.real_data import ICUB, KUKA, KUKA_ARRAYS, KUKA_JOINTS, load_real, real_file

h5py = pytest.importorskip("h5py", reason="the extra ros is not installed")

ROWS = np.arange(9.0)


def quietly(path, model=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordingWarning)
        return read_recording(path, model)


def read_arrays(tmp_path, recording_map=None, *, packed=False, **arrays):
    path = tmp_path / "arrays.npz"
    (np.savez_compressed if packed else np.savez)(path, **arrays)
    chosen = parse_setup({"recording": recording_map or {}}).recording
    return read_table(NpzSource(path, chosen), chosen)


def test_a_large_parquet_file_stays_where_it_is(tmp_path, monkeypatch):
    count = 1000
    time = np.arange(count) * 0.01
    time[500] = time[499]
    table = {"time": time, "left": np.arange(count) * 1.0, "right": np.where(np.arange(count) == 7, np.inf, 2.0)}
    pq.write_table(pa.table(table), tmp_path / "walk.parquet", row_group_size=64)
    setup = parse_setup(
        {"recording": {"columns": {"left_foot.fz": {"from": "left", "scale": 2.0}, "right_foot.fz": "right"}}}
    )
    inside = outside = None
    for memory in (columns.MEMORY, 0):
        monkeypatch.setattr(columns, "MEMORY", memory)
        monkeypatch.setattr(columns, "CHUNK_BYTES", 1024)
        inside, outside = outside, read_parquet(tmp_path / "walk.parquet", setup.recording)
    assert isinstance(outside.values, columns.TakenRows)
    assert outside.sha256 == inside.sha256
    assert len(outside) == count - 1
    part = outside.rows(450, 550)
    np.testing.assert_array_equal(part.column("left_foot.fz"), inside.column("left_foot.fz")[450:550])


def test_a_parquet_file_in_one_piece_is_not_read_in_place(tmp_path, monkeypatch):
    pq.write_table(pa.table({"time": np.arange(5000) * 0.01, "q.a": np.arange(5000.0)}), tmp_path / "walk.parquet")
    monkeypatch.setattr(columns, "MEMORY", 0)
    monkeypatch.setattr(columns, "CHUNK_BYTES", 1024)
    recording = read_recording(tmp_path / "walk.parquet")
    assert isinstance(recording.values, columns.SpooledColumns)
    np.testing.assert_array_equal(recording.column("q.a"), np.arange(5000.0))


def test_columns_of_many_types_are_numbers_in_parquet(tmp_path):
    table = {
        "stamp": pa.array([1_700_000_000_000_000_001, 1_700_000_000_500_000_001], pa.timestamp("ns")),
        "q.a": pa.array([1, None], pa.int32()),
        "q.a.x": pa.array([True, False]),
        "q.half": pa.array(np.array([0.5, 1.5], dtype=np.float16)),
        "name": pa.array(["a", "b"]),
    }
    pq.write_table(pa.table(table), tmp_path / "walk.parquet")
    recording = quietly(tmp_path / "walk.parquet")
    assert recording.epoch == 1_700_000_000
    np.testing.assert_array_equal(recording.time, [1e-9, 0.500000001])
    np.testing.assert_array_equal(recording.column("q.a"), [1.0, np.nan])
    np.testing.assert_array_equal(recording.column("q.a.x"), [1.0, 0.0])
    np.testing.assert_array_equal(recording.column("q.half"), [0.5, 1.5])
    assert recording.notes == ("1 column is not used: 'name'",)
    pq.write_table(pa.table({"time": ROWS, "q.a": ["x"] * 9}), tmp_path / "walk.parquet")
    with pytest.raises(RecordingError, match=r"the column 'q.a' holds string, not numbers"):
        read_recording(tmp_path / "walk.parquet")


def read_hdf5(path, contents):
    chosen = parse_setup({"recording": contents}).recording
    return read_table(Hdf5Source(path, chosen), chosen)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", ">i4", "<u2", "?"])
def test_arrays_of_any_number_and_order_are_read(tmp_path, kind, packed):
    table = (np.arange(27).reshape(9, 3) % 2 if kind == "?" else np.arange(27).reshape(9, 3)).astype(kind)
    named = {"arrays": {"x": ["q.a", "", "q.c"]}}
    for array in (table, np.asfortranarray(table), np.ascontiguousarray(table.T), np.asfortranarray(table.T)):
        recording = read_arrays(tmp_path, named, packed=packed, time=ROWS.astype(">f4"), x=array, scalar=3.0)
        np.testing.assert_array_equal(recording.column("q.a"), table[:, 0].astype(float))
        np.testing.assert_array_equal(recording.column("q.c"), table[:, 2].astype(float))


def test_blocks_of_arrays_are_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "CHUNK_BYTES", 300)
    values = np.random.default_rng(0).normal(size=(500, 4))
    named = {"arrays": {"rows": [f"q.r{n}" for n in range(4)], "channels": [f"q.c{n}" for n in range(4)]}}
    recording = read_arrays(tmp_path, named, time=np.arange(500.0), rows=values, channels=values.T.copy())
    for number in range(4):
        np.testing.assert_array_equal(recording.column(f"q.r{number}"), values[:, number])
        np.testing.assert_array_equal(recording.column(f"q.c{number}"), values[:, number])


def test_arrays_that_do_not_fit_are_named(tmp_path):
    with pytest.raises(RecordingError, match=r"'q.a' has the shape \(5,\), which does not fit the 9 times"):
        read_arrays(tmp_path, time=ROWS, **{"q.a": np.zeros(5)})
    with pytest.raises(RecordingError, match=r"'x' has the shape \(4, 2\), which does not fit the 9 times"):
        read_arrays(tmp_path, {"arrays": {"x": ["q.a", "q.b"]}}, time=ROWS, x=np.zeros((4, 2)))
    with pytest.raises(RecordingError, match=r"'q.a' holds <U1 of the shape \(9,\), not a column of numbers"):
        read_arrays(tmp_path, time=ROWS, **{"q.a": np.array(["x"] * 9)})
    recording = read_arrays(tmp_path, time=ROWS, **{"q.a": ROWS}, cube=np.zeros((2, 2, 2)), short=np.zeros(4))
    assert recording.notes == ("2 columns are not used: 'cube' and 'short'",)


def test_time_may_be_a_channel(tmp_path):
    log = np.stack([ROWS * 0.5, ROWS, -ROWS], axis=1)
    for array in (log, log.T.copy()):
        recording = read_arrays(tmp_path, {"time": "log[0]", "columns": {"q.a": "log[2]"}}, log=array)
        np.testing.assert_array_equal(recording.time, ROWS * 0.5)
        np.testing.assert_array_equal(recording.column("q.a"), -ROWS)


def test_no_pickle_is_opened(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    np.savez(tmp_path / "trap.npz", time=ROWS, **{"q.a": ROWS}, trap=np.array([Trap()], dtype=object))
    assert quietly(tmp_path / "trap.npz").columns == ("q.a",)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "shape", ["(9999999999999,)", "(3, 99999999999)", "(99999999999, 3)", "(-1,)", "(1e9,)", "(" * 500]
)
def test_headers_are_not_believed(tmp_path, shape):
    honest = npy_bytes(ROWS)
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    lie = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + ROWS.tobytes()
    for lying in ({"time": lie, "q.a": honest}, {"time": honest, "q.a": lie}, {"time": lie, "q.a": lie}):
        (tmp_path / "lie.npz").write_bytes(zip_bytes(lying))
        tracemalloc.start()
        try:
            with pytest.raises(RecordingError, match=r"lie.npz"):
                read_recording(tmp_path / "lie.npz")
            assert tracemalloc.get_traced_memory()[1] < 60e6
        finally:
            tracemalloc.stop()


def test_damaged_archives_are_refused(tmp_path):
    honest = npy_bytes(ROWS)
    path = tmp_path / "walk.npz"
    for members, message in (
        ({"time": honest, "q.a": honest[:-3]}, r"the array 'q.a' is truncated: its header states more"),
        ({"time": honest, "q.a": honest + b"x"}, r"the array 'q.a' is longer than its header states"),
        ({"time": honest, "q.a": b"\x93NUMPY\x09\x00" + honest[8:]}, r"the array 'q.a' has a damaged header"),
        ({}, r"no column of time among no columns"),
    ):
        path.write_bytes(zip_bytes(members))
        with pytest.raises(RecordingError, match=message):
            read_recording(path)
    whole = zip_bytes({"time": honest, "q.a": honest})
    place = whole.index(ROWS[3:].tobytes())
    path.write_bytes(whole[:place] + b"\x01" + whole[place + 1 :])
    with pytest.raises(RecordingError, match=r"'time' .*Bad CRC-32"):
        read_recording(path)
    path.write_bytes(whole[:-30])
    with pytest.raises(RecordingError, match=r"walk.npz is no NPZ file, or is damaged"):
        read_recording(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with zipfile.ZipFile(path, "w") as archive:
            for _ in range(2):
                archive.writestr("time.npy", honest)
    with pytest.raises(RecordingError, match=r"two arrays called 'time'"):
        read_recording(path)


def test_matlab_files_are_read_by_the_length_of_time(tmp_path):
    channels = np.random.default_rng(0).normal(size=(3, 9))
    with h5py.File(tmp_path / "walk.mat", "w", userblock_size=512) as file:
        for name, values, kind in (
            ("log/t", ROWS[None] * 0.5, "double"),
            ("log/imu", channels, "double"),
            ("log/samples_first", channels.T, "double"),
            ("log/note", np.array([[77], [78]], dtype=np.uint16), "char"),
            ("log/wide", np.zeros((4, 4, 9)), "double"),
            ("square", np.arange(81.0).reshape(9, 9), "double"),
            ("#refs#/a", ROWS, "double"),
            ("count", np.array([[5.0]]), "double"),
        ):
            file.create_dataset(name, data=values).attrs["MATLAB_class"] = np.bytes_(kind)
    recording_map = {
        "time": "log/t",
        "columns": {"q.a": "log/samples_first[1]", "q.b": "square[8]"},
        "arrays": {"log/imu": [f"pelvis.gyro.{axis}" for axis in "xyz"]},
    }
    recording = read_hdf5(tmp_path / "walk.mat", recording_map)
    np.testing.assert_array_equal(recording.time, ROWS * 0.5)
    np.testing.assert_array_equal(recording.column("pelvis.gyro.y"), channels[1])
    np.testing.assert_array_equal(recording.column("q.a"), channels[1])
    np.testing.assert_array_equal(recording.column("q.b"), np.arange(72.0, 81.0))
    assert recording.notes == ("4 columns are not used: 'log/samples_first', 'square', 'log/note' and 'log/wide'",)
    with pytest.raises(RecordingError, match=r"'log/note' holds MATLAB's 'char', not numbers"):
        read_hdf5(tmp_path / "walk.mat", recording_map | {"columns": {"q.a": "log/note"}})


def test_old_matlab_files_are_refused_with_the_remedy(tmp_path):
    (tmp_path / "walk.mat").write_bytes(b"MATLAB 5.0 MAT-file, Platform: GLNXA64" + bytes(200))
    with pytest.raises(
        RecordingError, match=r"walk.mat is of an older MATLAB format; save it with save\(..., '-v7.3'\)"
    ):
        read_recording(tmp_path / "walk.mat")
    with pytest.raises(RecordingError, match=r"MATLAB's files can be read, not written; write .h5"):
        Recording(ROWS, {"q.a": ROWS}).write(tmp_path / "new.mat")


def test_hdf5_files_that_point_elsewhere_are_not_followed(tmp_path):
    Recording(ROWS, {"q.a": ROWS}).write(tmp_path / "other.h5")
    with h5py.File(tmp_path / "walk.h5", "w") as file:
        file["time"] = ROWS
        file["q.b"] = ROWS
        file["q.linked"] = h5py.ExternalLink("other.h5", "time")
        layout = h5py.VirtualLayout(shape=(9,), dtype="<f8")
        layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "time", shape=(9,))
        file.create_virtual_dataset("virtual", layout)
    recording = quietly(tmp_path / "walk.h5")
    assert recording.columns == ("q.b",)
    assert recording.notes == ("1 column is not used: 'virtual'",)


def test_an_hdf5_file_of_steelyards_without_time_is_refused(tmp_path):
    for name in ("times", "stamp"):
        Recording(ROWS, {"q.a": ROWS}).write(tmp_path / "walk.h5")
        with h5py.File(tmp_path / "walk.h5", "r+") as file:
            file.move("time", name)
        with pytest.raises(RecordingError, match=r"walk.h5: its time, names and values do not match"):
            read_recording(tmp_path / "walk.h5")


def test_why_time_cannot_be_used_is_said(tmp_path):
    with pytest.raises(RecordingError, match=r"the column 'time' cannot be the time: it holds <U1 of the shape"):
        read_arrays(tmp_path, time=np.array(["x"] * 9), **{"q.a": ROWS})
    pq.write_table(pa.table({"time": ["a", "b"], "q.a": [0.0, 1.0]}), tmp_path / "walk.parquet")
    with pytest.raises(RecordingError, match=r"the column 'time' cannot be the time: it holds string, not numbers"):
        read_recording(tmp_path / "walk.parquet")


def test_a_parquet_column_of_no_type_is_empty(tmp_path):
    pq.write_table(pa.table({"time": ROWS, "q.a": ROWS, "q.b": pa.nulls(9)}), tmp_path / "walk.parquet")
    recording = read_recording(tmp_path / "walk.parquet")
    assert np.isnan(recording.column("q.b")).all()
    pq.write_table(pa.table({"time": pa.nulls(9), "q.a": ROWS}), tmp_path / "walk.parquet")
    with pytest.raises(RecordingError, match=r"the time of row 0 is missing"):
        read_recording(tmp_path / "walk.parquet")


def test_an_hdf5_file_that_promises_much_is_found_out(tmp_path):
    with h5py.File(tmp_path / "walk.h5", "w") as file:
        for name in ("time", "q.a"):
            file.create_dataset(name, shape=(10**12,), dtype="<f8", chunks=(1024,))
    with pytest.raises(RecordingError, match=r"time stays at 0.0"):
        read_recording(tmp_path / "walk.h5")


def test_a_missing_package_is_asked_for(tmp_path, monkeypatch):
    Recording(ROWS, {"q.a": ROWS}).write(tmp_path / "walk.h5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(
        RecordingError, match=r'needs the package h5py; install it with: pip install "steelyard\[ros\]"'
    ):
        read_recording(tmp_path / "walk.h5")


def test_the_real_icub_is_read():
    _, recording = load_real(ICUB, "icub_sway/com-sinusoid.mat")
    assert len(recording) == 2004
    assert len(recording.columns) == 2 * 26 + 3 + 3 + 3 + 2
    assert recording.duration == pytest.approx(20.0, abs=0.5)
    weight = recording.column("left_foot.fz") + recording.column("right_foot.fz")
    assert weight.mean() == pytest.approx(334.9, abs=0.1)
    moving = {name for name in recording.columns if name.startswith("q.") and recording.column(name).std() > 0.02}
    assert moving == {f"q.{side}_{joint}_roll" for side in "lr" for joint in ("hip", "ankle")}, "it sways sideways"


@pytest.mark.parametrize("run", [1, 2])
def test_the_real_kuka_is_read(tmp_path, run):
    name = f"kuka_lwr4/measurements_{run}.npz"
    model, recording = load_real(KUKA, name)
    with np.load(real_file(name)) as theirs:
        for array, kind in KUKA_ARRAYS.items():
            for number, joint in enumerate(KUKA_JOINTS):
                np.testing.assert_array_equal(recording.column(f"{kind}.{joint}"), theirs[array][:, number])
        np.testing.assert_allclose(recording.time + recording.epoch, theirs["times"], rtol=0.0, atol=1e-9)
    recording.write(tmp_path / "again.h5")
    again = quietly(tmp_path / "again.h5", model)
    assert again.sha256 == recording.sha256
