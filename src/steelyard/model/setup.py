"""The setup file: one TOML per robot that says where its model, sensors and soles are.

Reading checks everything that can be known without the model: keys, types, shapes. Whether a frame exists or a pattern
matches is checked against the model, when the two meet in `build_model`.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from steelyard.exceptions import ModelError
from steelyard.model.names import did_you_mean
from steelyard.model.packages import as_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from steelyard.model.parameters import FloatArray

WRENCH_AXES = ("fx", "fy", "fz", "nx", "ny", "nz")
"""The six components of a wrench: force (N), then moment (N m), on the robot, at the sensor frame's origin."""

BaseKind = Literal["floating", "fixed"]


@dataclass(frozen=True)
class Imu:
    """An inertial sensor: the prefix of its columns, and the frame whose axes it measures in."""

    name: str
    frame: str


@dataclass(frozen=True)
class WrenchSensor:
    """A force and torque sensor.

    Attributes:
        name: Prefix of its columns.
        frame: The frame in whose axes, and about whose origin, it measures.
        at: "ground": it measures what the ground exerts on the robot. "joint": it sits inside the limb, at the joint
            above its frame, and measures what the part below exerts on the part above.
        sign: "on_robot", or "on_environment" where it measures the opposite.
        axes: The components that it measures, of `WRENCH_AXES`.
    """

    name: str
    frame: str
    at: Literal["ground", "joint"] = "ground"
    sign: Literal["on_robot", "on_environment"] = "on_robot"
    axes: tuple[str, ...] = WRENCH_AXES


@dataclass(frozen=True, eq=False)
class Sole:
    """The flat underside of a foot.

    Attributes:
        name: Its name.
        frame: The frame in which its corners are given.
        vertices: Its corners in order around it, shape (n, 3), m.
        wrench: Name of the wrench sensor that feels it, if one does.
    """

    name: str
    frame: str
    vertices: FloatArray
    wrench: str | None = None


@dataclass(frozen=True)
class MirrorRule:
    """Which links are mirror images of each other.

    Attributes:
        plane: The plane of symmetry in the base link's frame, through its origin.
        pairs: Pairs of name patterns; ``*`` stands for the same text in both.
        posture: Positions by joint of a posture in which the robot is symmetric; joints not named are at zero.
    """

    plane: Literal["xy", "xz", "yz"]
    pairs: tuple[tuple[str, str], ...]
    posture: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Setup:
    """Everything that a setup file says.

    Attributes:
        path: The file, or None for a model without one.
        model_file: The model as the setup names it: a path, or ``package://…``.
        base: "floating", "fixed", or None where the model file decides (a URDF floats).
        imus: Inertial sensors.
        wrench_sensors: Force and torque sensors.
        soles: Soles of the feet.
        torques_measured: Patterns of the joints whose torque is measured.
        mirror: Which links are mirror images, or None.
        volumes: By pattern of link, the box that holds its centre of mass: least and greatest corner in its joint
            frame, shape (2, 3), m.
        locks: By pattern of joint, the position at which it is locked.
        contents: The file as plain tables, to be stored with results.
    """

    path: Path | None = None
    model_file: str | None = None
    base: BaseKind | None = None
    imus: tuple[Imu, ...] = ()
    wrench_sensors: tuple[WrenchSensor, ...] = ()
    soles: tuple[Sole, ...] = ()
    torques_measured: tuple[str, ...] = ()
    mirror: MirrorRule | None = None
    volumes: Mapping[str, FloatArray] = field(default_factory=dict)
    locks: Mapping[str, float | tuple[float, ...]] = field(default_factory=dict)
    contents: Mapping[str, Any] = field(default_factory=dict)


def ready_setups() -> list[str]:
    """Gives the names of the setups that come with Steelyard."""
    folder = resources.files("steelyard.setups")
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read_setup(source: str | Path) -> Setup:
    """Reads a setup: one that comes with Steelyard, by its name, or a TOML file.

    Raises:
        ModelError: There is no such setup, or something in it is wrong; the message says what and where.
    """
    if str(source) in ready_setups():
        path = Path(str(resources.files("steelyard.setups") / f"{source}.toml"))
    else:
        path = as_path(source)
        if path.suffix.lower() != ".toml":
            raise ModelError(
                f"there is no ready setup {str(source)!r}{did_you_mean(str(source), ready_setups())}; "
                "a setup of your own ends in .toml",
                names=[str(source)],
            )
    try:
        contents = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError("there is no such setup file; check the path", path=path) from error
    except OSError as error:
        raise ModelError(f"the setup cannot be read ({error.strerror}); check its permissions", path=path) from error
    except UnicodeDecodeError as error:
        raise ModelError("the setup is not UTF-8 text; save it as UTF-8", path=path) from error
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"the TOML is broken: {error}", path=path) from error
    return parse_setup(contents, path)


