"""Motion building: a random spline through postures, each span accepted only if it is feasible.

A motion is a uniform cubic B-spline in the targets of inverse kinematics: positions of the upper joints, centre of
mass, height and tilt of the root. Its control points are drawn one by one. Each new one completes a span of the curve,
which is turned into joint angles by inverse kinematics with the feet fixed and then checked: limits, self-collision,
balance, torques. A rejected point is drawn again, nearer to the last accepted one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import StanceError
from steelyard.stance.postures import Posture, PostureTarget, solve_posture
from steelyard.stance.trajectory import Trajectory

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.stance.standing import Standing

KNOTS_PER_SECOND = 25
"""Rate (Hz) at which inverse kinematics is solved. A quintic spline through the knots keeps soles within 10 µm at 1
Hz."""

SPLINE_DEGREE = 3
"""Degree of the curve: the least with continuous accelerations."""

_LEGS = "the legs cannot follow with the soles flat"
_COVERAGE = 0.62
"""Share of its range that each upper joint is sent through before its goals are uniformly random. Set by judgement:
more than `motions.LEAST_COVERAGE`, since splines do not reach their control points."""

_SHORTEST_HOLD = 0.5
"""Seconds at rest from which a trajectory lists a hold. Set by judgement: the robot has then settled."""

_REDRAWS, _TRIES = 24, 8
"""Changes of a target until a posture is feasible, and targets until a span is, before the motion goes back a point.
Set by judgement: planning takes about a second."""


@dataclass(frozen=True)
class Style:
    """The amplitudes and the tempo of a kind of motion.

    Attributes:
        tempo: Seconds between control points.
        stay: Number of control points at each drawn point; four or more make the robot stop there.
        upper: Share of the range of the upper joints that is used; zero keeps them at home.
        sway: Share of the reach of the centre of mass that is used, sideways and lengthwise.
        squat: Share of the range of heights that is used.
        tilt: Greatest rotation (rad) of the root about each axis.
    """

    tempo: float
    stay: int = 2
    upper: float = 0.0
    sway: tuple[float, float] = (0.0, 0.0)
    squat: float = 0.0
    tilt: float = 0.0


@dataclass
class MotionBuilder:
    """A motion under construction.

    Attributes:
        standing: The robot.
        style: The style of the motion.
        generator: Random numbers.
        tempo: Seconds between control points, a divisor of the duration.
        points: Control points so far, each of shape (n_upper + 6,).
        path: Configurations so far, at `KNOTS_PER_SECOND`.
        refusals: How often each limit was violated, by reason.
    """

    standing: Standing
    style: Style
    generator: np.random.Generator
    tempo: float
    points: list[FloatArray] = field(default_factory=list)
    path: list[FloatArray] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        standing = self.standing
        footing = standing.footing
        columns = footing.upper_columns
        low, high = (limits[columns] for limits in standing.feasibility.position_limits)
        home = standing.target.upper
        right, left, back, front = standing.reach
        sideways, lengthwise = self.style.sway
        squat = self.style.squat
        below = [-sideways * right, -lengthwise * back, squat * (standing.heights[0] - standing.target.height)]
        above = [sideways * left, lengthwise * front, squat * (standing.heights[1] - standing.target.height)]
        tilt = np.full(3, self.style.tilt)
        share = self.style.upper
        self.home = np.concatenate([home, np.zeros(6)])
        self.low = np.concatenate([home + share * (low - home), below, -tilt])
        self.high = np.concatenate([home + share * (high - home), above, tilt])
        self.upper_count = len(home)
        # A step d between doubled control points has the greatest speed ¾ d / tempo, which must stay below the limit.
        speeds = standing.feasibility.velocity_limits[columns]
        self.step = np.concatenate([1.3 * speeds * self.tempo, np.full(6, np.inf)])
        self.points = [self.home] * (SPLINE_DEGREE + 1)
        self.path = [np.array(standing.home)]
        self.seen_low, self.seen_high = self.home.copy(), self.home.copy()
        self.goal = self._draw_goal()

    def _draw_goal(self) -> FloatArray:
        """Draw a goal within the ranges: joints first where they have not been, the weight to the other foot."""
        drawn = self.generator.uniform(self.low, self.high)
        width = self.high - self.low
        short = self.seen_high - self.seen_low < _COVERAGE * width
        short[self.upper_count :] = False
        upwards = self.generator.random(len(drawn)) < 0.5
        far = self.generator.uniform(_COVERAGE, 0.95, len(drawn)) * width
        beyond = np.where(upwards, self.seen_low + far, self.seen_high - far)
        goal = np.where(short, np.clip(beyond, self.low, self.high), drawn)
        across = self.upper_count
        side = self.low if self.points[-1][across] > 0.0 else self.high
        goal[across] = self.generator.uniform(0.5, 1.0) * side[across]
        return goal

    def target_at(self, point: FloatArray) -> PostureTarget:
        """Return the target of inverse kinematics of a point of the curve."""
        home, footing = self.standing.target, self.standing.footing
        upper, (sideways, lengthwise, height), tilt = np.split(point, [self.upper_count, self.upper_count + 3])
        com = home.com + sideways * footing.lateral + lengthwise * footing.forward
        return PostureTarget(upper, com, home.height + float(height), tilt)

    def point(self, target: PostureTarget) -> FloatArray:
        """Return the point of the curve of a target; see `target_at`."""
        home, footing = self.standing.target, self.standing.footing
        away = target.com - home.com
        moved = [away @ footing.lateral, away @ footing.forward, target.height - home.height]
        return np.concatenate([target.upper, moved, target.tilt])

    def extend(self) -> None:
        """Add one drawn point to the motion; where none is feasible, remove the last one."""
        last = self.points[-1]
        for attempt in range(_TRIES):
            target = self._free_target(last, 0.5 ** (attempt / 2))
            if target is not None and self._append([target] * self.style.stay):
                self._remember(target)
                return
            self.goal = self._draw_goal()
        if not self._append([last] * self.style.stay) and not self._remove_last():
            raise StanceError(
                f"{self.standing.footing.model.name} found no way to move from where it stands: "
                f"{self.refusals.most_common(1)[0][0]}"
            )

    def _remember(self, target: FloatArray) -> None:
        self.seen_low, self.seen_high = np.minimum(self.seen_low, target), np.maximum(self.seen_high, target)
        # A slow joint takes several points to reach its goal; joints that have reached theirs get a new one.
        there = np.abs(self.goal - target) <= np.where(np.isfinite(self.step), 0.05 * (self.high - self.low), np.inf)
        self.goal = np.where(there, self._draw_goal(), self.goal)

    def _free_target(self, last: FloatArray, share: float) -> FloatArray | None:
        """Return a point, a share of the way to the goal, with a feasible posture; None if none is found."""
        longest = self.step
        target = last + np.clip(share * (self.goal - last), -longest, longest)
        lower = np.arange(len(target)) >= self.upper_count
        for redraw in range(_REDRAWS):
            posture = self._posture(target)
            if not posture.meets_target:
                self.refusals[_LEGS] += 1
                target = np.where(lower, self.home + 0.7 * (target - self.home), target)
                continue
            violation = self.standing.feasibility.check_posture(posture.q)
            if violation is None:
                return target
            self.refusals[violation.reason] += 1
            limbs, legs = self._limbs(violation.bodies)
            if redraw < _REDRAWS // 2:
                # Only joints that contribute are drawn again, and not all at once.
                limbs &= self.generator.random(len(target)) < 0.6
                fresh = self._draw_goal() if redraw % 2 else self.generator.uniform(self.low, self.high)
                self.goal = np.where(limbs, fresh, self.goal)
                target = np.where(limbs, last + np.clip(share * (self.goal - last), -longest, longest), target)
            else:
                target = np.where(limbs, last + 0.5 * (target - last), target)
            if legs:
                target = np.where(lower, self.home + 0.7 * (target - self.home), target)
        return None

    def _limbs(self, bodies: frozenset[int]) -> tuple[np.ndarray, bool]:
        """Return which moving upper joints belong to some bodies, and whether the legs have to change.

        Where no upper joint contributes, as when balance is lost, the legs have to.
        """
        footing = self.standing.footing
        names = {footing.model.bodies[body].joint.name for body in bodies}
        upper = [joint in names for joint in footing.upper_joints]
        limbs = (self.high > self.low) & np.array([*upper, *[False] * (len(self.home) - self.upper_count)])
        return limbs, not np.any(limbs) or any(joint in names for joint in footing.leg_joints)

    def _posture(self, point: FloatArray) -> Posture:
        return solve_posture(self.standing.footing, self.target_at(point), self.path[-1])

    def _append(self, added: list[FloatArray]) -> bool:
        """Add control points if the spans that they complete are feasible; return whether they are."""
        points = [*self.points, *added]
        path = list(self.path)
        for last in range(len(self.points), len(points)):
            begin = max(0, len(path) - 2)
            violation = self._follow(points[last - SPLINE_DEGREE : last + 1], self._knots(last - SPLINE_DEGREE), path)
            if violation is None:
                judged = self.standing.feasibility.check_path(path[begin:], 1.0 / KNOTS_PER_SECOND)
                violation = None if judged is None else judged.reason
            if violation is not None:
                self.refusals[violation] += 1
                return False
        self.points, self.path = points, path
        return True

    def _follow(self, span: list[FloatArray], knots: FloatArray, path: list[FloatArray]) -> str | None:
        """Append the configurations of one span of the curve to a path; return why it is not feasible, or None."""
        at_rest = len(path) > 1 and bool(np.max(np.abs(path[-1] - path[-2])) < 1e-6)
        if at_rest and all(point is span[0] for point in span):
            path += [path[-1]] * len(knots)
            return None
        control = np.array(span)
        for knot in knots:
            posture = solve_posture(self.standing.footing, self.target_at(_basis(knot) @ control), path[-1])
            if not posture.meets_target:
                return _LEGS
            path.append(posture.q)
        return None

    def _knots(self, span: int) -> FloatArray:
        """Return the curve parameters (0 to 1) of the knots in a span."""
        start, end = (span - 1) * self.tempo * KNOTS_PER_SECOND, span * self.tempo * KNOTS_PER_SECOND
        ticks = np.arange(np.floor(start + 1e-9) + 1, np.floor(end + 1e-9) + 1)
        return np.asarray((ticks - start) / (end - start))

    def go_home(self, *, count: int, keep: bool = False) -> None:
        """End the motion at home with the last `count` control points, removing points from which no path is feasible.

        Args:
            count: Number of control points that are left.
            keep: Whether to keep every point so far.

        Raises:
            StanceError: No path home is feasible.
        """
        room = count
        while True:
            last = self.points[-1]
            for steps in (1, 2, 3, 5):
                stops = min(steps, room - SPLINE_DEGREE)
                way = [last + (number + 1) / stops * (self.home - last) for number in range(stops)]
                if self._append([*way, *[self.home] * (room - stops)]):
                    return
            if keep or not self._remove_last():
                raise StanceError(
                    f"{self.standing.footing.model.name} found no way back to where it stood: "
                    f"{self.refusals.most_common(1)[0][0]}"
                )
            room += self.style.stay

    def _remove_last(self) -> bool:
        """Remove the last drawn point; return whether there was one."""
        if len(self.points) <= SPLINE_DEGREE + 1:
            return False
        self.points = self.points[: -self.style.stay]
        spans = len(self.points) - SPLINE_DEGREE - 1
        self.path = self.path[: 1 + int(np.floor(spans * self.tempo * KNOTS_PER_SECOND + 1e-9))]
        return True

    def trajectory(self, name: str) -> Trajectory:
        """Return the motion so far, with its intervals at rest of `_SHORTEST_HOLD` and more."""
        positions = np.array(self.path)[:, 7:]
        time = np.arange(len(positions)) / KNOTS_PER_SECOND
        still = np.concatenate([[False], np.max(np.abs(np.diff(positions, axis=0)), axis=1) < 1e-6, [False]])
        begins, ends = np.flatnonzero(still[1:] & ~still[:-1]), np.flatnonzero(still[:-1] & ~still[1:])
        holds = tuple(
            (float(time[begin]), float(time[end]))
            for begin, end in zip(begins, ends, strict=True)
            if time[end] - time[begin] >= _SHORTEST_HOLD
        )
        return Trajectory(name, time, self.standing.footing.model.joints, positions, holds)

    def visit(self, point: FloatArray) -> str | None:
        """Move to a given point and hold it; return why that is not feasible, or None."""
        before = Counter(self.refusals)
        if self._append([point] * self.style.stay):
            return None
        return next(iter(self.refusals - before))


def _basis(u: float) -> FloatArray:
    """Return the four cubic B-spline weights at a curve parameter (0 to 1) in a span."""
    return np.array([(1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3]) / 6.0


def shortest_duration(style: Style) -> float:
    """Return the seconds that a style needs to move to one point and back to rest at home."""
    return style.tempo * (2 * style.stay + SPLINE_DEGREE + 1)


def build_motion(standing: Standing, style: Style, duration: float, generator: np.random.Generator) -> MotionBuilder:
    """Build a motion of a style that begins and ends at home.

    Args:
        standing: The robot.
        style: The style.
        duration: Seconds; at least `shortest_duration`.
        generator: Random numbers.
    """
    spans = round(duration / style.tempo)
    builder = MotionBuilder(standing, style, generator, duration / spans)
    home = SPLINE_DEGREE + 1 + style.stay
    while len(builder.points) - SPLINE_DEGREE - 1 + style.stay + home <= spans:
        builder.extend()
    builder.go_home(count=spans - (len(builder.points) - SPLINE_DEGREE - 1))
    return builder
