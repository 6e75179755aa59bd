"""Least squares with the CAD as prior, over all that bodies can be: each link's pseudo-inertia positive semidefinite.

[Sousa and Cortesão, "Physical feasibility of robot base inertial parameter identification: a linear matrix inequality
approach", 2014; Wensing, Kim and Slotine, 2018]. They put the squares of residuals into the semidefinite programme as
well; here clarabel minimises them as they are, on the triangular factor of the data and from where their own minimum
would be, and Newton's method on what binds goes on from there to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import clarabel
import numpy as np
from scipy import sparse
from scipy.linalg import qr, solve_triangular

from steelyard.exceptions import IdentifiabilityError, SolverError
from steelyard.identification.constraints.lmi_blocks import (
    Block,
    body_blocks,
    body_in_words,
    tensor_blocks,
    without_cones,
)
from steelyard.identification.methods.scaled_unknowns import Unknowns
from steelyard.identification.solvers.sdp_refinement import (
    Point,
    Programme,
    answer_to_centre,
    find_leanings,
    is_near_edge,
    refine,
)
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.resolve import ConstraintSystem
    from steelyard.identification.problem import Problem
    from steelyard.identification.solvers.sdp_refinement import Quality

FLOOR = 1e-6
"""Share of its reference's pseudo-inertia that a link always keeps, so that rounding leaves it possible."""

TIE_BREAK = 1e-6
"""Weight of the prior where it has none: enough for one answer, and for nothing that data see at all."""

_SHARPEST = 1e9
"""Greatest singular value of the data beside the root of the prior's weight: more cannot be told from rounding. Data
without noise are taken to have so much."""

_STATIONARY, _HELD = 1e-6, 1e-8
"""What a solution must show: the share of the gradient that is left, and the violation of a constraint (SI)."""

_LEANS = 1e-6
"""Part of the greatest push from which a constraint counts as binding."""

_TOLERANCE, _FAR_OFF, _USELESS = 1e-10, 1e-6, 1e-3
_MOST_ROUNDS = 60
_INFEASIBLE = ("PrimalInfeasible", "AlmostPrimalInfeasible")


@dataclass(frozen=True, eq=False)
class ConicSolution:
    """A minimum over what bodies can be.

    Attributes:
        unknowns: ``z``, shape (n_unknowns,).
        alpha: The weight of the prior.
        covariance: Of ``z``, from noise, what binds taken to go on binding; shape (n_unknowns, n_unknowns).
        response: How ``z`` answers to the true one on average, likewise.
        belief: Covariances of ``z`` after the data and before them; equations are counted, other constraints and what
            a body can be are not.
        at_edges: Whether something binds, or is nearer than three standard errors, so that the posterior is narrower.
        active: Names of what binds, strongest first.
        status: "solved", or "stopped" where `stationarity` or `violation` are more than they should be.
        cost: ``‖(A z − b)/noise‖² + α ‖y‖²``.
        stationarity: What is left of the gradient beside the push of what binds, as a share of the greatest of both and
            of a millionth of the gradient at the start.
        violation: The most by which a constraint is broken, SI units.
        broken: Which constraint that is; empty where none is.
        complementarity: The gap between the cost and its lower bound by duality, as a share of the cost.
        least_eigenvalue: The smallest of all links' pseudo-inertias beside their references'.
        iterations: Of clarabel.
        problems: How many semidefinite programmes were solved.
        generated: How many rows and inertias were added as they were needed.
        projected: Links whose reference no body could have, or hardly one, and that count as the nearest possible.
    """

    unknowns: FloatArray
    alpha: float
    covariance: FloatArray
    response: FloatArray
    belief: tuple[FloatArray, FloatArray]
    at_edges: bool
    active: tuple[str, ...]
    status: Literal["solved", "stopped"]
    cost: float
    stationarity: float
    violation: float
    broken: str
    complementarity: float
    least_eigenvalue: float
    iterations: int
    problems: int
    generated: int
    projected: tuple[str, ...] = ()


