"""Packed numbers come back, and the same numbers give the same text."""

from __future__ import annotations

import base64
import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from steelyard.report.packing import as_json, compress_text, pack_indices, pack_numbers, unpack


@settings(deadline=None, max_examples=60)
@given(
    arrays(
        np.float64,
        array_shapes(min_dims=1, max_dims=3, max_side=6),
        elements=st.floats(-1e6, 1e6) | st.sampled_from([np.nan, np.inf]),
    )
)
def test_numbers_come_back_within_half_a_step(values):
    packed = json.loads(as_json(pack_numbers(values)))
    again = unpack(packed)
    finite = np.isfinite(values)
    assert again.shape == values.shape
    assert np.array_equal(np.isfinite(again), finite)
    span = np.ptp(values[finite]) if finite.any() else 0.0
    np.testing.assert_allclose(again[finite], values[finite], rtol=0.0, atol=span / 131068 * (1 + 1e-6) + 1e-9)


@pytest.mark.parametrize("most", [10, 65535, 70000])
def test_indices_come_back_exactly(most):
    triangles = np.array([[0, 1, 2], [2, 1, most]])
    np.testing.assert_array_equal(unpack(pack_indices(triangles)), triangles)


def test_texts_come_back_and_are_the_same_each_time():
    text = "ξ < & µ" * 50
    packed = compress_text(text)
    assert gzip.decompress(base64.b64decode(packed)).decode("utf-8") == text
    assert packed == compress_text(text)
    assert len(packed) < len(text)


def test_json_knows_no_infinity():
    assert json.loads(as_json({"a": [np.inf, np.nan, np.float64(1.5)], "b": np.arange(2)})) == {
        "a": [None, None, 1.5],
        "b": [0, 1],
    }
