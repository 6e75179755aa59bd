"""A Setup as plain tables again, to be stored with results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.model.constraint_tables import constraint_table

if TYPE_CHECKING:
    from steelyard.model.setup import Setup


def setup_tables(setup: Setup) -> dict[str, Any]:
    """Gives the tables of a setup file that says what `setup` says; `parse_setup` reads them.

    The setup's own fields count, not the file that it came from: it may have been changed since. How recordings name
    things is taken from the file.
    """
    model = {"file": setup.model_file, "base": setup.base}
    tables: dict[str, Any] = {
        "model": {key: value for key, value in model.items() if value is not None},
        "imu": [{"name": imu.name, "frame": imu.frame, "delay": imu.delay} for imu in setup.imus],
        "wrench_sensor": [
            {
                "name": sensor.name,
                "frame": sensor.frame,
                "at": sensor.at,
                "sign": sensor.sign,
                "axes": " ".join(sensor.axes),
                "delay": sensor.delay,
            }
            for sensor in setup.wrench_sensors
        ],
        "sole": [
            {"name": sole.name, "frame": sole.frame, "vertices": sole.vertices.tolist()}
            | ({"wrench": sole.wrench} if sole.wrench is not None else {})
            for sole in setup.soles
        ],
        "torque": {"measured": list(setup.torques_measured)},
        "volume": {pattern: np.asarray(box).tolist() for pattern, box in setup.volumes.items()},
        "constraints": constraint_table(setup.constraints),
        "lock": {pattern: list(place) if isinstance(place, tuple) else place for pattern, place in setup.locks.items()},
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
