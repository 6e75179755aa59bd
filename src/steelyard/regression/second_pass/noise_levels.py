"""Noise of each sensor from the residual of a fit: variance components by restricted maximum likelihood.

A row of the base equation contains the noise of every sensor, each through its own lever arm, less what the parameters
absorb. Both are accounted for: the components solve the restricted likelihood's equations by Fisher scoring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import nnls

from steelyard.exceptions import IdentifiabilityError
from steelyard.kinematics import one_blas_thread
from steelyard.motion import Motion
from steelyard.regression.gathering import build_system
from steelyard.regression.noise import DEFAULT_NOISE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.regression.sensing import RowPlan, Sensing
    from steelyard.regression.system import System

SETTLED = 0.02
"""Relative change of every noise level below which they have converged. Set by judgement: the uncertainty
of a level from a thousand rows."""

_MOST_ROUNDS = 30
"""Most rounds of scoring. Set by judgement: levels that have not converged by then are reported as such."""

_MOST_ROWS = 24_000
"""Rows that are used; a longer motion is downsampled. Set by judgement: the dense basis of a G1
then takes 50 MB."""

_FLOOR = 1e-4
"""Least level, as a share of the default: sensors without any noise exist in tests only."""

_ALIKE = 0.98
"""Cosine between two groups' information above which they share one level. Set by judgement."""


@dataclass(frozen=True)
class NoiseLevel:
    """The noise of one group of channels.

    Attributes:
        name: "left_foot force", a joint, or "left_foot moment and right_foot moment" where one level is shared.
        level: Standard deviation of a sample, N, N m (or N for a slider).
        error: Standard error of `level`.
    """

    name: str
    level: float
    error: float


@dataclass(frozen=True)
class NoiseLevels:
    """The noise of each sensor.

    Attributes:
        levels: By group of channels.
        weights: The levels as `weights` of `gather_evidence`.
        rounds: Number of rounds.
        settled: Whether the last round changed no level by more than 2 %.
    """

    levels: tuple[NoiseLevel, ...]
    weights: Mapping[str, Any]
    rounds: int
    settled: bool

    def summary(self) -> str:
        """Return the levels as text."""
        width = max(len(each.name) for each in self.levels)
        lines = [f"{each.name:<{width}}  {each.level:>9.4g} ± {each.error:.2g}" for each in self.levels]
        ending = f"settled after {self.rounds} rounds" if self.settled else f"not settled after {self.rounds} rounds"
        return "\n".join([*lines, ending])


@dataclass(frozen=True, eq=False)
class _Group:
    """Channels that share one noise level."""

    name: str
    channels: tuple[int, ...]
    default: float


def estimate_noise(
    model: Model,
    motion: Motion,
    *,
    torques: Sequence[str] | None = None,
    withhold: Sequence[str] = (),
    unknown_wrenches: Sequence[str] = (),
    nuisance: Sequence[str] = (),
    priors: dict[str, float] | None = None,
) -> NoiseLevels:
    """Estimate the noise of each sensor from the residual of a fit.

    With whitened rows ``e = L⁻¹ (f − Y φ̂)`` and each group's share ``D_g`` of their covariance, ``Σ_g D_g = 1``, the
    levels are changed by factors ``λ`` until ``Σ_h tr(D_g D_h) λ_h = eᵀ D_g e + tr(D_g H)`` holds at ``λ = 1``, ``H``
    being the projection onto the regressor: restricted maximum likelihood. Effects of errors of the joint angles and
    of the inertial sensor count as the sensors' noise.

    Args:
        model: The model.
        motion: The motion; a long one is downsampled.
        torques: As for `gather_evidence`, and so are the others.
        withhold: Sensors or components to treat as not measured.
        unknown_wrenches: Frames at which an unknown wrench acts.
        nuisance: Groups of nuisance columns.
        priors: Standard deviations of their priors.

    Raises:
        IdentifiabilityError: The motion is too short to separate noise from parameters.
    """
    if not isinstance(motion, Motion):
        raise IdentifiabilityError(f"a Motion is needed, not {type(motion).__name__}; make one with reconstruct_motion")
    motion.check(model)
    with one_blas_thread():
        sensed = {"torques": torques, "withhold": withhold, "unknown_wrenches": unknown_wrenches}
        system = build_system(model, motion, weights=None, nuisance=nuisance, priors=priors, **sensed)
        rows = _NoisyRows.of(system, _downsample(system, motion))
        rows.check()
        return _settle(rows, _merge_groups(rows, _groups(model, system.sensing)), model, system.sensing)


