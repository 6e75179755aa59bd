"""Design of calibration poses: drawn with the feet flat, selected for the most information on the offsets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from scipy.spatial.transform import Rotation

from steelyard.calibration.calibrate import MOUNTING
from steelyard.calibration.calibration_problem import CalibrationProblem
from steelyard.calibration.contacts import soles_as_contacts
from steelyard.calibration.fitting import usual_sizes
from steelyard.calibration.frame_chains import chains_to
from steelyard.calibration.gauss_newton import eliminate_pose_unknowns
from steelyard.calibration.observability import Observability, observe
from steelyard.calibration.pose_noise import PoseNoise, row_variances
from steelyard.calibration.pose_selection import exchange, pick_by_information
from steelyard.calibration.poses import PoseSet
from steelyard.calibration.starting_states import starting_states
from steelyard.exceptions import IdentifiabilityError, StanceError
from steelyard.kinematics import one_blas_thread
from steelyard.recording import Recording
from steelyard.stance import PostureTarget, inside_margin, solve_posture, stand_up
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from steelyard.arrays import FloatArray
    from steelyard.model import Model
    from steelyard.stance import Standing

CANDIDATES = 300
"""Candidate poses drawn for each design; set by judgement: 300 take seconds on a humanoid."""

_SWAY, _TILT, _SHARE = 0.8, 0.35, 0.6
"""Share of the reachable sway, tilt of the trunk (rad) and share of the joint ranges that poses are drawn from; set by
judgement, to keep clear of limits."""

_TRIES = 20
"""Draws for each pose that is needed, before the model is said to have too few; set by judgement."""

_NEARER = (1.0, 0.6, 0.35)
"""Shares of the way from the home posture at which a drawn pose is tried, until it is feasible; set by judgement."""

_WIDER, _AHEAD, _TURNED = 0.08, 0.05, 0.2
"""Greatest shift of a foot outwards and forwards (m) and its greatest turn (rad); set by judgement: a person can place
feet so without measuring."""


@dataclass(frozen=True, eq=False)
class PoseDesign:
    """Poses to visit with the feet flat, for `calibrate`.

    Attributes:
        model: The model.
        configurations: Positions of all joints, shape (n, n_joints), rad or m.
        observability: Expected uncertainty of the offsets.
        condition_initial: Condition number of as many poses that are drawn, not selected.
        condition: That of these.
        margins: How far (m) the centre of mass stays inside the support polygon in each, shape (n,).
        placements: Number of the placement of the feet in each, shape (n,).
        stands: Where the feet are in each placement: x, y (m) and heading (rad), shape (n_placements, n_feet, 3).
    """

    model: Model
    configurations: FloatArray
    observability: Observability
    condition_initial: float
    condition: float
    margins: FloatArray
    placements: NDArray[np.int64]
    stands: FloatArray

    @property
    def standard_errors(self) -> dict[str, float]:
        """Expected standard error of each offset, rad or m."""
        return dict(zip(self.observability.joints, self.observability.standard_errors.tolist(), strict=True))

    def summary(self) -> str:
        """Return the design as text."""
        lines = [
            f"{len(self.configurations)} poses for {self.model.name}, feet flat",
            f"condition number {self.condition:.3g}; of as many random poses {self.condition_initial:.3g}",
            f"centre of mass at least {1e3 * self.margins.min():.0f} mm inside the soles",
            "expected standard errors:",
        ]
        for joint, error, told in zip(
            self.observability.joints, self.observability.standard_errors, self.observability.observable, strict=True
        ):
            slides = self.model.joint(joint).kind == "prismatic"
            shown = f"{1e3 * error:8.3f} mm" if slides else f"{np.rad2deg(error):8.3f}°"
            lines.append(f"  {joint:<28} {shown}{'' if told else '  not observable'}")
        lines += [f"  {sentence}" for sentence in self.observability.sentences()]
        if len(self.stands) > 1:
            lines.append("feet (x, y, heading) in each placement, and the poses to take there:")
            for number, stand in enumerate(self.stands):
                feet = "; ".join(f"{1e3 * x:.0f} mm, {1e3 * y:.0f} mm, {np.rad2deg(turn):.0f}°" for x, y, turn in stand)
                here = np.flatnonzero(self.placements == number)
                lines.append(f"  {feet}: " + (f"{here[0]} to {here[-1]}" if len(here) else "none"))
        elif not self.observability.observable.all():
            lines.append(
                "offsets that are not observable may become so with the feet placed in several ways (placements=3)"
            )
        return "\n".join(lines)

    def write(self, path: str | Path) -> Path:
        """Write the poses as a recording (CSV, Parquet, …): one row a pose, a second apart, columns ``q.<joint>``.

        Raises:
            RecordingError: The ending is unknown, or the file cannot be written.
        """
        columns = {f"q.{joint}": self.configurations[:, number] for number, joint in enumerate(self.model.joints)}
        Recording(np.arange(len(self.configurations), dtype=np.float64), columns, "poses").write(path)
        return Path(path)


@dataclass(frozen=True, eq=False)
class FlatPoses:
    """Poses with all soles flat.

    Attributes:
        configurations: With the base, shape (n, position_size).
        margins: How far (m) the centre of mass is inside the soles, shape (n,).
        placements: Number of the placement of the feet in each, shape (n,).
        stands: Where the feet are in each placement: x, y (m) and heading (rad), shape (n_placements, n_feet, 3).
    """

    configurations: FloatArray
    margins: FloatArray
    placements: NDArray[np.int64]
    stands: FloatArray


def draw_flat_poses(
    model: Model, count: int, *, seed: int = 0, moving: Sequence[str] = (), placements: int = 1
) -> FlatPoses:
    """Draw poses in which all soles are flat and the robot can stand.

    Args:
        model: The model, with soles in its setup.
        count: How many.
        seed: Of what is drawn.
        moving: Joints above the legs that are drawn too; the others stay at home.
        placements: In how many ways the feet are placed; the first is that of the neutral posture.

    Raises:
        StanceError: The model cannot stand, or hardly any drawn pose can be taken.
    """
    generator = np.random.default_rng([seed, 9])
    home = stand_up(model)
    footed = [home, *(_placed(home, generator) for _ in range(placements - 1))]
    found: list[FloatArray] = []
    margins: list[float] = []
    where: list[int] = []
    for number in range(_TRIES * count):
        standing = footed[number % placements]
        target = _draw_target(standing, generator, moving)
        for share in _NEARER:
            posture = solve_posture(standing.footing, _nearer(target, standing.target, share), home.home)
            if posture.stands and standing.feasibility.check_posture(posture.q) is None:
                found.append(posture.q)
                margins.append(_margin(standing, posture.q))
                where.append(number % placements)
                break
        if len(found) == count:
            stands = np.array([[_stand(foot.stand) for foot in each.footing.feet] for each in footed])
            return FlatPoses(np.array(found), np.array(margins), np.array(where, dtype=np.int64), stands)
    raise StanceError(
        f"{model.name} can take {len(found)} of {_TRIES * count} poses that were drawn, and {count} are needed; ask "
        "for fewer"
    )


def _nearer(target: PostureTarget, home: PostureTarget, share: float) -> PostureTarget:
    """Return the target at a share of the way from home."""
    return PostureTarget(
        home.upper + share * (target.upper - home.upper),
        home.com + share * (target.com - home.com),
        home.height + share * (target.height - home.height),
        share * target.tilt,
    )


def _placed(standing: Standing, generator: np.random.Generator) -> Standing:
    """Return the same robot with its feet farther apart, one ahead of the other, and turned."""
    footing = standing.footing
    feet = []
    for number, foot in enumerate(footing.feet):
        outward = footing.lateral * (1.0 if number == 0 else -1.0)
        shift = generator.uniform(0.0, _WIDER) * outward + generator.uniform(-_AHEAD, _AHEAD) * footing.forward
        turn = pin.utils.rotate("z", float(generator.uniform(-_TURNED, _TURNED)))
        stand = pin.SE3(turn @ foot.stand.rotation, foot.stand.translation + np.array([*shift, 0.0]))
        feet.append(replace(foot, stand=stand))
    moved = replace(footing, feet=tuple(feet))
    return replace(standing, footing=moved, feasibility=replace(standing.feasibility, footing=moved))


def _stand(stand: pin.SE3) -> tuple[float, float, float]:
    return (*stand.translation[:2].tolist(), float(np.arctan2(stand.rotation[1, 0], stand.rotation[0, 0])))


def _draw_target(standing: Standing, generator: np.random.Generator, moving: Sequence[str]) -> PostureTarget:
    footing, home = standing.footing, standing.target
    right, left, back, front = standing.reach
    across, along = generator.uniform([-right, -back], [left, front])
    com = home.com + _SWAY * (across * footing.lateral + along * footing.forward)
    upper = np.array(home.upper)
    low, high = (limits[footing.upper_columns] for limits in standing.feasibility.position_limits)
    for number, joint in enumerate(footing.upper_joints):
        if joint in moving:
            ends = upper[number] + _SHARE * (np.array([low[number], high[number]]) - upper[number])
            upper[number] = generator.uniform(*ends)
    return PostureTarget(upper, com, float(generator.uniform(*standing.heights)), generator.uniform(-_TILT, _TILT, 3))


def _margin(standing: Standing, q: FloatArray) -> float:
    com = pin.centerOfMass(standing.footing.pinocchio, standing.footing.data, q)
    return float(inside_margin(standing.footing.support_polygon, np.asarray(com)[:2]))


def exact_poses(model: Model, configurations: FloatArray, imus: Sequence[str]) -> PoseSet:
    """Compute the readings of perfect sensors in some configurations.

    Args:
        model: The model.
        configurations: With the base, shape (n, position_size).
        imus: Inertial sensors.
    """
    frames = {imu.name: imu.frame for imu in model.setup.imus}
    chains = chains_to(model, [frames[name] for name in imus])
    places = chains.place(configurations[:, 7:])
    root = Rotation.from_quat(configurations[:, 3:7]).as_matrix()
    orientations = {
        name: Rotation.from_matrix(root @ places.rotations[chains.frames.index(frames[name])]).as_quat()
        for name in imus
    }
    return PoseSet(model, np.arange(len(configurations), dtype=np.float64), configurations[:, 7:], orientations)


@one_blas_thread()
def design_calibration(
    model: Model,
    count: int = 20,
    *,
    seed: int = 0,
    imus: Sequence[str] | None = None,
    noise: PoseNoise | None = None,
    mounting: float = MOUNTING,
    candidates: int = CANDIDATES,
    placements: int = 1,
) -> PoseDesign:
    """Design a few poses, feet flat, with the most information on the offsets.

    Poses are drawn on `stance`: soles flat on their stands, in several placements of the feet; limits, balance and
    self-collision observed; joints between the legs and an inertial sensor move too. Poses are selected greedily by
    ``log det`` of the information (D-optimal), and exchanged for others while that helps.

    Args:
        model: The model, with soles and an inertial sensor in its setup.
        count: How many poses.
        seed: Of what is drawn.
        imus: Inertial sensors that will be read; by default all of the setup.
        noise: Expected noise of the sensors.
        mounting: Misalignment of sensors against their frames (standard deviation, rad).
        candidates: How many poses to choose from.
        placements: Number of foot placements. Several make more offsets observable (parallel legs hide a common
            offset of hips and ankles), but the robot has to be lifted or to step in between.

    Raises:
        StanceError: The model cannot stand.
        IdentifiabilityError: A number is out of range.
    """
    if placements < 1:
        raise IdentifiabilityError(f"feet cannot be placed in {placements} ways; give one or more")
    if not 2 <= count <= candidates:
        raise IdentifiabilityError(f"{count} of {candidates} poses cannot be chosen; ask for two or more, of more")
    known = [imu.name for imu in model.setup.imus]
    sensors = tuple(known if imus is None else imus)
    for name in sensors:
        if name not in known:
            raise IdentifiabilityError(
                f"the setup of {model.name} has no inertial sensor {name!r}{did_you_mean(name, known)}", names=[name]
            )
    frames = {imu.name: imu.frame for imu in model.setup.imus}
    moving = chains_to(model, [frames[name] for name in sensors]).joints
    drawn = draw_flat_poses(model, candidates, seed=seed, moving=moving, placements=placements)
    poses = exact_poses(model, drawn.configurations, sensors)
    contacts = soles_as_contacts(model)
    joints = chains_to(model, [*(frames[name] for name in sensors), *(contact.frame for contact in contacts)]).joints
    problem = CalibrationProblem(poses, joints, contacts, imus=sensors, mounting=mounting)
    state = starting_states(problem)[0]
    variances, encoder = row_variances(problem, noise or PoseNoise())
    reduced = eliminate_pose_unknowns(problem.linearise(state), variances, encoder)
    usual = usual_sizes(problem)
    picked = exchange(reduced, usual, pick_by_information(reduced, usual, count))

    def observability_of(which: NDArray[np.int64]) -> Observability:
        part = replace(reduced, residuals=reduced.residuals[which], by_shared=reduced.by_shared[which])
        return observe(problem, state, part.triangle(), usual)

    # Placement by placement, so that feet are moved as seldom as can be.
    picked = picked[np.argsort(drawn.placements[picked], kind="stable")]
    chosen = observability_of(picked)
    return PoseDesign(
        model,
        drawn.configurations[picked, 7:],
        chosen,
        _condition(observability_of(np.arange(count))),
        _condition(chosen),
        drawn.margins[picked],
        drawn.placements[picked],
        drawn.stands,
    )


def _condition(observability: Observability) -> float:
    """Return the condition number of the observable directions."""
    told = observability.information[observability.information >= 1.0]
    return float(told[0] / told[-1]) if len(told) else np.inf
