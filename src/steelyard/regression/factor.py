"""A triangular factor that is updated by chunks of rows: millions of rows in, one small square matrix out.

The factor ``R`` of all rows ``Z`` so far satisfies ``RᵀR = ZᵀZ``. A chunk is added without squaring its condition
number, and at nearly the speed of a matrix product: its rows are first divided by the factor, ``W = Z R⁻¹``, which
makes them about as large as the rows before them in every direction; in that basis ``1 + WᵀW`` is well conditioned, its
Cholesky factor ``C`` loses nothing, and ``C R`` is the new factor. Where a chunk excites a direction that is weak in
the factor (``W`` is large), or the factor is singular, a QR decomposition of ``[R; Z]`` is taken instead. Columns that
are zero so far are left out.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.extending import get_cython_function_address

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

LARGEST_STEP = 100.0
"""Greatest column norm of ``W`` for the Gram product; ``1 + WᵀW`` then loses at most four of sixteen digits."""

SMALLEST_PIVOT = 1e-6
"""Least diagonal entry of the factor, relative to its column's norm, for which rows are divided by it: ``W`` then keeps
ten of sixteen digits."""

_QR_ROWS = 6
"""Rows, as a multiple of the columns, that go through QR together. Set by judgement: enough that the rest of a chunk
usually fits the factor that they leave, few enough that the slow way costs little."""

_PROBE_ROWS = 200
"""Rows of a chunk by which the fast way is tried first. Set by judgement: a few percent of a chunk's 10 000."""