def _settle(rows: _NoisyRows, groups: Sequence[_Group], model: Model, sensing: Sensing) -> NoiseLevels:
    default = np.array([group.default for group in groups])
    levels = default.copy()
    change, information, rounds = np.inf, np.eye(len(groups)), 0
    while change > SETTLED and rounds < _MOST_ROUNDS:
        rounds += 1
        factors, information = _score(rows, groups, levels)
        levels = np.maximum(levels * np.sqrt(factors), _FLOOR * default)
        moved = np.where(levels > _FLOOR * default, np.abs(np.sqrt(factors) - 1.0), 0.0)
        change = float(np.max(moved))
    # The information on λ is half of it; a level goes with the root of λ.
    errors = 0.5 * np.sqrt(2.0 * np.diagonal(np.linalg.pinv(information))) * levels
    spread = np.empty(sum(len(group.channels) for group in groups))
    for group, level in zip(groups, levels, strict=True):
        spread[list(group.channels)] = level
    weights: dict[str, Any] = {source.name: float(spread[place]) for place, source in enumerate(sensing.measured)}
    place = len(sensing.measured)
    for joint in sensing.torques:
        weights[joint] = float(spread[place])
        place += model.joint(joint).velocity_size
    found = tuple(
        NoiseLevel(group.name, float(level), float(error))
        for group, level, error in zip(groups, levels, errors, strict=True)
    )
    return NoiseLevels(found, weights, rounds, change <= SETTLED)


