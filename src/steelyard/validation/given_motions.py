"""What is given to validate on: recordings or motions, checked, in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.exceptions import EvidenceError, MotionError, SteelyardError
from steelyard.motion import Motion
from steelyard.preparation import Preparation, PreparedMotions, preparation_of
from steelyard.recording import Recording

if TYPE_CHECKING:
    from steelyard.identification import Estimate
    from steelyard.motion import Base
    from steelyard.validation.prediction import Predictor

_CHUNK = 4096
"""Samples predicted at once, to bound the memory; set by judgement."""


def preparation_for(estimate: Estimate) -> Preparation:
    """Return the Preparation that an estimate was made with, for other recordings of the same robot.

    Raises:
        RecordingError: What the estimate holds is no Preparation of its model.
    """
    if estimate.preparation:
        return preparation_of(estimate.preparation, estimate.model, "the estimate's preparation")
    # Gathered from motions: nothing was chosen, and recordings are taken as they are.
    base: Base = "fixed" if estimate.model.base == "fixed" else "imu"
    return Preparation(estimate.model, base, None, None, {}, {}, None, "default", ())


class GivenMotions:
    """The motions of what was given, which can be read again: recordings prepared as the estimate's were, or Motions.

    Attributes:
        names: The name of each recording is appended when it is read.
    """

    def __init__(self, estimate: Estimate, given: Any, names: list[str]) -> None:
        self._estimate = estimate
        self.names = names
        self._given: Any = [given] if isinstance(given, str | Path | Recording | Motion) else given
        if isinstance(given, Iterator):
            # It can be read once only.
            self._given = list(given)
        self._prepared: Preparation | None = None

    def __iter__(self) -> Iterator[Any]:
        if not isinstance(self._given, Iterable):
            what = type(self._given).__name__
            raise EvidenceError(f"a motion is needed, not {what}; make one with reconstruct_motion")
        for each in self._given:
            if isinstance(each, str | Path | Recording):
                self.names.append(each.name if isinstance(each, Recording) else Path(each).name)
                yield from self._preparation().motions(each)
            else:
                yield each

    def _preparation(self) -> Preparation:
        if self._prepared is None:
            self._prepared = preparation_for(self._estimate)
        return self._prepared

    def recordings(self) -> PreparedMotions | None:
        """Return the recordings, and how they are prepared; None where any motion comes from elsewhere."""
        if isinstance(self._given, PreparedMotions):
            return self._given
        if all(isinstance(each, str | Path | Recording) for each in self._given):
            return PreparedMotions(self._preparation(), self._given)
        return None

    def first(self) -> tuple[Motion, Iterator[Motion]]:
        """Return the first motion, which fits the model, and an iterator over the others."""
        model, stream = self._estimate.model, iter(self)
        first = next(stream, None)
        if not isinstance(first, Motion):
            what = "there is no motion to validate on" if first is None else f"{type(first).__name__} is no Motion"
            raise EvidenceError(f"{what}; make one with reconstruct_motion")
        try:
            first.check(model)
        except SteelyardError as error:
            raise MotionError(f"the motion does not fit {model.name}, the estimate's model: {error}") from error
        return first, stream


def chunk_motions(predictor: Predictor, first: Motion, rest: Iterator[Motion]) -> Iterator[Motion]:
    """Yield all motions in chunks, each motion checked before it is used."""
    yield from first.chunks(_CHUNK)
    sensing = predictor.sensing
    sensors = {source.name.rpartition(".")[0] for source in sensing.measured}
    for number, motion in enumerate(rest, start=2):
        try:
            motion.check(predictor.model)
            if motion.base != predictor.base:
                raise MotionError(
                    f"its base link is {motion.base!r}, the first one's {predictor.base!r}", channel="base"
                )
            missing = [
                *sorted(sensors - set(motion.wrenches)),
                *(j for j in sensing.torques if j not in motion.torques),
            ]
            if missing:
                raise MotionError(f"{missing[0]!r} has no data there", channel=missing[0])
        except SteelyardError as error:
            raise MotionError(f"motion number {number}: {error}") from error
        yield from motion.chunks(_CHUNK)
