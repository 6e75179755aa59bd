"""Run in figaroh's environment: its base-wrench regressor and its QR decomposition, timed, on samples from a file.

Usage: python figaroh_base_regressor.py MODEL.urdf SAMPLES.npz REPEATS; prints one line of JSON.
"""

import json
import sys
import time
from types import SimpleNamespace

import numpy as np
import pinocchio as pin
from figaroh.tools.qrdecomposition import QRDecomposer
from figaroh.tools.regressor import RegressorBuilder, RegressorConfig

urdf, samples, repeats = sys.argv[1:4]
model = pin.buildModelFromUrdf(urdf, pin.JointModelFreeFlyer())
arrays = np.load(samples)
q, v, a = (np.ascontiguousarray(arrays[name]) for name in ("q", "v", "a"))
config = RegressorConfig(
    is_joint_torques=False, is_external_wrench=True, force_torque=["Fx", "Fy", "Fz", "Mx", "My", "Mz"]
)
builder = RegressorBuilder(SimpleNamespace(model=model, data=model.createData()), config)
names = [f"p{column:04d}" for column in range(10 * (len(model.inertias) - 1))]
build_times, factor_times, rank = [], [], 0
for _ in range(int(repeats)):
    start = time.perf_counter()
    regressor = builder.build_basic_regressor(q, v, a)
    middle = time.perf_counter()
    rank = QRDecomposer().decompose(regressor, names, method="pivoting").rank
    end = time.perf_counter()
    build_times.append(middle - start)
    factor_times.append(end - middle)
print(json.dumps({"build": build_times, "factor": factor_times, "rank": rank}))
