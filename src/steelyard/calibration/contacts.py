"""What constrains a pose: patches flat on a plane, markers, and tips that touch a fixed plane or point."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import ModelError
from steelyard.stance import FLATNESS
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Marker, Model

FLOOR = "floor"
"""Name of the plane on which soles stand by default."""


@dataclass(frozen=True, eq=False)
class Contact:
    """A flat patch of a link that lies on a level plane: a sole, a palm.

    Attributes:
        name: Its name.
        frame: The frame in which its corners are given.
        vertices: At least three corners that are not on one line, shape (n, 3), m.
        plane: Name of the plane that it lies on. Patches with one plane are at one height in a pose, which may differ
            from pose to pose.
    """

    name: str
    frame: str
    vertices: FloatArray
    plane: str = FLOOR

    def __post_init__(self) -> None:
        vertices = _points(self.vertices, f"the vertices of the contact {self.name!r}")
        if len(vertices) < 3 or np.linalg.matrix_rank(vertices - vertices.mean(axis=0), tol=1e-6) < 2:
            raise ModelError(
                f"the contact {self.name!r} needs at least three corners that are not on one line", names=[self.name]
            )
        object.__setattr__(self, "vertices", vertices)
        bump = float(np.max(np.abs((vertices - vertices.mean(axis=0)) @ self.normal)))
        if bump > FLATNESS:
            raise ModelError(
                f"the contact {self.name!r} is not flat: a corner is {1e3 * bump:.1f} mm off the plane of the others; "
                "give corners of the surface that touches",
                names=[self.name],
            )

    @cached_property
    def modes(self) -> tuple[FloatArray, FloatArray]:
        """How heights of the corners can differ, as three numbers: their mean, and two tilts of the patch.

        A rigid flat patch has no others. Squares of the three add up to those of all corners' heights, so that the
        cost is the paper's, and there are as many residuals as there are independent errors.

        Returns:
            Sums of the corners in the frame's axes, one row for each mode, shape (3, 3), m; and how much of each is the
            frame's origin, shape (3,).
        """
        middle = self.vertices.mean(axis=0)
        directions = np.linalg.svd(self.vertices - middle)[2][:2]
        flat = (self.vertices - middle) @ directions.T
        basis, triangle = np.linalg.qr(np.column_stack([np.ones(len(flat)), flat]))
        basis = basis * np.where(np.diagonal(triangle) < 0.0, -1.0, 1.0)
        return basis.T @ self.vertices, basis.sum(axis=0)

    @cached_property
    def normal(self) -> FloatArray:
        """Unit vector across the patch, in the frame's axes, shape (3,); its sign is arbitrary."""
        return np.asarray(np.linalg.svd(self.vertices - self.vertices.mean(axis=0))[2][2])


@dataclass(frozen=True, eq=False)
class Touch:
    """A known point of a link that repeatedly touches a fixed plane or a fixed point.

    Attributes:
        name: Its name in the poses.
        frame: The frame in which the point is given.
        point: The point, shape (3,), m.
        kind: "plane" or "point"; its position is unknown.
    """

    name: str
    frame: str
    point: FloatArray
    kind: str = "point"

    def __post_init__(self) -> None:
        object.__setattr__(self, "point", _point(self.point, f"the point of the touch {self.name!r}"))
        if self.kind not in ("plane", "point"):
            raise ModelError(
                f"the touch {self.name!r} has the kind {self.kind!r}; give 'plane' or 'point'", names=[self.name]
            )


def soles_as_contacts(model: Model, planes: Mapping[str, Sequence[str]] | None = None) -> tuple[Contact, ...]:
    """Return the soles of a setup as contacts with the floor, or with given planes.

    Args:
        model: The model.
        planes: Names of soles by plane; soles that are not named touch nothing.

    Raises:
        ModelError: A sole is unknown.
    """
    soles = {sole.name: sole for sole in model.setup.soles}
    chosen = {FLOOR: tuple(soles)} if planes is None else planes
    contacts = []
    for plane, names in chosen.items():
        for name in names:
            if name not in soles:
                raise ModelError(f"{model.name} has no sole {name!r}{did_you_mean(name, soles)}", names=[name])
            contacts.append(Contact(name, soles[name].frame, soles[name].vertices, plane))
    return tuple(contacts)


def check_frames(things: Iterable[Contact | Marker | Touch], model: Model) -> None:
    """Check that frames exist and that no name is used twice.

    Raises:
        ModelError: A frame is unknown, or two things have one name.
    """
    seen: set[str] = set()
    for thing in things:
        model.frame(thing.frame)
        if thing.name in seen:
            raise ModelError(
                f"two contacts, markers or touches are called {thing.name!r}; rename one", names=[thing.name]
            )
        seen.add(thing.name)


def _points(values: Any, what: str) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what} must be numbers, shape (n, 3), m") from error
    if array.ndim != 2 or array.shape[1] != 3 or not np.all(np.isfinite(array)):
        raise ModelError(f"{what} have the shape {array.shape}; give finite numbers, shape (n, 3), m")
    array.setflags(write=False)
    return array


def _point(values: Any, what: str) -> FloatArray:
    return np.asarray(_points(np.atleast_2d(np.asarray(values)), what)[0])
