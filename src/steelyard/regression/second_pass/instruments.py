"""Instrumental variables: estimates that noise in joint angles and inertial sensors does not bias.

Noise of encoders and inertial sensors enters the regressor: ``Y = Y₀ + N``. Least squares takes part of it for motion,
and is biased by ``(YᵀY)⁻¹ Nᵀ N φ``, which no amount of data removes. Instruments ``W`` are rows of another motion of
the same samples (from the commanded angles, or a repeated run) that is like the true one and knows nothing of the
noise: ``Wᵀ (f − Y φ) = 0`` has the true parameters as its solution on average [Söderström and Stoica, Instrumental
Variable Methods for System Identification, 1983]. With ``W = Q R``, the equations

    (Qᵀ Y) φ = Qᵀ f,    cov(Qᵀ (f − Y φ)) = Ω = L Lᵀ

are as many as there are unknowns. Divided by ``L`` they are Evidence like any other, with variance one, and every
estimator works on them. ``Qᵀ Y`` is added up through ``W R⁻¹``: forming ``Wᵀ Y`` would square the condition number.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import qr
from scipy.signal import butter, sosfiltfilt

from steelyard.exceptions import EvidenceError, MotionError
from steelyard.kinematics import one_blas_thread
from steelyard.motion import body_motions
from steelyard.regression.factor import Factor
from steelyard.regression.second_pass.autocorrelation import (
    correlated_products,
    effective_samples,
    estimate_autocovariance,
    long_run_variances,
    make_up,
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
"""Frequency (Hz) below which instruments follow the measured motion. Servos sag and lag slowly; noise of encoders
matters through accelerations, of which next to nothing lies below."""

_STATE = ("q", "v", "a", "angular_velocity", "angular_acceleration", "proper_acceleration")
_SAME_TIME = 0.01
_ORDER = 2
_MOST_UNLIKE = (1.0, 100.0)


def gather_with_instruments(
    model: Model, motion: Motion, instruments: Motion, *, follow: float | None = FOLLOW, **options: Any
) -> Evidence:
    """Gives the Evidence of a motion by instrumental variables, with the noise's correlation in time counted.

    Args:
        model: The model.
        motion: The measured motion.
        instruments: Another motion of the same samples whose noise is not the measured one's: from ``q_command.*``
            through the planted sole (``reconstruct_motion(..., base="sole", positions="q_command")``), or a repeated
            run; with the same filter, so that its samples are at the same times.
        follow: Frequency (Hz) below which the instruments follow the measured motion: commands that the robot tracks
            badly tell little of what it is worth to know. None takes the instruments as they are, which a repeated run
            allows.
        **options: What `gather_evidence` takes: weights, torques, withhold, unknown_wrenches, nuisance, priors.

    Returns:
        As many equations as unknowns, of variance one. `effective_count` is how many independent samples of the
        residual's variance they are worth.

    Raises:
        MotionError: The instruments are at other times, or of a link that does not carry the measured one.
        EvidenceError: As `gather_evidence`.
    """
    _refuse_weights(options)
    with one_blas_thread():
        first = begin_second_pass(model, motion, **options)
        moved = move_base(model, align(instruments, motion), motion.base)
        # Wrenches and contacts are those that were felt; the instruments' own are of no use.
        moved = replace(moved, wrenches=motion.wrenches, torques=motion.torques, contacts=motion.contacts)
        if follow is not None:
            moved = follow_slowly(moved, motion, follow)
        moved.check(model)
        words = (
            "another motion" if follow is None else f"another motion, following the measured one below {follow:g} Hz"
        )
        return _moments(first, moved, words)


def gather_correlated(model: Model, motion: Motion, **options: Any) -> Evidence:
    """Gives the Evidence of a motion for plain least squares, with the noise's correlation in time counted.

    The base parameters are those of `gather_evidence`; their covariance is right also where the noise of neighbouring
    samples is alike (oversampled, filtered, differentiated). Of the residual's autocorrelation nothing else needs to be
    known.

    Args:
        model: The model.
        motion: A single Motion.
        **options: What `gather_evidence` takes: weights, torques, withhold, unknown_wrenches, nuisance, priors.
    """
    _refuse_weights(options)
    with one_blas_thread():
        return _moments(begin_second_pass(model, motion, **options), motion, "the motion itself")


def follow_slowly(instruments: Motion, motion: Motion, frequency: float) -> Motion:
    """Gives instruments that follow a measured motion below some frequency: ``w + lowpass(y − w)``, channel by channel.

    Raises:
        MotionError: The frequency is not below that of the samples.
    """
    if not 0.0 < frequency < 0.4 * motion.sample_rate:
        raise MotionError(
            f"instruments cannot follow below {frequency} Hz where there are {motion.sample_rate:g} samples a second; "
            f"choose a frequency below {0.4 * motion.sample_rate:g} Hz, or None"
        )
    sections = butter(_ORDER, frequency, fs=motion.sample_rate, output="sos")
    padding = min(len(motion) - 1, round(3.0 * motion.sample_rate / frequency))
    states = {}
    for name in _STATE:
        theirs, ours = getattr(instruments, name), getattr(motion, name)
        states[name] = theirs + sosfiltfilt(sections, ours - theirs, axis=0, padlen=padding)
    return replace(instruments, **states)


def align(instruments: Motion, motion: Motion) -> Motion:
    """Gives the instruments at the times of the motion.

    Raises:
        MotionError: They have no sample at one of them.
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
    """Gives the same motion at another base link.

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
            "a second pass for correlated noise takes no sample_weights; leave samples that do not fit out of the "
            "motion: motion.where(weights > 0)"
        )


def _moments(first: SecondPass, instruments: Motion, words: str) -> Evidence:
    """Gives ``L⁻¹ [QᵀY | Qᵀf]`` as Evidence."""
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
        raise EvidenceError("the instruments say nothing: their rows are zero; check that they move")

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
    stretch = _stretch(first, moments, basis, residual, products)
    root = positive_root(stretch @ products @ stretch.T)
    white = np.linalg.solve(root, moments)
    spread = np.zeros((width, width))
    spread[:, :] = np.linalg.qr(np.concatenate([white, np.zeros((width, width))]), mode="r")
    spread *= np.where(np.diagonal(spread) < 0.0, -1.0, 1.0)[:, None]
    rows_that_say = max(1, first.evidence.row_count - divide.shape[1])
    variance = float(np.sum(np.square(residual))) / rows_that_say
    spread.setflags(write=False)
    return replace(
        first.evidence,
        key=replace(first.evidence.key, instruments=words),
        factor=spread,
        # Noise that alternates makes samples worth more than independent ones; nobody should count on that.
        effective_count=min(
            float(first.evidence.sample_count), effective_samples(first.evidence.sample_count, variance, products)
        ),
        variance=1.0,
    )


def _stretch(
    first: SecondPass,
    moments: FloatArray,
    basis: Callable[[int, int], FloatArray],
    residual: FloatArray,
    products: FloatArray,
) -> FloatArray:
    """Gives the matrix by which the noise in ``Qᵀ f`` is stretched because it is not alike over time.

    Where joints move fast or legs are far apart, noise of encoders does more, and that may be where a parameter is
    learned. Each unknown's variance is compared with that by which its influence ``(QᵀY)⁻¹ Q_tᵀ e_t``, summed over the
    samples, really scatters. The residual is first made up for what the fit took from each sample [MacKinnon and White,
    Journal of Econometrics 29, 1985, HC2].

    Args:
        first: The first pass.
        moments: ``Qᵀ [Y | f]``.
        basis: Gives ``Q``.
        residual: ``e``, shape (n, n_rows).
        products: ``Ω`` as if the noise were alike over time.
    """
    count = len(moments)
    lengths = np.linalg.norm(moments[:, :-1], axis=0)
    scaled = moments[:, :-1] / np.where(lengths > 0.0, lengths, 1.0)
    order = qr(scaled, mode="r", pivoting=True)[1][:count] if count < scaled.shape[1] else np.arange(count)
    square = scaled[:, order]
    inverse = np.asarray(np.linalg.pinv(square, rcond=SMALLEST), dtype=np.float64)
    made_up, influence = np.zeros_like(residual), np.zeros((len(residual), count))
    for start in range(0, len(residual), CHUNK):
        here = slice(start, min(start + CHUNK, len(residual)))
        rows = basis(here.start, here.stop)
        made_up[here] = make_up(rows, residual[here])
        influence[here] = np.einsum("nkc,nk->nc", rows, made_up[here]) @ inverse.T
    seen = long_run_variances(first.motion, influence)
    noise = estimate_autocovariance(first.motion, made_up)
    alike = _diagonal(inverse, correlated_products(first.motion, basis, noise, count))
    stated = _diagonal(inverse, products)
    # What the fit took at some frequency counts beside what it took from each sample, where it is more. A scatter that
    # looks smaller than that of noise that is alike over time is chance: one series tells less than all rows together.
    ratio = np.clip(seen / np.minimum(alike, stated), *_MOST_UNLIKE)
    return np.asarray(square @ (np.sqrt(ratio)[:, None] * inverse))


def _diagonal(inverse: FloatArray, products: FloatArray) -> FloatArray:
    variances = np.einsum("ij,jk,ik->i", inverse, products, inverse)
    return np.asarray(np.maximum(variances, np.finfo(np.float64).tiny))


def _solve(first: SecondPass, moments: FloatArray) -> FloatArray:
    """Gives the unknowns that solve ``Qᵀ [Y | f]``, nuisances held by their priors."""
    evidence = first.evidence
    priors = np.concatenate([np.full(len(evidence.independent), np.inf), np.array(evidence.key.priors)])
    held = np.isfinite(priors)
    left = evidence.factor[:, -1] - evidence.factor[:, :-1] @ least_squares(evidence)
    scale = np.sqrt(float(left @ left) / max(1, evidence.row_count - len(priors)))
    holds = np.diag(scale / priors)[held]
    return solve_scaled(np.concatenate([moments[:, :-1], holds]), np.append(moments[:, -1], np.zeros(len(holds))))


__all__ = ["FOLLOW", "align", "follow_slowly", "gather_correlated", "gather_with_instruments", "move_base"]
