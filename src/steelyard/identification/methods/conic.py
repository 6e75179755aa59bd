"""Least squares with the CAD as prior over possible bodies: each link's pseudo-inertia is positive semidefinite.

[Sousa and Cortesão, "Physical feasibility of robot base inertial parameter identification: a linear matrix inequality
approach", 2014; Wensing, Kim and Slotine, 2018]. They put the squares of residuals into the semidefinite programme as
well; here clarabel minimises them as they are, on the triangular factor of the data and relative to their unconstrained
minimum, and Newton's method on the active constraints goes on from there to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from steelyard.exceptions import IdentifiabilityError, SolverError
from steelyard.identification.constraints.lmi_blocks import body_blocks, body_in_words, tensor_blocks, without_cones
from steelyard.identification.methods.drawn_errors import DRAWS, check_draws, with_drawn_errors
from steelyard.identification.methods.option_checks import check_between
from steelyard.identification.methods.reference_bodies import about_projection
from steelyard.identification.methods.scaled_unknowns import Unknowns
from steelyard.identification.methods.solution import HELD, SILENT, STATIONARY, Solution
from steelyard.identification.sampling.posterior import build_posterior
from steelyard.identification.solvers.certificate import Certificate
from steelyard.identification.solvers.clarabel_sdp import TOLERANCE, independent_rows, read_point, solve_by_clarabel
from steelyard.identification.solvers.sdp_refinement import (
    Point,
    Programme,
    find_active,
    is_near_edge,
    refine,
    sensitivity_root,
)
from steelyard.model import constraint_table, project_to_interior
from steelyard.wording import in_words

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import ConstraintSystem
    from steelyard.identification.constraints.lmi_blocks import Block
    from steelyard.identification.methods.solution import Task
    from steelyard.identification.problem import Problem
    from steelyard.identification.solvers.level_search import Cuts
    from steelyard.identification.solvers.sdp_refinement import ActiveConstraint, Quality

FLOOR = 1e-6
"""Share of its reference's pseudo-inertia that a link always keeps, so that rounding leaves it possible. Set by
judgement: far above rounding, far below any real body's deviation."""

TIE_BREAK = 1e-6
"""Weight of the prior where it has none: it makes the solution unique. Set by judgement: it counts as a
deviation a thousand times the usual one, far wider than what data observe."""

_SHARPEST = 1e9
"""Greatest singular value of the data, relative to the root of the prior's weight, in double precision. Data without
noise are taken to have as much. Set by judgement: seven digits are left."""

_ACTIVE = 1e-6
"""Share of the greatest constraint force from which a constraint counts as active. Set by judgement: as `STATIONARY`,
below which a gradient counts as zero."""

_EXACT, _FAR_OFF, _USELESS = 1e-9, 1e-6, 1e-3
"""Error of a refined point that counts as exact; above which clarabel is asked again, in other variables; and violation
above which the point is given up. Set by judgement; `refine` aims at 1e-13."""

_MOST_ROUNDS = 60
"""Most rounds of generated constraints. Set by judgement; only a search that does not converge comes so far."""

_INFEASIBLE = ("PrimalInfeasible", "AlmostPrimalInfeasible")


