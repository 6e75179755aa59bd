"""Random hierarchies of equations and inequalities, with everything that makes such problems hard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.identification.hierarchy_oracles import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steelyard.arrays import FloatArray

    Rows = tuple[FloatArray, FloatArray, FloatArray]
    Maker = Callable[[np.random.Generator, int, Sequence[Group]], Rows]


def _equations(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    matrix = generator.normal(size=(generator.integers(1, count + 3), count))
    right = generator.normal(size=len(matrix))
    return matrix, right, right


def _deficient_equations(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    """Equations of low rank that contradict each other."""
    rank = int(generator.integers(1, max(2, count // 2)))
    rows = rank + int(generator.integers(1, 5))
    matrix = generator.normal(size=(rows, rank)) @ generator.normal(size=(rank, count))
    right = generator.normal(size=rows)
    return matrix, right, right


def _consistent_equations(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    """Equations of low rank that some point satisfies exactly."""
    matrix = _deficient_equations(generator, count, above)[0]
    right = matrix @ generator.normal(size=count)
    return matrix, right, right


def _contradicting_equations(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    """The same left side with different right sides."""
    row = generator.normal(size=(1, count))
    right = generator.normal(size=3)
    return np.vstack([row, row, -2.0 * row]), right, right


def _inequalities(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    """One-sided rows; more of them than unknowns, now and then."""
    matrix = generator.normal(size=(generator.integers(1, 2 * count + 2), count))
    edge = generator.normal(size=len(matrix))
    open_below = generator.random(len(matrix)) < 0.5
    return matrix, np.where(open_below, -np.inf, edge), np.where(open_below, edge, np.inf)


def _bands(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    """Two-sided rows."""
    matrix = generator.normal(size=(generator.integers(1, count + 5), count))
    middle = 3.0 * generator.normal(size=len(matrix))
    width = generator.uniform(0.01, 1.0, size=len(matrix))
    return matrix, middle - width, middle + width


def _box(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    middle, width = generator.normal(size=count), generator.uniform(0.0, 1.0, size=count)
    return np.eye(count), middle - width, middle + width


def _mixed(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    parts = [_deficient_equations, _inequalities, _bands]
    return _stack([part(generator, count, above) for part in parts])


def _uneven(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    """Equations and inequalities whose rows differ in size by a thousand."""
    matrix, lower, upper = _stack([_equations(generator, count, above), _inequalities(generator, count, above)])
    size = 10.0 ** generator.uniform(-1.5, 1.5, size=len(matrix))
    return size[:, None] * matrix, size * lower, size * upper


def _duplicated(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    """Rows that stand there several times, also turned round."""
    matrix, lower, upper = _inequalities(generator, count, above)
    return _stack([(matrix, lower, upper), (matrix, lower, upper), (-0.5 * matrix, -0.5 * upper, -0.5 * lower)])


def _fixed(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    """Some variables fixed."""
    chosen = generator.choice(count, size=generator.integers(1, max(2, count // 3)), replace=False)
    right = generator.normal(size=len(chosen))
    return np.eye(count)[chosen], right, right


def _implied(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    """Sums of rows above, within bounds that follow from theirs."""
    matrix, lower, upper = _above(generator, count, above)
    weights = generator.uniform(0.0, 1.0, size=(3, len(matrix))) * (generator.random((3, len(matrix))) < 0.5)
    # An open side times a weight of zero must not open the sum.
    with np.errstate(invalid="ignore"):
        low = np.where(weights > 0.0, weights * lower, 0.0).sum(axis=1)
        high = np.where(weights > 0.0, weights * upper, 0.0).sum(axis=1)
    return weights @ matrix, low - 0.1, high + 0.1


def _conflicting(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    """Rows above, asked to lie beyond their bounds; and others."""
    matrix, lower, upper = _above(generator, count, above)
    beyond = np.where(np.isfinite(upper), upper, lower) + np.where(np.isfinite(upper), 1.0, -1.0)
    low = np.where(np.isfinite(upper), beyond, -np.inf)
    high = np.where(np.isfinite(upper), np.inf, beyond)
    return _stack([(matrix, low, high), _equations(generator, count, above)])


def _above(generator: np.random.Generator, count: int, above: Sequence[Group]) -> Rows:
    """Gives some rows of the levels above, or new ones where there are none."""
    if not above:
        return _inequalities(generator, count, above)
    matrix, lower, upper = _stack([(level.matrix, level.lower, level.upper) for level in above])
    bounded = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
    chosen = generator.choice(bounded, size=min(len(bounded), 4), replace=False)
    return matrix[chosen], lower[chosen], upper[chosen]


def _stack(parts: Sequence[Rows]) -> Rows:
    return (
        np.vstack([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )


MAKERS: tuple[Maker, ...] = (
    _equations, _deficient_equations, _consistent_equations, _contradicting_equations, _inequalities, _bands, _box,
    _mixed, _uneven, _duplicated, _fixed, _implied, _conflicting,
)  # fmt: skip


def random_hierarchy(seed: int) -> list[Group]:
    """Gives two to five levels over 3 to 30 unknowns; every second one ends with a reference for each unknown."""
    generator = np.random.default_rng(seed)
    count = int(generator.integers(3, 31))
    levels: list[Group] = []
    for number in range(int(generator.integers(2, 6))):
        # The first level goes through all kinds in turn; the others are drawn.
        place = seed % len(MAKERS) if number == 0 else int(generator.integers(len(MAKERS)))
        make = MAKERS[place]
        levels.append(Group(make.__name__.strip("_"), *make(generator, count, levels)))
    if seed % 2:
        reference = generator.normal(size=count)
        levels[-1] = Group("reference", np.eye(count), reference, reference)
    return levels
