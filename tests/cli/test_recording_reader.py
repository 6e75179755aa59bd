"""Recordings as commands read them."""

from pathlib import Path

import pytest

import steelyard as sy
from steelyard.cli.progress import show_progress
from steelyard.cli.recording_reader import Reader
from tests.laboratory.trials import robot


def test_an_error_keeps_its_kind_and_its_evidence_when_a_recording_is_named():
    reader = Reader(robot("g1"), None, show_progress(quiet=True))
    reader._path = Path("dance.npz")
    with pytest.raises(sy.exceptions.MotionError, match=r"^dance\.npz: it is bad$") as caught, reader.naming():
        raise sy.exceptions.MotionError("it is bad", channel="q.knee", sample=3)
    assert (caught.value.channel, caught.value.sample) == ("q.knee", 3)
