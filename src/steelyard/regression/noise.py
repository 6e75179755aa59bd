"""Standard deviations of the sensors' noise, by which rows are whitened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import EvidenceError
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.regression.sensing import Sensing

DEFAULT_NOISE = {"force": 1.0, "moment": 0.05, "torque": 0.5}
"""Standard deviations that rows are whitened by unless others are given: N, N m, N m (or N for a slider). Set by
judgement, as those of common foot and joint sensors: they only weigh sensors against each other, and the noise itself
is estimated from residuals later."""

FLOOR_SHARE = 0.1
"""Noise of each region's own rows, as a share of the best sensor's: equations that no sensor enters are not exact
either. Without it, a robot in the air with sensors inside its limbs only would have rows without any noise. Set by
judgement: small enough that it does not show beside a sensor's own noise."""


@dataclass(frozen=True, eq=False)
class NoiseDeviations:
    """Standard deviations of the sensors' noise.

    Attributes:
        wrenches: Of each measured wrench component, shape (n_measured,).
        torques: Of each torque row, shape (n_torques,).
        floor: Of the six components of each region's own noise, shape (6,).
    """

    wrenches: FloatArray
    torques: FloatArray
    floor: FloatArray


def plan_noise(model: Model, sensing: Sensing, weights: Mapping[str, Any] | str | None) -> NoiseDeviations | None:
    """Return the standard deviations of what is measured; None for plain sums.

    Args:
        model: The model.
        sensing: What is measured.
        weights: "default"; None; or standard deviations by component (``"left_foot.fx"``), by sensor as a pair (force,
            moment), by joint, or by kind ("force", "moment", "torque").

    Raises:
        EvidenceError: A name is unknown, or a number is not positive.
    """
    if weights is None:
        return None
    if isinstance(weights, str):
        if weights != "default":
            raise EvidenceError(f"weights is {weights!r}; write 'default', None, or standard deviations by sensor")
        weights = {}
    names = [source.name for source in sensing.measured]
    sensors = {name.rpartition(".")[0] for name in names}
    known = {*DEFAULT_NOISE, *names, *sensors, *sensing.torques}
    stated: dict[str, float] = dict(DEFAULT_NOISE)
    for name, value in weights.items():
        if name not in known:
            raise EvidenceError(f"no sensor or joint is called {name!r}{did_you_mean(name, known)}", names=[name])
        values = _positive(name, value)
        if name in sensors:
            if len(values) != 2:
                raise EvidenceError(f"the noise of sensor {name!r} is a pair: (force, moment)", names=[name])
            stated |= {f"{name}.f": values[0], f"{name}.n": values[1]}
        elif len(values) != 1:
            raise EvidenceError(f"the noise of {name!r} is one number, not {value!r}", names=[name])
        else:
            stated[name] = values[0]
    wrenches = []
    for source in sensing.measured:
        kind = "force" if source.axis.startswith("f") else "moment"
        group = f"{source.name.rpartition('.')[0]}.{source.axis[0]}"
        wrenches.append(stated.get(source.name, stated.get(group, stated[kind])))
    torques = []
    for joint in sensing.torques:
        torques += [stated.get(joint, stated["torque"])] * model.joint(joint).velocity_size
    forces = [sd for source, sd in zip(sensing.measured, wrenches, strict=True) if source.axis.startswith("f")]
    moments = [sd for source, sd in zip(sensing.measured, wrenches, strict=True) if source.axis.startswith("n")]
    floor = FLOOR_SHARE * np.repeat([min(forces, default=stated["force"]), min(moments, default=stated["moment"])], 3)
    return NoiseDeviations(np.array(wrenches, dtype=np.float64), np.array(torques, dtype=np.float64), floor)


def _positive(name: str, value: Any) -> list[float]:
    try:
        values = np.atleast_1d(np.asarray(value, dtype=np.float64)).tolist()
    except (TypeError, ValueError):
        values = [np.nan]
    if not all(np.isfinite(one) and one > 0.0 for one in values):
        raise EvidenceError(f"the noise of {name!r} is {value!r}; it must be a positive number", names=[name])
    return list(values)
