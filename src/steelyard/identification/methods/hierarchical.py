"""A hierarchy of levels, each outranking those below it: [jovic2016] (7), or any that a user writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import chdtri

from steelyard.arrays import is_finite_number
from steelyard.exceptions import IdentifiabilityError, SolverError
from steelyard.identification.constraints.contradictions import refuse_contradictions
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.identification.estimate.estimate import LevelReport
from steelyard.identification.methods.option_checks import check_condition, check_scale
from steelyard.identification.methods.priority_levels import DATA, REFERENCE, read_levels
from steelyard.identification.methods.scaled_unknowns import Unknowns
from steelyard.identification.methods.solution import Solution, merge_constraints
from steelyard.identification.solvers.lexicographic import Level, solve_cascade
from steelyard.identification.solvers.sensitivity import differentiate_by_data
from steelyard.model import constraint_table
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.identification.constraints.constraint_system import ConstraintSystem
    from steelyard.identification.methods.option_checks import Scale
    from steelyard.identification.methods.solution import Task
    from steelyard.identification.problem import Problem
    from steelyard.identification.solvers.lexicographic import CascadeSolution

_ROUNDING = 1e-7
"""Singular value, relative to the greatest, below which a direction is not observable. Set by judgement: about the root
of double precision."""

_SHOWN = 1e-7
"""Violation of a row, relative to its length, from which it is listed as broken. Set by judgement: ten times what cuts
are solved to (`solvers/lexicographic.py`)."""

_PRIOR_WEIGHTS = (0.01, 10.0, 1e4)
"""Squared usual deviations of the model against squared standard errors of the data beyond their tolerance: ten usual
deviations cost as much as one standard error (docs/decisions/0011). The others are tried where no minimum is found."""

USUAL_TOLERANCE = 2.0
"""Standard errors to within which data are explained, by spread; measured in docs/decisions/0011."""

_CHANCE = 1e-3
"""Probability, by noise alone, below which a level's cost to the data is remarked. Set by judgement: one false remark
in a thousand estimates."""


@dataclass(frozen=True, eq=False)
class HierarchicalProblem:
    """Levels of constraints, data and reference.

    Attributes:
        unknowns: The scaled unknowns.
        system: The constraints of all levels.
        kinds: Kinds of constraints in each level by its name, the highest first.
        c_max: Greatest condition number of the data level's directions, or None.
        within: Times their noise by which the data may miss each direction.
        prior_weight: Of the model's deviation in the data level; see `_PRIOR_WEIGHTS`.
        data: The data level alone: one row for each singular direction.
        levels: The levels.
        names: Of the rows of each level.
    """

    unknowns: Unknowns
    system: ConstraintSystem
    kinds: dict[str, tuple[str, ...]]
    c_max: float | None
    within: float
    prior_weight: float
    data: Level
    levels: tuple[Level, ...]
    names: tuple[tuple[str, ...], ...]

    @property
    def kept(self) -> int:
        """The number of directions that the data are asked for."""
        return len(self.data.matrix)

    @property
    def held(self) -> ConstraintSystem:
        """The constraints that must hold: those of the first level, unless data or reference share it."""
        first = next(iter(self.kinds.values()))
        return self.system.of(() if DATA in first or REFERENCE in first else first)


def build_hierarchical(
    problem: Problem,
    system: ConstraintSystem,
    levels: dict[str, tuple[str, ...]],
    *,
    c_max: float | None = None,
    scale: Scale = "spread",
    tolerance: float | None = None,
) -> HierarchicalProblem:
    """Write constraints, data and reference as levels.

    Data outrank the reference. In the paper they do so even where they carry next to no information, and noise then
    decides what is hardly excited, to whatever the constraints allow. Here they are by default asked only for the
    directions in which they are more precise than the reference (singular values above the noise, unknowns scaled by
    the usual deviation of a model), and to be explained there to within two standard errors,
    ``|σ_i v_iᵀ y − u_iᵀ b| ≤ 2 noise``. A standard error beyond that costs as much as ten usual deviations of the
    model: without such a limit, a small conflict between data and constraints moves whatever is hardly observable
    without bound.

    Args:
        problem: The problem.
        system: The constraints of all levels; those of the first do not contradict each other.
        levels: Kinds in each level by its name, the highest first; see `read_levels`.
        c_max: Greatest condition number of the directions that the data are asked for; None for the noise to decide,
            or, without a scale, for all of them.
        scale: "spread", or "none" for SI units, as in the paper.
        tolerance: Times their noise by which data may miss each direction; zero for least squares, as in the paper.
            None is two by spread, and zero without a scale.

    Raises:
        IdentifiabilityError: An option is invalid.
    """
    check_condition(c_max)
    unknowns = Unknowns(problem, scale)
    return _build(unknowns, system, levels, c_max, _tolerance(tolerance, scale), _PRIOR_WEIGHTS[0])


def _build(
    unknowns: Unknowns,
    system: ConstraintSystem,
    kinds: dict[str, tuple[str, ...]],
    c_max: float | None,
    within: float,
    prior_weight: float,
) -> HierarchicalProblem:
    data = _data(unknowns, c_max, unknowns.problem.noise * within, prior_weight)
    levels, names = _levels(unknowns, system, kinds, data)
    return HierarchicalProblem(unknowns, system, kinds, c_max, within, prior_weight, data, levels, names)


def solve_hierarchical(given: HierarchicalProblem) -> Solution:
    """Return the lexicographic minimum; covariance and response take active constraints as known.

    Raises:
        SolverError: A level was not solved.
    """
    # Where data and constraints disagree by thousands of standard errors, a weight made for one is too small.
    for weight in _PRIOR_WEIGHTS[1:] if given.within > 0.0 else ():
        try:
            return _solve(given)
        except SolverError:
            given = _build(given.unknowns, given.system, given.kinds, given.c_max, given.within, weight)
    return _solve(given)


def _solve(given: HierarchicalProblem) -> Solution:
    unknowns, problem = given.unknowns, given.unknowns.problem
    found = solve_cascade(given.levels, np.zeros(len(problem.unknowns)))
    number = next(index for index, kinds in enumerate(given.kinds.values()) if DATA in kinds)
    left, _, _ = unknowns.factors
    answer = unknowns.root @ differentiate_by_data(given.levels, found, number, given.kept)
    # What the data level does not follow to the end is off by its tolerance.
    noise = np.sqrt(problem.noise**2 + (problem.noise * given.within) ** 2)
    z = unknowns.root @ found.unknowns
    active = tuple(name for name in unknowns.active(found, given.names) if name not in (DATA, REFERENCE))
    violation, _ = given.held.worst(problem.unknowns.expand(z))
    return Solution(
        z,
        noise**2 * (answer @ answer.T),
        answer @ (left[:, : given.kept].T @ problem.matrix),
        "solved",
        active,
        certificate=found.certificate(violation, active),
        levels=_reports(given, found),
    )


def identify_hierarchical(
    task: Task,
    *,
    levels: Sequence[Sequence[Any]] | None = None,
    c_max: float | None = None,
    scale: Scale = "spread",
    tolerance: float | None = None,
) -> Solution:
    """Return the solution of the method "hierarchical", with remarks on its levels."""
    check_scale(scale)
    kinds, written = read_levels(levels)
    used = (*merge_constraints(task.model, "hierarchical", task.constraints), *written)
    wanted = {kind for level in kinds.values() for kind in level}
    homeless = [constraint.kind for constraint in task.constraints if constraint.kind not in wanted]
    if homeless:
        raise IdentifiabilityError(
            f"the constraint {homeless[0]!r} stands in no level; give it one, or leave it out", names=homeless
        )
    system = resolve_constraints(task.model, [constraint for constraint in used if constraint.kind in wanted])
    doubts = refuse_contradictions(system.of(next(iter(kinds.values()))), task.problem.unknowns)
    given = build_hierarchical(task.problem, system, kinds, c_max=c_max, scale=scale, tolerance=tolerance)
    solution = solve_hierarchical(given)
    remark = (
        f"The data were asked for {given.kept} combinations of parameters"
        + (f", to within {given.within:g} times their noise" if given.within else "")
        + "; what that leaves open is decided by the levels below."
    )
    options: dict[str, Any] = {"constraints": constraint_table(used)}
    if levels is not None:
        options["levels"] = [list(level) for level in kinds.values()]
    remarks = (remark, *_about_levels(given, solution), *doubts, *system.remarks)
    return task.judge(replace(solution, remarks=remarks, options=options), given.held)


def _tolerance(tolerance: float | None, scale: Scale) -> float:
    if tolerance is None:
        return USUAL_TOLERANCE if scale == "spread" else 0.0
    if not (is_finite_number(tolerance) and tolerance >= 0.0):
        raise IdentifiabilityError(f"tolerance is {tolerance!r}; it must be a number of zero or more")
    return float(tolerance)


def _data(unknowns: Unknowns, c_max: float | None, allowed: float, weight: float) -> Level:
    """Return the data as a level, one row for each singular direction that is kept."""
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
    # The deviation from the model, and the other directions of the data, which observe it too.
    weight, noise, count = np.sqrt(weight), _noise(unknowns), len(right.T)
    rows = np.concatenate([noise * np.eye(count), values[kept:, None] * right[kept:]])
    others = np.concatenate([np.zeros(count), left[:, kept:].T @ unknowns.problem.right])
    return replace(level, regularisation=(weight * rows, weight * others))


def _noise(unknowns: Unknowns) -> float:
    """Return the noise, or what counts as rounding where there is next to none."""
    return max(unknowns.problem.noise, _ROUNDING * float(np.max(unknowns.factors[1], initial=0.0)))


def _levels(
    unknowns: Unknowns, system: ConstraintSystem, kinds: dict[str, tuple[str, ...]], data: Level
) -> tuple[tuple[Level, ...], tuple[tuple[str, ...], ...]]:
    built = [_level(unknowns, name, each, system, data) for name, each in kinds.items()]
    return tuple(level for level, _ in built), tuple(names for _, names in built)


def _reports(given: HierarchicalProblem, found: CascadeSolution) -> tuple[LevelReport, ...]:
    """Return the result of each level, and its cost under fewer of the levels above.

    The cost of the data is by least squares: as they are, without a tolerance; with one, in the directions in which
    they are more precise than the model, and with the deviation's weight, as in the level itself.
    """
    unknowns, problem, kinds = given.unknowns, given.unknowns.problem, given.kinds
    priced = given.data if given.within == 0.0 else _data(unknowns, None, 0.0, given.prior_weight)
    count, width = priced.matrix.shape
    unexplained = max(0.0, float(problem.right @ problem.right - priced.lower @ priced.lower))
    if given.within != 0.0:
        far = np.sqrt(given.prior_weight) * _noise(unknowns) * np.eye(width)
        goal = np.concatenate([priced.lower, np.zeros(width)])
        priced = Level(DATA, np.concatenate([priced.matrix, far]), goal, goal)
    levels, _ = _levels(unknowns, given.system, kinds, priced)
    start = np.zeros(width)

    def price(numbers: list[int]) -> float:
        answer = solve_cascade([levels[each] for each in numbers], start)
        if DATA not in list(kinds.values())[numbers[-1]]:
            return answer.costs[-1]
        return float(np.sum(np.square(answer.violations[-1][:count]))) + unexplained

    reports = []
    for number, (name, contents) in enumerate(kinds.items()):
        costs = tuple(price([*range(above), number]) for above in range(number))
        cost = price(list(range(number + 1))) if DATA in contents else found.costs[number]
        families = [(family.kind, given.system.links) for family in given.system.of(contents).cut_families]
        broken = _broken(found, number, levels[number], given.names[number], families)
        reports.append(LevelReport(name, contents, cost, costs, broken))
    return tuple(reports)


def _level(
    unknowns: Unknowns, name: str, kinds: Sequence[str], system: ConstraintSystem, data: Level
) -> tuple[Level, tuple[str, ...]]:
    """Return one level and the names of its rows; data come first in it."""
    level, names = unknowns.level(name, system.of(kinds))
    for wanted, word, addition in ((REFERENCE, "reference", unknowns.reference()), (DATA, "data", data)):
        if wanted in kinds:
            level = replace(
                level,
                matrix=np.concatenate([addition.matrix, level.matrix]),
                lower=np.concatenate([addition.lower, level.lower]),
                upper=np.concatenate([addition.upper, level.upper]),
                regularisation=addition.regularisation or level.regularisation,
            )
            names = (word,) * len(addition.matrix) + names
    return level, names


def _broken(
    found: CascadeSolution,
    number: int,
    level: Level,
    names: Sequence[str],
    families: Sequence[tuple[str, Sequence[str]]],
) -> tuple[str, ...]:
    """Return the names of a level's broken constraints, worst first; data and reference are no constraints."""
    violations = found.violations[number]
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
    shared = sorted(found.shared[number].items(), key=lambda item: -item[1])
    kinds = [(*families[source], link) for (source, link), value in shared if value > _SHOWN]
    return (*rows, *(f"{links[link]}: {kind}" for kind, links, link in kinds))


