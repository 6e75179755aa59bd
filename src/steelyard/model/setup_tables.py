"""A Setup as plain tables, to be stored with results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.model.constraint_tables import constraint_table

if TYPE_CHECKING:
    from steelyard.model.setup import Setup


def setup_tables(setup: Setup) -> dict[str, Any]:
    """Return the tables of a setup file with the contents of `setup`; `parse_setup` reads them.

    They come from the setup's fields, which may have been changed since the file was read; only ``[recording]`` comes
    from the file.
    """
    model = {"file": setup.model_file, "base": setup.base}
    tables: dict[str, Any] = {
        "model": {key: value for key, value in model.items() if value is not None},
        "imu": [dict(vars(imu)) for imu in setup.imus],
        "wrench_sensor": [vars(sensor) | {"axes": " ".join(sensor.axes)} for sensor in setup.wrench_sensors],
        "sole": [
            {"name": sole.name, "frame": sole.frame, "vertices": sole.vertices.tolist()}
            | ({"wrench": sole.wrench} if sole.wrench is not None else {})
            for sole in setup.soles
        ],
        "marker": [
            {"name": marker.name, "frame": marker.frame, "position": marker.position.tolist()}
            | ({"deviation": marker.deviation} if np.isfinite(marker.deviation) else {})
            for marker in setup.markers
        ],
        "torque": {"measured": list(setup.torques_measured)},
        "volume": {pattern: np.asarray(box).tolist() for pattern, box in setup.volumes.items()},
        "constraints": constraint_table(setup.constraints),
        "lock": {pattern: list(at) if isinstance(at, tuple) else at for pattern, at in setup.locks.items()},
    }
    if setup.mirror is not None:
        tables["mirror"] = {
            "plane": setup.mirror.plane,
            "pairs": [list(pair) for pair in setup.mirror.pairs],
            "posture": dict(setup.mirror.posture),
        }
    if "recording" in setup.contents:
        tables["recording"] = setup.contents["recording"]
    return {name: table for name, table in tables.items() if table}
