"""The story of `steelyard demo` in numbers: a robot unlike its CAD is calibrated, weighed and balanced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Semaphore, Thread
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pinocchio as pin

from steelyard.calibration import Offsets, calibrate
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
from steelyard.motion import Motion, reconstruct_motion
from steelyard.regression import Evidence, estimate_noise, gather_evidence
from steelyard.validation import Validation, validate

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

ROBOT = "g1"

LOADS: Mapping[str, Payload] = {
    "torso_link": Payload(1.5, (-0.09, 0.0, 0.15)),
    "right_wrist_yaw_link": Payload(0.6, (0.1, 0.0, 0.0)),
}
"""What was fastened to the robot since its CAD was drawn: a larger battery on its back, a gripper in its right hand."""

LOAD_NAMES = {"torso_link": "a larger battery on its back", "right_wrist_yaw_link": "a gripper on its right wrist"}

SPREAD = 0.2
"""Standard deviation by which each link's mass, extents and centre of mass are off beside that."""

GREATEST_OFFSET = float(np.deg2rad(2.5))
"""Offset (rad) up to which encoders of legs and waist are off."""

CALIBRATED = ("*_hip_*", "*_knee_*", "*_ankle_*", "waist_*")
"""Joints whose encoders are off: those that soles and inertial sensors feel. Nothing feels the arms'."""

SCALE_STEP = 0.05
"""Step (kg) of the scale that the robot is put on."""

SENSORS = ("wrench_offset", "accelerometer_bias", "imu_mounting")
"""What the sensors may hide, and is looked for together with the masses."""

STEPS: Mapping[str, float] = {
    "Moving the robot: limp, dance, reach": 12.0,
    "Calibrating its encoders": 2.0,
    "Weighing its links": 1.0,
    "Predicting the motion that was not seen": 0.5,
    "Balancing, with each model in turn": 9.0,
}
"""What is done, in order, and how many seconds each usually takes."""

AS_THEY_ARE, CAD, IDENTIFIED, TRUTH = "CAD, encoders as they are", "CAD", "identified", "truth"
"""Whom the balance controller believes; in all but the first its encoders are calibrated."""

Tell = Callable[[str], None]
Result = TypeVar("Result")

_ATTEMPTS = 3
_AT_ONCE = 2
"""Motions that are played at once: MuJoCo's part of the work, which is most of it, needs no turn."""


@dataclass(frozen=True)
class Durations:
    """How long the robot moves, s.

    Attributes:
        limp: While it is moved for calibration.
        dance: While it is weighed.
        reach: While predictions are held against what is measured.
        balance: While it balances.
    """

    limp: float = 60.0
    dance: float = 60.0
    reach: float = 20.0
    balance: float = BALANCE_DURATION


@dataclass(frozen=True)
class MassErrors:
    """How far masses of some links are off.

    Attributes:
        group: The links in words.
        true_mass: What they weigh together, kg.
        cad: Root mean square error of the CAD's masses, kg.
        identified: The same of the identified ones.
    """

    group: str
    true_mass: float
    cad: float
    identified: float


