"""The Estimate: what the links weigh, how far to trust it, and everything needed to use it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.stats import f as f_distribution

from steelyard.exceptions import IdentifiabilityError, SolverError
from steelyard.identification.estimate.base_parameters import half_width
from steelyard.model import PARAMETER_COUNT, match_pattern, model_spread
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.identification.estimate.base_parameters import BaseParameters
    from steelyard.identification.sampling.drawn_models import DrawnModels
    from steelyard.identification.sampling.posterior import Posterior
    from steelyard.model import Model, WrittenModel
    from steelyard.regression import EvidenceKey, Origin

Status = Literal["solved", "weak", "stopped", "failed"]

_SHARE, _FLAT = 1e-2, 1e-10
"""Share of how far a model is usually off by which parameters are measured that are known better than that; and the
variance of a combination of parameters, so measured and beside the greatest, that is none: what is less is rounding."""


@dataclass(frozen=True)
class Fit:
    """How well the data are explained; costs are ``‖Y φ − f‖²`` as gathered, nuisances at their best.

    Attributes:
        cost: At the estimate.
        reference_cost: At the reference.
        corrected_cost: At the reference scaled to the weight that the sensors feel.
        variance: Of a row, estimated from what no parameters explain (or known beforehand).
        freedom: Degrees of freedom of that variance.
        sample_count: Samples.
        effective_count: How many independent ones they are worth.
        row_count: Equations.
    """

    cost: float
    reference_cost: float
    corrected_cost: float
    variance: float
    freedom: float
    sample_count: int
    effective_count: float
    row_count: int


@dataclass(frozen=True)
class Certificate:
    """What shows that an estimate under constraints is the minimum it claims to be.

    Attributes:
        stationarity: What is left of the gradient beside the push of what binds, as a share of either.
        violation: The most by which a constraint that could be held is broken, SI units.
        complementarity: The greatest product of a multiplier and its constraint's margin, as a share of the cost.
        problems: How many least-squares problems were solved.
        directions: How many rows were generated: directions of inertias, faces of hulls.
    """

    stationarity: float
    violation: float
    complementarity: float
    problems: int
    directions: int


@dataclass(frozen=True)
class LevelReport:
    """What became of one level of a hierarchy.

    Attributes:
        name: Its name.
        contents: Kinds of constraints, "data", "reference".
        cost: Its cost: of the data, ``‖Y φ − f‖²``; of others, the sum of squares of what is broken, in units of how
            far a model is usually off (or SI units, without a scale).
        before: What it would have cost under the first none, one, two, ... of the levels above it.
        broken: Its constraints that the levels above did not let hold, worst first.
    """

    name: str
    contents: tuple[str, ...]
    cost: float
    before: tuple[float, ...]
    broken: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Estimate:
    """Parameters of a model, found from Evidence.

    Attributes:
        model: The reference model, with its setup.
        method: How they were found.
        status: "solved"; "weak": solved, but the data hardly add to the model (the notes say why); "stopped": before it
            settled; "failed".
        solution: The parameters, shape (n_links, 10); use `parameters`, which refuses those of a failed estimate.
        covariance: Of the parameters' errors, flat, shape (10 n_links, 10 n_links): noise, nuisances that look like
            parameters, and, in what the data did not decide, how far a model is usually off (`model/spread.py`). Of
            "geometric" and "conic" it is the posterior's: by its curvature where nothing binds, and where a constraint
            or the edge of what a body can be does, or nearly so, mean squares and products of what robots drawn from it
            are off by, always the same ones. Parameters that were not looked for count as exact; ones at a bound, of
            other methods, as not decided.
        noise_covariance: The first two of these alone: how the estimate varies from recording to recording.
        determined: How much the data rather than the reference or the constraints decided each, 0 to 1, shape
            (n_links, 10): the share by which its expected squared error is below that of a usual model (of "geometric",
            of this one), equations known to both, and other constraints to neither.
        base: The base parameters by least squares: what the data alone say.
        active: Bounds and constraints that bind, by name.
        nuisance: Values of the nuisance parameters, by name.
        fit: How well the data are explained.
        mass_scale: The factor on all of the reference that explains the data best: the mass-corrected model.
        notes: What a reader has to know, a sentence or two each.
        key: What the Evidence was about.
        origins: Stretches of the recordings that it was learned from.
        options: Method, parameter set, constraints and options, as used.
        certificate: Of methods under constraints, what shows that it is the minimum.
        levels: Of a hierarchy, what became of each level, and what those above cost it.
        posterior: The density that `sample` draws from; None where the method has none.
        belief_freedom: Degrees of freedom of how far the model is off, where the data told it; else infinite.
    """

    model: Model
    method: str
    status: Status
    solution: FloatArray
    covariance: FloatArray
    noise_covariance: FloatArray
    determined: FloatArray
    base: BaseParameters
    active: tuple[str, ...]
    nuisance: Mapping[str, float]
    fit: Fit
    mass_scale: float
    notes: tuple[str, ...]
    key: EvidenceKey
    origins: tuple[Origin, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    certificate: Certificate | None = None
    levels: tuple[LevelReport, ...] = ()
    posterior: Posterior | None = None
    belief_freedom: float = np.inf

    @property
    def parameters(self) -> FloatArray:
        """The ten parameters of each link, shape (n_links, 10).

        Raises:
            SolverError: The estimate failed; the message says what to do.
        """
        if self.status == "failed":
            reason = self.notes[0] if self.notes else "no reason is known"
            raise SolverError(f"this estimate failed and has no parameters: {reason}", status=self.status)
        return self.solution

    @property
    def reference(self) -> FloatArray:
        """The reference's parameters, shape (n_links, 10)."""
        return self.model.parameters

    @property
    def masses(self) -> dict[str, float]:
        """Mass of each link, kg, by name."""
        return dict(zip(self.model.links, self.parameters[:, 0].tolist(), strict=True))

    @property
    def total_mass(self) -> float:
        """Sum of the masses, kg."""
        return float(self.parameters[:, 0].sum())

    @property
    def total_mass_error(self) -> float:
        """Standard error of the sum of the masses, kg."""
        chosen = np.zeros(len(self.covariance))
        chosen[::PARAMETER_COUNT] = 1.0
        return float(np.sqrt(max(0.0, float(chosen @ self.covariance @ chosen))))

    @cached_property
    def standard_errors(self) -> FloatArray:
        """Standard error of each parameter, all that `covariance` counts, shape (n_links, 10)."""
        variances = np.asarray(np.diagonal(self.covariance))
        return np.sqrt(np.clip(variances, 0.0, None)).reshape(-1, PARAMETER_COUNT)

    @property
    def freedom(self) -> float:
        """Degrees of freedom behind `covariance`: of the noise, or of how far the model is off, whichever are fewer."""
        return min(self.fit.freedom if self.fit.freedom >= 1.0 else np.inf, self.belief_freedom)

    def in_region(self, parameters: Any, level: float = 0.9, *, which: str = "*.m") -> bool:
        """Tells whether parameters, taken together, lie in the joint region that holds the true ones at some level.

        The region is the ellipsoid of `covariance` around the estimate, of the size that Hotelling's law asks for. It
        is flat where constraints fix a combination (a total mass, a frozen link, an image): what differs there by more
        than rounding lies outside.

        Args:
            parameters: Shape (n_links, 10).
            level: How often such regions hold the truth, between 0 and 1.
            which: A pattern of parameters that count; those that were not looked for are left out.

        Raises:
            IdentifiabilityError: The pattern matches nothing, or the level is no share.
        """
        half_width(level, self.freedom)  # refuses what is no level
        names = self.model.parameter_names
        chosen = set(match_pattern(which, names))
        if not chosen:
            raise IdentifiabilityError(f"no parameter is called {which!r}{did_you_mean(which, names)}", names=[which])
        usual = np.linalg.norm(model_spread(self.model), axis=1)
        sizes = self.standard_errors.reshape(-1)
        looked_for = set(self.base.unknowns)
        places = [
            place for place, name in enumerate(names) if name in chosen and (sizes[place] > 0.0 or name in looked_for)
        ]
        if not places:
            return True
        # The standard error of what is fixed is rounding, and no unit.
        units = np.maximum(sizes, _SHARE * usual + 1e-300)
        error = ((np.asarray(parameters, dtype=np.float64) - self.parameters).reshape(-1) / units)[places]
        values, vectors = np.linalg.eigh((self.covariance / np.outer(units, units))[np.ix_(places, places)])
        flat = _FLAT * max(values[-1], 1.0)
        # Along what is fixed, errors are measured by what rounding leaves: any other is far outside.
        far = float(np.sum(np.square(vectors.T @ error) / np.maximum(values, flat)))
        count = max(1, int(np.count_nonzero(values > flat)))
        limit = f_distribution.ppf(level, count, min(self.freedom, 1e9))
        return bool(far <= count * limit)

    def intervals(self, level: float = 0.95) -> FloatArray:
        """Gives ``parameters ± t · standard_errors``, shape (n_links, 10, 2); as good as the spread it counts with."""
        width = half_width(level, self.freedom) * self.standard_errors
        return np.stack([self.parameters - width, self.parameters + width], axis=2)

    @property
    def sensing(self) -> dict[str, Any]:
        """What was measured, as `gather_evidence` takes it: torques, withhold, unknown_wrenches, weights."""
        return sensing_arguments(self.model, self.key)

    @property
    def provenance(self) -> dict[str, Any]:
        """Hashes of the model and the recordings, the version, and the options."""
        from steelyard import __version__  # noqa: PLC0415  (the package imports this room)

        return {
            "steelyard": __version__,
            "model": {
                "name": self.model.name,
                "sha256": self.model.description.file.sha256,
                "parameters_sha256": hashlib.sha256(self.model.parameters.tobytes()).hexdigest(),
            },
            "recordings": [origin._asdict() for origin in self.origins],
            "options": dict(self.options),
        }

    def summary(self, width: int | None = None) -> str:
        """Gives the estimate as text: what it is, the links, the base parameters, and numbered notes.

        Args:
            width: Characters in a line, from 72 to 110; by default 110.
        """
        from steelyard.identification.estimate.estimate_summary import WIDTH, summarise_estimate  # noqa: PLC0415  (it imports this module)

        return summarise_estimate(self, WIDTH if width is None else width)

    def to_dict(self) -> dict[str, Any]:
        """Gives the estimate as plain numbers and texts, as `save` writes it."""
        from steelyard.identification.estimate.storage import estimate_to_dict  # noqa: PLC0415  (it imports this module)

        return estimate_to_dict(self)

    def save(self, path: str | Path) -> None:
        """Writes the estimate, with its model and setup, to a JSON file; see `load_estimate`."""
        from steelyard.identification.estimate.storage import save_estimate  # noqa: PLC0415  (it imports this module)

        save_estimate(self, path)

    def write_model(self, path: str | Path) -> WrittenModel:
        """Writes the model with these parameters, in the format that it came in."""
        return self.model.with_parameters(self.parameters).write(path)

    def sample(self, count: int, *, seed: int = 0) -> DrawnModels:
        """Draws physically possible robots from what is known after the data: for domain randomisation, say.

        Args:
            count: How many.
            seed: Of chance; the same seed gives the same robots.

        Raises:
            IdentifiabilityError: The method has no posterior; "geometric" and "conic" have.
        """
        from steelyard.identification.sampling.drawn_models import sample_models  # noqa: PLC0415  (it imports this module)

        return sample_models(self, count, seed)

    def __repr__(self) -> str:
        return f"<Estimate of {self.model.name} by {self.method}: {self.status}, {len(self.notes)} notes>"


def sensing_arguments(model: Model, key: EvidenceKey) -> dict[str, Any]:
    """Gives the arguments of `gather_evidence` that measure what an Evidence's key says."""
    sensors = model.setup.wrench_sensors
    components = [f"{sensor.name}.{axis}" for sensor in sensors for axis in sensor.axes]
    felt = {*(sensor.name for sensor in sensors), *(sole.name for sole in model.setup.soles)}
    frames = [name.rpartition(".")[0] for name in key.unknown]
    unknown = [frame for frame in dict.fromkeys(frames) if frame not in felt]
    # A sole without a sensor is unknown under its own name.
    weights: dict[str, float] | None = None
    if key.weights:
        weights = dict(zip(key.measured, key.weights, strict=False))
        width = len(key.measured)
        for joint in key.torques:
            size = model.joint(joint).velocity_size
            weights[joint] = key.weights[width]
            width += size
    return {
        "torques": list(key.torques),
        "withhold": [name for name in components if name not in set(key.measured)],
        "unknown_wrenches": unknown,
        "weights": weights,
    }