@dataclass(frozen=True, eq=False)
class ConicProblem:
    """A semidefinite programme in scaled unknowns ``y``, and what may be added to it.

    Attributes:
        unknowns: The scaled unknowns.
        system: The constraints.
        alpha: The weight of the prior; `TIE_BREAK` or more where it was given as zero.
        floor: Share of the reference's pseudo-inertia that a link keeps.
        noise: By which residuals are divided.
        data: ``A`` on ``y`` divided by the noise.
        right: Of the triangular factor of data and prior, shape (n,).
        unexplained: The part of the cost that no parameters explain.
        bodies: The pseudo-inertia of each link that is looked for, as semidefinite blocks.
        tensors: Least rotational inertias, added where they are broken.
        cuts: Families of cutting planes, likewise.
        projected: Links whose reference is impossible, or hardly possible, and replaced by the nearest possible one.
        names: Of the programme's rows.
        equation_names: Of its equations.
        programme: The programme without what is added.
    """

    unknowns: Unknowns
    system: ConstraintSystem
    alpha: float
    floor: float
    noise: float
    data: FloatArray
    right: FloatArray
    unexplained: float
    bodies: tuple[Block, ...]
    tensors: tuple[Block, ...]
    cuts: tuple[Cuts, ...]
    projected: tuple[str, ...]
    names: tuple[str, ...]
    equation_names: tuple[str, ...]
    programme: Programme

    def covariance_roots(self) -> tuple[FloatArray, FloatArray]:
        """Return roots of the posterior and the prior covariance of ``y``, equations held."""
        free = np.eye(self.data.shape[1])
        kept = independent_rows(self.programme.equations)
        if len(kept):
            free = np.linalg.qr(self.programme.equations[kept].T, mode="complete")[0][:, len(kept) :]
        factor = np.linalg.qr(self.programme.factor @ free, mode="r")
        return np.asarray(solve_triangular(factor, free.T, trans="T").T), free / np.sqrt(self.alpha)


def build_conic(
    problem: Problem, system: ConstraintSystem, *, alpha: float = 1.0, floor: float = FLOOR
) -> ConicProblem:
    """Write ``min ‖(A z − b)/noise‖² + α ‖y‖²`` over possible bodies as a semidefinite programme; ``z = spread y``.

    Every link that is looked for has a pseudo-inertia ``P ⪰ floor · P₀``, with ``P₀`` its reference's. Links of which
    nothing is looked for, and frozen ones, stay as they are, possible or not.

    Args:
        problem: The problem.
        system: The constraints.
        alpha: Weight of the prior; one is the weight that follows from noise and from the usual deviation of a model.
            Zero leaves all to the data; what they do not observe stays as near to the start as possible (`TIE_BREAK`).
        floor: Share of the reference's pseudo-inertia that a link keeps, from 1e-9 to 0.1.

    Raises:
        IdentifiabilityError: An option is invalid.
    """
    check_between("alpha", alpha, 0.0)
    check_between("floor", floor, 1e-9, 0.1)
    unknowns = Unknowns(problem, "spread")
    data = problem.matrix @ unknowns.root
    noise = max(problem.noise, float(np.linalg.norm(data, 2)) / _SHARPEST, 1e-300)
    data /= noise
    count = data.shape[1]
    weighed = np.column_stack([data, problem.right / noise])
    alpha = float(alpha) or max(TIE_BREAK, float(np.linalg.norm(data, 2) / _SHARPEST) ** 2)
    prior = np.column_stack([np.sqrt(alpha) * np.eye(count), np.zeros(count)])
    triangle = np.asarray(np.linalg.qr(np.concatenate([weighed, prior]), mode="r"))
    factor, right = triangle[:count, :count], triangle[:count, count]
    bodies, projected = body_blocks(unknowns, system, floor)
    level, names = unknowns.level("constraints", without_cones(system))
    equal = level.lower == level.upper
    low, high = ~equal & np.isfinite(level.lower), ~equal & np.isfinite(level.upper)
    every = np.array(names, dtype=object)
    programme = Programme(
        factor=factor,
        centre=solve_triangular(factor, right),
        equations=level.matrix[equal],
        right=level.lower[equal],
        rows=np.concatenate([level.matrix[low], -level.matrix[high]]),
        lower=np.concatenate([level.lower[low], -level.upper[high]]),
        blocks=tuple(bodies),
        size=1e-6 * float(np.linalg.norm(factor.T @ right)),
    )
    return ConicProblem(
        unknowns=unknowns,
        system=system,
        alpha=alpha,
        floor=floor,
        noise=noise,
        data=data,
        right=right,
        unexplained=float(np.sum(np.square(triangle[count:, count]))),
        bodies=tuple(bodies),
        tensors=tuple(tensor_blocks(unknowns, system)),
        cuts=level.cut_families,
        projected=projected,
        names=(*every[low], *every[high]),
        equation_names=tuple(every[equal]),
        programme=programme,
    )


