"""Constraints that contradict each other, found before solving and reported by name.

Feasibility is a linear programme. Where it is infeasible, its multipliers (Farkas) name rows that contradict each
other, and leaving out one after the other gives an irreducible infeasible subset: without any one, the others hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, vstack

from steelyard.exceptions import IdentifiabilityError
from steelyard.identification.constraints.constraint_system import ConstraintRows, join_rows
from steelyard.model import PARAMETER_COUNT, Frozen, MirrorWithin, TotalMass, parameter_names
from steelyard.wording import in_words

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray, IntArray
    from steelyard.identification.constraints.constraint_system import ConstraintSystem
    from steelyard.identification.parameter_sets import ParameterSet

HELD = "held"
"""The kind of rows that fix what is not looked for."""

_TIED = "tied to its mirror image"

_APART = 1e-7
"""Violation, relative to a row's length on scaled parameters, up to which rows count as compatible. Set by judgement:
a hundred times the linear programme's tolerance."""

_MOST_ROUNDS = 60
"""Rounds of cutting planes after which feasibility stays open. Set by judgement; the solver decides then."""

_ORDER = (
    *("total_mass", "mass_within", "mirror", "least_mass", "com"),
    *("matter", "matter_inside", "inertia", "frozen", HELD),
)
"""Order in which contradictory rows are named; the last is left out first where it is not needed."""


_UNDECIDED = "Whether some constraints contradict each other could not be decided before solving ({})."


def refuse_contradictions(system: ConstraintSystem, unknowns: ParameterSet) -> tuple[str, ...]:
    """Raise an error that names contradictory constraints, if no parameters satisfy all.

    What is not looked for counts as a constraint, and so do tied mirror pairs.

    Args:
        system: The constraints.
        unknowns: What is looked for.

    Returns:
        Remarks: one where feasibility could not be decided, else none.

    Raises:
        IdentifiabilityError: Some constraints contradict each other; `names` has them, and no more than are needed.
    """
    size = len(unknowns.start)
    rows = join_rows(
        [system.rows, _held_rows(system, unknowns), *(family.first(fine=True) for family in system.cut_families)], size
    )
    if _holds(system, rows, unknowns):
        return ()
    programme = _Programme(_scales(unknowns.reference), unknowns.start)
    for _ in range(_MOST_ROUNDS):
        found, infeasible, trouble = programme.solve(rows)
        if infeasible is not None:
            raise _error(programme.reduce(rows, infeasible))
        if found is None:
            return (_UNDECIDED.format(trouble),)
        cuts = [family.violated(found.reshape(-1, PARAMETER_COUNT), _APART) for family in system.cut_families]
        if not any(len(cut) for cut in cuts):
            return ()
        rows = join_rows([rows, *cuts], size)
    return (_UNDECIDED.format(f"{_MOST_ROUNDS} rounds of cuts left some of them broken"),)


@dataclass(frozen=True, eq=False)
class _Programme:
    """Linear programmes on ``φ = start + scales y``, with rows of length one."""

    scales: FloatArray
    start: FloatArray

    def solve(self, rows: ConstraintRows) -> tuple[FloatArray | None, IntArray | None, str]:
        """Return parameters deep inside all rows, or None and the infeasible rows, or neither and why.

        The depth is at most one, and at most half as much as a row with two sides is wide; equations are kept exactly.
        Variables that need not move stay at the start.
        """
        matrix, lower, upper = self._scaled(rows)
        equal = lower == upper
        width = np.minimum(1.0, 0.5 * (upper - lower))
        sides, limits, origin = _sides(matrix, lower, upper, np.flatnonzero(~equal))
        found = linprog(
            np.append(np.zeros(len(self.start)), -1.0),
            A_ub=hstack([sides, csr_array(width[origin][:, None])]) if len(origin) else None,
            b_ub=limits if len(origin) else None,
            A_eq=hstack([matrix[equal], csr_array((int(np.sum(equal)), 1))]) if np.any(equal) else None,
            b_eq=lower[equal] if np.any(equal) else None,
            bounds=[(None, None)] * len(self.start) + [(None, 1.0)],
            method="highs",
            options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
        )
        # Status 2: no depth helps, the equations themselves contradict each other.
        if found.status == 2 or (found.status == 0 and found.x[-1] < -_APART):
            return None, self.infeasible(rows), "they contradict each other by no more than rounding"
        if found.status != 0:
            return None, None, f"the linear programme ended with {' '.join(str(found.message).split())!r}"
        return self.start + self.scales * found.x[:-1], None, ""

    def infeasible(self, rows: ConstraintRows) -> IntArray | None:
        """Return the rows without which the least violation would be smaller; None where all are feasible.

        It is ``min t`` with every row, equations too, violated by at most ``t``. The rows with multipliers allow no
        smaller ``t``, and so contradict each other already.
        """
        matrix, lower, upper = self._scaled(rows)
        sides, limits, origin = _sides(matrix, lower, upper, np.arange(len(rows)))
        found = linprog(
            np.append(np.zeros(len(self.start)), 1.0),
            A_ub=hstack([sides, csr_array(np.full((len(origin), 1), -1.0))]),
            b_ub=limits,
            bounds=[(None, None)] * len(self.start) + [(0.0, None)],
            method="highs",
            options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
        )
        if found.status != 0 or found.fun <= _APART:
            return None
        weights = np.abs(found.ineqlin.marginals)
        return np.unique(origin[weights > 1e-9 * np.max(weights)])

    def reduce(self, rows: ConstraintRows, infeasible: IntArray) -> ConstraintRows:
        """Return an irreducible infeasible subset of the rows."""
        kept = rows.pick(infeasible)
        if self.infeasible(kept) is None:
            kept = rows  # multipliers lost to rounding
        for name in sorted(kept.names, key=lambda name: _rank(kept.kinds[kept.names.index(name)]), reverse=True):
            fewer = kept.pick(np.array([other != name for other in kept.names]))
            if len(fewer) and self.infeasible(fewer) is not None:
                kept = fewer
        return kept

    def _scaled(self, rows: ConstraintRows) -> tuple[csr_array, FloatArray, FloatArray]:
        """Return the rows on ``y``, each of length one."""
        scaled = rows.matrix * self.scales
        lengths = np.linalg.norm(scaled, axis=1)
        at_start = rows.matrix @ self.start
        return (
            csr_array(scaled / lengths[:, None]),
            (rows.lower - at_start) / lengths,
            (rows.upper - at_start) / lengths,
        )


