"""The Estimate: parameters of all links with their uncertainty, and everything needed to use them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import fdtri

from steelyard.exceptions import IdentifiabilityError, SolverError
from steelyard.identification.estimate.base_parameters import half_width
from steelyard.identification.estimate.estimate_summary import WIDTH, summarise_estimate
from steelyard.model import PARAMETER_COUNT, match_pattern, model_spread
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.identification.estimate.base_parameters import BaseParameters
    from steelyard.identification.estimate.nuisance_fit import NuisanceFit
    from steelyard.identification.estimate.sensor_errors import SensorErrors
    from steelyard.identification.sampling.drawn_models import DrawnModels
    from steelyard.identification.sampling.posterior import Posterior
    from steelyard.identification.solvers.certificate import Certificate
    from steelyard.model import Model, WrittenModel
    from steelyard.regression import EvidenceKey, Origin

Status = Literal["solved", "weak", "stopped", "failed"]

_LEAST_UNIT, _FLAT = 1e-2, 1e-10
"""Units of a joint region: each parameter's standard error, but at least this share of the usual model error; and the
relative variance of a combination of parameters, in these units, below which it is fixed and the rest is rounding."""


@dataclass(frozen=True)
class Fit:
    """Goodness of fit; costs are ``‖Y φ − f‖²`` as gathered, minimised over nuisances.

    Attributes:
        cost: At the estimate.
        reference_cost: At the reference.
        corrected_cost: At the reference scaled to the measured weight.
        variance: Of a row, estimated from the residual (or known beforehand).
        freedom: Degrees of freedom of that variance.
        sample_count: Samples.
        effective_count: Effective number of independent samples.
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
class LevelReport:
    """Result of one level of a hierarchy.

    Attributes:
        name: Its name.
        contents: Kinds of constraints, "data", "reference".
        cost: Of the data, ``‖Y φ − f‖²``; of others, the sum of squared violations in units of the usual model error
            (or SI units, without a scale).
        before: Its cost under the first none, one, two, ... of the levels above it.
        broken: Its constraints that the levels above did not allow to hold, largest violation first.
    """

    name: str
    contents: tuple[str, ...]
    cost: float
    before: tuple[float, ...]
    broken: tuple[str, ...]


def _running_version() -> str:
    from steelyard import __version__  # noqa: PLC0415  (the package imports this room)

    return __version__


