"""Semidefinite blocks ``S(y) ⪰ 0`` on scaled unknowns: what a body can be, and least rotational inertias."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.identification.constraints.cutting_planes import InertiaSeparator
from steelyard.model import (
    PARAMETER_COUNT,
    Frozen,
    project_to_interior,
    rotational_inertia_at_origin,
    to_pseudo_inertia,
)

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.resolve import ConstraintSystem
    from steelyard.identification.methods.scaled_unknowns import Unknowns

_PSEUDO_INERTIAS = to_pseudo_inertia(np.eye(PARAMETER_COUNT))
_TENSORS = rotational_inertia_at_origin(np.eye(PARAMETER_COUNT))
_MARGIN = 3e-8
"""Part of its reference by which an inertia is asked for more than it must have, as generated rows are."""

_ALIKE = 1e-9
"""How far eigenvalues of two links may differ that are images of each other."""


@dataclass(frozen=True, eq=False)
class Block:
    """A symmetric matrix ``S(y) = offset + Σ basis_k y_columns[k]`` that must be positive semidefinite.

    Attributes:
        name: What it is about.
        link: Row of its link.
        columns: The unknowns that it depends on, shape (k,).
        basis: Shape (k, d, d).
        offset: Shape (d, d).
        frame: ``L`` with ``P = L (S + floor) Lᵀ`` for a body's pseudo-inertia, shape (4, 4); None for a tensor.
    """

    name: str
    link: int
    columns: np.ndarray[tuple[int], np.dtype[np.int64]]
    basis: FloatArray
    offset: FloatArray
    frame: FloatArray | None = None

    @property
    def size(self) -> int:
        """The number of rows of ``S``."""
        return len(self.offset)

    def value(self, place: FloatArray) -> FloatArray:
        """Gives ``S``, shape (d, d)."""
        return np.asarray(self.offset + np.tensordot(place[self.columns], self.basis, axes=1))

    def push(self, multiplier: FloatArray, count: int) -> FloatArray:
        """Gives the gradient of ``tr(Z S)``, shape (count,)."""
        pushed = np.zeros(count)
        pushed[self.columns] = np.einsum("kij,ij->k", self.basis, multiplier)
        return pushed


def body_blocks(unknowns: Unknowns, system: ConstraintSystem, floor: float) -> tuple[list[Block], tuple[str, ...]]:
    """Gives ``L⁻¹ P L⁻ᵀ ⪰ floor`` for each link that is looked for, with ``P₀ = L Lᵀ`` its reference's pseudo-inertia.

    So scaled, neither units nor frames nor how heavy a link is make a difference. A reference that no body could have
    counts as the nearest that one could. Frozen links are left alone, and of two that are tied as images of each other
    one stands for both.

    Returns:
        The blocks, and the links whose references had to be brought into the interior.
    """
    problem = unknowns.problem.unknowns
    at_reference = problem.expand(problem.reference[problem.chosen] - problem.start[problem.chosen])
    bodies = project_to_interior(at_reference)
    frozen = {
        int(np.flatnonzero(row)[0])
        for row, kind in zip(system.rows.matrix, system.rows.kinds, strict=True)
        if kind == Frozen.kind
    }
    blocks: dict[tuple[int, ...], list[Block]] = {}
    left_alone: set[tuple[int, ...]] = set()
    projected = []
    for link, body in enumerate(bodies):
        name = system.links[link]
        frame = np.asarray(np.linalg.cholesky(to_pseudo_inertia(body)))
        block = _block(name, link, unknowns, _PSEUDO_INERTIAS, frame, floor * np.eye(4))
        columns = tuple(block.columns.tolist())
        own = np.flatnonzero(np.any(unknowns.transform[_places(link)] != 0.0, axis=1)) + PARAMETER_COUNT * link
        if not columns:
            continue
        if frozen.issuperset(own.tolist()):
            left_alone.add(columns)
            continue
        if not np.array_equal(body, at_reference[link]):
            projected.append(name)
        others = blocks.setdefault(columns, [])
        if not any(_are_alike(block, other) for other in others):
            others.append(block)
    kept = [block for columns, alike in blocks.items() if columns not in left_alone for block in alike]
    return kept, tuple(projected)


def tensor_blocks(unknowns: Unknowns, system: ConstraintSystem) -> list[Block]:
    """Gives ``L⁻¹ (I − ε 1) L⁻ᵀ ⪰ 0`` for each link whose inertia has a bound along every direction.

    ``L Lᵀ`` is its reference's tensor. Of two links that are tied as images of each other one stands for both.
    """
    blocks: list[Block] = []
    for separator in system.separators:
        if isinstance(separator, InertiaSeparator) and separator.directions is None:
            for block in _tensor_blocks(unknowns, separator):
                if not any(
                    np.array_equal(block.columns, other.columns) and _are_alike(block, other) for other in blocks
                ):
                    blocks.append(block)
    return blocks


def _tensor_blocks(unknowns: Unknowns, separator: InertiaSeparator) -> list[Block]:
    bodies = project_to_interior(unknowns.problem.unknowns.reference.reshape(-1, PARAMETER_COUNT))
    blocks = []
    for place, least in zip(separator.places, separator.least, strict=True):
        tensor = rotational_inertia_at_origin(bodies[place])
        frame = np.asarray(np.linalg.cholesky(tensor))
        inverse = np.linalg.inv(frame)
        asked = least * (inverse @ inverse.T) + _MARGIN * np.eye(3)
        name = f"{separator.links[place]} inertia >= {least:.3g}"
        block = _block(name, int(place), unknowns, _TENSORS, frame, asked)
        if len(block.columns):
            blocks.append(Block(block.name, block.link, block.columns, block.basis, block.offset))
    return blocks


def without_cones(system: ConstraintSystem) -> ConstraintSystem:
    """Gives the constraints without those that are semidefinite blocks."""
    kept = tuple(
        separator
        for separator in system.separators
        if not isinstance(separator, InertiaSeparator) or separator.directions is not None
    )
    return replace(system, separators=kept)


def body_in_words(block: Block, null_vectors: FloatArray) -> str:
    """Says what a link would be if its pseudo-inertia had some null vectors, shape (4, d) in the block's own frame."""
    count = null_vectors.shape[1]
    if block.frame is None:
        return block.name
    shape = {1: "a sheet", 2: "a rod", 3: "a point", 4: "nothing"}[count]
    return f"{block.name} at the edge of what a body can be ({shape})"