def solve_conic(
    problem: Problem, system: ConstraintSystem, *, alpha: float = 1.0, floor: float = FLOOR
) -> ConicSolution:
    """Gives what minimises ``‖(A z − b)/noise‖² + α ‖y‖²`` over possible bodies, under constraints; ``z = spread y``.

    Every link that is looked for has a pseudo-inertia ``P ⪰ floor · P₀``, with ``P₀`` its reference's. Links of which
    nothing is looked for, and frozen ones, stay as they are, possible or not.

    Args:
        problem: The problem.
        system: The constraints.
        alpha: Weight of the prior; one is the weight that follows from noise and from how far a model is usually off.
            Zero leaves it to the data; what they do not see then stays as near to the start as may be (`TIE_BREAK`).
        floor: Share of the reference's pseudo-inertia that a link keeps, from 1e-9 to 0.1.

    Raises:
        IdentifiabilityError: An option makes no sense, or constraints contradict each other or what a body can be.
        SolverError: No minimum was found.
    """
    _check("alpha", alpha, 0.0, np.inf)
    _check("floor", floor, 1e-9, 0.1)
    work = _Search(problem, system, float(alpha), floor)
    point, quality = work.minimum()
    place = point.place
    unknowns = work.unknowns.root @ place
    worst, broken = system.worst(problem.unknowns.expand(unknowns))
    moved = answer_to_centre(work.programme, point)
    answer = work.unknowns.root @ moved @ (work.data @ moved).T
    after, before = work.belief()
    left = work.factor @ place - work.right
    cost = float(left @ left) + work.unexplained
    exact = quality.stationarity <= _STATIONARY and max(worst, quality.violation) <= _HELD
    return ConicSolution(
        unknowns=unknowns,
        alpha=float(alpha),
        covariance=(problem.noise / work.noise) ** 2 * (answer @ answer.T),
        response=answer @ problem.matrix / work.noise,
        belief=(work.outward(after), work.outward(before)),
        at_edges=bool(find_leanings(work.programme, point, _LEANS)) or is_near_edge(work.programme, place, after),
        active=work.active(point),
        status="solved" if exact else "stopped",
        cost=cost,
        stationarity=quality.stationarity,
        violation=worst,
        broken=broken,
        complementarity=2.0 * quality.gap / max(cost, 1e-300),
        least_eigenvalue=work.least_eigenvalue(place),
        iterations=work.iterations,
        problems=work.problems,
        generated=work.generated,
        projected=work.projected,
    )


def _check(name: str, value: Any, low: float, high: float) -> None:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (number and np.isfinite(value) and low <= value <= high):
        wanted = f"from {low:g} to {high:g}" if np.isfinite(high) else f"of at least {low:g}"
        raise IdentifiabilityError(f"{name} is {value!r}; it must be a number {wanted}")