@dataclass(frozen=True, eq=False)
class _NoisyRows:
    """Rows of some samples: regressor, forces, and the effect of each channel's noise; unknown forces projected out."""

    regressor: FloatArray
    forces: FloatArray
    reach: FloatArray
    priors: FloatArray

    @classmethod
    def of(cls, system: System, motion: Motion) -> _NoisyRows:
        forces = system.forces(motion)
        torques = forces.shape[1] - len(system.sensing.measured)

        def beside(plan: RowPlan, maps: FloatArray) -> FloatArray:
            units = np.zeros((len(motion), plan.row_count, torques))
            units[:, plan.rows.first_torque_row + np.arange(torques), np.arange(torques)] = 1.0
            reach = np.concatenate([maps, units], axis=2)
            return np.concatenate([reach, np.einsum("nkm,nm->nk", reach, forces)[:, :, None]], axis=2)

        rows = system.rows_beside(motion, beside)
        width = system.width - 1
        priors = np.array([1.0 / each.prior for each in system.nuisance])
        return cls(rows[:, :, :width], rows[:, :, -1], rows[:, :, width:-1], priors)

    def check(self) -> None:
        """Raise an error where the parameters alone could explain the rows."""
        count = int(np.count_nonzero(np.any(self.reach != 0.0, axis=2)))
        if count < 1.2 * self.regressor.shape[2]:
            raise IdentifiabilityError(
                f"{len(self.forces)} samples give {count} equations, too few to separate noise from "
                f"{self.regressor.shape[2]} parameters; record longer"
            )

    def whitened(self, deviations: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return residuals (n, k), bases (n, k, p) and reaches (n, k, m), whitened by the channels' noise."""
        scaled = self.reach * deviations
        covariance = scaled @ np.swapaxes(scaled, 1, 2)
        variances = np.einsum("nkk->nk", covariance)
        variances[variances <= 1e-12 * np.max(variances)] = 1.0  # rows that are used up are zero, whatever divides them
        root = np.linalg.cholesky(covariance + 1e-10 * variances[:, :, None] * np.eye(covariance.shape[1]))
        white = np.linalg.solve(root, np.concatenate([self.regressor, self.forces[:, :, None], scaled], axis=2))
        count = self.regressor.shape[2]
        flat = white[:, :, :count].reshape(-1, count)
        wanted = white[:, :, count].reshape(-1)
        if len(self.priors):
            rows = np.zeros((len(self.priors), count))
            rows[:, count - len(self.priors) :] = np.diag(self.priors)
            flat, wanted = np.concatenate([flat, rows]), np.concatenate([wanted, np.zeros(len(rows))])
        lengths = np.linalg.norm(flat, axis=0)
        basis = np.linalg.qr(flat / np.where(lengths > 0.0, lengths, 1.0)).Q
        left = wanted - basis @ (basis.T @ wanted)
        shape = self.forces.shape
        size = shape[0] * shape[1]
        return left[:size].reshape(shape), basis[:size].reshape(*shape, -1), white[:, :, count + 1 :]


def _score(rows: _NoisyRows, groups: Sequence[_Group], levels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the factors on the variances for the next round, and the information on them."""
    deviations = np.empty(rows.reach.shape[2])
    for group, level in zip(groups, levels, strict=True):
        deviations[list(group.channels)] = level
    residuals, basis, reach = rows.whitened(deviations)
    shares = [reach[:, :, list(group.channels)] for group in groups]
    information = np.array(
        [[float(np.sum(np.square(np.swapaxes(one, 1, 2) @ other))) for other in shares] for one in shares]
    )
    scores = np.array(
        [
            float(np.sum(np.square(np.einsum("nkm,nk->nm", one, residuals))))
            + float(np.sum(np.square(np.swapaxes(one, 1, 2) @ basis)))
            for one in shares
        ]
    )
    scale = np.sqrt(np.diagonal(information))
    factors = nnls(information / np.outer(scale, scale), scores / scale)[0] / scale
    return np.clip(factors, 0.04, 25.0), information  # a level changes at most fivefold in one round


def _merge_groups(rows: _NoisyRows, groups: Sequence[_Group]) -> list[_Group]:
    """Merge the groups that are not observable apart.

    Two groups whose noise has the same effect on every sample have equal rows of information, up to a factor: moments
    of two feet, transferred to the base link, add up whatever the robot does.
    """
    information = _score(rows, groups, np.array([group.default for group in groups]))[1]
    scale = np.sqrt(np.diagonal(information))
    alike = information / np.outer(scale, scale) > _ALIKE
    left, merged = list(range(len(groups))), []
    while left:
        together = [place for place in left if alike[left[0], place]]
        left = [place for place in left if place not in together]
        members = [groups[place] for place in together]
        merged.append(
            _Group(
                " and ".join(member.name for member in members),
                tuple(channel for member in members for channel in member.channels),
                members[0].default,
            )
        )
    return merged


def _groups(model: Model, sensing: Sensing) -> list[_Group]:
    """Return the groups of channels: forces and moments of each sensor, and each joint."""
    members: dict[str, list[int]] = {}
    for place, source in enumerate(sensing.measured):
        kind = "force" if source.axis.startswith("f") else "moment"
        members.setdefault(f"{source.name.rpartition('.')[0]} {kind}", []).append(place)
    groups = [_Group(name, tuple(places), DEFAULT_NOISE[name.rpartition(" ")[2]]) for name, places in members.items()]
    place = len(sensing.measured)
    for joint in sensing.torques:
        size = model.joint(joint).velocity_size
        groups.append(_Group(joint, tuple(range(place, place + size)), DEFAULT_NOISE["torque"]))
        place += size
    return groups


def _downsample(system: System, motion: Motion) -> Motion:
    rows = system.plan(motion).row_count * len(motion)
    return motion.thinned(-(-rows // _MOST_ROWS)) if rows > _MOST_ROWS else motion
