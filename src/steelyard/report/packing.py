"""Numbers on their way into a page: small, and exact enough for a picture."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np

_STEPS = 65534
"""Steps between the least and the greatest of quantised numbers; the one that is left stands for "not a number"."""

_ENDINGS = {"f4": "<f4", "u2": "<u2", "u4": "<u4"}


def pack_numbers(values: Any) -> dict[str, Any]:
    """Gives numbers in 16 bits each, evenly between their least and greatest; what is not finite stays "no number".

    The page turns them back (`unpack` in `templates/page.js`). The error is at most half a step: 1/131068 of the range.
    """
    array = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(array)
    low, high = (float(array[finite].min()), float(array[finite].max())) if finite.any() else (0.0, 0.0)
    step = (high - low) / _STEPS if high > low else 1.0
    whole = np.full(array.shape, _STEPS + 1, dtype=np.uint16)
    whole[finite] = np.round((array[finite] - low) / step).astype(np.uint16)
    return {"packed": "q", "low": low, "step": step, "shape": list(array.shape), "bytes": _as_text(whole, "u2")}


def pack_indices(values: Any) -> dict[str, Any]:
    """Gives whole numbers from zero on, exactly."""
    array = np.asarray(values)
    kind = "u2" if array.size == 0 or int(array.max()) < 2**16 else "u4"
    return {"packed": kind, "shape": list(array.shape), "bytes": _as_text(array, kind)}


def unpack(packed: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Gives what was packed, as the page does; for tests, and for whoever wants a report's numbers back."""
    kind = packed["packed"]
    raw = np.frombuffer(base64.b64decode(packed["bytes"]), dtype=_ENDINGS["u2" if kind == "q" else kind])
    values = raw.astype(np.float64)
    if kind == "q":
        values = np.where(raw == _STEPS + 1, np.nan, packed["low"] + packed["step"] * values)
    return values.reshape(packed["shape"])


def compress_text(text: str | bytes) -> str:
    """Gives a text as base64 of gzip, for a page that decompresses it by itself."""
    content = text.encode("utf-8") if isinstance(text, str) else text
    # No time stamp: the same report gives the same file.
    return base64.b64encode(gzip.compress(content, compresslevel=9, mtime=0)).decode("ascii")


def as_json(value: Any) -> str:
    """Gives JSON without infinities, for which null stands."""
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
