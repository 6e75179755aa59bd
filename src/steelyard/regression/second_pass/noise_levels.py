"""Noise of each sensor from the residual of a fit: variance components by restricted maximum likelihood.

A row of the base equation contains the noise of every sensor, each through its own lever arm, less what the parameters
absorb. Both are accounted for: the components maximise the restricted likelihood, by Fisher scoring. Forces of two feet
differ by their lever arms alone: from a short motion their sum is known, but hardly the share of each, and the
likelihood's maximum is often at zero for one of them. A prior on the ratios of levels decides where the rows do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

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

_SPREAD_WITHIN_KIND = float(np.log(2.0))
"""Prior standard deviation of the logarithm of a level, among sensors of one kind on one robot. Set by judgement: they
are mostly of one model, and a factor of four between two is rare. Rows that are informative outweigh it: the force of a
foot that has a noise five times another's is found within a few percent from 300 samples. Without it, two of 14 dances
of 16 to 20 s gave one foot a force noise of 0.1 mN, the bound, instead of 90 mN."""

_EXPECTED = {"force": 1.0, "moment": 0.2, "torque": 0.5}
"""Levels (N, N m, N m) whose ratios the prior expects; their common factor is free. Torques as `DEFAULT_NOISE`. The
noise of a sensor's moments is some 5 cm times that of its forces, but errors of joint angles and of the IMU, which act
through the legs' length, count as moments too: 30 to 50 cm on simulated dances of a G1 and a TALOS. Between both."""

_SPREAD_BETWEEN_KINDS = float(np.log(3.0))
"""Prior standard deviation of the logarithm of a kind's levels relative to `_EXPECTED`. Set by judgement: one standard
deviation covers moments of 7 to 60 cm times the forces."""

_MOST_STEP = float(np.log(5.0))
"""Largest change of the logarithm of a level in one round. Set by judgement: crosses the default's possible errors in a
few rounds, without leaving the range in which the scoring's linearisation points the right way."""

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
    """Channels that share one noise level; `kind` is one of `DEFAULT_NOISE`."""

    name: str
    channels: tuple[int, ...]
    kind: str

    @property
    def default(self) -> float:
        return DEFAULT_NOISE[self.kind]


def estimate_noise(
    model: Model,
    motion: Motion,
    *,
    torques: Sequence[str] | None = None,
    withhold: Sequence[str] = (),
    unknown_wrenches: Sequence[str] = (),
    nuisance: Sequence[str] | Literal["auto"] = "auto",
    priors: dict[str, float] | None = None,
) -> NoiseLevels:
    """Estimate the noise of each sensor from the residual of a fit.

    With whitened rows ``e = L⁻¹ (f − Y φ̂)``, each group's share ``D_g`` of their covariance, ``Σ_g D_g = 1``, and the
    projection ``Q`` onto the complement of the regressor, the gradient of the restricted likelihood by the logarithms
    ``θ`` of the levels is ``eᵀ D_g e − tr(D_g Q)``, and its information ``2 tr(D_g Q D_h Q)``. Maximised is the
    likelihood with a prior on the ratios of levels, ``−½ (θ − θ₀)ᵀ P (θ − θ₀)``, which leaves their common factor free:
    sensors of one kind have similar noise, and moments that of forces with a lever arm. Effects of errors of the joint
    angles and of the inertial sensor count as the sensors' noise.

    Args:
        model: The model.
        motion: The motion; a long one is downsampled.
        torques: As for `gather_evidence`, and so are the others.
        withhold: Sensors or components to treat as not measured.
        unknown_wrenches: Frames at which an unknown wrench acts.
        nuisance: Groups of nuisance columns, or "auto".
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
    precision = _prior_precision(groups)
    expected = np.log([_EXPECTED[group.kind] for group in groups]) - np.log(default)
    logarithms = np.zeros(len(groups))
    change, curvature, rounds = np.inf, np.eye(len(groups)), 0
    while change > SETTLED and rounds < _MOST_ROUNDS:
        rounds += 1
        gradient, information = _score(rows, groups, default * np.exp(logarithms))
        curvature = information + precision
        step = np.linalg.pinv(curvature, hermitian=True) @ (gradient - precision @ (logarithms - expected))
        # Scoring is linear in the variances: far from the maximum, a step of theirs is closer than one of logarithms.
        least, most = np.exp([-2.0 * _MOST_STEP, 2.0 * _MOST_STEP])
        moved = np.maximum(logarithms + 0.5 * np.log(np.clip(1.0 + 2.0 * step, least, most)), np.log(_FLOOR))
        change = float(np.max(np.abs(moved - logarithms)))
        logarithms = moved
    levels = default * np.exp(logarithms)
    errors = np.sqrt(np.diagonal(np.linalg.pinv(curvature, hermitian=True))) * levels
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
    """Compute the gradient of the restricted likelihood by the levels' logarithms, and the information on them."""
    deviations = np.empty(rows.reach.shape[2])
    for group, level in zip(groups, levels, strict=True):
        deviations[list(group.channels)] = level
    residuals, basis, reach = rows.whitened(deviations)
    shares = [reach[:, :, list(group.channels)] for group in groups]
    seen = [np.swapaxes(share, 1, 2) @ basis for share in shares]
    absorbed = [np.einsum("ncp,ncq->pq", each, each, optimize=True) for each in seen]
    gradient, information = np.empty(len(groups)), np.empty((len(groups), len(groups)))
    for one in range(len(groups)):
        explained = float(np.sum(np.square(np.einsum("nkm,nk->nm", shares[one], residuals))))
        gradient[one] = explained - float(np.sum(np.square(shares[one]))) + float(np.trace(absorbed[one]))
        for other in range(one + 1):
            product = np.swapaxes(shares[one], 1, 2) @ shares[other]
            through = seen[one] @ np.swapaxes(seen[other], 1, 2)
            value = np.sum(product * (product - 2.0 * through)) + np.sum(absorbed[one] * absorbed[other])
            information[one, other] = information[other, one] = 2.0 * value
    return gradient, information


def _prior_precision(groups: Sequence[_Group]) -> FloatArray:
    """Compute the prior precision of the logarithms of the levels; a common factor is free."""
    same = np.array([[one.kind == other.kind for other in groups] for one in groups])
    inverse = np.linalg.inv(_SPREAD_BETWEEN_KINDS**2 * same + _SPREAD_WITHIN_KIND**2 * np.eye(len(groups)))
    sums = inverse.sum(axis=1)
    return np.asarray(inverse - np.outer(sums, sums) / sums.sum())


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
                members[0].kind,
            )
        )
    return merged


def _groups(model: Model, sensing: Sensing) -> list[_Group]:
    """Return the groups of channels: forces and moments of each sensor, and each joint."""
    members: dict[str, list[int]] = {}
    for place, source in enumerate(sensing.measured):
        kind = "force" if source.axis.startswith("f") else "moment"
        members.setdefault(f"{source.name.rpartition('.')[0]} {kind}", []).append(place)
    groups = [_Group(name, tuple(places), name.rpartition(" ")[2]) for name, places in members.items()]
    place = len(sensing.measured)
    for joint in sensing.torques:
        size = model.joint(joint).velocity_size
        groups.append(_Group(joint, tuple(range(place, place + size)), "torque"))
        place += size
    return groups


def _downsample(system: System, motion: Motion) -> Motion:
    rows = system.plan(motion).row_count * len(motion)
    return motion.thinned(-(-rows // _MOST_ROWS)) if rows > _MOST_ROWS else motion
