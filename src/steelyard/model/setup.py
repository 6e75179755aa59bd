"""The setup file: one TOML per robot that names its model, sensors and soles.

Reading checks everything that does not need the model: keys, types, shapes. `build_model` checks whether frames exist
and patterns match.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from steelyard.exceptions import ModelError
from steelyard.model.constraint_tables import parse_constraint_table
from steelyard.model.files.packages import as_path
from steelyard.model.recording_map import RecordingMap, parse_recording_map
from steelyard.model.toml_table import TomlTable
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.model.constraints import Constraint

WRENCH_AXES = ("fx", "fy", "fz", "nx", "ny", "nz")
"""The six components of a wrench: force (N), then moment (N m), on the robot, at the sensor frame's origin."""

BaseKind = Literal["floating", "fixed"]


@dataclass(frozen=True)
class Imu:
    """An inertial sensor.

    Attributes:
        name: Prefix of its columns.
        frame: The frame in whose axes it measures.
        delay: Delay of its readings, s; removed when a recording is read.
    """

    name: str
    frame: str
    delay: float = 0.0


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
        delay: Delay of its readings, s; removed when a recording is read.
    """

    name: str
    frame: str
    at: Literal["ground", "joint"] = "ground"
    sign: Literal["on_robot", "on_environment"] = "on_robot"
    axes: tuple[str, ...] = WRENCH_AXES
    delay: float = 0.0


@dataclass(frozen=True, eq=False)
class Sole:
    """The flat underside of a foot.

    Attributes:
        name: Its name.
        frame: The frame in which its corners are given.
        vertices: Its corners in order around it, shape (n, 3), m.
        wrench: Name of the wrench sensor that measures its contact, if any.
    """

    name: str
    frame: str
    vertices: FloatArray
    wrench: str | None = None


@dataclass(frozen=True, eq=False)
class Marker:
    """A point of a link tracked by motion capture; its position on the link is unknown.

    Attributes:
        name: Its label: its columns are ``marker.<name>.x`` to ``.z``.
        frame: A frame of the link that carries it.
        position: Prior mean of its position in that frame, shape (3,), m.
        deviation: Standard deviation of that prior, m.
    """

    name: str
    frame: str
    position: FloatArray = field(default_factory=lambda: np.zeros(3))
    deviation: float = np.inf

    def __post_init__(self) -> None:
        try:
            position = np.array(self.position, dtype=np.float64)
        except (TypeError, ValueError):
            position = np.empty(0)
        if position.shape != (3,) or not np.all(np.isfinite(position)):
            raise ModelError(
                f"the position of the marker {self.name!r} is {self.position!r}; give [x, y, z] in metres",
                names=[self.name],
            )
        position.setflags(write=False)
        object.__setattr__(self, "position", position)
        if not self.deviation > 0.0:
            raise ModelError(
                f"the deviation of the marker {self.name!r} is {self.deviation!r} m; give a positive number",
                names=[self.name],
            )


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
    """The contents of a setup file.

    Attributes:
        path: The file, or None for a model without one.
        model_file: The model as the setup names it: a path, or ``package://…``.
        base: "floating", "fixed", or None where the model file decides (a URDF floats).
        imus: Inertial sensors.
        wrench_sensors: Force and torque sensors.
        soles: Soles of the feet.
        markers: Markers of motion capture.
        torques_measured: Patterns of the joints whose torque is measured.
        mirror: Which links are mirror images, or None.
        volumes: By pattern of link, the box that holds its centre of mass: least and greatest corner in its joint
            frame, shape (2, 3), m.
        constraints: Constraints on the parameters, in order; see `steelyard.model.constraints`.
        locks: By pattern of joint, the position at which it is locked.
        recording: Names and units of recordings, where they are not Steelyard's.
        contents: The file as plain tables, to be stored with results.
    """

    path: Path | None = None
    model_file: str | None = None
    base: BaseKind | None = None
    imus: tuple[Imu, ...] = ()
    wrench_sensors: tuple[WrenchSensor, ...] = ()
    soles: tuple[Sole, ...] = ()
    markers: tuple[Marker, ...] = ()
    torques_measured: tuple[str, ...] = ()
    mirror: MirrorRule | None = None
    volumes: Mapping[str, FloatArray] = field(default_factory=dict)
    constraints: tuple[Constraint, ...] = ()
    locks: Mapping[str, float | tuple[float, ...]] = field(default_factory=dict)
    recording: RecordingMap = field(default_factory=RecordingMap)
    contents: Mapping[str, Any] = field(default_factory=dict)

    def error(self, message: str, *names: str) -> ModelError:
        """Return the error to raise, with the path of the file."""
        return ModelError(message, path=self.path, names=names)


def ready_setups() -> list[str]:
    """Return the names of the setups that come with Steelyard."""
    folder = resources.files("steelyard.setups")
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read_setup(source: str | Path) -> Setup:
    """Read a setup: one that comes with Steelyard, by its name, or a TOML file.

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
        raise ModelError(
            f"there is no such setup file; check the path, or make one: steelyard init robot.urdf -o {path.name}",
            path=path,
        ) from error
    except OSError as error:
        raise ModelError(f"the setup cannot be read ({error.strerror}); check its permissions", path=path) from error
    except UnicodeDecodeError as error:
        raise ModelError("the setup is not UTF-8 text; save it as UTF-8", path=path) from error
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"the TOML is broken: {error}", path=path) from error
    return parse_setup(contents, path)


