"""The run of `steelyard demo`: a robot that differs from its CAD is calibrated, identified and balanced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pinocchio as pin

from steelyard.calibration import Offsets, calibrate
from steelyard.cli.interrupts import run_in_threads
from steelyard.identification import Estimate, group_links, identify
from steelyard.laboratory import (
    BALANCE_DURATION,
    BalanceRun,
    Payload,
    Trial,
    Truth,
    plan_motion,
    simulate,
    simulate_balance,
)
from steelyard.model import Model, TotalMass, affine_distance, match_pattern, project_to_interior
from steelyard.preparation import Preparation, prepare
from steelyard.recording import Recording
from steelyard.regression import Evidence
from steelyard.validation import Validation, validate

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

ROBOT = "g1"

LOADS: Mapping[str, Payload] = {
    "torso_link": Payload(1.5, (-0.09, 0.0, 0.15)),
    "right_wrist_yaw_link": Payload(0.6, (0.1, 0.0, 0.0)),
}
"""Payloads that the CAD does not have. Set by judgement: what a laboratory adds to a G1, some 6 % of its mass."""

LOAD_NAMES = {"torso_link": "a larger battery on the back", "right_wrist_yaw_link": "a gripper on the right wrist"}

SPREAD = 0.2
"""Standard deviation by which each link's mass, extents and centre of mass differ from the CAD besides that. Set by
judgement: the default of `simulate`."""

GREATEST_OFFSET = float(np.deg2rad(2.5))
"""Largest encoder offset of legs and waist, rad. Set by judgement: what a careless zeroing by hand leaves."""

CALIBRATED = ("*_hip_*", "*_knee_*", "*_ankle_*", "waist_*")
"""Joints with encoder offsets: those that are observable from soles and inertial sensors. The arms' are not."""

SCALE_STEP = 0.05
"""Resolution of the scale that the robot is put on, kg. Set by judgement: that of a floor scale."""

STEPS: Mapping[str, float] = {
    "Simulating the motions: limp, dance, reach": 12.0,
    "Calibrating the encoders": 2.0,
    "Identifying the links": 1.0,
    "Validating on the motion that was not used": 0.5,
    "Balancing with each model in turn": 9.0,
}
"""Steps in order, each with its expected time in seconds. They only set the time left that a progress bar shows."""

AS_THEY_ARE, CAD, IDENTIFIED, TRUTH = "CAD, encoders as they are", "CAD", "identified", "truth"
"""Models that the balance controller uses; with all but the first its encoders are calibrated."""

_ATTEMPTS = 3
"""Motions that are tried, with other seeds, until the loaded robot does not fall. Set by judgement: falls are rare."""

_AT_ONCE = 2
"""Simulations that run at the same time: MuJoCo releases the interpreter lock, and most computers have two cores."""


@dataclass(frozen=True)
class Durations:
    """Durations of the motions, s.

    Attributes:
        limp: The motion for calibration.
        dance: The motion for identification.
        reach: The motion for validation.
        balance: The balance task.
    """

    limp: float = 60.0
    dance: float = 60.0
    reach: float = 20.0
    balance: float = BALANCE_DURATION


@dataclass(frozen=True)
class MassErrors:
    """Errors of the masses of some links.

    Attributes:
        group: Name of the group of links.
        true_mass: Their true mass together, kg.
        cad: RMS error of the CAD's masses, kg.
        identified: RMS error of the identified masses, kg.
    """

    group: str
    true_mass: float
    cad: float
    identified: float


