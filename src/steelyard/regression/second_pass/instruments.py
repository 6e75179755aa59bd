"""Instrumental variables: estimates that noise in joint angles and inertial sensors does not bias.

Noise of encoders and inertial sensors enters the regressor: ``Y = Y₀ + N``. Least squares is then biased by
``(YᵀY)⁻¹ Nᵀ N φ``, which no amount of data removes. Instruments ``W`` are rows of another motion of the same samples
(from the commanded angles, or a repeated run) that is correlated with the true one and independent of the noise:
``Wᵀ (f − Y φ) = 0`` has the true parameters as its solution on average [Söderström and Stoica, Instrumental
Variable Methods for System Identification, 1983]. With ``W = Q R``, the equations

    (Qᵀ Y) φ = Qᵀ f,    cov(Qᵀ (f − Y φ)) = Ω = L Lᵀ

are as many as there are unknowns. Divided by ``L`` they are Evidence with variance one, and every estimator works on
them. ``Qᵀ Y`` is accumulated through ``W R⁻¹``: forming ``Wᵀ Y`` would square the condition number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import qr

from steelyard.exceptions import EvidenceError, MotionError
from steelyard.kinematics import one_blas_thread
from steelyard.motion import body_motions
from steelyard.regression.factor import Factor
from steelyard.regression.second_pass.autocorrelation import (
    correct_leverage,
    correlated_products,
    effective_samples,
    estimate_autocovariance,
    long_run_variances,
    positive_root,
)
from steelyard.regression.second_pass.motion_rows import (
    CHUNK,
    SMALLEST,
    begin_second_pass,
    least_squares,
    solve_scaled,
    whitening_basis,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.motion import Motion
    from steelyard.regression import Evidence
    from steelyard.regression.second_pass.motion_rows import SecondPass

FOLLOW = 1.0
"""Frequency (Hz) below which instruments follow the measured motion. Set by judgement: tracking errors of servos are
slow, and encoder noise acts through accelerations, which are small below."""

_STATE = ("q", "v", "a", "angular_velocity", "angular_acceleration", "proper_acceleration")
_SAME_TIME = 0.01
"""Share of a sample period within which two times are equal: rounding of recorded times."""

_ORDER = 2
"""Order of the low-pass filter by which instruments follow. Set by judgement: a gentle one, without ringing."""

_INFLATION = (1.0, 100.0)
"""Range of the factor on a variance for noise that is not stationary. It never shrinks a variance; the upper limit, set
by judgement, keeps one outlier from making an unknown unobservable."""


def gather_with_instruments(
    model: Model, motion: Motion, instruments: Motion, *, follow: float | None = FOLLOW, **options: Any
) -> Evidence:
    """Gather the Evidence of a motion by instrumental variables, accounting for autocorrelated noise.

    Args:
        model: The model.
        motion: The measured motion.
        instruments: Another motion of the same samples with independent noise: from ``q_command.*`` through the planted
            sole (``reconstruct_motion(..., base="sole", positions="q_command")``), or a repeated run; with the same
            filter, so that its samples are at the same times.
        follow: Frequency (Hz) below which the instruments follow the measured motion, because badly tracked commands
            are weak instruments. None takes the instruments as they are, for a repeated run.
        **options: What `gather_evidence` takes: weights, torques, withhold, unknown_wrenches, nuisance, priors.

    Returns:
        As many equations as unknowns, of variance one. `effective_count` is the effective number of independent samples
        of the residual's variance.

    Raises:
        MotionError: The instruments are at other times, or of a link that does not carry the measured one.
        EvidenceError: As `gather_evidence`.
    """
    _refuse_weights(options)
    with one_blas_thread():
        first = begin_second_pass(model, motion, **options)
        moved = move_base(model, align(instruments, motion), motion.base)
        # Wrenches and contacts are the measured ones; the instruments' own are not used.
        moved = replace(moved, wrenches=motion.wrenches, torques=motion.torques, contacts=motion.contacts)
        if follow is not None:
            moved = follow_slowly(moved, motion, follow)
        moved.check(model)
        words = (
            "another motion" if follow is None else f"another motion, following the measured one below {follow:g} Hz"
        )
        return _moments(first, moved, words)


def gather_correlated(model: Model, motion: Motion, **options: Any) -> Evidence:
    """Gather the Evidence of a motion for plain least squares, accounting for autocorrelated noise.

    The base parameters are those of `gather_evidence`; their covariance also holds where the noise is autocorrelated
    (oversampled, filtered, differentiated data).

    Args:
        model: The model.
        motion: A single Motion.
        **options: What `gather_evidence` takes: weights, torques, withhold, unknown_wrenches, nuisance, priors.
    """
    _refuse_weights(options)
    with one_blas_thread():
        return _moments(begin_second_pass(model, motion, **options), motion, "the motion itself")


def follow_slowly(instruments: Motion, motion: Motion, frequency: float) -> Motion:
    """Return instruments that follow a measured motion below some frequency, by channel: ``w + lowpass(y − w)``.

    Raises:
        MotionError: The frequency is not below that of the samples.
    """
    if not 0.0 < frequency < 0.4 * motion.sample_rate:
        raise MotionError(
            f"instruments cannot follow below {frequency} Hz where there are {motion.sample_rate:g} samples a second; "
            f"choose a frequency below {0.4 * motion.sample_rate:g} Hz, or None"
        )
    from scipy.signal import butter, sosfiltfilt  # noqa: PLC0415  (slow to import)

    sections = butter(_ORDER, frequency, fs=motion.sample_rate, output="sos")
    padding = min(len(motion) - 1, round(3.0 * motion.sample_rate / frequency))
    states = {}
    for name in _STATE:
        theirs, ours = getattr(instruments, name), getattr(motion, name)
        states[name] = theirs + sosfiltfilt(sections, ours - theirs, axis=0, padlen=padding)
    return replace(instruments, **states)


def align(instruments: Motion, motion: Motion) -> Motion:
    """Return the instruments at the times of the motion.

    Raises:
        MotionError: They have no sample at one of these times.
    """
    step = 1.0 / motion.sample_rate
    after = np.clip(np.searchsorted(instruments.time, motion.time), 1, max(1, len(instruments) - 1))
    near = np.where(
        np.abs(instruments.time[after - 1] - motion.time)
        <= np.abs(instruments.time[after % len(instruments)] - motion.time),
        after - 1,
        after % len(instruments),
    )
    late = np.abs(instruments.time[near] - motion.time)
    if np.any(late > _SAME_TIME * step):
        sample = int(np.argmax(late > _SAME_TIME * step))
        raise MotionError(
            f"the instruments have no sample at {motion.time[sample]:.4f} s; reconstruct both with the same cutoff, "
            "and a repeated run with its time shifted to this one's",
            sample=sample,
        )
    return instruments._at(near, motion.sample_rate)


def move_base(model: Model, motion: Motion, base: str) -> Motion:
    """Return the same motion at another base link.

    Raises:
        MotionError: The base link of the motion does not carry the other.
    """
    if motion.base == base:
        return motion
    body = model.frame(base).body
    there = body_motions(model, motion, body)[body]
    return replace(
        motion,
        base=base,
        angular_velocity=there.in_own_axes(there.angular_velocity),
        angular_acceleration=there.in_own_axes(there.angular_acceleration),
        proper_acceleration=there.in_own_axes(there.proper_acceleration),
        orientation=None,
    )


def _refuse_weights(options: dict[str, Any]) -> None:
    if options.get("sample_weights") is not None:
        raise EvidenceError(
            "a second pass for correlated noise takes no sample_weights; leave outliers out of the motion: "
            "motion.where(weights > 0)"
        )


def _moments(first: SecondPass, instruments: Motion, words: str) -> Evidence:
    """Compute ``L⁻¹ [QᵀY | Qᵀf]`` as Evidence."""
    motion, width = first.motion, first.system.width
    own = instruments is motion
    factor = Factor(width - 1)
    if own:
        triangle = first.evidence.factor[: width - 1, : width - 1]
    else:
        for piece in instruments.chunks(CHUNK):
            factor.add(np.ascontiguousarray(first.rows(piece)[:, :, :-1].reshape(-1, width - 1)))
        triangle = factor.matrix
    divide = whitening_basis(triangle)
    if not divide.shape[1]:
        raise EvidenceError("the rows of the instruments are zero; check that they move")

    def basis(start: int, stop: int) -> FloatArray:
        return np.asarray(first.rows(instruments.between(start, stop))[:, :, :-1] @ divide)

    moments = np.zeros((divide.shape[1], width))
    for start in range(0, len(motion), CHUNK):
        stop = min(start + CHUNK, len(motion))
        rows = first.rows(motion.between(start, stop)).reshape(-1, width)
        moments += basis(start, stop).reshape(-1, divide.shape[1]).T @ rows
    unknowns = least_squares(first.evidence) if own else _solve(first, moments)
    residual = first.residual(unknowns)
    noise = estimate_autocovariance(motion, residual, basis)
    products = correlated_products(motion, basis, noise, divide.shape[1])
    inflation = _inflate(first, moments, basis, residual, products)
    root = positive_root(inflation @ products @ inflation.T)
    white = np.linalg.solve(root, moments)
    spread = np.zeros((width, width))
    spread[:, :] = np.linalg.qr(np.concatenate([white, np.zeros((width, width))]), mode="r")
    spread *= np.where(np.diagonal(spread) < 0.0, -1.0, 1.0)[:, None]
    freedom = max(1, first.evidence.row_count - divide.shape[1])
    variance = float(np.sum(np.square(residual))) / freedom
    spread.setflags(write=False)
    return replace(
        first.evidence,
        key=replace(first.evidence.key, instruments=words),
        factor=spread,
        # Alternating noise would make samples worth more than independent ones, which is not relied on.
        effective_count=min(
            float(first.evidence.sample_count), effective_samples(first.evidence.sample_count, variance, products)
        ),
        variance=1.0,
    )


def _inflate(
    first: SecondPass,
    moments: FloatArray,
    basis: Callable[[int, int], FloatArray],
    residual: FloatArray,
    products: FloatArray,
) -> FloatArray:
    """Compute the matrix by which the noise in ``Qᵀ f`` is inflated because it is not stationary.

    Where joints move fast or legs are far apart, encoder noise has more effect, and that may be where a parameter is
    observable. Each unknown's variance is compared with the scatter of the sum of its influence ``(QᵀY)⁻¹ Q_tᵀ e_t``
    over the samples. The residual is first corrected for what the fit absorbed of each sample [MacKinnon and White,
    Journal of Econometrics 29, 1985, HC2].

    Args:
        first: The first pass.
        moments: ``Qᵀ [Y | f]``.
        basis: Returns ``Q``.
        residual: ``e``, shape (n, n_rows).
        products: ``Ω`` as if the noise were stationary.
    """
    count = len(moments)
    lengths = np.linalg.norm(moments[:, :-1], axis=0)
    scaled = moments[:, :-1] / np.where(lengths > 0.0, lengths, 1.0)
    order = qr(scaled, mode="r", pivoting=True)[1][:count] if count < scaled.shape[1] else np.arange(count)
    square = scaled[:, order]
    inverse = np.asarray(np.linalg.pinv(square, rcond=SMALLEST), dtype=np.float64)
    corrected, influence = np.zeros_like(residual), np.zeros((len(residual), count))
    for start in range(0, len(residual), CHUNK):
        here = slice(start, min(start + CHUNK, len(residual)))
        rows = basis(here.start, here.stop)
        corrected[here] = correct_leverage(rows, residual[here])
        influence[here] = np.einsum("nkc,nk->nc", rows, corrected[here]) @ inverse.T
    scatter = long_run_variances(first.motion, influence)
    noise = estimate_autocovariance(first.motion, corrected)
    stationary = _diagonal(inverse, correlated_products(first.motion, basis, noise, count))
    stated = _diagonal(inverse, products)
    # The correction by frequency counts beside that by sample, where it is larger. A scatter smaller than that of
    # stationary noise is chance: one series has less information than all rows together.
    ratio = np.clip(scatter / np.minimum(stationary, stated), *_INFLATION)
    return np.asarray(square @ (np.sqrt(ratio)[:, None] * inverse))


def _diagonal(inverse: FloatArray, products: FloatArray) -> FloatArray:
    variances = np.einsum("ij,jk,ik->i", inverse, products, inverse)
    return np.asarray(np.maximum(variances, np.finfo(np.float64).tiny))


def _solve(first: SecondPass, moments: FloatArray) -> FloatArray:
    """Solve ``Qᵀ [Y | f]`` for the unknowns, with the nuisances' priors."""
    evidence = first.evidence
    priors = np.concatenate([np.full(len(evidence.independent), np.inf), np.array(evidence.key.priors)])
    held = np.isfinite(priors)
    left = evidence.factor[:, -1] - evidence.factor[:, :-1] @ least_squares(evidence)
    scale = np.sqrt(float(left @ left) / max(1, evidence.row_count - len(priors)))
    holds = np.diag(scale / priors)[held]
    return solve_scaled(np.concatenate([moments[:, :-1], holds]), np.append(moments[:, -1], np.zeros(len(holds))))


__all__ = ["FOLLOW", "align", "follow_slowly", "gather_correlated", "gather_with_instruments", "move_base"]
