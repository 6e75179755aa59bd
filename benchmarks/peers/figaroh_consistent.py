"""Run in figaroh's environment: its physically consistent fit, timed, of whole-body motions from a file.

Usage: python figaroh_consistent.py MODEL.urdf SAMPLES.npz; prints one line of JSON.

figaroh 1.0.2 fits standard parameters under one pseudo-inertia LMI for each link in its module
`figaroh.identification.physical_fit`: `build_problem` takes a regressor, efforts and a prior, `solve_direct_effort_fit`
minimises ``‖R θ − Qᵀτ‖² + λ ‖D⁻¹ (θ − θ₀)‖²`` through picos and cvxopt. That is what its workflow class runs for
``select_stage: physical_fit``. The class itself knows efforts of joints only; the regressor of the base link's wrench
is figaroh's own all the same (`RegressorBuilder`, ``is_external_wrench``), its rows ordered by axis.
"""

import json
import sys
import time
from types import SimpleNamespace

import numpy as np
import picos  # noqa: F401  (figaroh imports it when it first solves: that is not to be timed)
import pinocchio as pin
from figaroh.identification import physical_fit
from figaroh.identification.config import PHYSICAL_FIT_DEFAULTS
from figaroh.identification.parameter import get_standard_parameters
from figaroh.tools.regressor import RegressorBuilder, RegressorConfig

REPEATS = 2
AXES = ["Fx", "Fy", "Fz", "Mx", "My", "Mz"]


def fit(regressor, efforts, names, joints, prior, *, weights=None, ratio=None):
    """Gives one physically consistent fit with figaroh's defaults, beside what is varied, and how it went."""
    policy = physical_fit.PhysicalPolicy(
        mass_min=PHYSICAL_FIT_DEFAULTS["mass_min"],
        prior_weight=PHYSICAL_FIT_DEFAULTS["prior_weight"],
        mass_ratio_bounds=ratio,
    )
    build_times, solve_times = [], []
    for _ in range(REPEATS):
        start = time.perf_counter()
        problem = physical_fit.build_problem(
            regressor, efforts, names, joints, prior=prior, policy=policy, row_weight=weights
        )
        middle = time.perf_counter()
        record = physical_fit.solve_direct_effort_fit(problem, solver=PHYSICAL_FIT_DEFAULTS["solver"])
        build_times.append(middle - start)
        solve_times.append(time.perf_counter() - middle)
    answer = {
        "build_s": min(build_times),
        "solve_s": min(solve_times),
        "status": record.solver_status,
        "accepted": bool(record.accepted),
        "exception": record.exception,
        "rank": len(problem.base_indices),
        "least_eigenvalue": min((link["min_eig"] for link in record.feasibility.values()), default=None),
        "parameters": None if record.theta is None else [float(value) for value in record.theta],
    }
    return problem, answer


def main():
    """Runs the fits that the samples' file asks for."""
    urdf, samples = sys.argv[1:3]
    model = pin.buildModelFromUrdf(urdf, pin.JointModelFreeFlyer())
    arrays = np.load(samples)
    q, v, a = (np.ascontiguousarray(arrays[name]) for name in ("q", "v", "a"))
    efforts = np.ascontiguousarray(arrays["wrenches"].T).ravel()
    config = RegressorConfig(is_joint_torques=False, is_external_wrench=True, force_torque=AXES)
    names, joints = list(get_standard_parameters(model)), list(model.names[1:])
    start = time.perf_counter()
    builder = RegressorBuilder(SimpleNamespace(model=model, data=model.createData()), config)
    regressor = builder.build_basic_regressor(q, v, a)
    regressor_time = time.perf_counter() - start
    unexplained = regressor @ arrays["prior"] - efforts
    given = (regressor, efforts, names, joints, arrays["prior"])
    problem, plain = fit(*given)
    # The weights of its weighted least squares: each axis by what the base parameters leave of it.
    left = (problem.Y[:, list(problem.base_indices)] @ problem.phi_ols - problem.tau).reshape(6, -1)
    weights = np.repeat(1.0 / np.sqrt(np.mean(left**2, axis=1)), left.shape[1])
    _, weighted = fit(*given, weights=weights)
    _, bounded = fit(*given, weights=weights, ratio=tuple(arrays["ratio"].tolist()))
    print(
        json.dumps(
            {
                "regressor_s": regressor_time,
                "joints": joints,
                "prior_rmse": np.sqrt(np.mean(unexplained.reshape(6, -1) ** 2, axis=1)).tolist(),
                "fits": {"as it comes": plain, "axes weighted": weighted, "axes weighted, masses bounded": bounded},
            }
        )
    )


if __name__ == "__main__":
    main()
