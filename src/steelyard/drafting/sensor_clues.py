"""Signs of sensors in a model file: tags, MuJoCo's sensors, and names of frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from steelyard.drafting.words import ACCELEROMETER_WORDS, GYRO_WORDS, IMU_WORDS, mentions_wrench, words_of
from steelyard.model import MjcfFile, UrdfFile, compile_mjcf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.model import Description, Element, XmlDocument

ClueKind = Literal["imu", "accelerometer", "gyro", "wrench", "force", "torque", "feedback"]

_BY_MUJOCO: dict[str, ClueKind] = {
    "mjSENS_ACCELEROMETER": "accelerometer",
    "mjSENS_GYRO": "gyro",
    "mjSENS_FORCE": "force",
    "mjSENS_TORQUE": "torque",
}
_NOT_FRAMES_OF_SENSORS = frozenset({"tool", "optical", "camera", "mount", "screw", "cover", "board"})


@dataclass(frozen=True)
class SensorClue:
    """Sign of a sensor in a model file.

    Attributes:
        kind: Measured quantity; "feedback" is a joint wrench requested from a simulator.
        frame: Frame of the model where it is mounted.
        source: Evidence in the file, in words.
        tagged: Whether a tag, not only a name, declares it.
        sign: Sign of a wrench; see `WrenchSensor`.
    """

    kind: ClueKind
    frame: str
    source: str
    tagged: bool = True
    sign: Literal["on_robot", "on_environment"] = "on_robot"


@dataclass(frozen=True)
class Clues:
    """All signs of sensors in a model file.

    Attributes:
        sensors: Signs of inertial and wrench sensors.
        torques: Joints with a torque sensor.
        lost: Sensors of the file that cannot be located, a phrase each.
    """

    sensors: tuple[SensorClue, ...]
    torques: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def find_clues(description: Description) -> Clues:
    """Return the signs of sensors in a model file, tags before names."""
    file = description.file
    tagged = Clues(())
    if isinstance(file, UrdfFile):
        tagged = _urdf_clues(file.document, known_frames(description))
    elif isinstance(file, MjcfFile):
        tagged = _mjcf_clues(file.document, known_frames(description))
    return Clues((*tagged.sensors, *_named_clues(description)), tagged.torques, tagged.lost)


def known_frames(description: Description) -> list[str]:
    """Return the frame names that a setup may use: parts first, ambiguous names excluded."""
    ambiguous = {
        name
        for name, (part, placement) in description.frames.items()
        if name in description.parts and (part != name or not placement.isApprox(placement.Identity(), 1e-9))
    }
    return [name for name in dict.fromkeys((*description.parts, *description.frames)) if name not in ambiguous]


def _urdf_clues(document: XmlDocument, frames: list[str]) -> Clues:
    clues: list[SensorClue] = []
    lost: list[str] = []
    for frame, sensor, tag in _urdf_sensors(document):
        kind = sensor.attributes.get("type", "").lower()
        if kind not in ("imu", "force_torque"):
            continue
        if frame not in frames:
            lost.append(f"{tag} of type {kind} refers to {frame!r}, which is not in the model")
            continue
        words = f"{tag} of type {kind} at {frame}"
        if kind == "imu":
            clues.append(SensorClue("imu", frame, words))
        else:
            directions = [_text(document, child) for child in sensor.walk() if child.tag == "measure_direction"]
            sign: Literal["on_robot", "on_environment"] = (
                "on_environment" if "parent_to_child" in directions else "on_robot"
            )
            clues.append(SensorClue("wrench", frame, words, sign=sign))
    for gazebo in document.root.find_all("gazebo"):
        clues += _plugin_clues(document, gazebo, frames)
        joint = gazebo.attributes.get("reference", "")
        requested = [_text(document, child) for child in gazebo.find_all("provideFeedback")]
        if joint in frames and {"1", "true"} & {word.lower() for word in requested}:
            clues.append(SensorClue("feedback", joint, f"<provideFeedback> for Gazebo at {joint}"))
    return Clues(tuple(clues), (), tuple(lost))


def _urdf_sensors(document: XmlDocument) -> Iterator[tuple[str, Element, str]]:
    """Yield each ``<sensor>`` with its link or joint, and the tag in words."""
    for sensor in document.root.find_all("sensor"):
        parent = sensor.find("parent")
        attributes = {} if parent is None else parent.attributes
        yield attributes.get("joint", attributes.get("link", "")), sensor, "<sensor>"
    for gazebo in document.root.find_all("gazebo"):
        for sensor in gazebo.find_all("sensor"):
            yield gazebo.attributes.get("reference", ""), sensor, "Gazebo's <sensor>"


def _plugin_clues(document: XmlDocument, gazebo: Element, frames: list[str]) -> Iterator[SensorClue]:
    """Yield the inertial and wrench sensors that older Gazebo plugins declare."""
    for plugin in gazebo.walk():
        library = words_of(plugin.attributes.get("filename", plugin.attributes.get("plugin", "")))
        texts = {child.tag: _text(document, child).split("::")[-1] for child in plugin.children}
        if "imu" in library and texts.get("bodyName") in frames:
            yield SensorClue("imu", texts["bodyName"], f"Gazebo's plugin for an IMU at {texts['bodyName']}")
        if "ft" in library and texts.get("jointName") in frames:
            yield SensorClue("wrench", texts["jointName"], f"Gazebo's plugin for a wrench at {texts['jointName']}")


def _text(document: XmlDocument, element: Element) -> str:
    return document.inner(element).decode("utf-8", errors="replace").strip()


def _mjcf_clues(document: XmlDocument, frames: list[str]) -> Clues:
    import mujoco  # noqa: PLC0415  (an extra; what was read as MJCF has it)

    _, model = compile_mjcf(document)
    clues: list[SensorClue] = []
    torques: list[str] = []
    lost: list[str] = []
    for index in range(model.nsensor):
        kind = mujoco.mjtSensor(int(model.sensor_type[index])).name
        name = model.sensor(index).name or f"number {index + 1}"
        at = int(model.sensor_objid[index])
        if kind in _BY_MUJOCO:
            site = model.site(at).name
            if site in frames:
                words = f"the {_BY_MUJOCO[kind]} sensor {name} at site {site}"
                # MuJoCo measures the wrench of the parent on the child.
                clues.append(SensorClue(_BY_MUJOCO[kind], site, words, sign="on_environment"))
            else:
                lost.append(f"the {_BY_MUJOCO[kind]} sensor {name} is at site {site!r}, which is not on the robot")
        else:
            torques += _measured_joint(mujoco, model, kind, at)
    return Clues(tuple(clues), tuple(dict.fromkeys(torques)), tuple(lost))


def _measured_joint(mujoco: Any, model: Any, kind: str, at: int) -> list[str]:
    """Return the joint whose torque a MuJoCo sensor measures, if any."""
    if kind == "mjSENS_JOINTACTFRC":
        return [model.joint(at).name]
    if kind == "mjSENS_ACTUATORFRC" and int(model.actuator_trntype[at]) == int(mujoco.mjtTrn.mjTRN_JOINT):
        # With a gear other than 1 the actuator's force is not the joint's torque.
        gear = float(model.actuator_gear[at, 0])
        return [model.joint(int(model.actuator_trnid[at, 0])).name] if gear == 1.0 else []
    return []


def _named_clues(description: Description) -> Iterator[SensorClue]:
    """Yield frames named like sensors; of a link and the joints at it only the link."""
    called: set[str] = set()
    parents = {connection.joint.name: connection.parent for connection in description.connections}
    for frame in known_frames(description):
        words = {*words_of(frame)}
        part = frame if frame in description.parts else description.frames[frame][0]
        beside = set() if frame in description.parts else {part, parents.get(frame, part)}
        if words & _NOT_FRAMES_OF_SENSORS or beside & called:
            continue
        kind: ClueKind | None = None
        if words & IMU_WORDS:
            only = words & (ACCELEROMETER_WORDS | GYRO_WORDS)
            kind = "imu" if "imu" in words or not only else "gyro" if words & GYRO_WORDS else "accelerometer"
        elif mentions_wrench(frame):
            kind = "wrench"
        if kind is not None:
            called.add(part)
            yield SensorClue(kind, frame, f"the name {frame}", tagged=False)
