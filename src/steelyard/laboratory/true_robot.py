"""The true robot: random parameters around the reference, payloads and encoder offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import expm

from steelyard.arrays import is_finite_number
from steelyard.exceptions import LaboratoryError
from steelyard.model import change_frame, from_mass_com_inertia, is_possible, project_to_interior, to_mass_com_inertia
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray
    from steelyard.model import Model

PAYLOAD_DENSITY = 7850.0
"""Density (kg/m³) of a payload of which only the mass is given: a ball of steel."""

GREATEST_SPREAD = 0.5
"""Greatest spread. Set by judgement: at two standard deviations masses are then wrong by a factor e."""

_CLIP = 2.0
"""Standard deviations at which the random changes are clipped. Set by judgement: no extreme outliers."""

_PAYLOAD_EXTENT = 1e-4
"""Least extent (m) of a link with its payload: that up to which a link counts as singular (docs/conventions.md)."""


@dataclass(frozen=True, eq=False)
class Payload:
    """A mass added to a link, or removed from it.

    Attributes:
        mass: Kilograms; negative where it is removed.
        position: Of its centre of mass in the frame that carries it, shape (3,), m.
        inertia: Its tensor about its centre of mass in that frame's axes, shape (3, 3), kg m², with the sign of the
            mass; None for a ball of steel.
    """

    mass: float
    position: Any = (0.0, 0.0, 0.0)
    inertia: Any = None

    def __post_init__(self) -> None:
        shapes = {"mass": (), "position": (3,), "inertia": (3, 3)}
        for name, shape in shapes.items():
            value = getattr(self, name)
            if value is None and name == "inertia":
                continue
            array = np.asarray(value)
            if array.dtype.kind not in "iuf" or array.shape != shape or not np.all(np.isfinite(array)):
                raise LaboratoryError(f"the {name} of a payload is {value!r}; give numbers of the shape {shape}")

    @property
    def parameters(self) -> FloatArray:
        """Its ten parameters in the frame that carries it, shape (10,)."""
        if self.inertia is not None:
            return from_mass_com_inertia(self.mass, self.position, self.inertia)
        size = abs(self.mass)
        radius = (size / PAYLOAD_DENSITY * 3.0 / (4.0 * np.pi)) ** (1.0 / 3.0)
        ball = from_mass_com_inertia(size, self.position, 0.4 * size * radius**2 * np.eye(3))
        return ball if self.mass >= 0.0 else -ball


def draw_parameters(model: Model, spread: float, generator: np.random.Generator) -> FloatArray:
    """Draw the parameters of a true robot around those of a model, shape (n_links, 10).

    Each link's matter is stretched and shifted as a whole. With z normal (clipped at two) and s the spread, its mass is
    then ``m e^{s z}``; its second moment about the centre of mass ``A Σ Aᵀ`` with ``A = e^{S/2}``, S symmetric with
    ``s z`` on its diagonal and half of that beside it; and its centre of mass moves by ``s z`` of its extent along each
    principal axis. Physically possible links stay so.

    Args:
        model: The reference, of physically possible links.
        spread: The standard deviation s.
        generator: Random numbers.
    """
    reference = np.array(model.parameters)
    if spread == 0.0:
        return reference
    mass, com, inertia = to_mass_com_inertia(reference)
    count = len(mass)
    normal = np.clip(generator.standard_normal((count, 10)), -_CLIP, _CLIP)
    drawn = np.empty_like(reference)
    for link in range(count):
        second = 0.5 * np.trace(inertia[link]) * np.eye(3) - inertia[link]
        moments, axes = np.linalg.eigh(second)
        factor = float(np.exp(spread * normal[link, 0]))
        shift = axes @ (spread * normal[link, 1:4] * np.sqrt(np.maximum(moments, 0.0) / mass[link]))
        log = np.zeros((3, 3))
        log[np.triu_indices(3)] = spread * normal[link, 4:]
        stretch = expm(0.25 * (log + log.T))
        stretched = factor * stretch @ second @ stretch.T
        drawn[link] = from_mass_com_inertia(
            factor * mass[link], com[link] + shift, np.trace(stretched) * np.eye(3) - stretched
        )
    return project_to_interior(drawn)


def add_payloads(model: Model, parameters: FloatArray, payloads: Mapping[str, float | Payload] | None) -> FloatArray:
    """Add payloads to links.

    Args:
        model: The model.
        parameters: Of the bare links, shape (n_links, 10).
        payloads: Kilograms, or a `Payload`, by name of a link or of a frame on one. Kilograms on a link are added at
            the centre of mass of the reference's link, those on another frame at its origin.

    Raises:
        LaboratoryError: The name is unknown, the mass is not a number, or the link with its payload is not physically
            possible.
    """
    if payloads is not None and not hasattr(payloads, "items"):
        raise LaboratoryError(f"payloads is {payloads!r}; give kilograms by link, like {{{model.links[-1]!r}: 2.0}}")
    loaded = np.array(parameters)
    for name, given in (payloads or {}).items():
        if not isinstance(name, str) or name not in model.frames:
            raise LaboratoryError(
                f"there is no link or frame {name!r} on {model.name} to carry a payload"
                f"{did_you_mean(str(name), model.frames)}",
                names=[str(name)],
            )
        frame = model.frame(name)
        link = model.bodies[frame.body].name
        if link not in model.links:
            raise LaboratoryError(f"{name!r} is on {link!r}, which has no mass of its own to add to", names=[name])
        row = model.link_index(link)
        payload = given if isinstance(given, Payload) else _plain_payload(model, name, row, given)
        if payload.mass == 0.0:
            continue
        added = change_frame(payload.parameters, frame.placement.rotation, frame.placement.translation)
        loaded[row] += added
        if not is_possible(loaded[row], extent=_PAYLOAD_EXTENT):
            raise LaboratoryError(
                f"a payload of {payload.mass:g} kg on {name!r} leaves no possible body of {link!r}, which weighs "
                f"{parameters[row, 0]:.3f} kg; take away less"
                if payload.mass < 0.0
                else f"the payload on {name!r} is not a possible body; check its inertia",
                names=[name],
            )
    return loaded


def _plain_payload(model: Model, name: str, row: int, mass: Any) -> Payload:
    if not is_finite_number(mass):
        raise LaboratoryError(f"the payload on {name!r} is {mass!r}; give kilograms or a Payload", names=[name])
    if name != model.links[row]:
        return Payload(float(mass))
    return Payload(float(mass), to_mass_com_inertia(model.parameters[row])[1])


def draw_offsets(model: Model, offsets: Any, generator: np.random.Generator) -> dict[str, float]:
    """Return the offset of each encoder, to be added to its reading to get the true position, rad or m.

    Args:
        model: The model.
        offsets: None for zero; a number for the greatest, drawn uniformly up to it; or offsets by joint.
        generator: Random numbers.

    Raises:
        LaboratoryError: A joint is unknown, or a number is not finite.
    """
    drawn = generator.uniform(-1.0, 1.0, len(model.joints))
    if offsets is None:
        return dict.fromkeys(model.joints, 0.0)
    if is_finite_number(offsets):
        if offsets < 0.0:
            raise LaboratoryError(f"the greatest encoder offset is {offsets!r}; give radians, zero or more")
        return dict(zip(model.joints, (float(offsets) * drawn).tolist(), strict=True))
    if not hasattr(offsets, "items"):
        raise LaboratoryError(f"offsets is {offsets!r}; give one number, or radians by joint")
    result = dict.fromkeys(model.joints, 0.0)
    for name, value in offsets.items():
        if name not in result:
            raise LaboratoryError(
                f"{model.name} has no joint {name!r} to offset{did_you_mean(name, model.joints)}", names=[name]
            )
        if not is_finite_number(value):
            raise LaboratoryError(f"the offset of {name!r} is {value!r}; give radians", names=[name])
        result[name] = float(value)
    return result
