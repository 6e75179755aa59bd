"""Linear matrix inequalities ``S(y) ⪰ 0`` on scaled unknowns: possible bodies, and least rotational inertias."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.identification.constraints.cutting_planes import InertiaCuts
from steelyard.model import (
    PARAMETER_COUNT,
    Frozen,
    project_to_interior,
    rotational_inertia_at_origin,
    to_pseudo_inertia,
)

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import ConstraintSystem
    from steelyard.identification.methods.scaled_unknowns import Unknowns

_PSEUDO_INERTIAS = to_pseudo_inertia(np.eye(PARAMETER_COUNT))
_TENSORS = rotational_inertia_at_origin(np.eye(PARAMETER_COUNT))
_MARGIN = 3e-8
"""Margin of an inertia bound relative to its reference, as of cutting planes (`scaled_unknowns.py`)."""

_ALIKE = 1e-9
"""Greatest relative difference of the eigenvalues of two mirror images. Set by judgement: rounding is far below."""


@dataclass(frozen=True, eq=False)
class Block:
    """A symmetric matrix ``S(y) = offset + Σ basis_k y_columns[k]`` that must be positive semidefinite.

    Attributes:
        name: Its name.
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

    def value(self, y: FloatArray) -> FloatArray:
        """Return ``S``, shape (d, d)."""
        return np.asarray(self.offset + np.tensordot(y[self.columns], self.basis, axes=1))

    def adjoint(self, multiplier: FloatArray, count: int) -> FloatArray:
        """Return the gradient of ``tr(Z S)``, shape (count,)."""
        gradient = np.zeros(count)
        gradient[self.columns] = np.einsum("kij,ij->k", self.basis, multiplier)
        return gradient


def body_blocks(unknowns: Unknowns, system: ConstraintSystem, floor: float) -> tuple[list[Block], tuple[str, ...]]:
    """Return ``L⁻¹ P L⁻ᵀ ⪰ floor`` for each link that is looked for, with ``P₀ = L Lᵀ`` its reference's pseudo-inertia.

    So scaled, units, frames and masses make no difference. An impossible reference is replaced by the nearest possible
    one. Frozen links are left alone, and of two tied mirror images one stands for both.

    Returns:
        The blocks, and the links whose references were projected to the interior.
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
        own = np.flatnonzero(np.any(unknowns.transform[_link_slice(link)] != 0.0, axis=1)) + PARAMETER_COUNT * link
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
    """Return ``L⁻¹ (I − ε 1) L⁻ᵀ ⪰ 0`` for each link whose inertia has a bound along every direction.

    ``L Lᵀ`` is its reference's tensor. Of two tied mirror images one stands for both.
    """
    blocks: list[Block] = []
    for family in system.cut_families:
        if isinstance(family, InertiaCuts) and family.directions is None:
            for block in _tensor_blocks(unknowns, family):
                if not any(
                    np.array_equal(block.columns, other.columns) and _are_alike(block, other) for other in blocks
                ):
                    blocks.append(block)
    return blocks


def _tensor_blocks(unknowns: Unknowns, family: InertiaCuts) -> list[Block]:
    bodies = project_to_interior(unknowns.problem.unknowns.reference.reshape(-1, PARAMETER_COUNT))
    blocks = []
    for link_index, least in zip(family.places, family.least, strict=True):
        tensor = rotational_inertia_at_origin(bodies[link_index])
        frame = np.asarray(np.linalg.cholesky(tensor))
        inverse = np.linalg.inv(frame)
        asked = least * (inverse @ inverse.T) + _MARGIN * np.eye(3)
        name = f"{family.links[link_index]} inertia >= {least:.3g}"
        block = _block(name, int(link_index), unknowns, _TENSORS, frame, asked)
        if len(block.columns):
            blocks.append(Block(block.name, block.link, block.columns, block.basis, block.offset))
    return blocks


def without_cones(system: ConstraintSystem) -> ConstraintSystem:
    """Return the constraints without those that are semidefinite blocks."""
    kept = tuple(
        family for family in system.cut_families if not isinstance(family, InertiaCuts) or family.directions is not None
    )
    return replace(system, cut_families=kept)


def body_in_words(block: Block, null_vectors: FloatArray) -> str:
    """Return the name of an active block, with the shape of a body with these null vectors, shape (4, d)."""
    count = null_vectors.shape[1]
    if block.frame is None:
        return block.name
    shape = {1: "a sheet", 2: "a rod", 3: "a point", 4: "nothing"}[count]
    return f"{block.name} at the boundary of possible bodies ({shape})"


def _link_slice(link: int) -> slice:
    return slice(PARAMETER_COUNT * link, PARAMETER_COUNT * (link + 1))


def _block(
    name: str, link: int, unknowns: Unknowns, entries: FloatArray, frame: FloatArray, asked: FloatArray
) -> Block:
    """Return ``L⁻¹ M(φ) L⁻ᵀ − asked`` for a matrix ``M`` that is linear in the link's parameters."""
    inverse = np.linalg.inv(frame)
    scaled = inverse @ entries @ inverse.T
    transform = unknowns.transform[_link_slice(link)]
    basis = np.einsum("pij,pk->kij", scaled, transform)
    columns = np.flatnonzero(np.any(np.abs(basis) > 0.0, axis=(1, 2)))
    offset = np.tensordot(unknowns.problem.unknowns.start[_link_slice(link)], scaled, axes=1) - asked
    return Block(name, link, columns, basis[columns], offset, frame)


def _are_alike(block: Block, other: Block) -> bool:
    """Return whether two blocks depend on the same unknowns and have the same eigenvalues for all their values."""
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