def parse_setup(contents: Mapping[str, Any], path: Path | None = None) -> Setup:
    """Gives the setup that the tables of a TOML file describe; see `read_setup`."""
    top = _Table(contents, "the setup", path)
    model = top.table("model")
    file = model.text("file", None)
    base = model.choice("base", ("floating", "fixed"), None)
    model.finish()
    imus = tuple(_imu(table) for table in top.tables("imu"))
    sensors = tuple(_wrench_sensor(table) for table in top.tables("wrench_sensor"))
    soles = tuple(_sole(table, [sensor.name for sensor in sensors]) for table in top.tables("sole"))
    for kind, named in (("imu", imus), ("wrench_sensor", sensors), ("sole", soles)):
        names = [entry.name for entry in cast("Sequence[Imu]", named)]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise top.error(f"two [[{kind}]] are called {repeated[0]!r}; give each its own name", repeated[0])
    torque = top.table("torque")
    measured = torque.texts("measured", ())
    torque.finish()
    volumes = top.table("volume")
    locks = top.table("lock")
    setup = Setup(
        path=path,
        model_file=file,
        base=cast("BaseKind | None", base),
        imus=imus,
        wrench_sensors=sensors,
        soles=soles,
        torques_measured=measured,
        mirror=_mirror(top.table("mirror")) if "mirror" in contents else None,
        volumes={key: volumes.box(key) for key in volumes},
        locks={key: locks.position(key) for key in locks},
        contents=contents,
    )
    top.finish()
    return setup


def _imu(table: _Table) -> Imu:
    imu = Imu(table.text("name"), table.text("frame"))
    table.finish()
    return imu


def _wrench_sensor(table: _Table) -> WrenchSensor:
    axes = tuple(cast("str", table.text("axes", " ".join(WRENCH_AXES))).split())
    unknown = [axis for axis in axes if axis not in WRENCH_AXES]
    if unknown or not axes or len(set(axes)) < len(axes):
        raise table.error(f"'axes' is {' '.join(axes)!r}; write some of {' '.join(WRENCH_AXES)!r}", *unknown)
    sensor = WrenchSensor(
        name=table.text("name"),
        frame=table.text("frame"),
        at=cast("Literal['ground', 'joint']", table.choice("at", ("ground", "joint"), "ground")),
        sign=cast(
            "Literal['on_robot', 'on_environment']", table.choice("sign", ("on_robot", "on_environment"), "on_robot")
        ),
        axes=tuple(axis for axis in WRENCH_AXES if axis in axes),
    )
    table.finish()
    return sensor


def _sole(table: _Table, sensors: Sequence[str]) -> Sole:
    vertices = table.points("vertices")
    if len(vertices) < 3 or np.linalg.matrix_rank(vertices - vertices.mean(axis=0), tol=1e-6) < 2:
        raise table.error("'vertices' must be at least three corners that are not on one line")
    wrench = table.text("wrench", None)
    if wrench is not None and wrench not in sensors:
        raise table.error(
            f"'wrench' is {wrench!r}, but no [[wrench_sensor]] has this name{did_you_mean(wrench, sensors)}"
        )
    sole = Sole(table.text("name"), table.text("frame"), vertices, wrench)
    table.finish()
    return sole


def _mirror(table: _Table) -> MirrorRule:
    plane = cast("Literal['xy', 'xz', 'yz']", table.choice("plane", ("xy", "xz", "yz"), "xz"))
    pairs = table.pairs("pairs")
    posture = table.table("posture")
    rule = MirrorRule(plane, pairs, {key: posture.number(key) for key in posture})
    table.finish()
    return rule


