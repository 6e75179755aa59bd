"""What is written is read to the last bit, and nothing is written half."""

import stat
from pathlib import Path

import numpy as np
import pytest

from steelyard import Recording, RecordingError
from steelyard.recording import columns, read_recording
from tests.laboratory.trials import short_trial

pytest.importorskip("h5py", reason="the extra ros is not installed")

ENDINGS = (".csv", ".csv.gz", ".parquet", ".npz", ".h5", ".hdf5")
ROWS = np.arange(9.0)
# The temporary file of a recording lives as long as it does, and closes with it.


def noisy_trial():
    """Gives a trial with its noise and gaps, at a time since 1970."""
    trial = short_trial("g1", "sway", noise="default").recording
    values = dict(trial.values)
    values["left_foot.fz"] = np.where(np.arange(len(trial)) % 7 == 0, np.nan, trial.column("left_foot.fz"))
    values["q.a/b [c] é"] = -np.zeros(len(trial))
    return Recording(trial.time + 0.123456789, values, "trial", epoch=1_700_000_000)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_trial_comes_back_bit_by_bit(tmp_path, ending):
    trial = noisy_trial()
    trial.write(tmp_path / f"trial{ending}")
    read_back = read_recording(tmp_path / f"trial{ending}")
    assert read_back.columns == trial.columns
    assert read_back.time.tobytes() == trial.time.tobytes()
    for name in trial.columns:
        np.testing.assert_array_equal(read_back.measured(name), trial.measured(name))
        there = trial.measured(name)
        assert read_back.column(name)[there].tobytes() == trial.column(name)[there].tobytes()
    assert read_back.epoch == (0 if "csv" in ending else trial.epoch)
    assert read_back.notes == ()


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_larger_than_memory_is_the_same(tmp_path, monkeypatch, ending):
    trial = noisy_trial()
    trial.write(tmp_path / f"trial{ending}")
    inside = read_recording(tmp_path / f"trial{ending}")
    monkeypatch.setattr(columns, "MEMORY", 500_000)
    monkeypatch.setattr(columns, "CHUNK_BYTES", 200_000)
    outside = read_recording(tmp_path / f"trial{ending}")
    assert isinstance(outside.values, columns.LazyColumns)
    assert outside.sha256 == inside.sha256
    pieces = list(outside.chunks(rows=217))
    for name in ("q.left_knee_joint", "left_foot.fz"):
        np.testing.assert_array_equal(np.concatenate([piece.column(name) for piece in pieces]), inside.column(name))
    outside.write(tmp_path / f"again{ending}")
    assert read_recording(tmp_path / f"again{ending}").sha256 == inside.sha256


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz", ".h5", ".mcap", ".bag"])
def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch, ending):
    path = tmp_path / f"walk{ending}"
    Recording(ROWS, {"q.a": ROWS}).write(path)
    before = path.read_bytes()
    recording = Recording(ROWS, {"q.a": 2 * ROWS})

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Recording, "chunks", full)
    if ending == ".npz":
        monkeypatch.setattr("steelyard.recording.tables.npz_file._write_array", full)
    with pytest.raises(RecordingError, match=r"cannot be written \(No space left on device\)"):
        recording.write(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_written_files_have_usual_permissions_and_replace_old_ones(tmp_path):
    path = tmp_path / "walk.csv"
    path.write_text("old")
    Recording(ROWS, {"q.a": ROWS}).write(path)
    (tmp_path / "usual").touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)
    assert len(read_recording(str(path))) == 9


def test_places_that_cannot_be_written_are_named(tmp_path):
    recording = Recording(ROWS, {"q.a": ROWS})
    (tmp_path / "folder.csv").mkdir()
    for name, message in (
        ("no/such/walk.csv", r"there is no folder .*; make it first"),
        ("folder.csv", r"is a folder; give the name of a file"),
        ("walk.xlsx", r"cannot be written as '.xlsx'"),
        ("a\0b.csv", r"a.x00b.csv' is not a valid file name"),
        ("x" * 300 + ".csv", r"cannot be written \(File name too long\)"),
        ("walk.parqet", r"cannot be written as '.parqet'; did you mean '.parquet'"),
    ):
        with pytest.raises(RecordingError, match=message):
            recording.write(tmp_path / name)
    with pytest.raises(RecordingError, match=r"'epoch' cannot be named in an NPZ file"):
        Recording(ROWS, {"epoch": ROWS}).write(tmp_path / "walk.npz")
    for ending in (*ENDINGS, ".mcap", ".bag", ""):
        with pytest.raises(RecordingError, match=r"recording has no columns; there is nothing to write"):
            Recording(ROWS, {}).write(tmp_path / f"empty{ending}")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.csv"]


def test_a_link_stays(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "walk.v1").write_text("old")
    link = tmp_path / "walk.csv"
    link.symlink_to(tmp_path / "data" / "walk.v1")
    Recording(ROWS, {"q.a": ROWS}).write(link)
    assert link.is_symlink()
    assert (tmp_path / "data" / "walk.v1").read_text() == link.read_text()
    np.testing.assert_array_equal(read_recording(link).column("q.a"), ROWS)
    assert len(list(tmp_path.iterdir())) == 2


def test_closed_doors_are_named(tmp_path, monkeypatch):
    Recording(ROWS, {"q.a": ROWS}).write(tmp_path / "walk.csv")

    def closed(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", closed)
    with pytest.raises(RecordingError, match=r"'walk.csv' cannot be read \(Permission denied\)"):
        read_recording(tmp_path / "walk.csv")