def solve_conic(conic: ConicProblem) -> Solution:
    """Return the minimum; covariance and response take active constraints to stay active.

    Raises:
        IdentifiabilityError: Constraints contradict each other or what a body can be.
        SolverError: No minimum was found.
    """
    problem, root = conic.unknowns.problem, conic.unknowns.root
    search = _Search(conic)
    point, quality = search.minimum()
    programme, y = search.programme, point.unknowns
    z = root @ y
    worst, _ = conic.system.worst(problem.unknowns.expand(z))
    moved = sensitivity_root(programme, point)
    answer = root @ moved @ (conic.data @ moved).T
    after, before = conic.covariance_roots()
    left = programme.factor @ y - conic.right
    cost = float(left @ left) + conic.unexplained
    exact = quality.stationarity <= STATIONARY and max(worst, quality.violation) <= HELD
    constraints = find_active(programme, point, _ACTIVE)
    active = search.names_of(constraints)
    return Solution(
        z,
        (problem.noise / conic.noise) ** 2 * (answer @ answer.T),
        answer @ problem.matrix / conic.noise,
        "solved" if exact else "stopped",
        active,
        certificate=Certificate(
            quality.stationarity,
            worst,
            2.0 * quality.gap / max(cost, 1e-300),
            search.problems,
            search.generated,
            active,
        ),
        belief=(_covariance(root @ after), _covariance(root @ before)),
        at_edges=bool(constraints) or is_near_edge(programme, y, after),
        cost=cost,
    )


def identify_conic(task: Task, *, alpha: float = 1.0, floor: float = FLOOR, draws: int = DRAWS) -> Solution:
    """Return the solution of the method "conic", with its posterior; see `with_drawn_errors` for `draws`."""
    check_draws(draws)
    problem = task.problem
    used, system, remarks = task.resolve("conic")
    conic = build_conic(problem, system, alpha=alpha, floor=floor)
    solution = solve_conic(conic)
    remarks = [*about_projection(list(conic.projected), task.model), *remarks]
    if not problem.column_rank:
        held = bool(len(system.rows) or system.cut_families)
        remarks.insert(
            0, "The data decide nothing: the estimate follows from the constraints alone." if held else SILENT
        )
    options = {"alpha": alpha, "draws": int(draws), "constraints": constraint_table(used)}
    judged = task.judge(replace(solution, status="solved", remarks=tuple(remarks), options=options), system)
    if solution.status == "stopped":
        judged = replace(judged, status="stopped")
    if not (problem.noise > 0.0 and alpha > 0.0):
        return replace(judged, belief=None)
    density = build_posterior(
        problem,
        solution.unknowns,
        project_to_interior(task.model.parameters),
        prior_root=np.sqrt(alpha) * np.linalg.inv(problem.unknowns.spread),
        rows=system.rows,
    )
    judged = replace(judged, posterior=density)
    return with_drawn_errors(judged, system, draws) if judged.at_edges else judged


def _covariance(root: FloatArray) -> FloatArray:
    return np.asarray(root @ root.T)


