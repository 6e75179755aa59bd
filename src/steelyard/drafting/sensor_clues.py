"""Sensors that a model file speaks of: by tags, by MuJoCo's sensors, and by names of frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from steelyard.drafting.words import ACCELEROMETER_WORDS, GYRO_WORDS, IMU_WORDS, speaks_of_wrench, words_of
from steelyard.model.mjcf import compile_mjcf
from steelyard.model.mjcf_file import MjcfFile
from steelyard.model.urdf import UrdfFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.model.description import Description
    from steelyard.model.xml_document import Element, XmlDocument

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
    """A sign of a sensor in a model file.

    Attributes:
        kind: What it measures; "feedback": the wrench at a joint, which a simulator is asked for.
        frame: The frame at which it sits; a name that the model has.
        source: Where the file speaks of it, in words.
        tagged: Whether the file says so by a tag, rather than by a name.
        sign: Of a wrench; see `WrenchSensor`.
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
        sensors: The signs.
        torques: Joints whose torque the file measures.
        lost: What the file says of sensors that cannot be placed, in words.
    """

    sensors: tuple[SensorClue, ...]
    torques: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def find_clues(description: Description) -> Clues:
    """Gives the signs of sensors in a model file, those by tags first."""
    file = description.file
    tagged = Clues(())
    if isinstance(file, UrdfFile):
        tagged = _urdf_clues(file.document, known_frames(description))
    elif isinstance(file, MjcfFile):
        tagged = _mjcf_clues(file.document, known_frames(description))
    return Clues((*tagged.sensors, *_named_clues(description)), tagged.torques, tagged.lost)


def known_frames(description: Description) -> list[str]:
    """Gives the names of frames that a setup may use: parts first, and none that stands for two places."""
    apart = {
        name
        for name, (part, placement) in description.frames.items()
        if name in description.parts and (part != name or not placement.isApprox(placement.Identity(), 1e-9))
    }
    return [name for name in dict.fromkeys((*description.parts, *description.frames)) if name not in apart]


def _urdf_clues(document: XmlDocument, frames: list[str]) -> Clues:
    clues: list[SensorClue] = []
    lost: list[str] = []
    for place, sensor, tag in _urdf_sensors(document):
        kind = sensor.attributes.get("type", "").lower()
        if kind not in ("imu", "force_torque"):
            continue
        if place not in frames:
            lost.append(f"{tag} of type {kind} refers to {place!r}, which the model does not have")
            continue
        words = f"{tag} of type {kind} at {place}"
        if kind == "imu":
            clues.append(SensorClue("imu", place, words))
        else:
            said = [_text(document, child) for child in sensor.walk() if child.tag == "measure_direction"]
            sign: Literal["on_robot", "on_environment"] = "on_environment" if "parent_to_child" in said else "on_robot"
            clues.append(SensorClue("wrench", place, words, sign=sign))
    for gazebo in document.root.find_all("gazebo"):
        clues += _plugin_clues(document, gazebo, frames)
        joint = gazebo.attributes.get("reference", "")
        asked = [_text(document, child) for child in gazebo.find_all("provideFeedback")]
        if joint in frames and {"1", "true"} & {word.lower() for word in asked}:
            clues.append(SensorClue("feedback", joint, f"<provideFeedback> for Gazebo at {joint}"))
    return Clues(tuple(clues), (), tuple(lost))


def _urdf_sensors(document: XmlDocument) -> Iterator[tuple[str, Element, str]]:
    """Gives each ``<sensor>`` with the link or joint at which it is."""
    for sensor in document.root.find_all("sensor"):
        parent = sensor.find("parent")
        attributes = {} if parent is None else parent.attributes
        yield attributes.get("joint", attributes.get("link", "")), sensor, "<sensor>"
    for gazebo in document.root.find_all("gazebo"):
        for sensor in gazebo.find_all("sensor"):
            yield gazebo.attributes.get("reference", ""), sensor, "Gazebo's <sensor>"


def _plugin_clues(document: XmlDocument, gazebo: Element, frames: list[str]) -> Iterator[SensorClue]:
    """Gives what older plugins of Gazebo name as inertial and wrench sensors."""
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
                # MuJoCo measures what the part above exerts on the part below.
                clues.append(SensorClue(_BY_MUJOCO[kind], site, words, sign="on_environment"))
            else:
                lost.append(f"the {_BY_MUJOCO[kind]} sensor {name} is at site {site!r}, which is not on the robot")
        else:
            torques += _measured_joint(mujoco, model, kind, at)
    return Clues(tuple(clues), tuple(dict.fromkeys(torques)), tuple(lost))


def _measured_joint(mujoco: Any, model: Any, kind: str, at: int) -> list[str]:
    """Gives the joint whose torque a sensor of MuJoCo measures, if it does."""
    if kind == "mjSENS_JOINTACTFRC":
        return [model.joint(at).name]
    if kind == "mjSENS_ACTUATORFRC" and int(model.actuator_trntype[at]) == int(mujoco.mjtTrn.mjTRN_JOINT):
        # A gear other than 1 makes the actuator's force another number than the joint's torque.
        gear = float(model.actuator_gear[at, 0])
        return [model.joint(int(model.actuator_trnid[at, 0])).name] if gear == 1.0 else []
    return []


def _named_clues(description: Description) -> Iterator[SensorClue]:
    """Gives frames that are called like sensors; of a link and the joints at it only the link."""
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
        elif speaks_of_wrench(frame):
            kind = "wrench"
        if kind is not None:
            called.add(part)
            yield SensorClue(kind, frame, f"the name {frame}", tagged=False)