@dataclass(frozen=True, eq=False)
class DemoResult:
    """The result of a demo.

    Attributes:
        model: The CAD.
        seed: Seed of the robot, its motions, its sensors' noise and the balance task.
        scale: Mass of the robot on a scale, kg.
        truth: The true robot.
        calibration: The estimated encoder offsets.
        training: The recording that was identified from.
        unseen: The recording that was validated on.
        prepared: What was chosen before identification.
        evidence: The Evidence of the training motion.
        estimate: The estimate.
        validation: The validation on the unseen motion.
        runs: The balance runs, by the model that the controller used.
    """

    model: Model
    seed: int
    scale: float
    truth: Truth
    calibration: Offsets
    training: Recording
    unseen: Recording
    prepared: Preparation
    evidence: Evidence
    estimate: Estimate
    validation: Validation
    runs: Mapping[str, BalanceRun]

    @cached_property
    def offset_errors(self) -> tuple[FloatArray, FloatArray]:
        """Errors of the encoders before and after calibration, rad, in the order of `calibration.joints`."""
        before = np.array([self.truth.offsets[joint] for joint in self.calibration.joints])
        found = np.array([self.calibration.values[joint] for joint in self.calibration.joints])
        return before, found - before

    @cached_property
    def mass_errors(self) -> tuple[MassErrors, ...]:
        """Errors of the masses, by group of links, then of all links."""
        model, feet = self.model, {self.model.frame(sole.frame).body for sole in self.model.setup.soles}
        standing = {model.bodies[body].name for body in feet}
        groups = []
        for group in group_links(model):
            name = "legs" if standing & set(group.links) else "trunk" if group.name == "middle" else "arms"
            groups.append((name, [model.link_index(link) for link in group.links]))
        groups.append(("all links", list(range(len(model.links)))))
        true = self.truth.parameters[:, 0]
        return tuple(
            MassErrors(
                name,
                float(true[rows].sum()),
                _rms(model.parameters[rows, 0] - true[rows]),
                _rms(self.estimate.parameters[rows, 0] - true[rows]),
            )
            for name, rows in groups
        )

    @cached_property
    def distances(self) -> tuple[float, float]:
        """RMS affine-invariant distance of the links to the truth, for the CAD and for the identified model."""
        cad = project_to_interior(self.model.parameters)
        true = self.truth.parameters
        return _rms(affine_distance(cad, true)), _rms(affine_distance(self.estimate.parameters, true))

    @cached_property
    def com_errors(self) -> tuple[float, float]:
        """Error of the robot's centre of mass with all joints at zero, m, for the CAD and for the identified model."""
        coms = [_com(self.model, each) for each in (self.model.parameters, self.estimate.parameters)]
        true = _com(self.model, self.truth.parameters)
        return float(np.linalg.norm(coms[0] - true)), float(np.linalg.norm(coms[1] - true))

    @cached_property
    def masses_in_intervals(self) -> int:
        """Number of true masses within their 95 % intervals."""
        low, high = self.estimate.intervals(0.95)[:, 0].T
        true = self.truth.parameters[:, 0]
        return int(np.count_nonzero((low <= true) & (true <= high)))

    @cached_property
    def worst_links(self) -> tuple[str, ...]:
        """The five links with the largest errors of mass in the CAD, largest first."""
        off = np.abs(self.model.parameters[:, 0] - self.truth.parameters[:, 0])
        return tuple(self.model.links[row] for row in np.argsort(-off)[:5])

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON: SI units, or degrees and millimetres where a key says so."""
        before, after = (np.rad2deg(each) for each in self.offset_errors)
        true = self.truth.masses
        return {
            "robot": self.model.name,
            "seed": self.seed,
            "scale": self.scale,
            "true_mass": self.truth.model.total_mass,
            "cad_mass": self.model.total_mass,
            "calibration": {
                "joints": list(self.calibration.joints),
                "before_deg": before.tolist(),
                "after_deg": after.tolist(),
                "before_rms_deg": _rms(before),
                "after_rms_deg": _rms(after),
            },
            "masses": {
                "groups": [vars(group) for group in self.mass_errors],
                "links": {
                    link: {"cad": cad, "identified": self.estimate.masses[link], "truth": true[link]}
                    for link, cad in self.model.masses.items()
                },
                "in_intervals": self.masses_in_intervals,
            },
            "distance": dict(zip(("cad", "identified"), self.distances, strict=True)),
            "com_mm": {key: 1e3 * each for key, each in zip(("cad", "identified"), self.com_errors, strict=True)},
            "status": self.estimate.status,
            "validation": self.validation.to_dict(),
            "balance": {name: run.to_dict() for name, run in self.runs.items()},
        }


def run_demo(
    model: Model,
    *,
    seed: int = 0,
    durations: Durations | None = None,
    on_step: Callable[[str], None] = lambda step: None,
) -> DemoResult:
    """Run the demo.

    Args:
        model: The CAD.
        seed: Seed of the robot, its motions, its sensors' noise and the balance task.
        durations: Durations of the motions.
        on_step: Called with each of `STEPS` as it begins.

    Raises:
        SteelyardError: A step fails.
    """
    length, steps = durations or Durations(), iter(STEPS)
    on_step(next(steps))
    limp, dance, reach = _move(model, seed, length)
    truth = dance.truth
    on_step(next(steps))
    calibration = calibrate(model, limp.recording, joints=_observable_joints(model))
    on_step(next(steps))
    known = calibration.values
    prepared = prepare(model, dance.recording, offsets=known)
    evidence = prepared.gather()
    scale = SCALE_STEP * round(truth.model.total_mass / SCALE_STEP)
    estimate = identify(model, evidence, constraints=[TotalMass(scale, 0.5 * SCALE_STEP)])
    on_step(next(steps))
    validation = validate(estimate, reach.recording, truth=truth)
    on_step(next(steps))
    identified = model.with_parameters(estimate.parameters)
    controllers: dict[str, tuple[Model, Mapping[str, float]]] = {
        AS_THEY_ARE: (model, {}),
        CAD: (model, known),
        IDENTIFIED: (identified, known),
        TRUTH: (truth.model, known),
    }
    runs = run_in_threads(
        {
            name: partial(simulate_balance, dance, used, seed=seed, duration=length.balance, offsets=offsets)
            for name, (used, offsets) in controllers.items()
        },
        at_once=_AT_ONCE,
    )
    return DemoResult(
        model=model,
        seed=seed,
        scale=scale,
        truth=truth,
        calibration=calibration,
        training=dance.recording,
        unseen=reach.recording,
        prepared=prepared,
        evidence=evidence,
        estimate=estimate,
        validation=validation,
        runs=runs,
    )


def _observable_joints(model: Model) -> list[str]:
    wanted = {joint for pattern in CALIBRATED for joint in match_pattern(pattern, model.joints)}
    return [joint for joint in model.joints if joint in wanted]


def _move(model: Model, seed: int, length: Durations) -> tuple[Trial, Trial, Trial]:
    """Simulate the three motions of one true robot: limp, dance, reach."""
    joints = _observable_joints(model)
    drawn = np.random.default_rng([seed, 7]).uniform(-GREATEST_OFFSET, GREATEST_OFFSET, len(joints))
    offsets = dict(zip(joints, drawn.tolist(), strict=True))

    def play(motion: str) -> Trial:
        # Motions are planned with the CAD, without the payloads: now and then the true robot falls.
        for attempt in range(_ATTEMPTS):
            plan = plan_motion(model, motion, seed=seed + 1000 * attempt, duration=getattr(length, motion))
            trial = simulate(model, plan, seed=seed, spread=SPREAD, payloads=LOADS, offsets=offsets)
            if not trial.fell:
                break
        _ = trial.recording  # raises if it fell in all attempts
        return trial

    motions = ("dance", "limp", "reach")
    played = run_in_threads({motion: partial(play, motion) for motion in motions}, at_once=_AT_ONCE)
    return played["limp"], played["dance"], played["reach"]


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _com(model: Model, parameters: FloatArray) -> FloatArray:
    built = model.with_parameters(parameters).pinocchio
    return np.array(pin.centerOfMass(built, built.createData(), model.neutral))
