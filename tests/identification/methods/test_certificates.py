"""One certificate for all methods: residuals of the optimality conditions, and what is active."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from steelyard import identify
from steelyard.identification import OPTIONS, Certificate, choose_parameters
from steelyard.identification.estimate.base_parameters import find_base_parameters
from steelyard.identification.methods.base_only import build_base, solve_base
from steelyard.identification.methods.truncated import build_truncated, solve_truncated
from steelyard.identification.problem import build_problem
from tests.identification.constrained_worlds import arm, arm_evidence


@pytest.mark.parametrize("method", OPTIONS)
def test_every_method_certifies_its_optimum(method: str) -> None:
    options = {"tolerance": 0.0} if method == "bounded" else {}
    found = identify(arm(), arm_evidence(), method=method, **options)
    certificate = found.certificate
    assert found.status == "solved"
    assert certificate is not None
    assert certificate.dual_residual == certificate.stationarity < 1e-6
    assert certificate.primal_residual == certificate.violation < 1e-8
    assert abs(certificate.gap) == abs(certificate.complementarity) < 1e-6
    assert set(certificate.active) <= set(found.active)


def test_closed_forms_solve_their_normal_equations() -> None:
    problem = build_problem(arm_evidence(), choose_parameters(arm()))
    for found in (
        solve_truncated(build_truncated(problem)),
        solve_base(build_base(problem, find_base_parameters(problem))),
    ):
        assert found.certificate is not None
        assert found.certificate.dual_residual < 1e-9
    # Away from the minimum the residual is large: the certificate measures something.
    whole = problem.matrix.T @ problem.right
    off = problem.matrix.T @ (problem.matrix @ (1.01 * found.unknowns) - problem.right)
    assert np.linalg.norm(off) > 1e-4 * np.linalg.norm(whole)


def test_a_certificate_of_an_older_file_has_no_names() -> None:
    stored = {"stationarity": 1e-9, "violation": 0.0, "complementarity": 0.0, "problems": 3, "directions": 1}
    assert Certificate(**stored).active == ()  # type: ignore[arg-type]
    again = Certificate(**{**stored, "active": ["total mass = 8"]})  # type: ignore[arg-type]
    assert again.active == ("total mass = 8",)
    assert Certificate(**asdict(again)) == again
