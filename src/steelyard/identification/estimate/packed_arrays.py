"""Large arrays in JSON: single precision, compressed, as text; a G1's estimate takes under 1 MB instead of 8."""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

_LEAST_SIZE = 1000
"""Numbers from which an array is packed: smaller ones stay readable. Set by judgement."""

_ROUNDING = 1e-6
"""Relative difference up to which two halves of a matrix are equal: that of single precision, with a margin."""

_BYTES = 4
"""Bytes of a number of single precision."""


def pack_array(values: Any) -> Any:
    """Return a list of lists as it is if it is small, else as packed text; symmetric matrices by their upper half.

    Covariances and roots of posteriors are known to some percent: single precision keeps seven digits of them.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size < _LEAST_SIZE:
        return array.tolist()
    square = array.ndim == 2 and array.shape[0] == array.shape[1]
    symmetric = square and np.allclose(array, array.T, rtol=_ROUNDING, atol=_ROUNDING**2 * np.max(np.abs(array)))
    flat = array[np.triu_indices(len(array))] if symmetric else array.ravel()
    # Bytes of equal significance side by side compress better.
    planes = flat.astype("<f4").view(np.uint8).reshape(-1, _BYTES).T
    text = base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode("ascii")
    return {"shape": list(array.shape), "symmetric": bool(symmetric), "float32": text}


def unpack_array(stored: Any) -> FloatArray:
    """Return an array that `pack_array` packed, or that is stored as numbers.

    Raises:
        ValueError: The text is damaged.
    """
    if not isinstance(stored, dict):
        return np.array(stored, dtype=np.float64)
    shape = tuple(int(size) for size in stored["shape"])
    count = shape[0] * (shape[0] + 1) // 2 if stored["symmetric"] else int(np.prod(shape))
    try:
        # One byte more than there may be, so that a text that unpacks to more is refused without unpacking all of it.
        raw = zlib.decompressobj().decompress(base64.b64decode(stored["float32"], validate=True), _BYTES * count + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"a packed array is damaged ({error})") from error
    if len(raw) != _BYTES * count:
        raise ValueError("a packed array is damaged: it does not have as many numbers as its shape")
    planes = np.frombuffer(raw, dtype=np.uint8).reshape(_BYTES, count)
    flat = np.ascontiguousarray(planes.T).view("<f4").ravel().astype(np.float64)
    if not stored["symmetric"]:
        return np.asarray(flat.reshape(shape))
    array = np.zeros(shape)
    array[np.triu_indices(shape[0])] = flat
    return np.asarray(array + np.triu(array, 1).T)
