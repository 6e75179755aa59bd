"""A hierarchy of groups, each outranking those below it: [jovic2016] (7), or any that a user writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.identification.cascade import Level, solve_cascade
from steelyard.identification.constrained import Unknowns
from steelyard.identification.estimate import LevelReport
from steelyard.identification.sensitivity import answer_to_data
from steelyard.identification.truncated import check_condition
from steelyard.model.constraints import CONSTRAINT_CLASSES
from steelyard.model.names import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.identification.cascade import CascadeSolution
    from steelyard.identification.constraint_rows import ConstraintSystem
    from steelyard.identification.problem import Problem
    from steelyard.identification.truncated import Scale
    from steelyard.model.constraints import Constraint
    from steelyard.model.parameters import FloatArray

DATA, REFERENCE = "data", "reference"

LEVELS = {
    "physics": ("least_mass", "total_mass", "com", "inertia", "matter", "frozen"),
    "plausibility": ("mirror", "mass_within"),
    "data": (DATA,),
    "reference": (REFERENCE,),
}
"""The four levels of [jovic2016] (7)."""

_ROUNDING = 1e-7
"""Share of the strongest direction's effect below which data say nothing that counts."""

_SHOWN = 1e-7


@dataclass(frozen=True, eq=False)
class HierarchicalSolution:
    """A lexicographic minimum.

    Attributes:
        unknowns: ``z``, shape (n_unknowns,).
        cascade: The minimum, level by level.
        kept: How many directions the data level has.
        covariance: Of ``z``, from noise, what binds taken as known; shape (n_unknowns, n_unknowns).
        response: How ``z`` answers to the true one on average, likewise.
        active: Names of the constraints that bind.
        levels: What became of each level.
    """

    unknowns: FloatArray
    cascade: CascadeSolution
    kept: int
    covariance: FloatArray
    response: FloatArray
    active: tuple[str, ...]
    levels: tuple[LevelReport, ...]


def read_levels(
    given: Sequence[Sequence[str | Constraint]] | None,
) -> tuple[dict[str, tuple[str, ...]], tuple[Constraint, ...]]:
    """Gives the kinds in each level, by its name, and the constraints that were written into levels.

    Args:
        given: Levels from the highest down, each a list of kinds of constraints ("total_mass"), of constraints, "data"
            and "reference"; None for the paper's four.

    Raises:
        IdentifiabilityError: A word is unknown, stands twice, or the data are left out.
    """
    if given is None:
        return dict(LEVELS), ()
    words = (*CONSTRAINT_CLASSES, DATA, REFERENCE)
    if isinstance(given, str) or not all(isinstance(level, list | tuple) and len(level) for level in given):
        raise IdentifiabilityError(
            f"levels is {given!r}; write a list of lists, the highest first, such as "
            '[["least_mass", "inertia"], ["data"], ["reference"]]'
        )
    levels: dict[str, tuple[str, ...]] = {}
    constraints: list[Constraint] = []
    for number, level in enumerate(given, start=1):
        kinds: list[str] = []
        for entry in level:
            if isinstance(entry, str) and entry in words:
                kinds.append(entry)
            elif not isinstance(entry, str) and isinstance(entry, tuple(CONSTRAINT_CLASSES.values())):
                constraints.append(entry)
                kinds.append(entry.kind)
            else:
                raise IdentifiabilityError(
                    f"level {number} has {entry!r}{did_you_mean(str(entry), words)}; write constraints or some of "
                    f"{in_words(list(words))}",
                    names=[str(entry)],
                )
        kinds = list(dict.fromkeys(kinds))
        taken = next((kind for kind in kinds if any(kind in others for others in levels.values())), None)
        if taken is not None:
            raise IdentifiabilityError(f"{taken!r} stands in two levels; let it stand in one", names=[taken])
        levels[next((name for name, usual in LEVELS.items() if usual == tuple(kinds)), " and ".join(kinds))] = tuple(
            kinds
        )
    if not any(DATA in kinds for kinds in levels.values()):
        raise IdentifiabilityError('no level has "data": nothing would be learned; give them a level')
    return levels, tuple(constraints)


