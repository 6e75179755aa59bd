"""Statistics of prediction errors, row by row, from moments that add up over any chunks of samples."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.arrays import FloatArray

CANDIDATES = ("estimate", "corrected", "reference", "truth")
"""The sets of parameters that predict: estimate, mass-corrected reference, reference, and the truth where known."""


@dataclass(frozen=True, eq=False)
class ErrorStatistics:
    """Statistics of the prediction error (predicted − measured) of one set of parameters, one number for each row.

    Attributes:
        mean: Mean of the error.
        std: Standard deviation of the error about its mean: ``rmse² = mean² + std²``.
        rmse: Root mean square of the error.
        correlation: Of measurement and prediction; NaN where one of them is constant.
        nrmse: `rmse` divided by the range (greatest − least) of the measurement.
        r_squared: ``1 − Σ error² / Σ (measured − its mean)²``.
    """

    mean: Any
    std: Any
    rmse: Any
    correlation: Any
    nrmse: Any
    r_squared: Any

    def at(self, row: int) -> ErrorStatistics:
        """Return the statistics of one row, as plain numbers."""
        return ErrorStatistics(*(float(np.atleast_1d(getattr(self, each.name))[row]) for each in fields(self)))

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain lists."""
        return {each.name: np.asarray(getattr(self, each.name)).tolist() for each in fields(self)}