class Factor:
    """The factor of all rows ``[Y | f]`` so far.

    Attributes:
        size: Number of columns.
        fast_chunks: How many pieces went through the Gram product.
        slow_chunks: How many needed a QR decomposition.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.fast_chunks = 0
        self.slow_chunks = 0
        self._pending: list[FloatArray] = []
        self._active = np.zeros(size, dtype=np.bool_)
        self._triangle: FloatArray = np.zeros((0, 0))

    @property
    def matrix(self) -> FloatArray:
        """The factor: upper triangular with a non-negative diagonal, shape (size, size)."""
        self._flush()
        if self._active.all():
            return self._triangle
        spread = np.zeros((self.size, self.size))
        spread[: len(self._triangle), self._active] = self._triangle
        return triangle_of(spread)

    def add(self, rows: FloatArray) -> None:
        """Add rows, shape (m, size), C-contiguous; they may be overwritten.

        Small batches are collected first: one decomposition of many rows costs less than many of few.
        """
        if len(rows) < self.size:
            self._pending.append(rows)
            if sum(map(len, self._pending)) >= _QR_ROWS * self.size:
                self._flush()
            return
        self._add(rows)

    def _flush(self) -> None:
        if self._pending:
            rows = np.concatenate(self._pending)
            self._pending = []
            self._add(rows)

    def _add(self, rows: FloatArray) -> None:
        busy = rows.any(axis=0)
        if np.any(busy & ~self._active):
            self._widen(busy | self._active)
        if not self._active.any():
            return
        if not self._active.all():
            rows = np.ascontiguousarray(rows[:, self._active])
        if not self._add_by_gram(rows):
            # After a few rows by QR the factor usually has all directions, and the rest takes the fast way.
            first = _QR_ROWS * rows.shape[1]
            self._add_by_qr(rows[:first])
            if len(rows) > first and not self._add_by_gram(rows[first:]):
                self._add_by_qr(rows[first:])

    def _widen(self, active: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        wider = np.zeros((len(self._triangle), self.size))
        wider[:, self._active] = self._triangle
        self._active = active
        self._triangle = triangle_of(wider[:, active])

    def _well_posed(self) -> bool:
        diagonal = np.diagonal(self._triangle)
        return bool(np.all(diagonal > SMALLEST_PIVOT * np.linalg.norm(self._triangle, axis=0)))

    def _add_by_gram(self, rows: FloatArray) -> bool:
        """Try the fast way and return whether it was taken; if not, `rows` are unchanged up to rounding."""
        count = rows.shape[1]
        if len(rows) < count or not self._well_posed():
            return False
        # A few rows show whether the chunk fits: dividing all rows and multiplying them again would cost digits.
        few = np.array(rows[:: max(1, len(rows) // _PROBE_ROWS)], order="C")
        _blas("dtrsm", "L", "L", "N", "N", count, len(few), 1.0, self._triangle, count, few, count)
        if not np.all(np.linalg.norm(few, axis=0) * np.sqrt(len(rows) / len(few)) <= LARGEST_STEP):
            return False
        # BLAS sees our rows as the columns of Zᵀ, and our upper triangle R as the lower triangle Rᵀ.
        _blas("dtrsm", "L", "L", "N", "N", count, len(rows), 1.0, self._triangle, count, rows, count)
        gram = np.zeros((count, count))
        _blas("dsyrk", "L", "N", count, len(rows), 1.0, rows, count, 0.0, gram, count)
        diagonal = np.diagonal(gram)
        if not np.all(diagonal <= LARGEST_STEP**2):  # also when it is not a number
            _blas("dtrmm", "L", "L", "N", "N", count, len(rows), 1.0, self._triangle, count, rows, count)
            return False
        # What BLAS calls the lower triangle is our upper one.
        symmetric = np.triu(gram) + np.triu(gram, 1).T
        symmetric[np.diag_indices(count)] += 1.0
        self._triangle = np.ascontiguousarray(np.linalg.cholesky(symmetric).T @ self._triangle)
        self.fast_chunks += 1
        return True

    def _add_by_qr(self, rows: FloatArray) -> None:
        self._triangle = triangle_of(np.concatenate([self._triangle, rows]))
        self.slow_chunks += 1


def triangle_of(rows: FloatArray) -> FloatArray:
    """Compute the square triangular factor of some rows, with a non-negative diagonal, C-contiguous."""
    width = rows.shape[1]
    if len(rows) < width:
        rows = np.concatenate([rows, np.zeros((width - len(rows), width))])
    triangle = np.linalg.qr(rows, mode="r")
    signs = np.where(np.diagonal(triangle) < 0.0, -1.0, 1.0)
    return np.ascontiguousarray(signs[:, None] * triangle)


def _blas_function(name: str, signature: str) -> Any:
    """Return a BLAS function of SciPy's as a foreign function: unlike SciPy's wrappers, it releases the lock."""
    pointers = {"c": ctypes.c_char_p, "i": ctypes.POINTER(ctypes.c_int), "d": ctypes.POINTER(ctypes.c_double)}
    kinds: list[Any] = [pointers.get(letter, ctypes.c_void_p) for letter in signature]
    return ctypes.CFUNCTYPE(None, *kinds)(get_cython_function_address("scipy.linalg.cython_blas", name))


_SIGNATURES = {"dtrsm": "cccciidpipi", "dtrmm": "cccciidpipi", "dsyrk": "cciidpidpi"}
_FUNCTIONS = {name: _blas_function(name, signature) for name, signature in _SIGNATURES.items()}


def _blas(name: str, *arguments: str | int | float | FloatArray) -> None:
    """Call a BLAS function, with letters, integers, floats and C-contiguous arrays converted to Fortran arguments."""
    passed: list[Any] = []
    for kind, argument in zip(_SIGNATURES[name], arguments, strict=True):
        if kind == "c":
            passed.append(str(argument).encode())
        elif kind == "i":
            passed.append(ctypes.byref(ctypes.c_int(argument)))  # type: ignore[arg-type]
        elif kind == "d":
            passed.append(ctypes.byref(ctypes.c_double(argument)))  # type: ignore[arg-type]
        else:
            passed.append(argument.ctypes.data)  # type: ignore[union-attr]
    _FUNCTIONS[name](*passed)
