"""Sampling under infinite families of cutting planes: some planes to reflect at, and a test of all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.identification.constraints.constraint_system import join_rows
from steelyard.identification.constraints.cutting_planes import HullCuts, InertiaCuts
from steelyard.identification.sampling.whitening import whiten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import ConstraintRows, CutFamily
    from steelyard.identification.sampling.hmc import Holds
    from steelyard.identification.sampling.posterior import Posterior

_FEWEST_SEARCHES, _MOST_SEARCHES, _POINTS = 2, 10, 16
"""Least and most rounds of generating planes, and points in a round. Set by judgement: a plane that is missed costs
rejected moves, not correctness."""


def with_cut_families(posterior: Posterior, cut_families: Sequence[CutFamily]) -> tuple[Posterior, Holds | None]:
    """Return the posterior with some rows of infinite families, and a function that tests all of them.

    Chains are reflected at the rows that points near the centre violate; moves beyond any other row are rejected.
    """
    cut_families = [
        family
        for family in cut_families
        # A possible body has a positive inertia anyway.
        if not (isinstance(family, InertiaCuts) and not np.any(family.least > 0.0))
    ]
    if not cut_families:
        return posterior, None
    generator = np.random.default_rng(0)
    for search in range(_MOST_SEARCHES):
        white = whiten(posterior)
        around = generator.normal(size=(white.size, _POINTS))
        around[:, 0] = 0.0
        robots = posterior.parameters(white.points(around))
        broken = [[each.violated(robot) for each in cut_families] for robot in robots]
        if search >= _FEWEST_SEARCHES and not any(len(rows) for rows in broken[0]):
            break
        posterior = _with_rows(posterior, join_rows([rows for of in broken for rows in of], len(posterior.start)))
    return posterior, lambda robots: np.logical_and.reduce([_none_violated(each, robots) for each in cut_families])


def _with_rows(posterior: Posterior, rows: ConstraintRows) -> Posterior:
    """Return the posterior with additional rows, without duplicates."""
    _, first = np.unique(np.column_stack([rows.matrix, rows.lower, rows.upper]), axis=0, return_index=True)
    fresh = rows.pick(np.sort(first))
    return replace(
        posterior,
        rows=np.concatenate([posterior.rows, fresh.matrix]),
        lower=np.concatenate([posterior.lower, fresh.lower]),
        upper=np.concatenate([posterior.upper, fresh.upper]),
    )


def _none_violated(family: CutFamily, parameters: FloatArray) -> Any:
    if isinstance(family, HullCuts):
        answer = np.ones(len(parameters), dtype=np.bool_)
        for place, volume in zip(family.places, family.volumes, strict=True):
            if volume.facets is None:
                continue
            beyond = np.column_stack([-volume.facets[:, 3], volume.facets[:, :3]]) @ parameters[:, place, :4].T
            answer &= np.max(beyond, axis=0, initial=-np.inf) <= 0.0
        return answer
    return np.array([not np.any(family.violation(robot) > 0.0) for robot in parameters], dtype=np.bool_)
