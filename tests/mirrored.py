"""The mirror image of a robot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.model.mirror import _pair, _symmetric_poses, find_pairs

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.model.mirror import MirrorPair


def find_middle(model: Model) -> list[MirrorPair]:
    """Return each link that is in no pair as its own mirror image."""
    paired = {row for pair in find_pairs(model) for row in (pair.left, pair.right)}
    poses = _symmetric_poses(model)
    return [_pair(model, poses, row, row) for row in range(len(model.links)) if row not in paired]


def mirror_parameters(model: Model, parameters: Any) -> FloatArray:
    """Return the parameters of the mirrored robot: each link gets its partner's image, or its own.

    The mapping is an involution.

    Args:
        model: The model, with ``[mirror]`` in its setup.
        parameters: Shape (n_links, 10), or flat.
    """
    array = np.asarray(parameters, dtype=np.float64).reshape(len(model.links), 10)
    mirrored = np.empty_like(array)
    pairs = find_pairs(model)
    for pair in [*pairs, *(pair.reversed() for pair in pairs), *find_middle(model)]:
        mirrored[pair.right] = pair.image(array[pair.left])
    return mirrored