def _about_levels(given: HierarchicalProblem, found: Solution) -> list[str]:
    """Return remarks on levels that could not be held, and on those that cost the data more than noise explains."""
    system, noise = given.system, given.unknowns.problem.noise
    remarks = [
        f"The level '{report.name}' could not be satisfied under those above it: "
        f"{in_words(list(report.broken), limit=6)}."
        for report in found.levels
        if report.broken
    ]
    kinds = dict(zip(system.rows.names, system.rows.kinds, strict=True))
    for number, report in enumerate(found.levels):
        if DATA not in report.contents:
            continue
        costs = [*report.before, report.cost]
        for above in range(number):
            gained = (costs[above + 1] - costs[above]) / max(noise, 1e-300) ** 2
            # The cost rises in no more directions than the data are asked for.
            if gained <= chdtri(max(given.kept, 1), _CHANCE):
                continue
            level = found.levels[above]
            rows = system.of(level.contents).rows
            equations = [
                name for name, low, high in zip(rows.names, rows.lower, rows.upper, strict=True) if low == high
            ]
            names = [*equations, *(name for name in found.active if kinds.get(name, "inertia") in level.contents)]
            culprits = f" {in_words(names[:4])} are active." if names else ""
            remarks.append(
                f"The level '{level.name}' disagrees with the data: it raises their cost from {costs[above]:.4g} to "
                f"{costs[above + 1]:.4g}, more than noise explains.{culprits} Loosen what you are not sure of, or "
                'estimate sensor offsets (nuisance "wrench_offset").'
            )
    return remarks