class _Search:
    """The work of `solve_conic`: the programme, and what is added to it as it is needed."""

    def __init__(self, problem: Problem, system: ConstraintSystem, alpha: float, floor: float) -> None:
        self.system, self.floor = system, floor
        self.unknowns = unknowns = Unknowns(problem, "spread")
        self.iterations = self.problems = self.generated = 0
        self.data = problem.matrix @ unknowns.root
        self.noise = max(problem.noise, float(np.linalg.norm(self.data, 2)) / _SHARPEST, 1e-300)
        self.data /= self.noise
        count = self.data.shape[1]
        weighed = np.column_stack([self.data, problem.right / self.noise])
        self.alpha = alpha = alpha or max(TIE_BREAK, float(np.linalg.norm(self.data, 2) / _SHARPEST) ** 2)
        prior = np.column_stack([np.sqrt(alpha) * np.eye(count), np.zeros(count)])
        triangle = np.asarray(np.linalg.qr(np.concatenate([weighed, prior]), mode="r"))
        self.factor, self.right = triangle[:count, :count], triangle[:count, count]
        self.unexplained = float(np.sum(np.square(triangle[count:, count])))
        self.bodies, self.projected = body_blocks(unknowns, system, floor)
        self.tensors = tensor_blocks(unknowns, system)
        level, names = unknowns.level("constraints", without_cones(system))
        self.cuts = level.separators
        equal = level.lower == level.upper
        low, high = ~equal & np.isfinite(level.lower), ~equal & np.isfinite(level.upper)
        every = np.array(names, dtype=object)
        self.names = [*every[low], *every[high]]
        self.equation_names = list(every[equal])
        self.programme = Programme(
            factor=self.factor,
            centre=solve_triangular(self.factor, self.right),
            equations=level.matrix[equal],
            right=level.lower[equal],
            rows=np.concatenate([level.matrix[low], -level.matrix[high]]),
            lower=np.concatenate([level.lower[low], -level.upper[high]]),
            blocks=tuple(self.bodies),
            size=1e-6 * float(np.linalg.norm(self.factor.T @ self.right)),
        )

    def minimum(self) -> tuple[Point, Quality]:
        """Gives the minimum under all constraints.

        What is added is first followed by Newton's method from the last minimum; where that goes astray, clarabel
        starts anew.
        """
        point, quality = self._solved()
        for _ in range(_MOST_ROUNDS):
            wider = self._widened(point)
            if wider is None:
                break
            point, quality = refine(self.programme, wider, _TOLERANCE)
            if not _is_exact(quality):
                point, quality = self._solved()
        return point, quality

    def belief(self) -> tuple[FloatArray, FloatArray]:
        """Gives roots of the covariances of ``y`` after the data and before them, where equations are held."""
        count = self.data.shape[1]
        free = np.eye(count)
        kept = _independent(self.programme.equations)
        if len(kept):
            free = np.linalg.qr(self.programme.equations[kept].T, mode="complete")[0][:, len(kept) :]
        factor = np.linalg.qr(self.factor @ free, mode="r")
        return np.asarray(solve_triangular(factor, free.T, trans="T").T), free / np.sqrt(self.alpha)

    def outward(self, root: FloatArray) -> FloatArray:
        """Gives the covariance of ``z`` by a root of that of ``y``."""
        turned = self.unknowns.root @ root
        return np.asarray(turned @ turned.T)

    def active(self, point: Point) -> tuple[str, ...]:
        """Gives the names of what binds, strongest first, each once."""
        words = []
        for leaning in find_leanings(self.programme, point, _LEANS):
            if leaning.null_vectors is None:
                words.append(self.names[leaning.row])
            else:
                words.append(body_in_words(self.programme.blocks[leaning.block], leaning.null_vectors))
        return tuple(dict.fromkeys(words))

    def least_eigenvalue(self, place: FloatArray) -> float:
        """Gives the smallest eigenvalue of the bodies, beside their references."""
        values = [float(np.linalg.eigvalsh(block.value(place))[0]) + self.floor for block in self.bodies]
        return min(values, default=np.inf)

    def _solved(self) -> tuple[Point, Quality]:
        """Gives clarabel's minimum, refined; a second time, on other variables, where the first was far off."""
        programme = self.programme
        best: tuple[Point, Quality] | None = None
        for turned in (False, True):
            solved = _by_clarabel(programme, turned=turned)
            self.problems += 1
            self.iterations += int(solved.iterations)
            if str(solved.status) in _INFEASIBLE:
                raise self._contradiction(np.asarray(solved.z))
            if not np.all(np.isfinite([*solved.x, *solved.z])):
                continue
            found = refine(programme, _as_point(programme, solved, turned=turned), _TOLERANCE)
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
        """Adds what a point breaks, and gives the point with multipliers for it; None where it breaks nothing."""
        programme, place = self.programme, point.place
        found = [cut(place) for cut in self.cuts]
        matrix = np.concatenate([np.zeros((0, len(place))), *(rows for rows, _, _ in found)])
        lower = np.concatenate([np.zeros(0), *(limits for _, limits, _ in found)])
        present = set(programme.blocks)
        blocks = [
            block for block in self.tensors if block not in present and np.linalg.eigvalsh(block.value(place))[0] < 0.0
        ]
        if not len(matrix) and not blocks:
            return None
        self.generated += len(matrix) + len(blocks)
        self.names += [self.unknowns.names.get(row.tobytes(), "a generated row") for row in matrix]
        self.programme = replace(
            programme,
            rows=np.concatenate([programme.rows, matrix]),
            lower=np.concatenate([programme.lower, lower]),
            blocks=(*programme.blocks, *blocks),
        )
        return Point(
            place,
            point.equations,
            np.concatenate([point.rows, np.zeros(len(matrix))]),
            (*point.blocks, *(np.zeros((block.size, block.size)) for block in blocks)),
        )

    def _contradiction(self, certificate: FloatArray) -> IdentifiabilityError:
        """Gives the error that names what a certificate of infeasibility leans on."""
        programme = self.programme
        kept = _independent(programme.equations)
        weights = [(abs(each), self.equation_names[row]) for row, each in zip(kept, certificate, strict=False)]
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


