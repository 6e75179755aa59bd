"""Exceptions, each with its evidence as attributes and the remedy in its message."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class SteelyardError(Exception):
    """Base of every error that Steelyard raises on purpose."""


class ModelError(SteelyardError):
    """A model file or a setup file cannot be used as it is.

    Attributes:
        path: The file at fault, where there is one.
        line: The line in that file (from 1), where it is known.
        names: The links, joints, frames or keys at fault.
    """

    def __init__(
        self, message: str, *, path: Path | None = None, line: int | None = None, names: Iterable[str] = ()
    ) -> None:
        self.path = path
        self.line = line
        self.names = tuple(names)
        where = "" if path is None else f"{path}: " if line is None else f"{path}, line {line}: "
        super().__init__(where + message)


class ConsistencyError(SteelyardError):
    """Inertial parameters are not physically consistent where they must be.

    Attributes:
        rows: Index of each row at fault.
    """

    def __init__(self, message: str, *, rows: Iterable[int] = ()) -> None:
        self.rows = tuple(rows)
        super().__init__(message)


class MotionError(SteelyardError):
    """A motion does not match its model, or has numbers that are not finite.

    Attributes:
        channel: The channel at fault.
        sample: The first sample at fault, where there is one.
    """

    def __init__(self, message: str, *, channel: str | None = None, sample: int | None = None) -> None:
        self.channel = channel
        self.sample = sample
        super().__init__(message)


class EvidenceError(SteelyardError):
    """Evidence cannot be gathered, added or read.

    Attributes:
        names: The sensors, channels or fields at fault.
    """

    def __init__(self, message: str, *, names: Iterable[str] = ()) -> None:
        self.names = tuple(names)
        super().__init__(message)


class StanceError(SteelyardError):
    """A model cannot stand, or not as requested.

    Attributes:
        names: The soles, joints or links at fault.
    """

    def __init__(self, message: str, *, names: Iterable[str] = ()) -> None:
        self.names = tuple(names)
        super().__init__(message)


class RecordingError(SteelyardError):
    """A recording cannot be used as it is.

    Attributes:
        column: The column at fault, where there is one.
    """

    def __init__(self, message: str, *, column: str | None = None) -> None:
        self.column = column
        super().__init__(message)


class RecordingWarning(UserWarning):
    """Something unusual in a recording was corrected or ignored when it was read."""


class LaboratoryError(SteelyardError):
    """The virtual laboratory cannot do what is requested, or its data are invalid.

    Attributes:
        names: The links, joints, sensors or motions at fault.
    """

    def __init__(self, message: str, *, names: Iterable[str] = ()) -> None:
        self.names = tuple(names)
        super().__init__(message)


class IdentifiabilityError(SteelyardError):
    """The data do not determine what is requested.

    Attributes:
        names: The parameters, links or sensors at fault.
    """

    def __init__(self, message: str, *, names: Iterable[str] = ()) -> None:
        self.names = tuple(names)
        super().__init__(message)


class SolverError(SteelyardError):
    """An identification problem was not solved; the message says why, and what to do.

    Attributes:
        status: Status of the solver.
    """

    def __init__(self, message: str, *, status: str = "failed") -> None:
        self.status = status
        super().__init__(message)
