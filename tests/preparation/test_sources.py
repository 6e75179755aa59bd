"""Recordings as users give them."""

from __future__ import annotations

import numpy as np
import pytest

import steelyard as sy
from steelyard.preparation import naming
from tests.laboratory.trials import robot


@pytest.mark.parametrize("name", ["dance.npz", lambda: "dance.npz"])
def test_an_error_keeps_its_kind_and_its_evidence_when_a_recording_is_named(name):
    with pytest.raises(sy.exceptions.MotionError, match=r"^dance\.npz: it is bad$") as caught, naming(name):
        raise sy.exceptions.MotionError("it is bad", channel="q.knee", sample=3)
    assert (caught.value.channel, caught.value.sample) == ("q.knee", 3)


def test_an_error_that_names_it_already_and_no_name_at_all_are_left_alone():
    for name, text in (("dance.npz", "dance.npz is bad"), ("", "it is bad")):
        with pytest.raises(sy.exceptions.MotionError) as caught, naming(name):
            raise sy.exceptions.MotionError(text)
        assert str(caught.value) == text


def test_recordings_beyond_the_memory_are_read_again(tmp_path, monkeypatch):
    from steelyard.preparation import sources

    recordings = [sy.Recording(np.arange(50) / 10.0, {"q.a": np.arange(50.0) + k}) for k in range(3)]
    paths = [tmp_path / f"{k}.npz" for k in range(3)]
    for recording, path in zip(recordings, paths, strict=True):
        recording.write(path)
    monkeypatch.setattr(sources, "KEPT_BYTES", 2 * recordings[0].memory_size)
    shelf = sources.Shelf(robot("g1"), paths, lambda name: None)
    assert len(shelf) == 3
    assert [shelf.keeps(each) for each in shelf].count(True) == 2
    assert [each.origin for each in shelf] == sorted(each.origin for each in recordings)
    assert {shelf.path(each) for each in shelf} == {str(path) for path in paths}
    assert sum(one is other for one, other in zip(shelf, shelf, strict=True)) == 2


def test_a_stream_of_recordings_does_not_fill_the_memory():
    prepared = sy.Preparation(robot("g1"), "imu", None, None, {}, {}, None, "default", ())
    for k in range(40):
        prepared.open(sy.Recording(np.arange(5) / 10.0, {"q.a": np.arange(5.0) + k}))
    assert len(prepared._opened) <= 20
