"""Levels are solved in their order, each as well as those above allow: against two other solvers, and by laws."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from steelyard.identification.solvers.lexicographic import Level, solve_cascade
from tests.identification.hierarchies import random_hierarchy
from tests.identification.hierarchy_oracles import (
    Group,
    costs_at,
    sizes,
    solve_by_clarabel,
    solve_by_daqp,
    solve_conic,
    violation,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.solvers.lexicographic import CascadeSolution

SEEDS = range(50)
# Costs are squares: this is a violation of a millionth of the level's size.
FLOOR = 1e-12


def solve(levels: Sequence[Group], start: FloatArray | None = None) -> CascadeSolution:
    count = levels[0].matrix.shape[1]
    given_levels = [Level(level.name, level.matrix, level.lower, level.upper) for level in levels]
    return solve_cascade(given_levels, np.zeros(count) if start is None else start)


@cache
def by_clarabel(seed: int) -> FloatArray:
    return solve_by_clarabel(random_hierarchy(seed))[1]


@cache
def ours(seed: int) -> CascadeSolution:
    return solve(random_hierarchy(seed))


def assert_same_costs(found: FloatArray, wanted: FloatArray, levels: Sequence[Group], rtol: float = 1e-6) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    apart = np.abs(found - wanted) / (rtol * wanted + FLOOR * sizes(levels))
    assert np.all(apart <= 1.0), f"{[level.name for level in levels]}: {found} instead of {wanted}"


# Against others.


@pytest.mark.parametrize("seed", SEEDS)
def test_each_level_costs_what_a_plain_cascade_of_conic_programs_finds(seed):
    levels, solution = random_hierarchy(seed), ours(seed)
    assert_same_costs(solution.costs, by_clarabel(seed), levels)
    # What is said of a level still holds at the end, when all levels below have had their turn.
    assert_same_costs(costs_at(levels, solution.unknowns), by_clarabel(seed), levels)
    for level, broken in zip(levels, solution.violations, strict=True):
        found = violation(level, solution.unknowns)
        np.testing.assert_allclose(broken, np.abs(found), rtol=0.0, atol=1e-6 * (1.0 + np.max(np.abs(found))))


def test_no_other_hierarchical_solver_finds_a_better_point():
    agreeing = 0
    for seed in SEEDS:
        levels = random_hierarchy(seed)
        theirs, mine = costs_at(levels, solve_by_daqp(levels)), costs_at(levels, ours(seed).unknowns)
        # Whoever gives up 1e-10 of one level may gain 1e-4 in the next: a gain counts where nothing above was given up.
        gained = theirs < mine - 1e-6 * mine - FLOOR * sizes(levels)
        given_up = theirs > mine + 1e-12 * mine + 1e-20 * sizes(levels)
        assert not np.any(gained & ~np.maximum.accumulate(given_up)), f"{seed}: {mine}, daqp {theirs}"
        agreeing += bool(np.all(np.abs(theirs - mine) <= 1e-6 * mine + 1e-10 * sizes(levels)))
    assert agreeing >= 40


# Laws of the hierarchy.


@pytest.mark.parametrize("seed", range(0, 50, 3))
def test_a_level_below_never_costs_a_level_above_anything(seed):
    levels = random_hierarchy(seed)
    for count in range(1, len(levels) + 1):
        part = solve(levels[:count])
        assert_same_costs(costs_at(levels[:count], part.unknowns), ours(seed).costs[:count], levels[:count])


@pytest.mark.parametrize("seed", range(1, 50, 6))
def test_the_order_of_rows_in_a_level_does_not_matter(seed):
    generator = np.random.default_rng(seed)
    levels = random_hierarchy(seed)  # these end with a reference for every unknown: one point is best
    mixed = []
    for level in levels:
        order = generator.permutation(len(level.matrix))
        mixed.append(Group(level.name, level.matrix[order], level.lower[order], level.upper[order]))
    found = solve(mixed)
    assert_same_costs(found.costs, ours(seed).costs, levels, rtol=1e-9)
    np.testing.assert_allclose(found.unknowns, ours(seed).unknowns, rtol=0.0, atol=1e-7)


@pytest.mark.parametrize("seed", range(1, 50, 6))
def test_a_level_in_other_units_gives_the_same_point(seed):
    levels = random_hierarchy(seed)
    factors = [1e3, 1e-3, 20.0, 0.3, 5.0][: len(levels)]
    scaled = [
        Group(level.name, factor * level.matrix, factor * level.lower, factor * level.upper)
        for level, factor in zip(levels, factors, strict=True)
    ]
    found = solve(scaled)
    assert_same_costs(np.array(found.costs) / np.square(factors), ours(seed).costs, levels, rtol=1e-7)
    np.testing.assert_allclose(found.unknowns, ours(seed).unknowns, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("seed", range(1, 50, 6))
def test_a_shift_of_the_unknowns_shifts_the_answer(seed):
    levels = random_hierarchy(seed)
    shift = np.random.default_rng(seed).normal(size=levels[0].matrix.shape[1])
    moved = [
        Group(level.name, level.matrix, level.lower + level.matrix @ shift, level.upper + level.matrix @ shift)
        for level in levels
    ]
    for level, original in zip(moved, levels, strict=True):
        level.upper[original.lower == original.upper] = level.lower[original.lower == original.upper]
    found = solve(moved)
    assert_same_costs(found.costs, ours(seed).costs, levels, rtol=1e-7)
    np.testing.assert_allclose(found.unknowns - shift, ours(seed).unknowns, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("seed", range(1, 50, 6))
def test_the_start_only_decides_what_no_level_decides(seed):
    levels = random_hierarchy(seed)
    start = 10.0 * np.random.default_rng(seed).normal(size=levels[0].matrix.shape[1])
    np.testing.assert_allclose(solve(levels, start).unknowns, ours(seed).unknowns, rtol=0.0, atol=1e-6)
    # Without the last level, which decides everything, directions that nobody touches stay at the start.
    part = solve(levels[:-1], start)
    assert_same_costs(part.costs, ours(seed).costs[:-1], levels[:-1])
    _, values, vectors = np.linalg.svd(np.vstack([level.matrix for level in levels[:-1]]))
    untouched = vectors[int(np.sum(values > 1e-10 * values[0])) :]
    np.testing.assert_allclose(untouched @ part.unknowns, untouched @ start, rtol=0.0, atol=1e-8)


# What can be known by other means.


@pytest.mark.parametrize(("rows", "count", "rank"), [(40, 12, 12), (40, 12, 7), (5, 12, 5), (9, 12, 4), (1, 3, 1)])
def test_equations_then_zero_is_the_pseudo_inverse(rows, count, rank):
    # [jovic2016] (5) and (6).
    generator = np.random.default_rng(rows * count + rank)
    matrix = generator.normal(size=(rows, rank)) @ generator.normal(size=(rank, count))
    right = generator.normal(size=rows)
    levels = [Group("data", matrix, right, right), Group("reference", np.eye(count), np.zeros(count), np.zeros(count))]
    wanted = np.linalg.pinv(matrix, rcond=1e-10) @ right
    found = solve(levels, start=generator.normal(size=count))
    np.testing.assert_allclose(found.unknowns, wanted, rtol=0.0, atol=1e-10 * np.linalg.norm(wanted))
    np.testing.assert_allclose(found.costs[1], wanted @ wanted, rtol=1e-9)
    # And with a reference: the pseudo-inverse of what the reference leaves.
    reference = generator.normal(size=count)
    levels[1] = Group("reference", np.eye(count), reference, reference)
    wanted = reference + np.linalg.pinv(matrix, rcond=1e-10) @ (right - matrix @ reference)
    np.testing.assert_allclose(solve(levels).unknowns, wanted, rtol=0.0, atol=1e-10 * np.linalg.norm(wanted))


def test_equations_alone_leave_the_rest_at_the_start():
    matrix = np.array([[1.0, 1.0, 0.0]])
    found = solve([Group("sum", matrix, np.array([2.0]), np.array([2.0]))], start=np.array([3.0, 1.0, 7.0]))
    np.testing.assert_allclose(found.unknowns, [2.0, 0.0, 7.0], rtol=0.0, atol=1e-12)


def test_a_satisfied_level_moves_nothing():
    levels = [Group("box", np.eye(3), np.full(3, -1.0), np.full(3, 1.0))]
    start = np.array([0.5, -0.5, 0.25])
    np.testing.assert_allclose(solve(levels, start).unknowns, start, rtol=0.0, atol=1e-12)


def test_a_corner_that_only_just_exists_is_kept():
    # Both levels meet in one point, y = -1 and z = 0, with nothing to spare; what comes below must stay there.
    corner = Group(
        "corner", np.array([[0.0, -1.0, 0.0], [0.0, 0.0, 1.0], [0.0, -2.0, 1.0]]), np.array([0.0, 0.0, 2.0]),
        np.array([1.0, 1.0, 3.0]),
    )  # fmt: skip
    touching = Group("touching", np.array([[0.0, 1.0, 1.0]]), np.full(1, -2.0), np.full(1, -1.0))
    empty = Group("empty", np.zeros((0, 3)), np.zeros(0), np.zeros(0))
    reference = Group("reference", np.eye(3), np.full(3, 5.0), np.full(3, 5.0))
    found = solve([corner, touching, empty, reference])
    np.testing.assert_allclose(found.unknowns, [5.0, -1.0, 0.0], rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(found.costs, [0.0, 0.0, 0.0, 61.0], rtol=1e-8, atol=1e-15)


def test_levels_without_rows_are_no_levels():
    empty = Group("empty", np.zeros((0, 4)), np.zeros(0), np.zeros(0))
    target = np.arange(4.0)
    real = Group("reference", np.eye(4), target, target)
    found = solve([empty, real, empty])
    np.testing.assert_allclose(found.unknowns, target, rtol=0.0, atol=1e-12)
    assert found.costs[0] == found.costs[2] == 0.0
    assert len(found.violations) == 3
    start = np.array([1.0, -2.0, 3.0, 0.5])
    np.testing.assert_array_equal(solve([empty], start).unknowns, start)
    np.testing.assert_array_equal(solve_cascade([], start).unknowns, start)


def test_rows_of_zeros_cost_what_they_ask_and_decide_nothing():
    matrix = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    levels = [
        Group("zeros", matrix, np.array([2.0, 1.0, -np.inf]), np.array([2.0, np.inf, -3.0])),
        Group("reference", np.eye(2), np.zeros(2), np.zeros(2)),
    ]
    found = solve(levels)
    np.testing.assert_allclose(found.unknowns, [1.0, 0.0], rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(found.costs, [13.0, 1.0], rtol=1e-8)


def test_rows_open_on_both_sides_decide_nothing():
    levels = [
        Group("open", np.ones((2, 2)), np.full(2, -np.inf), np.full(2, np.inf)),
        Group("reference", np.eye(2), np.ones(2), np.ones(2)),
    ]
    found = solve(levels)
    np.testing.assert_allclose(found.unknowns, [1.0, 1.0], rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(found.costs, [0.0, 0.0], rtol=0.0, atol=1e-20)


def test_contradictions_meet_in_the_middle():
    row = np.array([[1.0, 0.0]])
    equations = Group("equations", np.vstack([row, row]), np.array([1.0, 3.0]), np.array([1.0, 3.0]))
    bounds = Group("bounds", np.vstack([row, row]), np.array([3.0, -np.inf]), np.array([np.inf, 1.0]))
    below = Group("below", np.eye(2), np.array([100.0, 5.0]), np.array([100.0, 5.0]))
    for level in (equations, bounds):
        found = solve([level, below])
        np.testing.assert_allclose(found.unknowns, [2.0, 5.0], rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(found.costs, [2.0, 98.0**2], rtol=1e-9)


def test_two_bounds_that_touch_are_an_equation():
    row = np.array([[1.0, 1.0], [1.0, 1.0]])
    levels = [
        Group("touching", row, np.array([1.0, -np.inf]), np.array([np.inf, 1.0])),
        Group("reference", np.eye(2), np.array([3.0, 0.0]), np.array([3.0, 0.0])),
    ]
    found = solve(levels)
    np.testing.assert_allclose(found.unknowns, [2.0, -1.0], rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(found.costs, [0.0, 2.0], rtol=1e-8, atol=1e-15)


def test_a_level_that_leans_on_a_bound_leaves_its_face_to_those_below():
    # x >= 0 outranks x = -1, which presses against it; y and z remain free for the last level, x does not.
    levels = [
        Group("bound", np.array([[1.0, 0.0, 0.0]]), np.zeros(1), np.full(1, np.inf)),
        Group("press", np.array([[1.0, 0.0, 0.0]]), np.full(1, -1.0), np.full(1, -1.0)),
        Group("reference", np.eye(3), np.full(3, 2.0), np.full(3, 2.0)),
    ]
    found = solve(levels)
    np.testing.assert_allclose(found.unknowns, [0.0, 2.0, 2.0], rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(found.costs, [0.0, 1.0, 4.0], rtol=1e-9, atol=1e-18)


# Small whole numbers: rows repeat, lean on each other and meet in one point far more often than random ones do.

whole = st.integers(-2, 2).map(float)


@st.composite
def degenerate_hierarchies(draw: st.DrawFn) -> list[Group]:
    count = draw(st.integers(1, 4))
    levels = []
    for number in range(draw(st.integers(1, 4))):
        rows = draw(st.integers(0, 5))
        matrix = draw(arrays(np.float64, (rows, count), elements=whole))
        lower = draw(arrays(np.float64, rows, elements=whole))
        width = draw(arrays(np.float64, rows, elements=st.sampled_from([0.0, 1.0, np.inf])))
        turned = draw(arrays(np.bool_, rows))
        upper = lower + width
        levels.append(Group(str(number), matrix, np.where(turned, -upper, lower), np.where(turned, -lower, upper)))
    return levels


@settings(max_examples=150, deadline=None, derandomize=True)
@given(degenerate_hierarchies())
def test_degenerate_hierarchies_cost_the_same(levels):
    wanted = solve_by_clarabel(levels)[1]
    found = solve(levels)
    size = np.sqrt(sizes(levels))
    # On faces without an interior, an interior point is good to about 1e-6 itself.
    np.testing.assert_allclose(np.sqrt(found.costs), np.sqrt(wanted), rtol=1e-5, atol=1e-5 * np.max(size))
    np.testing.assert_allclose(
        np.sqrt(costs_at(levels, found.unknowns)), np.sqrt(found.costs), rtol=1e-6, atol=1e-7 * np.max(size)
    )


# Families of rows that are generated.

TRIANGLE = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))  # Ixx Ixy Iyy Ixz Iyz Izz
LEAST = 0.05


def tensor(block: FloatArray) -> FloatArray:
    full = np.zeros((3, 3))
    for value, (row, column) in zip(block, TRIANGLE, strict=True):
        full[row, column] = full[column, row] = value
    return full


class EigenvectorCuts:
    """Rows ``v' T v >= least`` for the eigenvectors of too small eigenvalues of the tensor at `place`."""

    def __init__(self, place: int, count: int) -> None:
        self.place, self.count = place, count

    def __call__(self, unknowns: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, vectors = np.linalg.eigh(tensor(unknowns[self.place : self.place + 6]))
        rows = []
        for direction in vectors.T[values < LEAST]:
            row = np.zeros(self.count)
            for number, (first, second) in enumerate(TRIANGLE):
                twice = 1.0 if first == second else 2.0
                row[self.place + number] = twice * direction[first] * direction[second]
            rows.append(row)
        return np.array(rows).reshape(-1, self.count), np.full(len(rows), LEAST)


def semidefinite_oracle(
    matrix: FloatArray, right: FloatArray, above: FloatArray, fixed: FloatArray, places: Sequence[int]
) -> FloatArray:
    """Gives clarabel's minimum of ``‖matrix z - right‖²`` with ``above z = fixed`` and tensors of at least `LEAST`."""
    count = matrix.shape[1]
    weights = np.array([1.0 if first == second else np.sqrt(2.0) for first, second in TRIANGLE])
    shift = LEAST * np.array([1.0 if first == second else 0.0 for first, second in TRIANGLE])
    blocks, rights, cones = [above], [fixed], [clarabel.ZeroConeT(len(above))]
    for place in places:
        block = np.zeros((6, count))
        block[:, place : place + 6] = -np.diag(weights)
        blocks.append(block)
        rights.append(-weights * shift)
        cones.append(clarabel.PSDTriangleConeT(3))
    return solve_conic(
        sparse.csc_matrix(np.triu(2.0 * matrix.T @ matrix)), -2.0 * matrix.T @ right,
        sparse.csc_matrix(np.vstack(blocks)), np.concatenate(rights), cones,
    )[0]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_generated_cuts_reach_the_semidefinite_answer(seed):
    generator = np.random.default_rng(seed)
    places = [0, 6] if seed % 2 else [0]
    count = 6 * len(places) + 2
    above = generator.normal(size=(2, count))
    # Some tensor can be had under what stands above.
    fixed = above @ np.concatenate([*([1.0, 0.0, 1.0, 0.0, 0.0, 1.0] for _ in places), np.ones(2)])
    matrix = generator.normal(size=(count + 5, count))
    right = matrix @ np.concatenate([*([0.3, 0.9, -0.5, 0.2, -0.7, 0.1] for _ in places), np.ones(2)])
    right = right + 0.1 * generator.normal(size=len(right))
    wanted = semidefinite_oracle(matrix, right, above, fixed, places)
    cuts = tuple(EigenvectorCuts(place, count) for place in places)
    found = solve_cascade(
        [
            Level("above", above, fixed, fixed),
            Level("tensors", np.zeros((0, count)), np.zeros(0), np.zeros(0), cuts),
            Level("data", matrix, right, right),
        ],
        np.zeros(count),
    )
    np.testing.assert_allclose(found.costs[:2], [0.0, 0.0], rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(found.costs[2], np.sum((matrix @ wanted - right) ** 2), rtol=1e-6)
    np.testing.assert_allclose(found.unknowns, wanted, rtol=0.0, atol=1e-4 * np.linalg.norm(wanted))
    least = [np.linalg.eigvalsh(tensor(found.unknowns[place : place + 6]))[0] for place in places]
    assert min(least) >= LEAST - 1e-8
    assert min(least) <= LEAST + 1e-6  # the data press against the cone


def test_generated_cuts_in_the_same_level_as_rows():
    generator = np.random.default_rng(11)
    matrix = generator.normal(size=(12, 6))
    right = matrix @ [0.3, 0.9, -0.5, 0.2, -0.7, 0.1]
    trace = np.array([[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]])
    wanted = semidefinite_oracle(matrix, right, trace, np.array([2.0]), [0])
    found = solve_cascade(
        [
            Level("physics", trace, np.array([2.0]), np.array([2.0]), (EigenvectorCuts(0, 6),)),
            Level("data", matrix, right, right),
        ],
        np.zeros(6),
    )
    np.testing.assert_allclose(found.costs, [0.0, np.sum((matrix @ wanted - right) ** 2)], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(trace @ found.unknowns, [2.0], rtol=1e-9)


def test_cuts_that_are_satisfied_are_never_made():
    target = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    found = solve_cascade(
        [
            Level("tensors", np.zeros((0, 6)), np.zeros(0), np.zeros(0), (EigenvectorCuts(0, 6),)),
            Level("reference", np.eye(6), target, target),
        ],
        target,
    )
    np.testing.assert_allclose(found.unknowns, target, rtol=0.0, atol=1e-12)


def test_a_family_that_cannot_be_satisfied_is_broken_by_as_little_as_can_be():
    # A tensor with -1 on its diagonal has an eigenvalue of -1 at best.
    first = np.eye(6)[:1]
    target = np.array([0.0, 0.5, 2.0, -0.5, 0.3, 3.0])
    found = solve_cascade(
        [
            Level("above", first, np.full(1, -1.0), np.full(1, -1.0)),
            Level("tensors", np.zeros((0, 6)), np.zeros(0), np.zeros(0), (EigenvectorCuts(0, 6),)),
            Level("reference", np.eye(6), target, target),
        ],
        np.zeros(6),
    )
    np.testing.assert_allclose(found.costs[:2], [0.0, (1.0 + LEAST) ** 2], rtol=1e-6, atol=1e-12)
    assert np.linalg.eigvalsh(tensor(found.unknowns))[0] >= -1.0 - 1e-6
    # What the family leaves open is the reference's: all but the first row and column.
    np.testing.assert_allclose(found.unknowns[[2, 4, 5]], target[[2, 4, 5]], rtol=0.0, atol=1e-4)


def test_a_level_that_is_decided_wholly_above_moves_nothing():
    # What is left of its row in the room that remains is rounding, and no direction.
    levels = [
        Group("above", np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]), np.zeros(2), np.zeros(2)),
        Group("below", np.array([[0.0, 0.0, 1.0]]), np.ones(1), np.ones(1)),
    ]
    found = solve(levels)
    np.testing.assert_allclose(found.unknowns, np.zeros(3), rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(found.costs, [0.0, 1.0], rtol=0.0, atol=1e-12)


def test_a_bound_that_was_only_reached_can_be_left_again():
    # Satisfying x + y >= 4/3 from the start ends on it; nothing pressed against it, and -0.9 (x + y) = -2.7 leaves it.
    row = np.array([[0.6, 0.6]])
    bound = Group("bound", row, np.full(1, 0.8), np.full(1, np.inf))
    for goal, cost in ((-2.7, 0.0), (-0.5, 0.49)):
        found = solve([bound, Group("equation", -1.5 * row, np.full(1, goal), np.full(1, goal))])
        np.testing.assert_allclose(found.costs, [0.0, cost], rtol=1e-8, atol=1e-15)
        np.testing.assert_allclose(found.unknowns, np.full(2, max(4.0 / 3.0, goal / -0.9) / 2.0), rtol=1e-8)
