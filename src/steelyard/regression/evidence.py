"""Evidence: the information of recordings about the parameters, in one small object that adds."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError
from steelyard.kinematics import one_blas_thread
from steelyard.model import PARAMETER_COUNT
from steelyard.regression.factor import Factor
from steelyard.regression.origins import Origin, merge_origins, shared_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray

RANK_FLOOR = 1e-8
"""Share of the greatest singular value (of unit columns) below which one may count as zero; the widest gap decides. Set
by judgement: far above rounding (1e-15) and far below what sensors resolve."""


@dataclass(frozen=True)
class EvidenceKey:
    """Identity of the system that Evidence belongs to; only Evidence with equal keys adds.

    Attributes:
        links: Links, in parameter order.
        tree: Hash of the kinematic tree.
        sensing: Hash of the sensors and their placements.
        reference: Hash of the parameters at which nuisance columns were linearised; empty if there are none.
        gravity: Direction of a fixed base's proper acceleration; empty for a floating one.
        nuisance: Names of the nuisance columns.
        priors: Standard deviations of their priors.
        base: The base link, in whose frame the rows are.
        measured: Measured wrench components.
        unknown: Unmeasured components that were projected out.
        torques: Joints whose torque is used.
        weights: Standard deviations of the measured components, by which rows are whitened; empty for plain sums.
        instruments: Description of the instruments, if rows were multiplied by any; else empty.
    """

    links: tuple[str, ...]
    tree: str
    sensing: str
    reference: str
    gravity: tuple[float, ...]
    nuisance: tuple[str, ...]
    priors: tuple[float, ...]
    base: str
    measured: tuple[str, ...]
    unknown: tuple[str, ...]
    torques: tuple[str, ...]
    weights: tuple[float, ...]
    instruments: str = ""


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

    def __radd__(self, other: object) -> Evidence:
        # sum() starts from 0.
        return self if other == 0 else NotImplemented

    def __add__(self, other: Evidence) -> Evidence:
        if not isinstance(other, Evidence):
            return NotImplemented
        for aspect in vars(self.key):
            mine, theirs = getattr(self.key, aspect), getattr(other.key, aspect)
            if mine != theirs:
                raise EvidenceError(
                    f"evidence with different {aspect} does not add: {_shortened(mine)} here, {_shortened(theirs)} "
                    "there; gather both alike",
                    names=[aspect],
                )
        if (self.variance is None) != (other.variance is None):
            raise EvidenceError("evidence with a known variance and evidence without one do not add; gather both alike")
        shared = shared_seconds(self.origins, other.origins)
        if shared > 0.0:
            raise EvidenceError(
                f"both hold the same {shared:.2f} s of a recording, which would count twice; add each recording once"
            )
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
            nuisance: Values of the nuisance columns; zeros by default. Their priors are not part of the cost.
        """
        extra = np.zeros(len(self.key.nuisance)) if nuisance is None else np.asarray(nuisance, dtype=np.float64)
        try:
            phi = np.asarray(parameters, dtype=np.float64).ravel()
        except (TypeError, ValueError) as error:
            raise EvidenceError("the parameters must be an array of numbers") from error
        if phi.size != self.parameter_count or extra.shape != (len(self.key.nuisance),):
            raise EvidenceError(
                f"cost needs {self.parameter_count} parameters and {len(self.key.nuisance)} nuisance values; "
                f"given are {phi.size} and {extra.size}"
            )
        residual = self.full_factor @ np.concatenate([phi, extra, [-1.0]])
        return float(residual @ residual)

    def save(self, path: str | Path) -> None:
        """Write the evidence to a file (.npz, plain arrays and JSON).

        Raises:
            EvidenceError: The file cannot be written.
        """
        try:
            with Path(path).open("wb") as file:
                np.savez(
                    file,
                    key=np.array(json.dumps(asdict(self.key))),
                    factor=self.factor,
                    independent=self.independent,
                    dependence=self.dependence,
                    counts=np.array([self.sample_count, self.row_count], dtype=np.int64),
                    effective_count=np.array(self.effective_count),
                    channels=np.array(list(self.totals), dtype=np.str_),
                    totals=np.array(list(self.totals.values()), dtype=np.float64).reshape(-1, 2),
                    joints=np.array(list(self.travel), dtype=np.str_),
                    travel=np.array(list(self.travel.values()), dtype=np.float64).reshape(-1, 2),
                    origins=np.array(json.dumps(self.origins)),
                    variance=np.array(np.nan if self.variance is None else self.variance),
                )
        except OSError as error:
            raise EvidenceError(f"{path}: the evidence cannot be written ({error.strerror})") from error


def load_evidence(path: str | Path) -> Evidence:
    """Read evidence that `Evidence.save` wrote.

    Raises:
        EvidenceError: The file is missing, or is not evidence.
    """
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        stored = json.loads(str(arrays["key"]))
        fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in stored.items()}
        key = EvidenceKey(**fields)
        return Evidence(
            key,
            arrays["factor"],
            arrays["independent"],
            arrays["dependence"],
            int(arrays["counts"][0]),
            float(arrays["effective_count"]),
            int(arrays["counts"][1]),
            _pairs(arrays["channels"], arrays["totals"]),
            _pairs(arrays["joints"], arrays["travel"]),
            tuple(
                Origin(str(sha256), float(start), float(end))
                for sha256, start, end in json.loads(str(arrays["origins"]))
            ),
            None if np.isnan(arrays["variance"]) else float(arrays["variance"]),
        )
    except FileNotFoundError as error:
        raise EvidenceError(f"{path}: there is no such file; check the path") from error
    except KeyError as error:
        raise EvidenceError(
            f"{path} is not a file of evidence, or of another version (it lacks {error}); gather it again"
        ) from error
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise EvidenceError(f"{path} is not a file of evidence ({error}); gather it again") from error


def _pairs(names: Any, values: Any) -> dict[str, tuple[float, float]]:
    return {str(name): (float(one), float(two)) for name, (one, two) in zip(names, values, strict=True)}


def _condition(columns: FloatArray) -> float:
    values = np.linalg.svd(columns, compute_uv=False)
    if not len(values) or values[-1] <= np.finfo(np.float64).eps * len(columns) * values[0]:
        return float("inf")
    return float(values[0] / values[-1])


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
