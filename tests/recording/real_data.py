"""Real recordings that do not come with the project: where they are, if they are, and how they name things."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from steelyard import Model, Recording, RecordingWarning, load_model, read_recording
from steelyard.model.setup import parse_setup

FOLDER = Path(os.environ.get("STEELYARD_DATA", Path(__file__).parents[3] / "shared" / "data"))

ICUB_JOINTS = [
    *("neck_pitch", "neck_roll", "neck_yaw", "torso_pitch", "torso_roll", "torso_yaw"),
    *(f"{side}_{joint}" for side in "lr" for joint in ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow")),
    *(
        f"{side}_{joint}"
        for side in "lr"
        for joint in ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
    ),
]

_SOLE = [[0.12, 0.03, 0.0], [0.12, -0.03, 0.0], [-0.03, -0.025, 0.0], [-0.03, 0.025, 0.0]]

ICUB = {
    "imu": [{"name": "imu", "frame": "root_link_imu_frame"}],
    "wrench_sensor": [
        {"name": "left_foot", "frame": "l_sole", "axes": "fz"},
        {"name": "right_foot", "frame": "r_sole", "axes": "fz"},
    ],
    "sole": [
        {"name": "left", "frame": "l_sole", "wrench": "left_foot", "vertices": _SOLE},
        {"name": "right", "frame": "r_sole", "wrench": "right_foot", "vertices": _SOLE},
    ],
    "lock": {"*_wrist_*": 0.0},
    "recording": {
        "time": "estimatorJointsTime",
        "arrays": {
            "estimatorJointsPos": [f"q.{joint}" for joint in ICUB_JOINTS],
            "estimatorJointsVel": [f"v.{joint}" for joint in ICUB_JOINTS],
            "imuOmega": [f"imu.gyro.{axis}" for axis in "xyz"],
            "imuAcc": [f"imu.accel.{axis}" for axis in "xyz"],
            "linkBasePos": [f"base.position.{axis}" for axis in "xyz"],
            "lfForceZ": ["left_foot.fz"],
            "rfForceZ": ["right_foot.fz"],
        },
    },
}
"""The iCub that sways: vertical forces only, in the soles' frames."""

KUKA_JOINTS = [f"lwr_{number}_joint" for number in range(7)]
KUKA_ARRAYS = {"positions": "q", "velocities": "v", "torques": "tau", "target_positions": "q_command"}
KUKA = {
    "model": {"base": "fixed"},
    "torque": {"measured": "all"},
    "recording": {
        "arrays": {array: [f"{kind}.{joint}" for joint in KUKA_JOINTS] for array, kind in KUKA_ARRAYS.items()}
    },
}
"""The KUKA arm: a fixed base, joint torques."""

MODELS = {"icub_sway": "icub_sway/model.urdf", "kuka_lwr4": "kuka_lwr4/kuka_lwr4.urdf"}


def real_file(name: str) -> Path:
    """Gives a file of real data, or skips the test."""
    if not (FOLDER / name).is_file():
        pytest.skip(f"the real recording {name} is not there; set STEELYARD_DATA to the folder that holds it")
    return FOLDER / name


def load_real(contents: dict, name: str) -> tuple[Model, Recording]:
    """Gives a real robot and its recording, or skips the test."""
    model = load_model(real_file(MODELS[name.partition("/")[0]]), setup=parse_setup(contents))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordingWarning)
        return model, read_recording(real_file(name), model)