class _Search:
    """A search for the minimum: the programme, and what is added to it where it is broken."""

    def __init__(self, conic: ConicProblem) -> None:
        self.conic, self.programme, self.names = conic, conic.programme, list(conic.names)
        self.problems = self.generated = 0

    def minimum(self) -> tuple[Point, Quality]:
        """Return the minimum under all constraints.

        Newton's method continues from the last minimum under what is added; where it diverges, clarabel starts anew.
        """
        point, quality = self._solved()
        for _ in range(_MOST_ROUNDS):
            wider = self._widened(point)
            if wider is None:
                break
            point, quality = refine(self.programme, wider, TOLERANCE)
            if not quality.error <= _EXACT:
                point, quality = self._solved()
        return point, quality

    def names_of(self, constraints: list[ActiveConstraint]) -> tuple[str, ...]:
        """Return the names of active constraints, each once."""
        words = []
        for constraint in constraints:
            if constraint.null_vectors is None:
                words.append(self.names[constraint.row])
            else:
                words.append(body_in_words(self.programme.blocks[constraint.block], constraint.null_vectors))
        return tuple(dict.fromkeys(words))

    def _solved(self) -> tuple[Point, Quality]:
        """Return clarabel's minimum, refined; in other variables where the first was far off."""
        programme = self.programme
        best: tuple[Point, Quality] | None = None
        for turned in (False, True):
            solved = solve_by_clarabel(programme, turned=turned)
            self.problems += 1
            if str(solved.status) in _INFEASIBLE:
                raise self._contradiction(np.asarray(solved.z))
            if not np.all(np.isfinite([*solved.x, *solved.z])):
                continue
            found = refine(programme, read_point(programme, solved, turned=turned), TOLERANCE)
            if best is None or found[1].error < best[1].error:
                best = found
            if best[1].error <= _FAR_OFF:
                break
        if best is None or best[1].violation > _USELESS:
            raise SolverError(
                f"the semidefinite programme was not solved ({solved.status}); loosen a constraint, or raise alpha",
                status=str(solved.status),
            )
        return best

    def _widened(self, point: Point) -> Point | None:
        """Add what a point breaks, and return the point with multipliers for it; None where it breaks nothing."""
        programme, y = self.programme, point.unknowns
        found = [cut(y) for cut in self.conic.cuts]
        matrix = np.concatenate([np.zeros((0, len(y))), *(rows for rows, *_ in found)])
        lower = np.concatenate([np.zeros(0), *(limits for _, limits, *_ in found)])
        present = set(programme.blocks)
        blocks = [
            block
            for block in self.conic.tensors
            if block not in present and np.linalg.eigvalsh(block.value(y))[0] < 0.0
        ]
        if not len(matrix) and not blocks:
            return None
        self.generated += len(matrix) + len(blocks)
        self.names += [self.conic.unknowns.names[label] for *_, labels in found for label in labels]
        self.programme = replace(
            programme,
            rows=np.concatenate([programme.rows, matrix]),
            lower=np.concatenate([programme.lower, lower]),
            blocks=(*programme.blocks, *blocks),
        )
        return Point(
            y,
            point.equations,
            np.concatenate([point.rows, np.zeros(len(matrix))]),
            (*point.blocks, *(np.zeros((block.size, block.size)) for block in blocks)),
        )

    def _contradiction(self, certificate: FloatArray) -> IdentifiabilityError:
        """Return the error that names the constraints of a certificate of infeasibility."""
        programme = self.programme
        kept = independent_rows(programme.equations)
        weights = [(abs(each), self.conic.equation_names[row]) for row, each in zip(kept, certificate, strict=False)]
        begin = len(kept)
        weights += zip(np.abs(certificate[begin : begin + len(programme.rows)]).tolist(), self.names, strict=True)
        begin += len(programme.rows)
        for block in programme.blocks:
            end = begin + block.size * (block.size + 1) // 2
            name = block.name if block.frame is None else f"{block.name} being a possible body"
            weights.append((float(np.linalg.norm(certificate[begin:end])), name))
            begin = end
        greatest = max(weight for weight, _ in weights)
        names = [name for weight, name in sorted(weights, reverse=True) if weight > 1e-3 * greatest]
        names = list(dict.fromkeys(names))
        return IdentifiabilityError(
            f"no parameters satisfy {in_words(names, limit=8)} together; loosen or leave out one of them, or look for "
            "more parameters",
            names=names,
        )