@dataclass(frozen=True, eq=False)
class Candidates:
    """Prediction errors of all candidates in the same rows: a mapping from the name of a row to its errors.

    ``for joint in validation.torque``, ``validation.torque[joint].rmse``, ``"fz" in validation.wrench``, ``items()``
    and ``len()`` work as in a dictionary. `mean`, `std`, `rmse`, `correlation`, `nrmse` and `r_squared` are the
    estimate's.

    Attributes:
        rows: Names of the rows: axes of a wrench, or joints.
        units: Their units.
        estimate: The estimate's parameters.
        reference: The reference (CAD).
        corrected: The reference, scaled by the one factor that fits the training data best.
        truth: The true parameters, where known: the noise floor.
    """

    rows: tuple[str, ...]
    units: tuple[str, ...]
    estimate: ErrorStatistics
    reference: ErrorStatistics
    corrected: ErrorStatistics
    truth: ErrorStatistics | None

    @property
    def mean(self) -> Any:
        """Mean error of the estimate."""
        return self.estimate.mean

    @property
    def std(self) -> Any:
        """Standard deviation of the estimate's error."""
        return self.estimate.std

    @property
    def rmse(self) -> Any:
        """Root mean square of the estimate's error."""
        return self.estimate.rmse

    @property
    def correlation(self) -> Any:
        """Correlation of measurement and the estimate's prediction."""
        return self.estimate.correlation

    @property
    def nrmse(self) -> Any:
        """Root mean square of the estimate's error, divided by the range of the measurement."""
        return self.estimate.nrmse

    @property
    def r_squared(self) -> Any:
        """Share of the measured variance that the estimate explains."""
        return self.estimate.r_squared

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, row: object) -> bool:
        return row in self.rows

    def keys(self) -> tuple[str, ...]:
        """Return the names of the rows."""
        return self.rows

    def values(self) -> list[Candidates]:
        """Return each row's errors, as plain numbers."""
        return [self[row] for row in self.rows]

    def items(self) -> list[tuple[str, Candidates]]:
        """Return the names of the rows with their errors, as plain numbers."""
        return [(row, self[row]) for row in self.rows]

    def __getitem__(self, row: str) -> Candidates:
        """Return one row by name, as plain numbers."""
        if not isinstance(row, str):
            raise EvidenceError(f"rows go by name, not by {row!r}; the names are {in_words(self.rows)}")
        if row not in self.rows:
            raise EvidenceError(f"nothing was validated on {row!r}{did_you_mean(row, self.rows)}", names=[row])
        place = self.rows.index(row)
        estimate, reference, corrected = (each.at(place) for each in (self.estimate, self.reference, self.corrected))
        truth = None if self.truth is None else self.truth.at(place)
        return Candidates((row,), (self.units[place],), estimate, reference, corrected, truth)

    def by_candidate(self) -> list[tuple[str, ErrorStatistics | None]]:
        """Return the errors of each candidate with its name; None for a truth that is not known."""
        return [(name, getattr(self, name)) for name in CANDIDATES]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain lists."""
        return {"rows": list(self.rows), "units": list(self.units)} | {
            name: fit.to_dict() for name, fit in self.by_candidate() if fit is not None
        }


class Moments:
    """Means and centred products of measured and predicted rows, accumulated over chunks in any order.

    Args:
        rows: Number of rows.
        candidates: Number of predictions of each row.
    """

    def __init__(self, rows: int, candidates: int) -> None:
        self.count = 0
        self._time = 0.0
        self.known = np.ones(rows, dtype=np.bool_)
        self._low = np.full(rows, np.inf)
        self._high = np.full(rows, -np.inf)
        # Means and centred sums of squares of measurement, errors and predictions of each candidate; cross products.
        self._measured = np.zeros((2, rows))
        self._error = np.zeros((2, candidates, rows))
        self._predicted = np.zeros((2, candidates, rows))
        self._cross = np.zeros((candidates, rows))

    def add(
        self, measured: FloatArray, predicted: FloatArray, known: np.ndarray[Any, np.dtype[np.bool_]], step: float = 1.0
    ) -> None:
        """Add samples.

        Args:
            measured: Shape (n, rows).
            predicted: Shape (candidates, n, rows).
            known: Which rows are measured in full, shape (rows,).
            step: Seconds that each sample stands for: its weight.
        """
        if not len(measured):
            return
        self.known &= known
        self._low = np.minimum(self._low, measured.min(axis=0))
        self._high = np.maximum(self._high, measured.max(axis=0))
        chunks, kept = (measured, predicted - measured, predicted), (self._measured, self._error, self._predicted)
        means = [values.mean(axis=-2) for values in chunks]
        centred = [values - mean[..., None, :] for values, mean in zip(chunks, means, strict=True)]
        before, new = self._time, len(measured) * step
        self.count += len(measured)
        self._time += new
        shares = (new / self._time, before * new / self._time)
        shifts = [mean - moments[0] for mean, moments in zip(means, kept, strict=True)]
        self._cross += step * np.einsum("nr,cnr->cr", centred[0], centred[2]) + shifts[0] * shifts[2] * shares[1]
        for moments, values, shift in zip(kept, centred, shifts, strict=True):
            moments[0] += shift * shares[0]
            moments[1] += step * np.square(values).sum(axis=-2) + np.square(shift) * shares[1]

    def statistics(self, candidate: int) -> ErrorStatistics:
        """Return the statistics of one candidate; rows that are not measured in full are NaN."""
        count = self._time if self.count else 1.0
        mean, squares = self._error[:, candidate]
        variance = squares / count
        rmse = np.sqrt(np.square(mean) + variance)
        spread = self._measured[1]
        product = np.sqrt(spread) * np.sqrt(self._predicted[1, candidate])
        values = (
            mean,
            np.sqrt(variance),
            rmse,
            np.clip(_ratio(self._cross[candidate], product), -1.0, 1.0),
            _ratio(rmse, self._high - self._low),
            1.0 - _ratio(count * np.square(rmse), spread),
        )
        visible = [np.where(~self.known | (self.count == 0), np.nan, each) for each in values]
        for each in visible:
            each.setflags(write=False)
        return ErrorStatistics(*visible)

    def candidates(self, rows: tuple[str, ...], units: tuple[str, ...], *, truth: bool) -> Candidates:
        """Return the statistics of all candidates, which were added in the order of `CANDIDATES`."""
        return Candidates(
            rows,
            units,
            self.statistics(0),
            self.statistics(2),
            self.statistics(1),
            self.statistics(3) if truth else None,
        )


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return quotients, NaN where the denominator is not positive."""
    positive = below > 0.0
    return np.where(positive, above / np.where(positive, below, 1.0), np.nan)
