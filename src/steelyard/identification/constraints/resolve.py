"""From constraints to rows and cutting planes on the parameters of one robot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import IdentifiabilityError, ModelError
from steelyard.identification.constraints.com_volumes import Volume, find_reach, find_volume
from steelyard.identification.constraints.constraint_system import (
    ConstraintRows,
    ConstraintSystem,
    CutFamily,
    join_rows,
)
from steelyard.identification.constraints.cutting_planes import HullCuts, InertiaCuts, box_rows, half_directions
from steelyard.identification.constraints.matter_ellipsoids import (
    ellipsoid_rows,
    enclosing_ellipsoid,
    outer_points,
    slab_rows,
)
from steelyard.model import (
    CONSTRAINT_CLASSES,
    PARAMETER_COUNT,
    PARAMETER_SYMBOLS,
    ComInside,
    Constraint,
    Frozen,
    LeastMass,
    MassWithin,
    MatterInside,
    MatterWithin,
    MirrorWithin,
    PositiveInertia,
    TotalMass,
    find_pairs,
    link_patterns,
    match_pattern,
    project_to_interior,
    rotational_inertia_at_origin,
    welded_into,
)
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model import Model

_WORTH_SAYING = 1e-5
"""Distance (m) from which a centre of mass outside its volume is remarked: below it is the rounding of model files."""

_DIAGONAL = tuple(PARAMETER_SYMBOLS.index(symbol) for symbol in ("Ixx", "Iyy", "Izz"))
_BEYOND = 1.5
"""Multiple of the reference's own trace of inertia that is always allowed. Set by judgement: a model whose shapes are
too small, or displaced, must not make its own parameters infeasible, nor fix them."""


def resolve_constraints(model: Model, constraints: Sequence[Constraint]) -> ConstraintSystem:
    """Return the constraints of a robot; of each kind, the last that names a link counts for it.

    A frozen link is as the reference has it: bounds on its centre of mass and its inertia do not apply, and a remark
    names those that the reference violates.

    Args:
        model: The reference.
        constraints: The constraints, general ones first.

    Raises:
        IdentifiabilityError: A pattern matches no link, a box excludes its link, or something is no constraint.
        ModelError: Mirror pairs are asked for, and the setup does not name them; or a mesh cannot be read.
    """
    return _Resolution(model, constraints).system()


class _Resolution:
    """The work of `resolve_constraints`."""

    def __init__(self, model: Model, constraints: Sequence[Constraint]) -> None:
        self.model = model
        self.links = model.links
        self.size = PARAMETER_COUNT * len(model.links)
        self.reference = model.parameters
        self.remarks: list[str] = []
        self.unread: dict[str, str] = {}
        self.parts: list[ConstraintRows] = []
        self.cut_families: list[CutFamily] = []
        self.robot: dict[str, Constraint] = {}
        self.by_link: dict[str, dict[int, Any]] = {kind: {} for kind in CONSTRAINT_CLASSES}
        for constraint in constraints:
            if not isinstance(constraint, tuple(CONSTRAINT_CLASSES.values())):
                raise IdentifiabilityError(
                    f"{constraint!r} is no constraint; write e.g. TotalMass(63.2), or 'total_mass=63.2'"
                )
            if not link_patterns(constraint):
                self.robot[constraint.kind] = constraint
            for place in self._match(constraint):
                self.by_link[constraint.kind][place] = constraint

    def system(self) -> ConstraintSystem:
        """Return the system."""
        self._least_masses()
        self._total_mass()
        self._centres()
        self._inertias()
        self._matter()
        self._matter_inside()
        self._frozen()
        self._mirror()
        self._masses()
        self._unreadable()
        return ConstraintSystem(
            join_rows(self.parts, self.size), tuple(self.cut_families), tuple(self.remarks), self.links
        )

    def _remark(self, links: Sequence[str], words: str, *, every: bool = False) -> None:
        if links:
            self.remarks.append(words.format(in_words(links, limit=len(links)) if every else in_words(links)))

    def _match(self, constraint: Constraint) -> list[int]:
        matched: set[str] = set()
        for pattern in link_patterns(constraint):
            names = match_pattern(pattern, self.links)
            if not names:
                hint = welded_into(self.model.bodies, pattern) or did_you_mean(pattern, self.links)
                raise IdentifiabilityError(
                    f"{constraint.kind}: {pattern!r} matches no link of {self.model.name}{hint}", names=[pattern]
                )
            matched |= set(names)
        return [place for place, link in enumerate(self.links) if link in matched]

    def _add(self, kind: str, name: str, entries: dict[int, float], lower: float, upper: float) -> None:
        row = np.zeros((1, self.size))
        row[0, list(entries)] = list(entries.values())
        self.parts.append(ConstraintRows(row, np.array([lower]), np.array([upper]), (name,), (kind,)))

    def _chosen(self, kind: str) -> list[tuple[int, Any]]:
        return sorted(self.by_link[kind].items())

    def _is_frozen(self, place: int) -> bool:
        constraint = self.by_link[Frozen.kind].get(place)
        return constraint is not None and constraint.held

    def _least_masses(self) -> None:
        for place, constraint in self._chosen(LeastMass.kind):
            if constraint.least is not None:
                name = f"{self.links[place]}.m >= {constraint.least:g}"
                self._add(LeastMass.kind, name, {PARAMETER_COUNT * place: 1.0}, constraint.least, np.inf)

    def _total_mass(self) -> None:
        constraint = self.robot.get(TotalMass.kind)
        if not isinstance(constraint, TotalMass) or constraint.mass is None:
            return
        name = f"total mass = {constraint.mass:g}"
        if constraint.tolerance:
            name += f" +- {constraint.tolerance:g}"
        everywhere = {PARAMETER_COUNT * place: 1.0 for place in range(len(self.links))}
        low, high = constraint.mass - constraint.tolerance, constraint.mass + constraint.tolerance
        self._add(TotalMass.kind, name, everywhere, low, high)

    def _centres(self) -> None:
        hulls: list[tuple[int, Volume]] = []
        flat: list[str] = []
        outside: list[str] = []
        widened: list[str] = []
        for place, constraint, volume in self._volumes():
            link, centre = self.links[place], self._centre(place)
            if constraint.where == "hull" and volume.facets is None:
                flat.append(link)
            distance = 0.0 if centre is None else volume.outside(centre)
            gives_way = volume.guessed and not self._is_frozen(place)
            if distance > _WORTH_SAYING:
                (widened if gives_way else outside).append(f"{link} (by {1000.0 * distance:.1f} mm)")
            if self._is_frozen(place):
                continue
            if volume.facets is not None:
                hulls.append((place, volume))
            else:
                holding = volume.with_point(centre) if gives_way and centre is not None else volume
                self.parts.append(box_rows(self.links, place, holding.box))
        self._remark(flat, "The shapes of {} are flat and have no hull; the box around them is used.")
        self._remark(
            widened,
            "The reference has the centre of mass outside the shapes of its link, and the box around them was widened "
            "to contain it: {}.",
        )
        self._remark(outside, "The reference has the centre of mass outside the volume that must contain it: {}.")
        self._hulls(ComInside.kind, hulls)

    def _hulls(self, kind: str, hulls: Sequence[tuple[int, Volume]]) -> None:
        if hulls:
            places = np.array([place for place, _ in hulls], dtype=np.int64)
            sizes = np.array([np.linalg.norm(volume.box[1] - volume.box[0]) for _, volume in hulls])
            scales = np.maximum(self.reference[places, 0], 1e-6) * sizes
            volumes = tuple(volume for _, volume in hulls)
            self.cut_families.append(HullCuts(self.links, places, volumes, scales, kind))

    def _volumes(self) -> list[tuple[int, ComInside, Volume]]:
        """Return the volume of each link that has one; add remarks on those that have none."""
        found, shapeless, asked = [], [], []
        for place, constraint in self._chosen(ComInside.kind):
            if constraint.where is None:
                continue
            link = self.links[place]
            try:
                volume = find_volume(self.model, link, constraint)
            except ModelError as error:
                if constraint.where != "auto":
                    raise
                self.unread[link] = str(error)
                continue
            if volume is not None:
                found.append((place, constraint, volume))
                continue
            shapeless.append(link)
            if constraint.where != "auto" and _is_named(link, constraint):
                asked.append((link, constraint.where))
        _refuse_shapeless(asked)
        self._remark(shapeless, "No shapes bound the centre of mass of {}, so that it is free.", every=True)
        return found

    def _centre(self, place: int) -> FloatArray | None:
        mass = self.reference[place, 0]
        return np.asarray(self.reference[place, 1:4] / mass) if mass > 0.0 else None

    def _inertias(self) -> None:
        chosen = [
            (place, constraint)
            for place, constraint in self._chosen(PositiveInertia.kind)
            if constraint.least is not None
        ]
        if not chosen:
            return
        possible = np.linalg.eigvalsh(rotational_inertia_at_origin(project_to_interior(self.reference)))
        actual = np.linalg.eigvalsh(rotational_inertia_at_origin(self.reference))[:, 0]
        sets: dict[int | None, list[tuple[int, float]]] = {}
        below = []
        for place, constraint in chosen:
            least = constraint.least * (possible[place, 0] if constraint.relative else 1.0)
            if actual[place] < least:
                below.append(self.links[place])
            if not self._is_frozen(place):
                sets.setdefault(constraint.directions, []).append((place, least))
        self._remark(below, "The reference has less inertia than is asked for: {}.")
        for subdivisions, members in sets.items():
            places = np.array([place for place, _ in members], dtype=np.int64)
            directions = None if subdivisions is None else half_directions(subdivisions)
            least = np.array([each for _, each in members], dtype=np.float64)
            scales = np.maximum(possible[places, 2], least)
            self.cut_families.append(InertiaCuts(self.links, places, least, scales, directions))

    def _matter(self) -> None:
        shapeless, widened = [], []
        for place, constraint in self._chosen(MatterWithin.kind):
            if constraint.margin is None or self._is_frozen(place):
                continue
            link = self.links[place]
            try:
                reach = find_reach(self.model, link)
            except ModelError as error:
                self.unread[link] = str(error)
                continue
            if reach is None:
                shapeless.append(link)
                continue
            mass, moments = self.reference[place, 0], self.reference[place, list(_DIAGONAL)].sum()
            square = (reach + constraint.margin) ** 2
            if mass > 0.0 and _BEYOND * moments > 2.0 * mass * square:
                square = _BEYOND * moments / (2.0 * mass)
                widened.append(f"{link} (to {np.sqrt(square):.3g} m)")
            start = PARAMETER_COUNT * place
            entries = {start: 2.0 * square, **{start + number: -1.0 for number in _DIAGONAL}}
            name = f"{link}: matter within {np.sqrt(square):.3g} m of its joint"
            self._add(MatterWithin.kind, name, entries, 0.0, np.inf)
        self._remark(shapeless, "No shapes bound the extent of the matter of {}, so that it is free.", every=True)
        self._remark(
            widened,
            "The reference has matter near the end of its link's shapes or beyond, and may have half as much inertia "
            "again: {}.",
        )

    def _matter_inside(self) -> None:
        shapeless, asked, beyond, hulls = [], [], [], []
        for place, constraint in self._chosen(MatterInside.kind):
            if constraint.where is None:
                continue
            link, margin = self.links[place], constraint.margin
            points = outer_points(self.model, link)
            if not len(points):
                shapeless.append(link)
                if _is_named(link, constraint):
                    asked.append((link, constraint.where))
                continue
            if constraint.where == "box":
                box = np.stack([points.min(axis=0) - margin, points.max(axis=0) + margin])
                rows = slab_rows(self.links, place, box)
            else:
                rows = ellipsoid_rows(self.links, place, enclosing_ellipsoid(points).widened(margin))
            if np.any(rows.violation(self.reference) > 0.0):
                beyond.append(f"{link} ({constraint.where})")
            if self._is_frozen(place):
                continue
            self.parts.append(rows)
            if constraint.where == "hull":
                volume = find_volume(self.model, link, ComInside("hull", margin=margin))
                if volume is not None and volume.facets is not None:
                    hulls.append((place, volume))
        _refuse_shapeless(asked, MatterInside.kind)
        self._hulls(MatterInside.kind, hulls)
        self._remark(shapeless, "No shapes contain the matter of {}, so that it is free.", every=True)
        self._remark(beyond, "The reference has matter outside the volume that must contain it: {}.")

    def _unreadable(self) -> None:
        if self.unread:
            words = next(iter(self.unread.values()))
            others = len(set(self.unread.values())) - 1
            more = f" (and {others} more such)" if others else ""
            self.remarks.append(
                f"The shapes of {in_words(list(self.unread))} cannot be read, so that where their matter is stays "
                f"free: {words}{more}."
            )

    def _frozen(self) -> None:
        for place, _ in self._chosen(Frozen.kind):
            if not self._is_frozen(place):
                continue
            for number, symbol in enumerate(PARAMETER_SYMBOLS):
                value = float(self.reference[place, number])
                name = f"{self.links[place]}.{symbol} frozen"
                self._add(Frozen.kind, name, {PARAMETER_COUNT * place + number: 1.0}, value, value)

    def _mirror(self) -> None:
        """Add two rows for each pair and parameter; with ``x ≥ 0`` they imply the other two of (15)."""
        constraint = self.robot.get(MirrorWithin.kind)
        if not isinstance(constraint, MirrorWithin) or constraint.share is None:
            return
        for pair in find_pairs(self.model):
            matrix, right = pair.matrix, self.links[pair.right]
            left = slice(PARAMETER_COUNT * pair.left, PARAMETER_COUNT * (pair.left + 1))
            for symbol in constraint.of:
                number = PARAMETER_SYMBOLS.index(symbol)
                image, own = np.zeros(self.size), np.zeros(self.size)
                image[left] = matrix[number]
                own[PARAMETER_COUNT * pair.right + number] = 1.0
                name, of = f"{right}.{symbol}", f"{self.links[pair.left]}'s image"
                if constraint.share == 0.0:
                    rows, names, upper = [own - image], [f"{name} = {of}"], 0.0
                else:
                    factor = 1.0 + constraint.share
                    rows = [factor * image - own, factor * own - image]
                    names, upper = [f"{name} <= {factor:g} x {of}", f"{name} >= {of} / {factor:g}"], np.inf
                kinds = (MirrorWithin.kind,) * len(rows)
                zeros = np.zeros(len(rows))
                self.parts.append(ConstraintRows(np.array(rows), zeros, np.full(len(rows), upper), tuple(names), kinds))

    def _masses(self) -> None:
        weightless = []
        for place, constraint in self._chosen(MassWithin.kind):
            if constraint.share is None:
                continue
            mass = float(self.reference[place, 0])
            if mass <= 0.0:
                weightless.append(self.links[place])
                continue
            name = f"{self.links[place]}.m within {100.0 * constraint.share:g} % of {mass:.4g}"
            low, high = (1.0 - constraint.share) * mass, (1.0 + constraint.share) * mass
            self._add(MassWithin.kind, name, {PARAMETER_COUNT * place: 1.0}, low, high)
        self._remark(weightless, "The reference has no mass that the mass of {} could be near, so that it is free.")


def _is_named(link: str, constraint: ComInside | MatterInside) -> bool:
    """Return whether a pattern other than "all links" names a link."""
    return any(pattern.strip("*") and match_pattern(pattern, [link]) for pattern in link_patterns(constraint))


def _refuse_shapeless(asked: Sequence[tuple[str, Any]], kind: str = ComInside.kind) -> None:
    if not asked:
        return
    links, first = [link for link, _ in asked], asked[0][0]
    others = f" or {kind}.{first}=auto, or give a [volume] box and write {kind}.{first}=volume"
    raise IdentifiabilityError(
        f"{kind}: {in_words(links, limit=len(links))} {'have' if len(links) > 1 else 'has'} no shapes of which to take "
        f"the {asked[0][1]}; write {kind}.{first}=off{others if kind == ComInside.kind else ''}",
        names=links,
    )