def parse_setup(contents: Mapping[str, Any], path: Path | None = None) -> Setup:
    """Return the setup that the tables of a TOML file describe; see `read_setup`."""
    top = TomlTable(contents, "the setup", path)
    file, base = top.table("model").parse(
        lambda table: (table.text("file", None), table.choice("base", ("floating", "fixed"), None))
    )
    imus = tuple(table.parse(_imu) for table in top.tables("imu"))
    sensors = tuple(table.parse(_wrench_sensor) for table in top.tables("wrench_sensor"))
    known = [sensor.name for sensor in sensors]
    soles = tuple(table.parse(lambda each: _sole(each, known)) for table in top.tables("sole"))
    markers = tuple(table.parse(_marker) for table in top.tables("marker"))
    for kind, named in (("imu", imus), ("wrench_sensor", sensors), ("sole", soles), ("marker", markers)):
        names = [entry.name for entry in cast("Sequence[Imu]", named)]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise top.error(f"two [[{kind}]] are called {repeated[0]!r}; give each its own name", repeated[0])
    measured = top.table("torque").parse(lambda table: table.texts("measured", ()))
    volumes = top.table("volume")
    locks = top.table("lock")
    setup = Setup(
        path=path,
        model_file=file,
        base=base,
        imus=imus,
        wrench_sensors=sensors,
        soles=soles,
        markers=markers,
        torques_measured=measured,
        mirror=top.table("mirror").parse(_mirror) if "mirror" in contents else None,
        volumes={key: volumes.box(key) for key in volumes},
        constraints=parse_constraint_table(top.table("constraints")),
        locks={key: locks.position(key) for key in locks},
        recording=top.table("recording").parse(parse_recording_map),
        contents=contents,
    )
    top.finish()
    return setup


def _imu(table: TomlTable) -> Imu:
    return Imu(table.text("name"), table.text("frame"), table.number("delay", 0.0))


def _wrench_sensor(table: TomlTable) -> WrenchSensor:
    axes = table.text("axes", " ".join(WRENCH_AXES)).split()
    unknown = [axis for axis in axes if axis not in WRENCH_AXES]
    if unknown or not axes or len(set(axes)) < len(axes):
        raise table.error(f"'axes' is {' '.join(axes)!r}; write some of {' '.join(WRENCH_AXES)!r}", *unknown)
    return WrenchSensor(
        name=table.text("name"),
        frame=table.text("frame"),
        at=table.choice("at", ("ground", "joint"), "ground"),
        sign=table.choice("sign", ("on_robot", "on_environment"), "on_robot"),
        axes=tuple(axis for axis in WRENCH_AXES if axis in axes),
        delay=table.number("delay", 0.0),
    )


def _sole(table: TomlTable, sensors: Sequence[str]) -> Sole:
    vertices = table.array("vertices", (-1, 3), "a list of points [x, y, z]")
    if len(vertices) < 3 or np.linalg.matrix_rank(vertices - vertices.mean(axis=0), tol=1e-6) < 2:
        raise table.error("'vertices' must be at least three corners that are not on one line")
    wrench = table.text("wrench", None)
    if wrench is not None and wrench not in sensors:
        raise table.error(
            f"'wrench' is {wrench!r}, but no [[wrench_sensor]] has this name{did_you_mean(wrench, sensors)}"
        )
    return Sole(table.text("name"), table.text("frame"), vertices, wrench)


def _marker(table: TomlTable) -> Marker:
    position = table.array("position", (3,), "a point [x, y, z]", np.zeros(3))
    deviation = np.inf if table.value("deviation", None, "a number") is None else table.number("deviation")
    if not deviation > 0.0:
        raise table.error(f"'deviation' is {deviation:g}; write a positive number of metres", "deviation")
    return Marker(table.text("name"), table.text("frame"), position, deviation)


def _mirror(table: TomlTable) -> MirrorRule:
    plane = table.choice("plane", ("xy", "xz", "yz"), "xz")
    pairs = table.pairs("pairs")
    posture = table.table("posture")
    return MirrorRule(plane, pairs, {key: posture.number(key) for key in posture})
