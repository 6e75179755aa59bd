"""Right-angled turns and their words."""

import numpy as np
import pytest

from steelyard.inspection.axis_permutations import describe_axes, describe_permutation, is_identity, signed_permutations


def test_there_are_48_and_each_is_orthogonal():
    turns = signed_permutations()
    assert len({turn.tobytes() for turn in turns}) == 48
    assert is_identity(turns[0])
    for turn in turns:
        np.testing.assert_array_equal(turn @ turn.T, np.eye(3))
    assert sum(np.linalg.det(turn) > 0.0 for turn in turns) == 24


def test_words_tell_them_apart():
    assert len({describe_axes(turn) for turn in signed_permutations()}) == 48
    assert len({describe_permutation(turn) for turn in signed_permutations()}) == 48


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        ([[1, 0, 0], [0, -1, 0], [0, 0, -1]], "rotated by 180° about x, upside down"),
        ([[0, -1, 0], [1, 0, 0], [0, 0, 1]], "rotated by +90° about z"),
        ([[0, 1, 0], [-1, 0, 0], [0, 0, 1]], "rotated by -90° about z"),
        ([[-1, 0, 0], [0, -1, 0], [0, 0, 1]], "rotated by 180° about z"),
        ([[-1, 0, 0], [0, -1, 0], [0, 0, -1]], "of the opposite sign"),
        ([[1, 0, 0], [0, 1, 0], [0, 0, -1]], "of the opposite sign along z"),
        (
            [[0, 1, 0], [1, 0, 0], [0, 0, 1]],
            "mounted with x read as y, y read as x, z read as z, which is not a right-",
        ),
    ],
)
def test_words(turn, words):
    assert describe_permutation(np.array(turn, dtype=float)).startswith(words)
