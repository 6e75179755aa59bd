"""Recordings as users give them."""

from __future__ import annotations

import pytest

import steelyard as sy
from steelyard.preparation import naming


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