def solve_hierarchical(
    problem: Problem,
    system: ConstraintSystem,
    levels: dict[str, tuple[str, ...]],
    *,
    c_max: float | None = None,
    scale: Scale = "spread",
) -> HierarchicalSolution:
    """Gives the lexicographic minimum of levels of constraints, data and reference.

    Data outrank the reference wherever they are asked for a direction at all. By default they are asked for those in
    which they say more than the reference does: whose singular value, each unknown measured by how far a model is
    usually off, is above the noise. All others are left to the levels below. The paper asks them for everything; noise
    then decides what is hardly excited, to whatever the constraints allow.

    Args:
        problem: The problem.
        system: The constraints of all levels; those of the first do not contradict each other.
        levels: Kinds in each level by its name, the highest first; see `read_levels`.
        c_max: Greatest condition number of the directions that the data are asked for; None for the noise to decide,
            or, without a scale, for all of them.
        scale: "spread", or "none" for SI units, as in the paper.

    Raises:
        IdentifiabilityError: An option makes no sense.
        SolverError: A level was not solved.
    """
    check_condition(c_max)
    unknowns = Unknowns(problem, scale)
    left, values, right = unknowns.factors
    largest = float(np.max(values, initial=0.0))
    least = largest / c_max if c_max is not None else problem.noise if scale == "spread" else 0.0
    kept = int(np.count_nonzero(values > max(least, _ROUNDING * largest)))
    goal = left[:, :kept].T @ problem.right
    data = Level(DATA, values[:kept, None] * right[:kept], goal, goal)
    built = [_build(unknowns, name, kinds, system, data) for name, kinds in levels.items()]
    cascade, names = [level for level, _ in built], [each for _, each in built]
    start = np.zeros(len(right.T))
    found = solve_cascade(cascade, start)
    number = next(place for place, kinds in enumerate(levels.values()) if DATA in kinds)
    answer = unknowns.root @ answer_to_data(cascade, found, number, kept)
    unexplained = max(0.0, float(problem.right @ problem.right - goal @ goal))
    reports = []
    for place, (name, kinds) in enumerate(levels.items()):
        offset = unexplained if place == number else 0.0
        before = [solve_cascade([*cascade[:above], cascade[place]], start).costs[-1] + offset for above in range(place)]
        families = [(separator.kind, system.links) for separator in system.of(kinds).separators]
        broken = _broken(found, place, cascade[place], names[place], families)
        reports.append(LevelReport(name, kinds, found.costs[place] + offset, tuple(before), broken))
    return HierarchicalSolution(
        unknowns.root @ found.unknowns,
        found,
        kept,
        problem.noise**2 * (answer @ answer.T),
        answer @ (left[:, :kept].T @ problem.matrix),
        unknowns.active(found, names),
        tuple(reports),
    )


def _build(
    unknowns: Unknowns, name: str, kinds: Sequence[str], system: ConstraintSystem, data: Level
) -> tuple[Level, tuple[str, ...]]:
    """Gives one level and the names of its rows; data come first in it, so that their rows are easily found."""
    level, names = unknowns.level(name, system.of(kinds))
    for wanted, word, addition in ((REFERENCE, "reference", unknowns.reference()), (DATA, "data", data)):
        if wanted in kinds:
            level = replace(
                level,
                matrix=np.concatenate([addition.matrix, level.matrix]),
                lower=np.concatenate([addition.lower, level.lower]),
                upper=np.concatenate([addition.upper, level.upper]),
            )
            names = (word,) * len(addition.matrix) + names
    return level, names


def _broken(
    found: CascadeSolution,
    place: int,
    level: Level,
    names: Sequence[str],
    families: Sequence[tuple[str, Sequence[str]]],
) -> tuple[str, ...]:
    """Gives the names of a level's constraints that are broken, worst first; data and reference are no constraints."""
    lengths = np.linalg.norm(level.matrix, axis=1)
    worst = np.argsort(-found.violations[place] / np.maximum(lengths, 1e-300))
    rows = [
        names[row]
        for row in worst.tolist()
        if found.violations[place][row] > _SHOWN * lengths[row] and names[row] not in (DATA, REFERENCE)
    ]
    shared = sorted(found.shared[place].items(), key=lambda item: -item[1])
    kinds = [(*families[number], link) for (number, link), value in shared if value > _SHOWN]
    return (*rows, *(f"{links[link]}: {kind}" for kind, links, link in kinds))
