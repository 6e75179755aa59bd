"""A recording knows where it came from, whatever is done to it."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from steelyard import Recording, join_recordings, read_recording
from steelyard.recording import columns

TIME = np.arange(100) / 50.0


def sample(shift=0.0):
    return Recording(TIME, {"q.knee": np.sin(TIME) + shift, "imu.gyro.x": np.cos(TIME)}, "walk")


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".bag"])
def test_a_file_is_known_by_its_content(tmp_path, ending):
    first, second = tmp_path / f"first{ending}", tmp_path / f"second{ending}"
    sample().write(first)
    second.write_bytes(first.read_bytes())
    expected = hashlib.sha256(first.read_bytes()).hexdigest()
    assert read_recording(first).origin == read_recording(second).origin == expected


def test_a_file_of_others_is_known_by_its_content(tmp_path):
    np.savez(tmp_path / "walk.npz", time=TIME, **{"q.knee": np.sin(TIME)})
    expected = hashlib.sha256((tmp_path / "walk.npz").read_bytes()).hexdigest()
    assert read_recording(tmp_path / "walk.npz").origin == expected
    np.savez(tmp_path / "bad.npz", time=TIME, steelyard="1", steelyard_origin="mine", **{"q.knee": np.sin(TIME)})
    assert (
        read_recording(tmp_path / "bad.npz").origin == hashlib.sha256((tmp_path / "bad.npz").read_bytes()).hexdigest()
    )


@pytest.mark.parametrize("epoch", [0, 1_700_000_000])
@pytest.mark.parametrize("name", ["walk.parquet", "walk.npz", "walk.h5", "walk.mcap", "walk"])
def test_files_that_are_written_keep_the_origin(tmp_path, name, epoch):
    recording = replace(sample(), epoch=epoch)
    recording.write(tmp_path / name)
    again = read_recording(tmp_path / name)
    assert again.origin == recording.origin
    np.testing.assert_allclose(again.time, recording.time, atol=1e-9)
    # A part too, from one format to the next: the same instants have the same times wherever the origin is the same.
    part = again.between(1.2, 1.8)
    part.write(tmp_path / f"part_{name}")
    converted = read_recording(tmp_path / f"part_{name}")
    if converted.origin == recording.origin:
        np.testing.assert_allclose(converted.time, part.time, atol=1e-9)
    assert converted.origin == recording.origin or (epoch and name in ("walk.mcap", "walk"))


def test_a_folder_is_known_by_all_its_files(tmp_path):
    # Such a bag begins at another second than the clock of the recording, and cannot state what it came from.
    late = replace(sample(), epoch=1_700_000_000).between(1.2, 1.8)
    late.write(tmp_path / "walk")
    before = read_recording(tmp_path / "walk").origin
    assert before == read_recording(tmp_path / "walk").origin != late.origin
    (tmp_path / "walk" / "notes.txt").write_text("more")
    assert read_recording(tmp_path / "walk").origin != before


@pytest.mark.parametrize("memory", [columns.MEMORY, 100])
def test_parts_and_copies_keep_the_origin(tmp_path, monkeypatch, memory):
    monkeypatch.setattr(columns, "MEMORY", memory)
    sample().write(tmp_path / "walk.csv")
    for recording in (sample(), read_recording(tmp_path / "walk.csv")):
        origin = recording.origin
        copies = [
            recording.between(0.5, 1.0),
            recording.rows(3, 9),
            recording.select(["q.knee"]),
            recording.with_values({"q.knee": 2.0 * recording.column("q.knee")}),
            recording.loaded(),
            next(recording.chunks(7)),
            recording.resampled(20.0),
            recording.without_delays({"imu": 0.01}),
            recording.rows(3, 90).select(["imu.gyro.x"]).resampled(20.0).loaded(),
        ]
        assert {copy.origin for copy in copies} == {origin}


def test_in_memory_it_is_known_by_what_it_says():
    assert sample().origin == sample().origin == sample().sha256
    assert sample().origin != sample(1e-9).origin


def test_joined_it_is_known_by_its_parts():
    first, second = sample(), sample(1.0)
    joined = join_recordings([first, second], gap=1.0)
    assert joined.origin == join_recordings([sample(), sample(1.0)], gap=1.0).origin
    assert len({joined.origin, first.origin, second.origin, join_recordings([second, first], gap=1.0).origin}) == 4


def test_parts_of_one_recording_put_together_again_are_that_recording():
    whole = sample()
    assert join_recordings([whole.rows(0, 40), whole.rows(50, 100)]).origin == whole.origin
    assert join_recordings([whole.rows(0, 40), whole.rows(50, 100)], gap=1.0).origin != whole.origin


def test_columns_are_not_read_for_it_until_it_is_asked_for(monkeypatch):
    monkeypatch.setattr("steelyard.recording.recording.hash_columns", lambda *_: pytest.fail("hashed"))
    sample().between(0.1, 0.5).loaded()