class _Table:
    """A TOML table that knows its place, gives typed values, and complains about keys that nobody asked for."""

    def __init__(self, contents: Any, where: str, path: Path | None) -> None:
        self.where = where
        self.path = path
        if not isinstance(contents, dict):
            raise self.error(f"must be a table, not {contents!r}")
        self.contents = contents
        self.asked: list[str] = []

    def error(self, message: str, *names: str) -> ModelError:
        return ModelError(f"in {self.where}: {message}", path=self.path, names=names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.contents)

    def finish(self) -> None:
        for key in self.contents:
            if key not in self.asked:
                raise self.error(f"unknown key {key!r}{did_you_mean(key, self.asked)}", key)

    def table(self, key: str) -> _Table:
        self.asked.append(key)
        outer = self.where.strip("[]") + "." if self.where.startswith("[") else ""
        return _Table(self.contents.get(key, {}), f"[{outer}{key}]", self.path)

    def tables(self, key: str) -> list[_Table]:
        self.asked.append(key)
        entries = self.contents.get(key, [])
        if not isinstance(entries, list):
            raise self.error(f"write [[{key}]] with two brackets: there may be several", key)
        return [_Table(entry, f"[[{key}]] number {number}", self.path) for number, entry in enumerate(entries, start=1)]

    def value(self, key: str, usual: Any, what: str) -> Any:
        self.asked.append(key)
        if key in self.contents:
            return self.contents[key]
        if usual is ...:
            near = [given for given in self.contents if given not in self.asked and did_you_mean(key, [given])]
            raise self.error(
                f"{key!r} is missing; write {what}" + "".join(f" (you wrote {x!r})" for x in near[:1]), key
            )
        return usual

    def text(self, key: str, usual: Any = ...) -> Any:
        value = self.value(key, usual, "a text")
        if value is not usual and (not isinstance(value, str) or not value):
            raise self.error(f"{key!r} is {value!r}; write a text", key)
        return value

    def texts(self, key: str, usual: Sequence[str]) -> tuple[str, ...]:
        value = self.value(key, usual, "a list of names")
        if value == "all":
            return ("*",)
        if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
            raise self.error(f'{key!r} is {value!r}; write a list of names, or "all"', key)
        return tuple(value)

    def choice(self, key: str, choices: Sequence[str], usual: str | None) -> str | None:
        value = self.value(key, usual, " or ".join(choices))
        if value is not None and value not in choices:
            raise self.error(f"{key!r} is {value!r}; write {' or '.join(map(repr, choices))}", key)
        return cast("str | None", value)

    def number(self, key: str) -> float:
        value = self.value(key, ..., "a number")
        try:
            number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.error(f"{key!r} is {str(value)[:40]!r}; write a number", key)
        return number

    def position(self, key: str) -> float | tuple[float, ...]:
        if isinstance(self.contents[key], list):
            values = self.array(key, (4,), "a number, or a quaternion [x, y, z, w] for a ball joint")
            return tuple(float(value) for value in values)
        return self.number(key)

    def array(self, key: str, shape: tuple[int, ...], what: str) -> FloatArray:
        value = self.value(key, ..., what)
        try:
            as_written = np.asarray(value)
            array = as_written.astype(np.float64) if as_written.dtype.kind in "if" else np.empty(0)
        except (ValueError, TypeError):
            array = np.empty(0)
        fits = array.ndim == len(shape) and all(
            want in (-1, have) for want, have in zip(shape, array.shape, strict=True)
        )
        if not fits or not np.all(np.isfinite(array)):
            raise self.error(f"{key!r} must be {what}", key)
        array.setflags(write=False)
        return array

    def points(self, key: str) -> FloatArray:
        return self.array(key, (-1, 3), "a list of points [x, y, z]")

    def box(self, key: str) -> FloatArray:
        box = self.array(key, (2, 3), "a box [[x, y, z], [x, y, z]]: least and greatest corner")
        if not np.all(box[0] < box[1]):
            raise self.error(f"the box of {key!r} is empty: every number of the first corner must be the smaller", key)
        return box

    def pairs(self, key: str) -> tuple[tuple[str, str], ...]:
        value = self.value(key, ..., 'pairs of patterns like ["left_*", "right_*"]')
        pairs = []
        for pair in value if isinstance(value, list) else [value]:
            if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(name, str) for name in pair)):
                raise self.error(f'{key!r} holds {pair!r}; write pairs of patterns like ["left_*", "right_*"]', key)
            left, right = pair
            if left.count("*") != right.count("*"):
                raise self.error(f"the patterns {left!r} and {right!r} must have the same number of '*'", left, right)
            pairs.append((left, right))
        return tuple(pairs)
