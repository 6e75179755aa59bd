"""Packing of numbers and texts into a page: small, and exact enough for a plot."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np

_STEPS = 65534
"""Steps between the smallest and the largest quantised number: 16 bits, of which one value stands for NaN."""

_ENDINGS = {"u2": "<u2", "u4": "<u4"}


def pack_numbers(values: Any) -> dict[str, Any]:
    """Quantise numbers to 16 bits, evenly between the smallest and the largest; what is not finite becomes NaN.

    The page decodes them (`unpack` in `templates/page.js`). The error is at most half a step: 1/131068 of the range.
    """
    array = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(array)
    low, high = (float(array[finite].min()), float(array[finite].max())) if finite.any() else (0.0, 0.0)
    step = (high - low) / _STEPS if high > low else 1.0
    whole = np.full(array.shape, _STEPS + 1, dtype=np.uint16)
    whole[finite] = np.round((array[finite] - low) / step).astype(np.uint16)
    return {"packed": "q", "low": low, "step": step, "shape": list(array.shape), "bytes": _as_text(whole, "u2")}


def pack_indices(values: Any) -> dict[str, Any]:
    """Pack non-negative integers exactly."""
    array = np.asarray(values)
    kind = "u2" if array.size == 0 or int(array.max()) < 2**16 else "u4"
    return {"packed": kind, "shape": list(array.shape), "bytes": _as_text(array, kind)}


def unpack(packed: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Decode packed numbers as the page does; for tests, and to read numbers from a report."""
    kind = packed["packed"]
    raw = np.frombuffer(base64.b64decode(packed["bytes"]), dtype=_ENDINGS["u2" if kind == "q" else kind])
    values = raw.astype(np.float64)
    if kind == "q":
        values = np.where(raw == _STEPS + 1, np.nan, packed["low"] + packed["step"] * values)
    return values.reshape(packed["shape"])


def compress_text(text: str | bytes) -> str:
    """Compress a text with gzip and encode it as base64; the page decompresses it."""
    content = text.encode("utf-8") if isinstance(text, str) else text
    # Without a time stamp the same report gives the same file. Level 6 takes half of the time of 9, for 1 % more bytes.
    return base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode("ascii")


def as_json(value: Any) -> str:
    """Return JSON with null for NaN and infinities."""
    return json.dumps(_plain(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _as_text(array: np.ndarray[Any, Any], kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype=_ENDINGS[kind]).tobytes()).decode("ascii")
