"""Building motions: a random curve through postures, each span accepted only if the robot can do it.

A motion is a uniform cubic B-spline in the wishes for a posture: positions of the upper joints, centre of mass,
height and tilt of the root. Its control points are drawn one by one. Each new one completes a span of the curve, which
is turned into joint angles by inverse kinematics with the feet fixed and then judged: limits, self-contact, balance,
torques. What is refused is drawn again, nearer to the last point that was accepted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import StanceError
from steelyard.stance.postures import Posture, Wish, solve_posture
from steelyard.stance.trajectory import Trajectory

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.stance.standing import Standing

KNOTS_PER_SECOND = 25
"""How often inverse kinematics is solved. A spline of degree five through them keeps soles within 10 µm at 1 Hz."""

_LEGS = "the legs cannot follow with the soles flat"
_DEGREE = 3
_COVERAGE = 0.62
"""Share of its range that each upper joint is sent through before it goes where chance takes it."""

_SHORTEST_HOLD = 0.5
_REDRAWS = 24
_TRIES = 8


@dataclass(frozen=True)
class Style:
    """What a kind of motion is made of.

    Attributes:
        tempo: Seconds between control points.
        stay: How many control points are laid on each drawn point; four or more make the robot stop there.
        upper: Share of their range that the upper joints use; zero keeps them at home.
        sway: Share of the reach that the centre of mass uses, sideways and lengthwise.
        squat: Share of the range of heights that is used.
        tilt: Greatest turn (rad) of the root about each axis.
    """

    tempo: float
    stay: int = 2
    upper: float = 0.0
    sway: tuple[float, float] = (0.0, 0.0)
    squat: float = 0.0
    tilt: float = 0.0


@dataclass
class Builder:
    """A motion in the making.

    Attributes:
        standing: The robot.
        style: What the motion is made of.
        generator: Where chance comes from.
        tempo: Seconds between control points, as the duration divides.
        points: Control points so far, each of shape (n_upper + 6,).
        path: Configurations so far, `KNOTS_PER_SECOND` apart.
        refusals: How often each objection was raised.
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
        home = standing.wish.upper
        right, left, back, front = standing.reach
        sideways, lengthwise = self.style.sway
        squat = self.style.squat
        below = [-sideways * right, -lengthwise * back, squat * (standing.heights[0] - standing.wish.height)]
        above = [sideways * left, lengthwise * front, squat * (standing.heights[1] - standing.wish.height)]
        tilt = np.full(3, self.style.tilt)
        share = self.style.upper
        self.home = np.concatenate([home, np.zeros(6)])
        self.low = np.concatenate([home + share * (low - home), below, -tilt])
        self.high = np.concatenate([home + share * (high - home), above, tilt])
        self.upper_count = len(home)
        # A step d between doubled control points has the greatest speed ¾ d / tempo: no joint is asked for more.
        speeds = standing.feasibility.velocity_limits[columns]
        self.step = np.concatenate([1.3 * speeds * self.tempo, np.full(6, np.inf)])
        self.points = [self.home] * (_DEGREE + 1)
        self.path = [np.array(standing.home)]
        self.seen_low, self.seen_high = self.home.copy(), self.home.copy()
        self.goal = self._draw_goal()

    def _draw_goal(self) -> FloatArray:
        """Draws where to go: anywhere in the ranges, but a joint first where it has not been, and the weight across."""
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

    def wish(self, point: FloatArray) -> Wish:
        """Gives the wish that a point of the curve stands for."""
        standing = self.standing
        sideways, lengthwise, height = point[self.upper_count : self.upper_count + 3]
        com = standing.wish.com + sideways * standing.footing.lateral + lengthwise * standing.footing.forward
        return Wish(point[: self.upper_count], com, standing.wish.height + float(height), point[self.upper_count + 3 :])

    def point(self, wish: Wish) -> FloatArray:
        """Gives the point of the curve that stands for a wish; see `wish`."""
        home, footing = self.standing.wish, self.standing.footing
        away = wish.com - home.com
        place = [away @ footing.lateral, away @ footing.forward, wish.height - home.height]
        return np.concatenate([wish.upper, place, wish.tilt])

    def extend(self) -> None:
        """Adds one drawn point to the motion; where no way leads on, takes the last one back."""
        last = self.points[-1]
        for attempt in range(_TRIES):
            target = self._free_target(last, 0.5 ** (attempt / 2))
            if target is not None and self._append([target] * self.style.stay):
                self._remember(target)
                return
            self.goal = self._draw_goal()
        if not self._append([last] * self.style.stay) and not self._take_back():
            raise StanceError(
                f"{self.standing.footing.model.name} found no way to move from where it stands: "
                f"{self.refusals.most_common(1)[0][0]}"
            )

    def _remember(self, target: FloatArray) -> None:
        self.seen_low, self.seen_high = np.minimum(self.seen_low, target), np.maximum(self.seen_high, target)
        # A slow joint takes several points to reach its goal; whatever was cut short gets another one.
        there = np.abs(self.goal - target) <= np.where(np.isfinite(self.step), 0.05 * (self.high - self.low), np.inf)
        self.goal = np.where(there, self._draw_goal(), self.goal)

    def _free_target(self, last: FloatArray, share: float) -> FloatArray | None:
        """Gives a point, a share of the way to the goal, at which the robot can stand still; None if none is found."""
        longest = self.step
        target = last + np.clip(share * (self.goal - last), -longest, longest)
        lower = np.arange(len(target)) >= self.upper_count
        for redraw in range(_REDRAWS):
            posture = self._posture(target)
            if not posture.fulfils:
                self.refusals[_LEGS] += 1
                target = np.where(lower, self.home + 0.7 * (target - self.home), target)
                continue
            objection = self.standing.feasibility.objection_to_posture(posture.q)
            if objection is None:
                return target
            self.refusals[objection.reason] += 1
            limbs, legs = self._limbs(objection.bodies)
            if redraw < _REDRAWS // 2:
                # Only joints at fault are drawn again, and not all at once; the others are where they should be.
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
        """Tells which of the upper joints that this motion moves belong to some bodies, and whether legs do.

        Where no joint is named, as when balance is lost, it is the legs that can mend it.
        """
        footing = self.standing.footing
        names = {footing.model.bodies[body].joint.name for body in bodies}
        upper = [joint in names for joint in footing.upper_joints]
        limbs = (self.high > self.low) & np.array([*upper, *[False] * (len(self.home) - self.upper_count)])
        return limbs, not np.any(limbs) or any(joint in names for joint in footing.leg_joints)

    def _posture(self, point: FloatArray) -> Posture:
        return solve_posture(self.standing.footing, self.wish(point), self.path[-1])

    def _append(self, added: list[FloatArray]) -> bool:
        """Adds control points if the spans that they complete can be done; says whether."""
        points = [*self.points, *added]
        path = list(self.path)
        for last in range(len(self.points), len(points)):
            begin = max(0, len(path) - 2)
            objection = self._follow(points[last - _DEGREE : last + 1], self._knots(last - _DEGREE), path)
            if objection is None:
                judged = self.standing.feasibility.objection_to_path(path[begin:], 1.0 / KNOTS_PER_SECOND)
                objection = None if judged is None else judged.reason
            if objection is not None:
                self.refusals[objection] += 1
                return False
        self.points, self.path = points, path
        return True

    def _follow(self, span: list[FloatArray], knots: FloatArray, path: list[FloatArray]) -> str | None:
        """Adds the configurations of one span of the curve to a path; gives what speaks against it."""
        if all(point is span[0] for point in span) and self._rests(path):
            path += [path[-1]] * len(knots)
            return None
        control = np.array(span)
        for knot in knots:
            posture = solve_posture(self.standing.footing, self.wish(_basis(knot) @ control), path[-1])
            if not posture.fulfils:
                return _LEGS
            path.append(posture.q)
        return None

    def _rests(self, path: list[FloatArray]) -> bool:
        """Tells whether a path has come to rest."""
        return len(path) > 1 and bool(np.max(np.abs(path[-1] - path[-2])) < 1e-6)

    def _knots(self, span: int) -> FloatArray:
        """Gives the places (0 to 1) in a span at which the clock of the knots strikes."""
        start, end = (span - 1) * self.tempo * KNOTS_PER_SECOND, span * self.tempo * KNOTS_PER_SECOND
        ticks = np.arange(np.floor(start + 1e-9) + 1, np.floor(end + 1e-9) + 1)
        return np.asarray((ticks - start) / (end - start))

    def go_home(self, *, count: int, keep: bool = False) -> None:
        """Ends the motion at home with the last `count` control points; takes back points from which there is no way.

        Args:
            count: How many control points there are left.
            keep: Whether every point so far stays.

        Raises:
            StanceError: There is no way home.
        """
        room = count
        while True:
            last = self.points[-1]
            for steps in (1, 2, 3, 5):
                stops = min(steps, room - _DEGREE)
                way = [last + (number + 1) / stops * (self.home - last) for number in range(stops)]
                if self._append([*way, *[self.home] * (room - stops)]):
                    return
            if keep or not self._take_back():
                raise StanceError(
                    f"{self.standing.footing.model.name} found no way back to where it stood: "
                    f"{self.refusals.most_common(1)[0][0]}"
                )
            room += self.style.stay

    def _take_back(self) -> bool:
        """Takes the last drawn point back; says whether there was one."""
        if len(self.points) <= _DEGREE + 1:
            return False
        self.points = self.points[: -self.style.stay]
        spans = len(self.points) - _DEGREE - 1
        self.path = self.path[: 1 + int(np.floor(spans * self.tempo * KNOTS_PER_SECOND + 1e-9))]
        return True

    def trajectory(self, name: str) -> Trajectory:
        """Gives the motion so far, with the stretches of half a second and more in which it stands still."""
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
        """Goes to a given point and stays there; gives what speaks against it."""
        before = Counter(self.refusals)
        if self._append([point] * self.style.stay):
            return None
        return next(iter(self.refusals - before))


def _basis(place: float) -> FloatArray:
    """Gives the four cubic B-spline weights at a place (0 to 1) in a span."""
    u = place
    return np.array([(1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3]) / 6.0


def shortest_duration(style: Style) -> float:
    """Gives the seconds that a style needs to go to one point and to come back to rest at home."""
    return style.tempo * (2 * style.stay + _DEGREE + 1)


def compose(standing: Standing, style: Style, duration: float, generator: np.random.Generator) -> Builder:
    """Builds a motion of a style that begins and ends at home.

    Args:
        standing: The robot.
        style: What the motion is made of.
        duration: Seconds; at least `shortest_duration`.
        generator: Where chance comes from.
    """
    spans = round(duration / style.tempo)
    builder = Builder(standing, style, generator, duration / spans)
    home = _DEGREE + 1 + style.stay
    while len(builder.points) - _DEGREE - 1 + style.stay + home <= spans:
        builder.extend()
    builder.go_home(count=spans - (len(builder.points) - _DEGREE - 1))
    return builder