@dataclass(frozen=True, eq=False)
class Estimate:
    """Parameters of a model, identified from Evidence.

    Attributes:
        model: The reference model, with its setup.
        method: The method of identification.
        status: "solved"; "weak": solved, but the data hardly add to the model (the notes say why); "stopped": not
            converged; "failed".
        solution: The parameters, shape (n_links, 10); use `parameters`, which refuses those of a failed estimate.
        covariance: Of the parameters' errors, flat, shape (10 n_links, 10 n_links): noise, nuisances correlated with
            parameters, and the usual model error (`model/spread.py`) where the data do not determine a parameter. Of
            "geometric" and "conic" it is the posterior's: from its curvature where no constraint is active, and from
            robots drawn with a fixed seed where a constraint, or the limit of physical possibility, is active or
            nearly so. Parameters that were not identified count as exact; those at a bound, of other methods, as not
            determined by the data.
        noise_covariance: Of noise and nuisances alone: the variation from recording to recording.
        determined: How much the data, rather than the reference or the constraints, determined each parameter, 0 to 1,
            shape (n_links, 10): the relative reduction of its expected squared error below that of a usual model (of
            "geometric", of this one); equations are known to both, and other constraints to neither.
        base: The base parameters by least squares, without a prior.
        active: Active bounds and constraints, by name.
        nuisance: Values of the nuisance parameters, by name; of those that each recording has of its own, the mean over
            recordings.
        fit: Goodness of fit.
        mass_scale: The one factor on the reference that fits the data best: the mass-corrected model.
        notes: Remarks, a sentence or two each.
        key: Key of the Evidence.
        origins: Parts of the recordings that it was identified from.
        options: Method, parameter set, constraints and options, as used.
        certificate: Residuals of the optimality conditions; None where the estimate failed.
        levels: Results of the levels of a hierarchy.
        posterior: The density that `sample` draws from; None where the method has none.
        belief_freedom: Degrees of freedom of the model error where it was estimated from the data; else infinite.
        nuisance_fit: The nuisances that fit any given parameters best on the same data, with which `validate` compares
            the estimate and other parameters fairly; None where it is not known.
        sensor_errors: Offsets and biases that each recording's sensors have of their own.
        preparation: What was chosen before gathering, as `Preparation.to_dict` returns it; empty where Evidence was
            gathered from motions. `validate` prepares unseen recordings alike.
        version: The version of Steelyard that identified it; a loaded estimate keeps its own.
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
    nuisance_fit: NuisanceFit | None = None
    sensor_errors: tuple[SensorErrors, ...] = ()
    preparation: Mapping[str, Any] = field(default_factory=dict)
    version: str = field(default_factory=_running_version)

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
        """Standard error of each parameter from `covariance`, shape (n_links, 10)."""
        variances = np.asarray(np.diagonal(self.covariance))
        return np.sqrt(np.clip(variances, 0.0, None)).reshape(-1, PARAMETER_COUNT)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of `covariance`: of the noise, or of the model error, whichever are fewer."""
        return min(self.fit.freedom if self.fit.freedom >= 1.0 else np.inf, self.belief_freedom)

    def in_region(self, parameters: Any, level: float = 0.9, *, which: str = "*.m") -> bool:
        """Return whether parameters lie in the joint confidence region of the estimate.

        The region is the ellipsoid of `covariance` around the estimate, of the size of Hotelling's distribution. It is
        flat where constraints fix a combination (a total mass, a frozen link, a mirror image): what differs there by
        more than rounding lies outside.

        Args:
            parameters: Shape (n_links, 10).
            level: Confidence level, between 0 and 1.
            which: Pattern of the parameters to test; those that were not identified are left out.

        Raises:
            IdentifiabilityError: The pattern matches nothing, or the level is not between 0 and 1.
        """
        half_width(level, self.freedom)  # checks the level
        names = self.model.parameter_names
        chosen = set(match_pattern(which, names))
        if not chosen:
            raise IdentifiabilityError(f"no parameter is called {which!r}{did_you_mean(which, names)}", names=[which])
        usual = np.linalg.norm(model_spread(self.model), axis=1)
        sizes = self.standard_errors.reshape(-1)
        chosen &= {name for name, size in zip(names, sizes, strict=True) if size > 0.0} | set(self.base.unknowns)
        places = [place for place, name in enumerate(names) if name in chosen]
        if not places:
            return True
        # The standard error of a fixed parameter is rounding, which is no unit.
        units = np.maximum(sizes, _LEAST_UNIT * usual + 1e-300)
        error = ((np.asarray(parameters, dtype=np.float64) - self.parameters).reshape(-1) / units)[places]
        values, vectors = np.linalg.eigh((self.covariance / np.outer(units, units))[np.ix_(places, places)])
        flat = _FLAT * max(values[-1], 1.0)
        # Along fixed directions the unit is rounding: any other difference is far outside.
        far = float(np.sum(np.square(vectors.T @ error) / np.maximum(values, flat)))
        count = max(1, int(np.count_nonzero(values > flat)))
        limit = fdtri(count, min(self.freedom, 1e9), level)
        return bool(far <= count * limit)

    def intervals(self, level: float = 0.95) -> FloatArray:
        """Return ``parameters ± t · standard_errors``, shape (n_links, 10, 2)."""
        width = half_width(level, self.freedom) * self.standard_errors
        return np.stack([self.parameters - width, self.parameters + width], axis=2)

    @property
    def sensing(self) -> dict[str, Any]:
        """The measured quantities as arguments of `gather_evidence`: torques, withhold, unknown_wrenches, weights."""
        return _sensing_arguments(self.model, self.key)

    @property
    def provenance(self) -> dict[str, Any]:
        """Hashes of the model and the recordings, the version that made the estimate, and the options."""
        return {
            "steelyard": self.version,
            "model": {
                "name": self.model.name,
                "sha256": self.model.description.file.sha256,
                "parameters_sha256": hashlib.sha256(self.model.parameters.tobytes()).hexdigest(),
            },
            "recordings": [origin._asdict() for origin in self.origins],
            "options": dict(self.options),
        }

    def summary(self, width: int | None = None) -> str:
        """Return the estimate as text: header, links, base parameters, constraints, and numbered notes.

        Args:
            width: Characters in a line, from 72 to 110; by default 110.
        """
        return summarise_estimate(self, WIDTH if width is None else width)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain numbers and text, as `save` writes it."""
        from steelyard.identification.estimate.storage import estimate_to_dict  # noqa: PLC0415  (it imports this module)

        return estimate_to_dict(self)

    def save(self, path: str | Path) -> None:
        """Write the estimate, with its model and setup, to a JSON file; see `load_estimate`."""
        from steelyard.identification.estimate.storage import save_estimate  # noqa: PLC0415  (it imports this module)

        save_estimate(self, path)

    def write_model(self, path: str | Path) -> WrittenModel:
        """Write the model with these parameters, in the format of its file."""
        return self.model.with_parameters(self.parameters).write(path)

    def sample(self, count: int, *, seed: int = 0) -> DrawnModels:
        """Draw physically possible robots from the posterior, for domain randomisation, for example.

        Args:
            count: Number of robots.
            seed: Seed of the random generator; the same seed gives the same robots.

        Raises:
            IdentifiabilityError: The method has no posterior; "geometric" and "conic" have.
        """
        from steelyard.identification.sampling.drawn_models import sample_models  # noqa: PLC0415  (it imports this module)

        return sample_models(self, count, seed)

    def __repr__(self) -> str:
        return f"<Estimate of {self.model.name} by {self.method}: {self.status}, {len(self.notes)} notes>"


def _sensing_arguments(model: Model, key: EvidenceKey) -> dict[str, Any]:
    """Return the arguments of `gather_evidence` with which Evidence of such a key is gathered."""
    sensors = model.setup.wrench_sensors
    components = [f"{sensor.name}.{axis}" for sensor in sensors for axis in sensor.axes]
    # A sole without a sensor is unknown under its own name.
    own = {*(sensor.name for sensor in sensors), *(sole.name for sole in model.setup.soles)}
    unknown = [frame for frame in dict.fromkeys(name.rpartition(".")[0] for name in key.unknown) if frame not in own]
    weights: dict[str, float] | None = None
    if key.weights:
        weights = dict(zip(key.measured, key.weights, strict=False))
        row = len(key.measured)
        for joint in key.torques:
            weights[joint] = key.weights[row]
            row += model.joint(joint).velocity_size
    return {
        "torques": list(key.torques),
        "withhold": [name for name in components if name not in set(key.measured)],
        "unknown_wrenches": unknown,
        "weights": weights,
    }
