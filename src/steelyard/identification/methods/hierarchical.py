"""A hierarchy of groups, each outranking those below it: [jovic2016] (7), or any that a user writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import IdentifiabilityError, SolverError
from steelyard.identification.estimate.estimate import LevelReport
from steelyard.identification.methods.scaled_unknowns import Unknowns
from steelyard.identification.methods.truncated import check_condition
from steelyard.identification.solvers.lexicographic import Level, solve_cascade
from steelyard.identification.solvers.sensitivity import answer_to_data
from steelyard.model import CONSTRAINT_CLASSES, parse_constraints
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.resolve import ConstraintSystem
    from steelyard.identification.methods.truncated import Scale
    from steelyard.identification.problem import Problem
    from steelyard.identification.solvers.lexicographic import CascadeSolution
    from steelyard.model import Constraint

DATA, REFERENCE = "data", "reference"

LEVELS = {
    "physics": ("least_mass", "total_mass", "com", "inertia", "matter", "matter_inside", "frozen"),
    "plausibility": ("mirror", "mass_within"),
    "data": (DATA,),
    "reference": (REFERENCE,),
}
"""The four levels of [jovic2016] (7)."""

_ROUNDING = 1e-7
"""Share of the strongest direction's effect below which data say nothing that counts."""

_SHOWN = 1e-7
_DRAGS = (0.01, 10.0, 1e4)
"""What a usual deviation of the model costs beside a standard error of the data beyond their tolerance: ten usual
deviations are as bad as one standard error. The others are tried where no minimum is found with it."""

USUAL_TOLERANCE = 2.0
"""Standard errors to within which data are to be explained, by spread."""


@dataclass(frozen=True, eq=False)
class HierarchicalSolution:
    """A lexicographic minimum.

    Attributes:
        unknowns: ``z``, shape (n_unknowns,).
        cascade: The minimum, level by level.
        kept: How many directions the data level has.
        within: How many times their noise the data may miss each of them.
        covariance: Of ``z``, from noise, what binds taken as known; shape (n_unknowns, n_unknowns).
        response: How ``z`` answers to the true one on average, likewise.
        active: Names of the constraints that bind.
        levels: What became of each level.
    """

    unknowns: FloatArray
    cascade: CascadeSolution
    kept: int
    within: float
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
    if not isinstance(given, list | tuple) or not all(
        isinstance(level, list | tuple) and len(level) for level in given
    ):
        raise IdentifiabilityError(
            f"levels is {given!r}; write a list of lists, the highest first, such as "
            '[["least_mass", "inertia"], ["data"], ["reference"]]'
        )
    levels: dict[str, tuple[str, ...]] = {}
    constraints: list[Constraint] = []
    for number, level in enumerate(given, start=1):
        kinds: list[str] = []
        for entry in _entries(level):
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


def _entries(level: Sequence[str | Constraint]) -> list[str | Constraint]:
    """Gives the entries of a level, texts of constraints read."""
    entries: list[str | Constraint] = []
    for entry in level:
        written = isinstance(entry, str) and "=" in entry
        entries += parse_constraints([entry], "levels") if written else [entry]  # type: ignore[list-item]
    return entries


def solve_hierarchical(
    problem: Problem,
    system: ConstraintSystem,
    levels: dict[str, tuple[str, ...]],
    *,
    c_max: float | None = None,
    scale: Scale = "spread",
    tolerance: float | None = None,
) -> HierarchicalSolution:
    """Gives the lexicographic minimum of levels of constraints, data and reference.

    Data outrank the reference. In the paper they do so even where they say next to nothing, and noise then decides
    what is hardly excited, to whatever the constraints allow. Here they are by default asked only for the directions in
    which they say more than the reference does (singular values above the noise, each unknown measured by how far a
    model is usually off), and to be explained there to within two standard errors, ``|σ_i v_iᵀ y − u_iᵀ b| ≤ 2 noise``.
    A standard error beyond that weighs as much as ten usual deviations of the model: without such a limit, a little
    that data and constraints cannot agree on sends whatever is hardly seen anywhere.

    Args:
        problem: The problem.
        system: The constraints of all levels; those of the first do not contradict each other.
        levels: Kinds in each level by its name, the highest first; see `read_levels`.
        c_max: Greatest condition number of the directions that the data are asked for; None for the noise to decide,
            or, without a scale, for all of them.
        scale: "spread", or "none" for SI units, as in the paper.
        tolerance: How many times their noise data may miss each direction; zero for least squares, as in the paper.
            None is two by spread, and zero without a scale.

    Raises:
        IdentifiabilityError: An option makes no sense.
        SolverError: A level was not solved.
    """
    check_condition(c_max)
    unknowns = Unknowns(problem, scale)
    within = _tolerance(tolerance, scale)
    # Where data and constraints disagree by thousands of standard errors, a weight made for one is none.
    weights = _DRAGS if within > 0.0 else _DRAGS[:1]
    for weight in weights:
        try:
            return _solve(unknowns, system, levels, c_max, within, weight)
        except SolverError:
            if weight == weights[-1]:
                raise
    raise AssertionError  # the loop returns or raises