def _is_exact(quality: Quality) -> bool:
    return quality.error <= 1e-9


def _independent(equations: FloatArray) -> FloatArray:
    """Gives equations that imply the others, by index."""
    if not len(equations):
        return np.zeros(0, dtype=np.int64)
    _, triangle, order = qr(equations.T, mode="economic", pivoting=True)
    sizes = np.abs(np.diagonal(triangle))
    return np.sort(order[: len(sizes)][sizes > 1e-10 * sizes[0]])


def _triangle(size: int) -> tuple[Any, Any, FloatArray]:
    """Gives rows, columns and weights of an upper triangle, column by column, as clarabel wants it."""
    pairs = np.array([(row, column) for column in range(size) for row in range(column + 1)])
    return pairs[:, 0], pairs[:, 1], np.where(pairs[:, 0] == pairs[:, 1], 1.0, np.sqrt(2.0))


def _cone_rows(blocks: Sequence[Block], count: int) -> tuple[list[Any], list[FloatArray]]:
    matrices, offsets = [], []
    for block in blocks:
        rows, columns, weights = _triangle(block.size)
        entries = block.basis[:, rows, columns].T * weights[:, None]
        places = np.tile(block.columns, len(weights))
        starts = np.arange(len(weights) + 1) * len(block.columns)
        matrices.append(sparse.csr_array((-entries.reshape(-1), places, starts), shape=(len(weights), count)))
        offsets.append(block.offset[rows, columns] * weights)
    return matrices, offsets


def _by_clarabel(programme: Programme, *, turned: bool = False) -> Any:
    """Gives clarabel's solution, with ``y`` measured from the centre: so costs are small, and gaps exact.

    Turned, the variables are ``factor (y − centre)``: slower, as nothing is sparse then, but the factor is not squared.
    """
    count = len(programme.centre)
    kept = _independent(programme.equations)
    cone_rows, offsets = _cone_rows(programme.blocks, count)
    matrix = sparse.vstack(
        [sparse.csr_array(programme.equations[kept]), sparse.csr_array(-programme.rows), *cone_rows], format="csc"
    )
    right = np.concatenate([programme.right[kept], -programme.lower, *offsets])
    right = right - matrix @ programme.centre
    cones: list[Any] = [clarabel.ZeroConeT(len(kept)), clarabel.NonnegativeConeT(len(programme.rows))]
    cones += [clarabel.PSDTriangleConeT(block.size) for block in programme.blocks]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _TOLERANCE
    if turned:
        matrix = solve_triangular(programme.factor, matrix.toarray().T, trans="T").T
        quadratic = sparse.eye(count, format="csc")
    else:
        quadratic = sparse.csc_matrix(np.triu(programme.factor.T @ programme.factor))
    return clarabel.DefaultSolver(quadratic, np.zeros(count), sparse.csc_matrix(matrix), right, cones, settings).solve()


def _as_point(programme: Programme, solved: Any, *, turned: bool) -> Point:
    multipliers = np.asarray(solved.z)
    kept = _independent(programme.equations)
    equations = np.zeros(len(programme.equations))
    equations[kept] = -multipliers[: len(kept)]
    begin = len(kept) + len(programme.rows)
    blocks = []
    for block in programme.blocks:
        rows, columns, weights = _triangle(block.size)
        entries = multipliers[begin : begin + len(rows)] / weights
        begin += len(rows)
        multiplier = np.zeros((block.size, block.size))
        multiplier[rows, columns] = multiplier[columns, rows] = entries
        blocks.append(multiplier)
    step = np.asarray(solved.x)
    return Point(
        programme.centre + (solve_triangular(programme.factor, step) if turned else step),
        equations,
        multipliers[len(kept) : len(kept) + len(programme.rows)],
        tuple(blocks),
    )
