"""The errors of sensors and joints that fit given parameters best, as a function of the parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.identification.estimate.packed_arrays import pack_array, unpack_array

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.problem import Problem

_VECTORS = ("constant", "reference", "corrected")
"""Fields with one number for each nuisance."""

_ROUNDS = 4
"""Rounds between nuisances and the noise by which their priors are weighed. Set by judgement."""


@dataclass(frozen=True, eq=False)
class NuisanceFit:
    """Best values of all nuisances on the training data, priors counted: ``values = constant + gain φ``.

    With it any parameters, not only the estimate's, predict with the sensor errors that fit them best. Priors are
    weighed by the noise of a row, which holds for parameters that explain the data as well as the estimate does; the
    reference explains them less well, and has values of its own.

    Attributes:
        names: Names of the nuisances.
        constant: Shape (n,).
        gain: Shape (n, 10 n_links).
        reference: Best values at the reference, shape (n,).
        corrected: Best values at the mass-corrected reference, shape (n,).
    """

    names: tuple[str, ...]
    constant: FloatArray
    gain: FloatArray
    reference: FloatArray
    corrected: FloatArray

    def at(self, parameters: Any) -> dict[str, float]:
        """Return the values, by name, that fit some parameters best; shape (n_links, 10) or flat."""
        values = self.constant + self.gain @ np.ravel(np.asarray(parameters, dtype=np.float64))
        return dict(zip(self.names, values.tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the function as plain numbers, its matrix packed."""
        vectors = {name: getattr(self, name).tolist() for name in _VECTORS}
        return {"names": list(self.names), "parameters": self.gain.shape[1], "gain": pack_array(self.gain), **vectors}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> NuisanceFit:
        """Rebuild what `to_dict` returned."""
        names = tuple(str(name) for name in stored["names"])
        gain = unpack_array(stored["gain"])
        gain = gain if names else np.zeros((0, int(stored["parameters"])))
        vectors = {name: np.array(stored[name], dtype=np.float64) for name in _VECTORS}
        if any(each.shape != (len(names),) for each in vectors.values()):
            raise ValueError(f"there are {len(names)} nuisances, and other numbers of values")
        return cls(names, gain=gain, **vectors)


def fit_nuisances(problem: Problem, factor: float) -> NuisanceFit:
    """Return the best nuisances of a problem as a function of the parameters.

    Of errors that each recording has of its own, the mean over the recordings is returned; of those that drift, over
    the knots of time first.

    Args:
        problem: The problem.
        factor: The noise scale at the estimate, by which priors are weighed against rows.
    """
    names, table = _best_nuisances(problem, factor)
    known = []
    for scale in (1.0, problem.mass_scale):
        parameters = scale * problem.unknowns.reference
        rows = _best_nuisances(problem, _noise_scale(problem, parameters, factor))[1]
        known.append(rows[:, :-1] @ parameters + rows[:, -1])
    # In single precision, as it is stored: a loaded estimate predicts with the same values.
    return NuisanceFit(names, table[:, -1], table[:, :-1].astype(np.float32).astype(np.float64), *known)


def _noise_scale(problem: Problem, parameters: FloatArray, least: float) -> float:
    """Return the noise scale that the residual of some parameters has, nuisances at their best."""
    evidence = problem.evidence
    equations = evidence.row_count * evidence.effective_count / max(1, evidence.sample_count) - evidence.spent
    scale = least
    for _ in range(_ROUNDS if problem.noise > 0.0 else 0):
        cost = problem.with_noise_scale(scale).cost(parameters)
        scale = max(least, float(np.sqrt(cost / max(1.0, equations))) / problem.noise)
    return scale


def _best_nuisances(problem: Problem, factor: float) -> tuple[tuple[str, ...], FloatArray]:
    """Return the names of nuisances, and ``[gain | constant]`` of their best values, shape (n, 10 n_links + 1)."""
    constants, gains = problem.best_nuisances(factor)
    names = problem.evidence.key.nuisance
    found = {name: np.append(row, value) for name, row, value in zip(names, gains, constants, strict=True)}
    evidence = problem.evidence
    done = evidence.closed(factor * problem.noise)
    count = evidence.parameter_count
    robot = np.array([found[name] for name in done.key.nuisance]).reshape(-1, count + 1)
    own: dict[str, list[FloatArray]] = {}
    for each in done.errors:
        knots: dict[str, list[FloatArray]] = {}
        for name, row in zip(each.names, each.gains(), strict=True):
            whole = row[count:-1] @ robot
            whole[:count] += row[:count]
            whole[count] -= row[-1]
            knots.setdefault(name.partition("@")[0], []).append(whole)
        for name, rows in knots.items():
            own.setdefault(name, []).append(np.mean(rows, axis=0))
    every = {**{name: np.mean(rows, axis=0) for name, rows in own.items()}, **found}
    return tuple(every), np.array(list(every.values())).reshape(-1, count + 1)
