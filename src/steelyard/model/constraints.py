"""What must hold of the parameters: a small vocabulary that every estimator shares.

A constraint is pure intent: it names links by pattern and says what is wanted of them, without a model. What it means
for the parameters of a robot, `steelyard.identification.constraints.resolve.resolve_constraints` tells.

Constraints form an ordered list. For each kind and each link the last one that matches counts, so that a general rule
comes first and its exceptions after it. A value of None switches a kind off, for those links.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.model.parameters import PARAMETER_SYMBOLS
from steelyard.wording import did_you_mean

Patterns = str | tuple[str, ...]
Box = tuple[tuple[float, float, float], tuple[float, float, float]]

COM_PLACES = ("auto", "bounds", "hull", "volume")
"""Words for where a centre of mass must lie; see `ComInside`."""

MATTER_PLACES = ("ellipsoid", "box", "hull")
"""Words for where all matter must lie; see `MatterInside`."""

NEVER_NEGATIVE = ("m", "Ixx", "Iyy", "Izz")
"""Parameters that no body has below zero: only of these can one side be within a share of the other."""

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
    """The robot weighs what a scale said, ``|Σ m − mass| ≤ tolerance``: [jovic2016] (9).

    Attributes:
        mass: kg; None for no bound.
        tolerance: kg; zero makes it an equation.
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
        margin: How far outside it may still be, m.
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

    The paper's ε = 0.01 kg m² exceeds the smallest inertia of nearly every link of a robot of human size, and so would
    change links that are right; by default ε is a share of the reference's own smallest one.

    Attributes:
        least: ε: a share of the smallest eigenvalue of the reference's tensor, or kg m²; None for no bound.
        links: Pattern or patterns of links.
        relative: Whether `least` is a share.
        directions: None: for every unit vector ``v``, found as they are needed. A whole number: only for those of an
            icosahedron whose faces were divided as many times, [jovic2016] III-B; five times give 10 242.
    """

    least: float | None = 0.1
    links: Patterns = "*"
    relative: bool = True
    directions: int | None = None

    kind: ClassVar[str] = "inertia"

    def __post_init__(self) -> None:
        if not isinstance(self.relative, bool):
            raise _wrong(self, "relative", "true or false")
        words = "a share from 0 to 1 of the reference's" if self.relative else "an inertia in kg m2, zero or more"
        _set_number(self, "least", words, low=0.0, high=1.0 if self.relative else math.inf)
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

    The other constraints leave inertias without an upper bound, and what the data do not see of them could grow as far
    as it likes. One and a half times the reference's own ``tr I / m`` is always allowed, also where that is beyond the
    bound: shapes are sometimes smaller than their link, or drawn elsewhere.

    Attributes:
        margin: How far outside its shapes there may still be matter, m; None for no bound.
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

    It says more than `MatterWithin`, of the centre of mass too where a link can only be a possible body (the method
    `conic`), and gives the reference no way out: shapes that are smaller than their link, or drawn elsewhere, make the
    parameters wrong.

    Attributes:
        where: "ellipsoid": the ellipsoid of least volume around the link's shapes; "box": the box around them along the
            axes of its joint frame; "hull": that ellipsoid, and the centre of mass in their convex hull. None for no
            bound. A link without shapes is free where only ``*`` names it.
        links: Pattern or patterns of links.
        margin: How far outside the shapes there may still be matter, m.
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
    """Left and right are alike, ``(1 − share) x_i ≤ x_j ≤ (1 + share) x_i`` both ways: [jovic2016] (15) as meant.

    As printed, (15) compares each side with itself. Here ``x_j`` is a parameter of a right link and ``x_i`` the same of
    the left one's mirror image in the right one's frame; pairs are those of the setup's ``[mirror]``.

    Attributes:
        share: How far the sides may differ; zero makes them equal, None leaves them free.
        of: Which of the ten parameters are compared. Shares only make sense of what is never negative; first moments
            and products of inertia can be equal (``share=0``), but not within a share.
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
        links: Pattern or patterns of links; None, in place of ``Frozen("*", held=False)``, lets all go.
        held: False lets links go that a constraint before this one held.
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

CONSTRAINT_CLASSES: dict[str, type[Constraint]] = {
    each.kind: each
    for each in (
        LeastMass,
        TotalMass,
        ComInside,
        PositiveInertia,
        MatterWithin,
        MatterInside,
        MirrorWithin,
        MassWithin,
        Frozen,
    )
}
"""The classes by kind."""


def link_patterns(constraint: Constraint) -> tuple[str, ...]:
    """Gives the patterns of links of a constraint; none for one that is about the whole robot."""
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
