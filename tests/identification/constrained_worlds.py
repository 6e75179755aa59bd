"""What tests of estimators under constraints share: a small arm, the problem as matrices, and checks of their own.

Nothing here asks the estimators' own code for anything but rows: matrices are taken from the Evidence, inertias are
cones of clarabel's, and whether a constraint holds is looked up in the parameters.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import clarabel
import numpy as np
from scipy import sparse

from steelyard import gather_evidence, load_model
from steelyard.identification import choose_parameters
from steelyard.identification.constraints.constraint_system import join_rows
from steelyard.model.geometry.points import link_points
from steelyard.model.mirror import find_pairs
from steelyard.model.parameters import PARAMETER_SYMBOLS, rotational_inertia_at_origin
from steelyard.motion import motion_from_generalized
from steelyard.regression.rows import joint_torques
from tests.identification.hierarchy_oracles import solve_conic
from tests.identification.worlds import reference, rich_motion, with_noise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard import Evidence, Model
    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import ConstraintRows, ConstraintSystem
    from steelyard.identification.parameter_sets import ParameterSet

# Mass, centre, size and axis of each link of the arm; each begins where the one before it ends.
_LINKS = (
    (3.0, (0.00, 0.01, 0.10), (0.10, 0.12, 0.24), "0 0 1"),
    (2.0, (0.12, 0.00, 0.01), (0.30, 0.08, 0.06), "0 1 0"),
    (1.0, (0.09, 0.01, 0.00), (0.22, 0.05, 0.07), "0 1 0"),
    (0.4, (0.03, 0.00, 0.02), (0.08, 0.06, 0.05), "1 0 0"),
)
ARM_NOISE = 3.0
OFF = ("least_mass=off", "com=off", "inertia=off", "matter=off")


@cache
def arm() -> Model:
    """Gives an arm of four boxes on a stand."""
    parts = ['<robot name="arm"><link name="stand"/>']
    before = "stand"
    for number, (mass, centre, size, axis) in enumerate(_LINKS, start=1):
        name, place = f"part_{number}", " ".join(map(str, centre))
        squares = np.square(size)
        moments = mass / 12.0 * (squares.sum() - squares)
        box = f'<origin xyz="{place}"/><geometry><box size="{" ".join(map(str, size))}"/></geometry>'
        parts.append(
            f'<link name="{name}"><inertial><origin xyz="{place}"/><mass value="{mass}"/>'
            f'<inertia ixx="{moments[0]}" iyy="{moments[1]}" izz="{moments[2]}" ixy="0" ixz="0" iyz="0"/></inertial>'
            f"<collision>{box}</collision></link>"
            f'<joint name="joint_{number}" type="revolute"><parent link="{before}"/><child link="{name}"/>'
            f'<origin xyz="{0.05 * number} 0 0.1"/><axis xyz="{axis}"/>'
            '<limit lower="-3" upper="3" effort="100" velocity="10"/></joint>'
        )
        before = name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arm.urdf"
        path.write_text("".join(parts) + "</robot>")
        return load_model(path, base="fixed")


@cache
def arm_truth() -> FloatArray:
    """Gives an arm that is not as drawn: heavier and lighter links, their matter nearer to the walls."""
    true = arm().parameters.copy()
    true[:, 0] *= [1.2, 0.85, 1.3, 0.8]
    true[:, 4:] *= 1.1
    return true


def arm_evidence(seed: int = 0, *, count: int = 80, noise: float = ARM_NOISE) -> Evidence:
    """Gives Evidence of random motion of the arm, with noise on its torques (N m)."""
    model = arm()
    generator = np.random.default_rng(seed)
    q, v, a = generator.normal(size=(3, count, model.velocity_size)) * np.array([1.0, 2.0, 6.0])[:, None, None]
    motion = motion_from_generalized(model, np.arange(count) / 100.0, q, v, a)
    torques = joint_torques(model.with_parameters(arm_truth()), motion)
    torques = torques + noise * generator.normal(size=torques.shape)
    measured = replace(motion, torques=dict(zip(model.joints, torques.T, strict=True)))
    return gather_evidence(model, measured, torques=["*"], weights=None, nuisance=())


@cache
def noisy_evidence(name: str = "g1", *, force: float = 20.0, moment: float = 2.0, weights: bool = True) -> Evidence:
    """Gives Evidence with so much noise that links would be impossible without constraints."""
    motion = with_noise(rich_motion(name), 1, force=force, moment=moment)
    return gather_evidence(reference(name), motion, weights="default" if weights else None, nuisance=())


def with_constraints(model: Model, constraints: Sequence[Any]) -> Model:
    """Gives the model with constraints in its setup."""
    return replace(model, setup=replace(model.setup, constraints=tuple(constraints)))


@dataclass(frozen=True, eq=False)
class Scaled:
    """Evidence without nuisances as ``‖data y - goal‖²``, on unknowns ``y`` of unit size: ``φ = start + transform y``.

    By spread, residuals are in units of their noise.
    """

    unknowns: ParameterSet
    root: FloatArray
    noise: float
    data: FloatArray
    goal: FloatArray

    @property
    def transform(self) -> FloatArray:
        return self.unknowns.transform @ self.root

    def place(self, parameters: FloatArray) -> FloatArray:
        """Gives ``y`` at some parameters."""
        return np.linalg.solve(self.root, (parameters.ravel() - self.unknowns.start)[self.unknowns.chosen])

    def parameters(self, place: FloatArray) -> FloatArray:
        return self.unknowns.expand(self.root @ place)

    def cost(self, parameters: FloatArray, alpha: float) -> float:
        """Gives [jovic2015] (4)."""
        place = self.place(parameters)
        return float(np.sum((self.data @ place - self.goal) ** 2) + alpha * np.sum(place**2))


def scaled(
    model: Model, evidence: Evidence, variance: float, *, parameters: Any = None, scale: str = "spread"
) -> Scaled:
    """Gives the problem of some Evidence; `variance` is that of a row."""
    unknowns = choose_parameters(model, parameters)
    noise = float(np.sqrt(variance)) if scale == "spread" else 1.0
    root = unknowns.spread if scale == "spread" else np.eye(len(unknowns))
    full = evidence.full_factor / noise
    matrix, right = full[:, :-1], full[:, -1]
    return Scaled(unknowns, root, noise, matrix @ unknowns.transform @ root, right - matrix @ unknowns.start)


def list_rows(system: ConstraintSystem) -> ConstraintRows:
    """Gives the rows of a system, those of finite families written out."""
    size = system.rows.matrix.shape[1]
    return join_rows([system.rows, *(family.every() for family in system.cut_families)], size)


def semidefinite_minimum(
    problem: Scaled, data: FloatArray, goal: FloatArray, rows: ConstraintRows, tensors: Mapping[int, float]
) -> FloatArray:
    """Gives clarabel's ``y`` that minimises ``‖data y - goal‖²`` under rows, tensors of links at least as given.

    Tensors are cones of 3 x 3 matrices, their upper triangles column by column, as the ten parameters hold them.
    """
    transform, start = problem.transform, problem.unknowns.start
    matrix = rows.matrix @ transform
    lengths = np.linalg.norm(matrix, axis=1)
    kept = lengths > 1e-12
    matrix, shift = matrix[kept] / lengths[kept, None], (rows.matrix @ start)[kept]
    lower, upper = ((side[kept] - shift) / lengths[kept] for side in (rows.lower, rows.upper))
    equal = lower == upper
    low, high = ~equal & np.isfinite(lower), ~equal & np.isfinite(upper)
    blocks = [matrix[equal], -matrix[low], matrix[high]]
    right = [lower[equal], -lower[low], upper[high]]
    cones: list[Any] = [clarabel.ZeroConeT(int(equal.sum())), clarabel.NonnegativeConeT(int(low.sum() + high.sum()))]
    weights = np.array([1.0, np.sqrt(2.0), 1.0, np.sqrt(2.0), np.sqrt(2.0), 1.0])
    diagonal = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    for link, least in tensors.items():
        place = slice(10 * link + 4, 10 * link + 10)
        block = -weights[:, None] * transform[place]
        size = np.linalg.norm(block)
        if size > 0.0:
            blocks.append(block / size)
            right.append(weights * (start[place] - least * diagonal) / size)
            cones.append(clarabel.PSDTriangleConeT(3))
    return solve_conic(
        sparse.csc_matrix(np.triu(2.0 * data.T @ data)), -2.0 * data.T @ goal,
        sparse.csc_matrix(np.vstack(blocks)), np.concatenate(right), cones,
    )[0]  # fmt: skip


def least_inertias(system: ConstraintSystem) -> dict[int, float]:
    """Gives the least eigenvalue of each link's tensor, by row of the link."""
    return {
        int(place): float(least)
        for family in system.cut_families
        if family.kind == "inertia"
        for place, least in zip(family.places, family.least, strict=True)
    }


# What the parameters themselves say, without rows.


def least_eigenvalues(parameters: FloatArray) -> FloatArray:
    return np.linalg.eigvalsh(rotational_inertia_at_origin(parameters))[:, 0]


def greatest_com_error(model: Model, parameters: FloatArray) -> float:
    """Gives how far a first moment is outside the box around its link's shapes, kg m."""
    worst = 0.0
    for row, link in enumerate(model.links):
        points = link_points(model, link)
        if len(points):
            mass, moment = parameters[row, 0], parameters[row, 1:4]
            beyond = np.maximum(mass * points.min(axis=0) - moment, moment - mass * points.max(axis=0))
            worst = max(worst, float(np.max(beyond)))
    return worst


def greatest_mirror_error(model: Model, parameters: FloatArray, of: Sequence[str]) -> float:
    """Gives the greatest difference between a link and the image of its partner, SI units."""
    chosen = [PARAMETER_SYMBOLS.index(symbol) for symbol in of]
    differences = [(pair.image(parameters[pair.left]) - parameters[pair.right])[chosen] for pair in find_pairs(model)]
    return float(np.max(np.abs(differences)))
