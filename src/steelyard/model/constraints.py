"""Constraints on the parameters, shared by every estimator.

A constraint names links by pattern and states what must hold of them, without a model;
`resolve_constraints` in `steelyard.identification` turns it into rows for the parameters of a robot.

Constraints form an ordered list. For each kind and each link the last one that matches applies, so that a general rule
comes first and its exceptions after it. A value of None switches a kind off for those links.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast, get_args

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.model.parameters import PARAMETER_SYMBOLS
from steelyard.wording import did_you_mean

Patterns = str | tuple[str, ...]
Box = tuple[tuple[float, float, float], tuple[float, float, float]]

COM_PLACES = ("auto", "bounds", "hull", "volume")
"""Regions in which a centre of mass must lie, by name; see `ComInside`."""

MATTER_PLACES = ("ellipsoid", "box", "hull")
"""Regions in which all matter must lie, by name; see `MatterInside`."""

NEVER_NEGATIVE = ("m", "Ixx", "Iyy", "Izz")
"""Parameters that are never negative: only these can be compared by a share."""

MOST_SUBDIVISIONS = 7
"""Finest finite set of directions, 163 842 of them; past five, rounding in the tensors is coarser than the set."""


@dataclass(frozen=True)
class LeastMass:
    """Each link has at least some mass, ``m ≥ least``: [jovic2016] (8).

    Attributes:
        least: kg; None for no bound.
        links: Pattern or patterns of links.
    """

    least: float | None = 0.0
    links: Patterns = "*"

    kind: ClassVar[str] = "least_mass"

    def __post_init__(self) -> None:
        _set_number(self, "least", "a least mass in kg, zero or more", low=0.0)
        _set_patterns(self)


@dataclass(frozen=True)
class TotalMass:
    """The robot has the mass that a scale measured, ``|Σ m − mass| ≤ tolerance``: [jovic2016] (9).

    Attributes:
        mass: kg; None for no bound.
        tolerance: kg; zero makes it an equality.
    """

    mass: float | None
    tolerance: float = 0.0

    kind: ClassVar[str] = "total_mass"

    def __post_init__(self) -> None:
        _set_number(self, "mass", "the robot's mass in kg, more than zero", low=0.0, open_low=True)
        _set_number(self, "tolerance", "a tolerance in kg, zero or more", low=0.0, optional=False)


@dataclass(frozen=True)
class ComInside:
    """Each centre of mass lies inside its link: [jovic2016] (10)-(11).

    Attributes:
        where: "bounds": the box around the link's own shapes, along the axes of its joint frame (the paper's SABB);
            "hull": their convex hull; "volume": the setup's ``[volume]`` box; "auto": that box where the setup has one
            for the link, else "bounds", widened to hold the reference's own centre of mass where it lies outside; or a
            box of its own in the joint frame, least and greatest corner, shape (2, 3), m. None for no bound. A link
            without shapes is free under "auto" and where only ``*`` names it.
        links: Pattern or patterns of links.
        margin: How far outside it may be, m.
    """

    where: str | Box | None = "auto"
    links: Patterns = "*"
    margin: float = 0.0

    kind: ClassVar[str] = "com"

    def __post_init__(self) -> None:
        if isinstance(self.where, str):
            if self.where not in COM_PLACES:
                raise _wrong(self, "where", f"{_choices(COM_PLACES)} or a box [[x, y, z], [x, y, z]] in m")
        elif self.where is not None:
            object.__setattr__(self, "where", _box(self))
        _set_number(self, "margin", "a margin in m, zero or more", low=0.0, optional=False)
        _set_patterns(self)


@dataclass(frozen=True)
class PositiveInertia:
    """Each rotational inertia about the joint's origin is positive definite, ``vᵀ I v ≥ ε``: [jovic2016] (12)-(14).

    The paper's ε = 0.01 kg m² exceeds the smallest inertia of nearly every link of a human-size robot, and so would
    change correct links; by default ε is a share of the reference's own smallest one.

    Attributes:
        least: ε: a share of the smallest eigenvalue of the reference's tensor, or kg m²; None for no bound.
        links: Pattern or patterns of links.
        relative: Whether `least` is a share.
        directions: None: every unit vector ``v``, by cutting planes. A whole number: only the vertices of an
            icosahedron that was subdivided as many times, [jovic2016] III-B; five subdivisions give 10 242.
    """

    least: float | None = 0.1
    links: Patterns = "*"
    relative: bool = True
    directions: int | None = None

    kind: ClassVar[str] = "inertia"

    def __post_init__(self) -> None:
        if not isinstance(self.relative, bool):
            raise _wrong(self, "relative", "true or false")
        want = "a share from 0 to 1 of the reference's" if self.relative else "an inertia in kg m2, zero or more"
        _set_number(self, "least", want, low=0.0, high=1.0 if self.relative else math.inf)
        given = self.directions
        if given is not None and (
            isinstance(given, bool) or not isinstance(given, int | np.integer) or not 0 <= given <= MOST_SUBDIVISIONS
        ):
            raise _wrong(self, "directions", f"a whole number of subdivisions from 0 to {MOST_SUBDIVISIONS}")
        object.__setattr__(self, "directions", None if given is None else int(given))
        _set_patterns(self)


@dataclass(frozen=True)
class MatterWithin:
    """No matter of a link is farther from its joint than its shapes are: ``tr I ≤ 2 m reach²``.

    The other constraints do not bound inertias from above, so that unobservable ones could grow without limit. One and
    a half times the reference's own ``tr I / m`` is always allowed, even beyond the bound: shapes are sometimes smaller
    than their link, or drawn elsewhere.

    Attributes:
        margin: How far outside its shapes there may be matter, m; None for no bound.
        links: Pattern or patterns of links; those without shapes are left free.
    """

    margin: float | None = 0.1
    links: Patterns = "*"

    kind: ClassVar[str] = "matter"

    def __post_init__(self) -> None:
        _set_number(self, "margin", "a margin in m, zero or more", low=0.0)
        _set_patterns(self)


@dataclass(frozen=True)
class MatterInside:
    """All matter of a link lies inside a volume around its shapes: ``∫ q dm ≥ 0`` for ``q ≥ 0`` inside.

    It is stronger than `MatterWithin`, also for the centre of mass where links must be possible bodies (the method
    `conic`), and makes no exception for the reference: shapes that are smaller than their link, or drawn elsewhere,
    bias the parameters.

    Attributes:
        where: "ellipsoid": the ellipsoid of least volume around the link's shapes; "box": the box around them along the
            axes of its joint frame; "hull": that ellipsoid, and the centre of mass in their convex hull. None for no
            bound. A link without shapes is free where only ``*`` names it.
        links: Pattern or patterns of links.
        margin: How far outside the shapes there may be matter, m.
    """

    where: str | None = "ellipsoid"
    links: Patterns = "*"
    margin: float = 0.0

    kind: ClassVar[str] = "matter_inside"

    def __post_init__(self) -> None:
        if self.where is not None and self.where not in MATTER_PLACES:
            raise _wrong(self, "where", f"one of {_choices(MATTER_PLACES)}")
        _set_number(self, "margin", "a margin in m, zero or more", low=0.0, optional=False)
        _set_patterns(self)


@dataclass(frozen=True)
class MirrorWithin:
    """Left and right are alike, ``(1 − share) x_i ≤ x_j ≤ (1 + share) x_i`` both ways: [jovic2016] (15), corrected.

    As printed, (15) compares each side with itself. Here ``x_j`` is a parameter of a right link and ``x_i`` the same of
    the left one's mirror image in the right one's frame; pairs are those of the setup's ``[mirror]``.

    Attributes:
        share: How far the sides may differ; zero makes them equal, None leaves them free.
        of: Which of the ten parameters are compared. A share bounds only what is never negative; first moments and
            products of inertia can be equal (``share=0``), but not within a share.
    """

    share: float | None = 0.1
    of: tuple[str, ...] = NEVER_NEGATIVE

    kind: ClassVar[str] = "mirror"

    def __post_init__(self) -> None:
        _set_number(self, "share", "a share of at least 0 and less than 1", low=0.0, high=1.0, open_high=True)
        given = (self.of,) if isinstance(self.of, str) else self.of
        if not isinstance(given, Sequence) or not len(given) or not all(isinstance(each, str) for each in given):
            raise _wrong(self, "of", f"some of {' '.join(PARAMETER_SYMBOLS)}")
        for symbol in given:
            if symbol not in PARAMETER_SYMBOLS:
                raise IdentifiabilityError(
                    f"mirror: of has {symbol!r}{did_you_mean(symbol, PARAMETER_SYMBOLS)}; write some of "
                    f"{' '.join(PARAMETER_SYMBOLS)}",
                    names=[symbol],
                )
            if self.share and symbol not in NEVER_NEGATIVE:
                raise IdentifiabilityError(
                    f"mirror: {symbol!r} can be negative, so that no share of it is a bound; write a share of 0 for "
                    f"equal sides, or compare only {' '.join(NEVER_NEGATIVE)}",
                    names=[symbol],
                )
        object.__setattr__(self, "of", tuple(symbol for symbol in PARAMETER_SYMBOLS if symbol in given))


@dataclass(frozen=True)
class MassWithin:
    """Each mass is near the reference's, ``(1 − share) m_ref ≤ m ≤ (1 + share) m_ref``: [jovic2016] (16).

    Attributes:
        share: The paper's β; None for no bound.
        links: Pattern or patterns of links.
    """

    share: float | None
    links: Patterns = "*"

    kind: ClassVar[str] = "mass_within"

    def __post_init__(self) -> None:
        _set_number(self, "share", "a share of at least 0 and less than 1", low=0.0, high=1.0, open_high=True)
        _set_patterns(self)


@dataclass(frozen=True)
class Frozen:
    """All ten parameters of some links stay the reference's.

    Attributes:
        links: Pattern or patterns of links; None stands for ``Frozen("*", held=False)``, which releases all.
        held: False releases links that an earlier constraint holds.
    """

    links: Patterns | None
    held: bool = True

    kind: ClassVar[str] = "frozen"

    def __post_init__(self) -> None:
        if not isinstance(self.held, bool):
            raise _wrong(self, "held", "true or false")
        if self.links is None:
            object.__setattr__(self, "links", "*")
            object.__setattr__(self, "held", False)
        _set_patterns(self)


Constraint = (
    LeastMass
    | TotalMass
    | ComInside
    | PositiveInertia
    | MatterWithin
    | MatterInside
    | MirrorWithin
    | MassWithin
    | Frozen
)

CONSTRAINT_CLASSES: dict[str, type[Constraint]] = {each.kind: each for each in get_args(Constraint)}
"""The classes by kind."""


def link_patterns(constraint: Constraint) -> tuple[str, ...]:
    """Return the patterns of links of a constraint; none for one on the whole robot."""
    return cast("tuple[str, ...]", getattr(constraint, "links", ()))


def _choices(words: Sequence[str]) -> str:
    return ", ".join(repr(word) for word in words)


def _wrong(constraint: Any, field: str, want: str) -> IdentifiabilityError:
    value = repr(getattr(constraint, field))
    short = value if len(value) <= 60 else value[:57] + "..."
    return IdentifiabilityError(f"{constraint.kind}: {field} is {short}; write {want}", names=[constraint.kind])


def _set_number(
    constraint: Any,
    field: str,
    want: str,
    *,
    low: float,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
    optional: bool = True,
) -> None:
    value = getattr(constraint, field)
    if value is None and optional:
        return
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise _wrong(constraint, field, want)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    inside = (number > low if open_low else number >= low) and (number < high if open_high else number <= high)
    if not math.isfinite(number) or not inside:
        raise _wrong(constraint, field, want)
    object.__setattr__(constraint, field, number)


def _set_patterns(constraint: Any) -> None:
    given = (constraint.links,) if isinstance(constraint.links, str) else constraint.links
    if (
        not isinstance(given, list | tuple)
        or not len(given)
        or not all(isinstance(pattern, str) and pattern for pattern in given)
    ):
        raise _wrong(constraint, "links", 'a pattern of links such as "head*", or several')
    object.__setattr__(constraint, "links", tuple(given))


def _box(constraint: ComInside) -> Box:
    try:
        as_written = np.asarray(constraint.where)
        box = as_written.astype(np.float64) if as_written.dtype.kind in "if" else np.empty(0)
    except (ValueError, TypeError):
        box = np.empty(0)
    if box.shape != (2, 3) or not np.all(np.isfinite(box)):
        raise _wrong(constraint, "where", f"{_choices(COM_PLACES)} or a box [[x, y, z], [x, y, z]] in m")
    if not np.all(box[0] < box[1]):
        raise _wrong(constraint, "where", "a box with every number of the first corner the smaller; this one is empty")
    low, high = box.tolist()
    return (tuple(low), tuple(high))