@dataclass(frozen=True, eq=False)
class Story:
    """All that a demo found.

    Attributes:
        model: The CAD.
        seed: Of the robot, its motions, its sensors' noise and the balance task.
        scale: What a scale says that the robot weighs, kg.
        truth: What nobody knows outside the laboratory.
        calibration: The offsets that were found.
        training: The motion that the robot was weighed by.
        unseen: The motion that predictions are held against.
        pictured: Both motions with every sample, for pictures.
        evidence: What the training told.
        estimate: What the links weigh.
        validation: How that predicts the unseen motion.
        runs: The balance runs, by whom the controller believes.
    """

    model: Model
    seed: int
    scale: float
    truth: Truth
    calibration: Offsets
    training: Motion
    unseen: Motion
    pictured: tuple[Motion, Motion]
    evidence: Evidence
    estimate: Estimate
    validation: Validation
    runs: Mapping[str, BalanceRun]

    @cached_property
    def offset_errors(self) -> tuple[FloatArray, FloatArray]:
        """How far encoders are off before and after calibration, rad, in the order of `calibration.joints`."""
        before = np.array([self.truth.offsets[joint] for joint in self.calibration.joints])
        found = np.array([self.calibration.values[joint] for joint in self.calibration.joints])
        return before, found - before

    @cached_property
    def mass_errors(self) -> tuple[MassErrors, ...]:
        """How far masses are off, by group of links, then of all of them."""
        model, feet = self.model, {self.model.frame(sole.frame).body for sole in self.model.setup.soles}
        standing = {model.bodies[body].name for body in feet}
        groups = []
        for group in group_links(model):
            words = "legs" if standing & set(group.links) else "trunk" if group.name == "middle" else "arms"
            groups.append((words, [model.link_index(link) for link in group.links]))
        groups.append(("all links", list(range(len(model.links)))))
        true = self.truth.parameters[:, 0]
        return tuple(
            MassErrors(
                words,
                float(true[rows].sum()),
                _rms(model.parameters[rows, 0] - true[rows]),
                _rms(self.estimate.parameters[rows, 0] - true[rows]),
            )
            for words, rows in groups
        )

    @cached_property
    def distances(self) -> tuple[float, float]:
        """Affine-invariant distance of a link to the truth, root mean square, of the CAD and of what was identified."""
        cad = project_to_interior(self.model.parameters)
        true = self.truth.parameters
        return _rms(affine_distance(cad, true)), _rms(affine_distance(self.estimate.parameters, true))

    @cached_property
    def com_errors(self) -> tuple[float, float]:
        """Error of the whole robot's centre of mass, all joints at zero, of the CAD and of what was identified, m."""
        places = [_com(self.model, each) for each in (self.model.parameters, self.estimate.parameters)]
        true = _com(self.model, self.truth.parameters)
        return float(np.linalg.norm(places[0] - true)), float(np.linalg.norm(places[1] - true))

    @cached_property
    def held(self) -> int:
        """How many of the true masses lie in their 95 % intervals."""
        low, high = self.estimate.intervals(0.95)[:, 0].T
        true = self.truth.parameters[:, 0]
        return int(np.count_nonzero((low <= true) & (true <= high)))

    @cached_property
    def worst_links(self) -> tuple[str, ...]:
        """The links whose masses the CAD has most wrong, worst first."""
        off = np.abs(self.model.parameters[:, 0] - self.truth.parameters[:, 0])
        return tuple(self.model.links[row] for row in np.argsort(-off)[:5])

    def to_dict(self) -> dict[str, Any]:
        """Gives all numbers, ready for JSON: SI units, and degrees and millimetres where a name says so."""
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
                "in_intervals": self.held,
            },
            "distance": dict(zip(("cad", "identified"), self.distances, strict=True)),
            "com_mm": {key: 1e3 * each for key, each in zip(("cad", "identified"), self.com_errors, strict=True)},
            "status": self.estimate.status,
            "validation": self.validation.to_dict(),
            "balance": {name: run.to_dict() for name, run in self.runs.items()},
        }