def _sides(
    matrix: csr_array, lower: FloatArray, upper: FloatArray, which: IntArray
) -> tuple[csr_array, FloatArray, IntArray]:
    """Return one-sided rows ``matrix y ≤ limits``, and the row that each comes from."""
    below, above = which[np.isfinite(lower[which])], which[np.isfinite(upper[which])]
    return (
        vstack([-matrix[below], matrix[above]], format="csr"),
        np.concatenate([-lower[below], upper[above]]),
        np.concatenate([below, above]),
    )


def _held_rows(system: ConstraintSystem, unknowns: ParameterSet) -> ConstraintRows:
    """Return the equations of what is not looked for, and of what is tied to its mirror image.

    A frozen parameter that is not looked for is left to the row that freezes it, whose name is clearer.
    """
    size = len(unknowns.start)
    matrix = np.eye(size)
    matrix[:, unknowns.chosen] -= unknowns.transform
    values = unknowns.start - unknowns.transform @ unknowns.start[unknowns.chosen]
    frozen = {
        int(np.flatnonzero(row)[0]): value
        for row, value, kind in zip(system.rows.matrix, system.rows.lower, system.rows.kinds, strict=True)
        if kind == Frozen.kind
    }
    names = parameter_names(system.links)
    places, words = [], []
    looked_for = set(unknowns.chosen.tolist())
    for place in range(size):
        tied = bool(np.any(unknowns.transform[place]))
        if place in looked_for or (not tied and frozen.get(place) == values[place]):
            continue
        places.append(place)
        words.append(f"{names[place]} {_TIED if tied else 'not looked for'}")
    return ConstraintRows(matrix[places], values[places], values[places], tuple(words), (HELD,) * len(places))


def _holds(system: ConstraintSystem, rows: ConstraintRows, unknowns: ParameterSet) -> bool:
    """Return whether the start satisfies everything, as it is or scaled to the total mass asked for."""
    scales = _scales(unknowns.reference)
    sizes = np.linalg.norm(rows.matrix * scales, axis=1)
    start = unknowns.start.reshape(-1, PARAMETER_COUNT)
    candidates = [start]
    mass = float(np.sum(start[:, 0]))
    for lower, upper, kind in zip(system.rows.lower, system.rows.upper, system.rows.kinds, strict=True):
        if kind == TotalMass.kind and mass > 0.0:
            candidates.append(start * (0.5 * (lower + upper) / mass))
    return any(
        np.all(rows.violation(place) <= _APART * sizes)
        and not any(len(family.violated(place, _APART)) for family in system.cut_families)
        for place in candidates
    )


def _scales(reference: FloatArray) -> FloatArray:
    """Return the size of each parameter, shape (10 n_links,): a mass, and that mass at the link's own radius."""
    links = reference.reshape(-1, PARAMETER_COUNT)
    mass = np.maximum(links[:, 0], 1e-3)
    radius = np.sqrt(np.maximum(0.5 * links[:, [4, 6, 9]].sum(axis=1), 0.0) / mass)
    radius = np.clip(radius, 1e-2, 1.0)
    powers = np.repeat([0, 1, 2], [1, 3, 6])
    return np.asarray((mass[:, None] * radius[:, None] ** powers).reshape(-1))


def _rank(kind: str) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _error(rows: ConstraintRows) -> IdentifiabilityError:
    ordered = sorted(range(len(rows)), key=lambda row: _rank(rows.kinds[row]))
    names = list(dict.fromkeys(rows.names[row] for row in ordered))
    if len(names) == 1:
        return IdentifiabilityError(f"no parameters satisfy {names[0]}; loosen it, or leave it out", names=names)
    others = [rows.kinds[row] for row in ordered[1:]]
    words = []
    for kind in dict.fromkeys(others):
        alike = [rows.names[row] for row, each in zip(ordered[1:], others, strict=True) if each == kind]
        words += alike if len(alike) <= 3 else [f"{alike[0]} (and {len(alike) - 1} others like it)"]
    remedy = "freeze one side only, or leave out mirror" if _is_frozen_pair(rows) else "loosen or leave out one of them"
    return IdentifiabilityError(
        f"{names[0]} contradicts {in_words(words, limit=8)}: no parameters satisfy them together; {remedy}", names=names
    )


def _is_frozen_pair(rows: ConstraintRows) -> bool:
    """Return whether the contradiction is only that two frozen links are tied and differ."""
    frozen = {name.rpartition(".")[0] for name, kind in zip(rows.names, rows.kinds, strict=True) if kind == Frozen.kind}
    others = [
        name for name, kind in zip(rows.names, rows.kinds, strict=True) if kind not in (Frozen.kind, MirrorWithin.kind)
    ]
    return len(frozen) > 1 and all(name.endswith(_TIED) for name in others)
