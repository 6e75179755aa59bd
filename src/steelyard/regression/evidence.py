"""Evidence: the information of recordings about the parameters, in one small object that adds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError
from steelyard.kinematics import one_blas_thread
from steelyard.model import PARAMETER_COUNT
from steelyard.regression.factor import Factor
from steelyard.regression.origins import Origin, merge_origins, shared_seconds
from steelyard.regression.recording_errors import (
    KNOT_SECONDS,
    ErrorBlock,
    RecordingErrors,
    eliminate_columns,
    keep_readable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.regression.evidence_key import EvidenceKey

_MOST_ROUNDS, _CONVERGED = 20, 1e-3
"""Most rounds between the variance of rows and the priors' weights, and the relative change at which it has converged.
Set by judgement: it is known to some percent."""

RANK_FLOOR = 1e-8
"""Share of the greatest singular value (of unit columns) below which one may count as zero; the widest gap decides. Set
by judgement: far above rounding (1e-15) and far below what sensors resolve."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """The triangular factor of the whitened system ``[Y | f]`` of any number of samples.

    Attributes:
        key: Identity of the system.
        factor: Upper triangular factor of the columns of independent parameters, nuisances and measured forces;
            shape (n + 1, n + 1).
        independent: Indices of the independent parameters in ``φ``.
        dependence: Dependence of all parameters' columns on theirs: ``Y = Y_independent · dependence``, shape
            (n_independent, 10 n_links). It is a property of the tree and the sensors, whatever the motion.
        sample_count: Samples gathered.
        effective_count: Effective number of independent samples.
        row_count: Equations gathered.
        totals: By measured component or joint, the sum of its readings and the sum of their squares.
        travel: By joint with one axis, its least and greatest position, rad or m.
        origins: Stretches of the recordings that were gathered, as far as they are known.
        variance: Variance of the rows if it is known; None if it is to be estimated from the residual.
        errors: Eliminated sensor errors of the recordings, to be read back; see `sensor_errors`.
        spent: Number of equations that determining them took.
        preparation: What was chosen before gathering, as `Preparation.to_dict` returns it; empty where Evidence was
            gathered from motions.
    """

    key: EvidenceKey
    factor: FloatArray
    independent: np.ndarray[Any, np.dtype[np.int64]]
    dependence: FloatArray
    sample_count: int
    effective_count: float
    row_count: int
    totals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    travel: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    origins: tuple[Origin, ...] = ()
    variance: float | None = None
    errors: tuple[RecordingErrors, ...] = ()
    spent: float = 0.0
    preparation: Mapping[str, Any] = field(default_factory=dict)

    def __radd__(self, other: object) -> Evidence:
        # sum() starts from 0.
        return self if other == 0 else NotImplemented

    def __add__(self, other: Evidence) -> Evidence:
        if not isinstance(other, Evidence):
            return NotImplemented
        shared = shared_seconds(self.origins, other.origins)
        if shared > 0.0:
            raise EvidenceError(
                f"both hold the same {shared:.2f} s of a recording, which would count twice; add each recording once"
            )
        if self.key.own != other.key.own:
            raise EvidenceError(
                "the recordings have sensor offsets of their own in one, and shared or none in the other; gather both "
                "with the same nuisance and shared_offsets",
                names=["own"],
            )
        if not self._same_recording(other):
            self, other = self.closed(), other.closed()  # noqa: PLW0642
        for aspect in vars(self.key):
            mine, theirs = getattr(self.key, aspect), getattr(other.key, aspect)
            if mine != theirs and not (aspect == "weights" and bool(mine) == bool(theirs)):
                raise EvidenceError(
                    f"evidence with different {aspect} does not add: {_shortened(mine)} here, {_shortened(theirs)} "
                    "there; gather both alike",
                    names=[aspect],
                )
        if (self.variance is None) != (other.variance is None):
            raise EvidenceError("evidence with a known variance and evidence without one do not add; gather both alike")
        theirs = other.factor
        if not np.array_equal(self.independent, other.independent):
            # Another machine may have kept other columns of the same system: use those that were kept here.
            kept = np.concatenate([self.independent, np.arange(self.parameter_count, other.full_factor.shape[1])])
            theirs = other.full_factor[:, kept]
        total = Factor(len(self.factor))
        with one_blas_thread():
            total.add(np.concatenate([self.factor, theirs]))
        here, there = self.totals, other.totals
        return replace(
            self,
            key=self._pooled_key(other),
            errors=keep_readable((*self.errors, *other.errors)),
            spent=self.spent + other.spent,
            factor=np.ascontiguousarray(total.matrix),
            variance=self._pooled_variance(other),
            sample_count=self.sample_count + other.sample_count,
            effective_count=self.effective_count + other.effective_count,
            row_count=self.row_count + other.row_count,
            totals={
                name: (here[name][0] + there[name][0], here[name][1] + there[name][1]) for name in here if name in there
            },
            travel={
                joint: (min(low, other.travel[joint][0]), max(high, other.travel[joint][1]))
                for joint, (low, high) in self.travel.items()
                if joint in other.travel
            },
            origins=merge_origins([*self.origins, *other.origins]),
        )

    def _same_recording(self, other: Evidence) -> bool:
        """Return whether both are parts of one recording, whose sensor errors are still columns of both."""
        here, there = ({origin.sha256 for origin in each.origins} for each in (self, other))
        if not (self.key.own and other.key.own and here & there):
            return False
        if here == there and len(here) == 1 and self.is_open and other.is_open:
            return True
        if any(len(each.blocks) > 1 for each in (*self.errors, *other.errors) if each.recording in here & there):
            raise EvidenceError(
                f"both hold parts of one recording, within which sensor offsets may drift; gather a recording longer "
                f"than {KNOT_SECONDS:.0f} s as a whole"
            )
        raise EvidenceError(
            "both hold parts of one recording, and the sensor offsets of one were eliminated already; add the parts of "
            "each recording before others"
        )

    def _pooled_key(self, other: Evidence) -> EvidenceKey:
        """Return the key of the sum: this one, with the pooled noise."""
        if self.key.weights == other.key.weights:
            return self.key
        counts = np.array([self.sample_count, other.sample_count], dtype=np.float64)
        squares = np.square([self.key.weights, other.key.weights])
        pooled = np.sqrt(counts @ squares / max(1.0, counts.sum()))
        return replace(self.key, weights=tuple(pooled.tolist()))

    @property
    def is_open(self) -> bool:
        """Whether the recording's own sensor errors are still columns of the factor, beside the robot's nuisances."""
        return any(name in self.key.nuisance for name in self.key.own)

    def closed(self, noise: float | None = None) -> Evidence:
        """Eliminate the recording's own sensor errors, with their priors; see `steelyard.regression.recording_errors`.

        Evidence that has none, or whose errors are eliminated already, is returned as it is.

        Args:
            noise: Standard deviation of a row, correlated samples counted, by which priors are weighed against rows; by
                default estimated from the residual.
        """
        if not self.is_open:
            return self
        names, count = self.key.nuisance, len(self.independent)
        own = [place for place, name in enumerate(names) if name in self.key.own]
        priors = np.array(self.key.priors, dtype=np.float64)
        scale = self.row_noise() if noise is None else noise
        with one_blas_thread():
            left = eliminate_columns(self.factor, [count + place for place in own], scale / priors[own])
        full = np.concatenate([left.rows[:, :count] @ self.dependence, left.rows[:, count:]], axis=1)
        recording = self.origins[0].sha256 if self.origins else ""
        block = ErrorBlock(tuple(names[place] for place in own), left.triangle, np.zeros((len(own), 0)), full)
        found = RecordingErrors(recording, (block,), scale)
        return replace(
            self,
            key=self.key.without_own(),
            factor=left.factor,
            errors=(*self.errors, found),
            spent=self.spent + left.taken,
        )

    def row_noise(self) -> float:
        """Return the standard deviation of a row, correlated samples counted, from the residual of a free fit."""
        priors = np.array(self.key.priors, dtype=np.float64)
        inflation = self.sample_count / self.effective_count if self.effective_count else 1.0
        if self.variance is not None:
            return float(np.sqrt(self.variance))
        equations, count = self.row_count / inflation, len(self.independent)
        columns = list(range(count, count + len(priors)))
        variance = 1.0 if self.key.weights else 0.0
        for _ in range(_MOST_ROUNDS):
            before = variance
            left = eliminate_columns(self.factor, columns, np.sqrt(variance * inflation) / priors)
            freedom = equations - self.rank - left.taken
            if freedom < 1.0:
                return float(np.sqrt(inflation)) if self.key.weights else 0.0
            variance = float(left.factor[-1, -1]) ** 2 / inflation / freedom
            if abs(variance - before) <= _CONVERGED * variance:
                break
        return float(np.sqrt(variance * inflation))

    def sensor_errors(self, parameters: Any, nuisance: Any = None) -> list[dict[str, float]]:
        """Return the best sensor errors of each recording at given parameters, in the order in which they were added.

        Args:
            parameters: ``φ``, shape (n_links, 10) or flat.
            nuisance: Values of the robot's nuisances, in the order of the key; zeros by default.
        """
        done = self.closed()
        unknowns = np.concatenate([done.check_parameters(parameters), done.check_nuisance(nuisance)])
        return [dict(zip(each.names, each.values(unknowns).tolist(), strict=True)) for each in done.errors]

    def _pooled_variance(self, other: Evidence) -> float | None:
        if self.variance is None or other.variance is None:
            return None
        rows = self.row_count + other.row_count
        return (self.row_count * self.variance + other.row_count * other.variance) / max(1, rows)

    @property
    def loads(self) -> dict[str, tuple[float, float]]:
        """Mean and root mean square of each measured component, by name; N, N m."""
        count = max(1, self.sample_count)
        return {
            name: (total / count, float(np.sqrt(squares / count))) for name, (total, squares) in self.totals.items()
        }

    @property
    def parameter_count(self) -> int:
        """Number of parameters of all links."""
        return len(self.key.links) * PARAMETER_COUNT

    @cached_property
    def full_factor(self) -> FloatArray:
        """The factor with every parameter's column put back: ``[R_φ | R_nuisance | r_f]``.

        Shape (n + 1, 10 n_links + n_nuisance + 1); its Gram matrix is that of the whole system.
        """
        count = len(self.independent)
        return np.concatenate([self.factor[:, :count] @ self.dependence, self.factor[:, count:]], axis=1)

    @cached_property
    def singular_values(self) -> FloatArray:
        """Singular values of all parameters' columns, each scaled to unit length; descending."""
        columns = self.full_factor[:, : self.parameter_count]
        lengths = np.linalg.norm(columns, axis=0)
        largest = np.max(lengths, initial=0.0)
        used = lengths > 1e-12 * largest
        if not np.any(used):
            return np.zeros(0)
        return np.asarray(np.linalg.svd(columns[:, used] / lengths[used], compute_uv=False))

    @cached_property
    def _rank_and_gap(self) -> tuple[int, float]:
        values = self.singular_values
        if not len(values):
            return 0, np.inf
        floor = np.finfo(np.float64).eps * values[0]
        padded = np.maximum(np.append(values, 0.0), floor)
        ratios = padded[:-1] / padded[1:]
        small = padded[1:] < RANK_FLOOR * values[0]
        place = int(np.argmax(np.where(small, ratios, 0.0)))
        return place + 1, float(ratios[place])

    @property
    def rank(self) -> int:
        """Number of combinations of parameters that are observable in the data."""
        return self._rank_and_gap[0]

    @property
    def rank_gap(self) -> float:
        """Ratio of the smallest singular value within the rank to the greatest beyond it."""
        return self._rank_and_gap[1]

    @cached_property
    def condition(self) -> float:
        """Condition number of the independent parameters' columns, in plain SI units."""
        return _condition(self.factor[:, : len(self.independent)])

    @cached_property
    def link_conditions(self) -> dict[str, float]:
        """Condition number of each link's ten columns, in plain SI units, unscaled [jovic2015]; inf where singular."""
        full = self.full_factor
        return {
            link: _condition(full[:, PARAMETER_COUNT * row : PARAMETER_COUNT * (row + 1)])
            for row, link in enumerate(self.key.links)
        }

    def cost(self, parameters: Any, nuisance: Any = None) -> float:
        """Compute ``‖Y φ − f‖²`` over all samples (whitened as gathered), at given parameters and nuisance values.

        Args:
            parameters: ``φ``, shape (n_links, 10) or flat.
            nuisance: Values of the nuisance columns; zeros by default. Their priors are not part of the cost. Sensor
                errors that were eliminated are at their best, priors counted.
        """
        phi, extra = self.check_parameters(parameters), self.check_nuisance(nuisance)
        residual = self.full_factor @ np.concatenate([phi, extra, [-1.0]])
        return float(residual @ residual)

    def check_parameters(self, parameters: Any) -> FloatArray:
        """Return parameters of all links as one row; shape (10 n_links,).

        Raises:
            EvidenceError: They are not numbers, or of another count.
        """
        try:
            phi = np.asarray(parameters, dtype=np.float64).ravel()
        except (TypeError, ValueError) as error:
            raise EvidenceError("the parameters must be an array of numbers") from error
        if phi.size != self.parameter_count:
            raise EvidenceError(f"the evidence needs {self.parameter_count} parameters; {phi.size} are given")
        return phi

    def check_nuisance(self, values: Any) -> FloatArray:
        """Return nuisance values as one row, zeros for None.

        Raises:
            EvidenceError: They are of another count.
        """
        count = len(self.key.nuisance)
        extra = np.zeros(count) if values is None else np.asarray(values, dtype=np.float64)
        if extra.shape != (count,):
            raise EvidenceError(f"the evidence needs {count} nuisance values; {extra.size} are given")
        return extra

    def save(self, path: str | Path) -> None:
        """Write the evidence to a file (.npz, plain arrays and JSON), all of it or nothing.

        Raises:
            EvidenceError: The file cannot be written.
        """
        from steelyard.regression.evidence_storage import save_evidence  # noqa: PLC0415  (it imports this module)

        save_evidence(self, path)

    @classmethod
    def from_rows(
        cls,
        model: Model,
        rows: Any,
        forces: Any,
        *,
        weights: Any = None,
        effective_count: float | None = None,
        label: str = "",
    ) -> Evidence:
        """Return the Evidence of a regressor that was computed elsewhere: ``rows · φ = forces``.

        Args:
            model: The model; its parameters, in order, are the columns.
            rows: ``Y``, shape (n, 10 n_links).
            forces: ``f``, shape (n,).
            weights: Standard deviation of each row's noise, one number or shape (n,), by which rows are whitened; None
                gives plain sums.
            effective_count: Number of independent rows, where rows are correlated; by default all.
            label: Where the rows come from; only Evidence with equal labels adds.

        Raises:
            EvidenceError: A shape is wrong, a number is not finite, or a standard deviation is not positive.
        """
        from steelyard.regression.foreign_rows import factor_rows  # noqa: PLC0415  (it imports this module)

        return factor_rows(model, rows, forces, weights, effective_count, label)


def _condition(columns: FloatArray) -> float:
    values = np.linalg.svd(columns, compute_uv=False)
    if not len(values) or values[-1] <= np.finfo(np.float64).eps * len(columns) * values[0]:
        return float("inf")
    return float(values[0] / values[-1])


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