def tell_story(model: Model, *, seed: int = 0, durations: Durations | None = None, tell: Tell | None = None) -> Story:
    """Lives through the story.

    Args:
        model: The CAD.
        seed: Of the robot, its motions, its sensors' noise and the balance task.
        durations: How long the robot moves.
        tell: Is told each of `STEPS` as it begins.

    Raises:
        SteelyardError: A step fails; its message says why.
    """
    length, say = durations or Durations(), tell or (lambda words: None)
    steps = iter(STEPS)
    say(next(steps))
    limp, dance, reach = _move(model, seed, length)
    truth = dance.truth
    say(next(steps))
    calibration = calibrate(model, limp.recording, joints=_felt_joints(model))
    say(next(steps))
    known = calibration.values
    training = reconstruct_motion(model, dance.recording, offsets=known)
    noise = estimate_noise(model, training, nuisance=SENSORS)
    evidence = gather_evidence(model, training, weights=noise.weights, nuisance=SENSORS)
    scale = SCALE_STEP * round(truth.model.total_mass / SCALE_STEP)
    estimate = identify(model, evidence, constraints=[TotalMass(scale, 0.5 * SCALE_STEP)])
    say(next(steps))
    unseen = reconstruct_motion(model, reach.recording, offsets=known)
    validation = validate(estimate, unseen, truth=truth, nuisance=SENSORS)
    whole, whole_unseen = (
        reconstruct_motion(model, trial.recording, offsets=known, decimate=False) for trial in (dance, reach)
    )
    say(next(steps))
    identified = model.with_parameters(estimate.parameters)
    runs = _balance(
        dance,
        {AS_THEY_ARE: (model, {}), CAD: (model, known), IDENTIFIED: (identified, known), TRUTH: (truth.model, known)},
        seed,
        length.balance,
    )
    return Story(
        model=model,
        seed=seed,
        scale=scale,
        truth=truth,
        calibration=calibration,
        training=training,
        unseen=unseen,
        pictured=(whole, whole_unseen),
        evidence=evidence,
        estimate=estimate,
        validation=validation,
        runs=runs,
    )


def _felt_joints(model: Model) -> list[str]:
    wanted = {joint for pattern in CALIBRATED for joint in match_pattern(pattern, model.joints)}
    return [joint for joint in model.joints if joint in wanted]


def _move(model: Model, seed: int, length: Durations) -> tuple[Trial, Trial, Trial]:
    """Plays the three motions of one true robot: limp, dance, reach."""
    joints = _felt_joints(model)
    drawn = np.random.default_rng([seed, 7]).uniform(-GREATEST_OFFSET, GREATEST_OFFSET, len(joints))
    offsets = dict(zip(joints, drawn.tolist(), strict=True))

    def play(motion: str) -> Trial:
        # The CAD plans for a robot without loads: now and then the true one falls, gets up, and tries another motion.
        for attempt in range(_ATTEMPTS):
            plan = plan_motion(model, motion, seed=seed + 1000 * attempt, duration=getattr(length, motion))
            trial = simulate(model, plan, seed=seed, spread=SPREAD, payloads=LOADS, offsets=offsets)
            if not trial.fell:
                break
        _ = trial.recording  # raises where all attempts ended on the floor
        return trial

    played = _side_by_side({motion: partial(play, motion) for motion in ("dance", "limp", "reach")})
    return played["limp"], played["dance"], played["reach"]


def _balance(
    trial: Trial, believed: Mapping[str, tuple[Model, Mapping[str, float]]], seed: int, duration: float
) -> dict[str, BalanceRun]:
    return _side_by_side(
        {
            name: partial(simulate_balance, trial, model, seed=seed, duration=duration, offsets=offsets)
            for name, (model, offsets) in believed.items()
        }
    )


def _side_by_side(works: Mapping[str, Callable[[], Result]]) -> dict[str, Result]:
    """Gives what each work gives, `_AT_ONCE` at a time, in threads that do not keep an interrupted command alive."""
    turns, outcomes = Semaphore(_AT_ONCE), dict[str, Result]()
    failures: list[BaseException] = []

    def run(name: str) -> None:
        with turns:
            if failures:
                return
            try:
                outcomes[name] = works[name]()
            except BaseException as error:  # noqa: BLE001  (raised again below, whatever it is)
                failures.append(error)

    threads = [Thread(target=run, args=(name,), daemon=True) for name in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return {name: outcomes[name] for name in works}


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _com(model: Model, parameters: FloatArray) -> FloatArray:
    built = model.with_parameters(parameters).pinocchio
    return np.array(pin.centerOfMass(built, built.createData(), model.neutral))