def _solve(
    unknowns: Unknowns,
    system: ConstraintSystem,
    levels: dict[str, tuple[str, ...]],
    c_max: float | None,
    within: float,
    weight: float,
) -> HierarchicalSolution:
    problem = unknowns.problem
    allowed = problem.noise * within
    data = _data(unknowns, c_max, allowed, weight)
    cascade, names = _cascade(unknowns, system, levels, data)
    found = solve_cascade(cascade, np.zeros(len(problem.unknowns)))
    number = next(place for place, kinds in enumerate(levels.values()) if DATA in kinds)
    left, _, _ = unknowns.factors
    kept = len(data.matrix)
    answer = unknowns.root @ answer_to_data(cascade, found, number, kept)
    # What the data level does not follow to the end is off by what it is allowed.
    noise = np.sqrt(problem.noise**2 + allowed**2)
    return HierarchicalSolution(
        unknowns.root @ found.unknowns,
        found,
        kept,
        within,
        noise**2 * (answer @ answer.T),
        answer @ (left[:, :kept].T @ problem.matrix),
        tuple(name for name in unknowns.active(found, names) if name not in (DATA, REFERENCE)),
        _reports(unknowns, system, levels, found, names, data if within == 0.0 else None, weight),
    )


def _tolerance(tolerance: float | None, scale: Scale) -> float:
    if tolerance is None:
        return USUAL_TOLERANCE if scale == "spread" else 0.0
    number = isinstance(tolerance, int | float | np.number) and not isinstance(tolerance, bool)
    if not (number and np.isfinite(tolerance) and tolerance >= 0.0):
        raise IdentifiabilityError(f"tolerance is {tolerance!r}; it must be a number of zero or more")
    return float(tolerance)


def _data(unknowns: Unknowns, c_max: float | None, allowed: float, weight: float) -> Level:
    """Gives the data as a level, one row for each singular direction that counts."""
    left, values, right = unknowns.factors
    largest = float(np.max(values, initial=0.0))
    least = max(_ROUNDING * largest, largest / c_max if c_max is not None else 0.0)
    if c_max is None and unknowns.scale == "spread":
        least = max(least, unknowns.problem.noise)
    kept = int(np.count_nonzero(values > least))
    goal = left[:, :kept].T @ unknowns.problem.right
    level = Level(DATA, values[:kept, None] * right[:kept], goal - allowed, goal + allowed)
    if allowed == 0.0:
        return level
    # How far the model is, and what the other directions of the data say of that.
    weight, noise, count = np.sqrt(weight), _audible(unknowns), len(right.T)
    rows = np.concatenate([noise * np.eye(count), values[kept:, None] * right[kept:]])
    others = np.concatenate([np.zeros(count), left[:, kept:].T @ unknowns.problem.right])
    return replace(level, drag=(weight * rows, weight * others))


def _audible(unknowns: Unknowns) -> float:
    """Gives the noise, or what counts as rounding where there is next to none."""
    return max(unknowns.problem.noise, _ROUNDING * float(np.max(unknowns.factors[1], initial=0.0)))


def _cascade(
    unknowns: Unknowns, system: ConstraintSystem, levels: dict[str, tuple[str, ...]], data: Level
) -> tuple[list[Level], list[tuple[str, ...]]]:
    built = [_build(unknowns, name, kinds, system, data) for name, kinds in levels.items()]
    return [level for level, _ in built], [names for _, names in built]


def _reports(
    unknowns: Unknowns,
    system: ConstraintSystem,
    levels: dict[str, tuple[str, ...]],
    found: CascadeSolution,
    names: list[tuple[str, ...]],
    squares: Level | None,
    weight: float,
) -> tuple[LevelReport, ...]:
    """Tells what became of each level, and what it would have cost under fewer of those above.

    Data are priced by least squares: as they are, where they are `squares`; with a tolerance, in the directions in
    which they say more than the model does, and distances count a little with it, as they do in the level itself.
    """
    problem = unknowns.problem
    priced = squares or _data(unknowns, None, 0.0, weight)
    count, width = priced.matrix.shape
    unexplained = max(0.0, float(problem.right @ problem.right - priced.lower @ priced.lower))
    if squares is None:
        far = np.sqrt(weight) * _audible(unknowns) * np.eye(width)
        goal = np.concatenate([priced.lower, np.zeros(width)])
        priced = Level(DATA, np.concatenate([priced.matrix, far]), goal, goal)
    cascade, _ = _cascade(unknowns, system, levels, priced)
    start = np.zeros(width)

    def price(numbers: list[int]) -> float:
        answer = solve_cascade([cascade[each] for each in numbers], start)
        if DATA not in list(levels.values())[numbers[-1]]:
            return answer.costs[-1]
        return float(np.sum(np.square(answer.violations[-1][:count]))) + unexplained

    reports = []
    for place, (name, kinds) in enumerate(levels.items()):
        costs = tuple(price([*range(above), place]) for above in range(place))
        cost = price(list(range(place + 1))) if DATA in kinds else found.costs[place]
        families = [(separator.kind, system.links) for separator in system.of(kinds).separators]
        broken = _broken(found, place, cascade[place], names[place], families)
        reports.append(LevelReport(name, kinds, cost, costs, broken))
    return tuple(reports)


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
                drag=addition.drag or level.drag,
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
    violations = found.violations[place]
    # Data and reference come first, and may be other rows here than in the level that was solved.
    lengths = np.ones(len(violations))
    count = sum(name not in (DATA, REFERENCE) for name in names)
    if count:
        lengths[-count:] = np.linalg.norm(level.matrix[-count:], axis=1)
    worst = np.argsort(-violations / np.maximum(lengths, 1e-300))
    rows = [
        names[row]
        for row in worst.tolist()
        if violations[row] > _SHOWN * lengths[row] and names[row] not in (DATA, REFERENCE)
    ]
    shared = sorted(found.shared[place].items(), key=lambda item: -item[1])
    kinds = [(*families[number], link) for (number, link), value in shared if value > _SHOWN]
    return (*rows, *(f"{links[link]}: {kind}" for kind, links, link in kinds))
