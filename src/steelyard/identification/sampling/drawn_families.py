"""Draws under infinite families of rows: some of their rows to bounce off, and what tells whether all hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.identification.constraints.constraint_system import join_rows
from steelyard.identification.constraints.cutting_planes import HullSeparator, InertiaSeparator
from steelyard.identification.sampling.whitening import whiten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import Rows, Separator
    from steelyard.identification.sampling.hmc import Holds
    from steelyard.identification.sampling.posterior import Posterior

_FEWEST_SEARCHES, _MOST_SEARCHES, _POINTS = 2, 10, 16
"""How often, and at how many points each time, infinite families are asked for rows."""


def with_separators(posterior: Posterior, separators: Sequence[Separator]) -> tuple[Posterior, Holds | None]:
    """Gives the posterior with some rows of infinite families, and what tells whether all of them hold.

    Chains bounce off rows, and are refused by the rest: the rows are those that points near the centre break.
    """
    separators = [
        separator
        for separator in separators
        # A possible body has a positive inertia.
        if not (isinstance(separator, InertiaSeparator) and not np.any(separator.least > 0.0))
    ]
    if not separators:
        return posterior, None
    generator = np.random.default_rng(0)
    for search in range(_MOST_SEARCHES):
        white = whiten(posterior)
        around = generator.normal(size=(white.size, _POINTS))
        around[:, 0] = 0.0
        robots = posterior.parameters(white.points(around))
        broken = [[each.violated(robot) for each in separators] for robot in robots]
        if search >= _FEWEST_SEARCHES and not any(len(rows) for rows in broken[0]):
            break
        posterior = _with_rows(posterior, join_rows([rows for of in broken for rows in of], len(posterior.start)))
    return posterior, lambda robots: np.logical_and.reduce([_none_violated(each, robots) for each in separators])


def _with_rows(posterior: Posterior, rows: Rows) -> Posterior:
    """Gives the posterior under more rows, each once."""
    _, first = np.unique(np.column_stack([rows.matrix, rows.lower, rows.upper]), axis=0, return_index=True)
    fresh = rows.pick(np.sort(first))
    return replace(
        posterior,
        rows=np.concatenate([posterior.rows, fresh.matrix]),
        lower=np.concatenate([posterior.lower, fresh.lower]),
        upper=np.concatenate([posterior.upper, fresh.upper]),
    )


def _none_violated(separator: Separator, parameters: FloatArray) -> Any:
    if isinstance(separator, HullSeparator):
        answer = np.ones(len(parameters), dtype=np.bool_)
        for place, volume in zip(separator.places, separator.volumes, strict=True):
            if volume.facets is None:
                continue
            beyond = np.column_stack([-volume.facets[:, 3], volume.facets[:, :3]]) @ parameters[:, place, :4].T
            answer &= np.max(beyond, axis=0, initial=-np.inf) <= 0.0
        return answer
    return np.array([not np.any(separator.violation(robot) > 0.0) for robot in parameters], dtype=np.bool_)