def _places(link: int) -> slice:
    return slice(PARAMETER_COUNT * link, PARAMETER_COUNT * (link + 1))


def _block(
    name: str, link: int, unknowns: Unknowns, entries: FloatArray, frame: FloatArray, asked: FloatArray
) -> Block:
    """Gives ``L⁻¹ M(φ) L⁻ᵀ − asked`` for a matrix ``M`` that is linear in the link's parameters."""
    inverse = np.linalg.inv(frame)
    scaled = inverse @ entries @ inverse.T
    transform = unknowns.transform[_places(link)]
    basis = np.einsum("pij,pk->kij", scaled, transform)
    columns = np.flatnonzero(np.any(np.abs(basis) > 0.0, axis=(1, 2)))
    offset = np.tensordot(unknowns.problem.unknowns.start[_places(link)], scaled, axes=1) - asked
    return Block(name, link, columns, basis[columns], offset, frame)


def _are_alike(block: Block, other: Block) -> bool:
    """Tells whether two blocks depend on the same unknowns and have the same eigenvalues, whatever these are."""
    if not np.array_equal(block.columns, other.columns):
        return False
    generator = np.random.default_rng(0)
    for _ in range(2):
        mixed = generator.normal(size=len(block.columns))
        one, two = (
            np.linalg.eigvalsh(each.offset + np.tensordot(mixed, each.basis, axes=1)) for each in (block, other)
        )
        if not np.allclose(one, two, rtol=0.0, atol=_ALIKE * max(1.0, float(np.max(np.abs(one))))):
            return False
    return True
