"""Links of the reference that no body could be: projected to possible ones, or left out where they are frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.model import EXTENT_FLOOR, PARAMETER_COUNT, Frozen, find_pairs, is_possible, project_to_interior
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import BoolArray
    from steelyard.identification.parameter_sets import ParameterSet
    from steelyard.model import Constraint, Model


def _possible(model: Model) -> BoolArray:
    """Return which links are possible bodies of at least 1 mm; projected ones are, up to rounding."""
    return np.atleast_1d(is_possible(model.parameters, extent=0.99 * EXTENT_FLOOR))


def possible_model(model: Model, unknowns: ParameterSet) -> tuple[Model, list[str]]:
    """Return the model with possible links, and the names of those that were changed for it.

    Links thinner than 1 mm are among them: their prior would be as narrow as they are, or have no curvature at all.
    Links of which nothing is looked for stay as they are.
    """
    fine = _possible(model) | ~np.any(unknowns.transform.reshape(len(model.links), -1) != 0.0, axis=1)
    if np.all(fine):
        return model, []
    projected = np.where(fine[:, None], model.parameters, project_to_interior(model.parameters))
    return model.with_parameters(projected), [
        link for link, possible in zip(model.links, fine, strict=True) if not possible
    ]


def impossible_frozen(model: Model, constraints: Sequence[Constraint], unknowns: ParameterSet) -> list[int]:
    """Return the links, by row, that are frozen as impossible bodies: neither a prior nor draws can contain them.

    They are left out of the unknowns. Links tied to a mirror image are not among them: neither is as the model has it.
    """
    fine = _possible(model)
    if np.all(fine):
        return []
    rows = resolve_constraints(model, [each for each in constraints if each.kind == Frozen.kind]).rows
    held = np.unique(np.nonzero(rows.matrix)[1] // PARAMETER_COUNT)
    images = {link for pair in find_pairs(model) for link in (pair.left, pair.right)} if unknowns.tied else set()
    return [link for link in held.tolist() if not fine[link] and link not in images]


def about_projection(projected: list[str], model: Model) -> list[str]:
    """Return remarks on links of the reference that were replaced by possible ones."""
    if not projected:
        return []
    empty = [link for link in projected if model.masses[link] <= 0.0]
    missing = [
        f"The model has no mass for {in_words(empty, limit=6)}; its deviation is relative, and relative to zero "
        "nothing can be estimated. Write one into the model."
    ]
    return [
        *(missing if empty else []),
        f"The reference is impossible, or thinner than 1 mm, in {in_words(projected, limit=6)}; the nearest possible "
        "bodies, at least 1 mm thick, replace them; see `steelyard check`.",
    ]
