"""Which topic of a bag belongs to which sensor."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from steelyard.exceptions import RecordingError
from steelyard.recording.bags.message_streams import with_slash
from steelyard.recording.bags.ros_messages import ROS_TYPES, kind_of
from steelyard.recording.column_names import BASE, JOINT_QUANTITIES
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.model import Imu, Setup, WrenchSensor
    from steelyard.recording.bags.message_streams import MessageStream
    from steelyard.recording.bags.ros_messages import Kind

Role = Literal["joints", "commands", "sensor", "base"]

IGNORE = "ignore"

_COMMAND_WORDS = ("command", "cmd", "desired", "reference", "target", "setpoint")
_TYPE_WORDS = frozenset(("imu", "wrench", "ft", "force", "torque", "sensor", "data", "raw", "stamped"))
_SENSOR_TABLES: dict[Kind, str] = {"imu": "[[imu]]", "wrench": "[[wrench_sensor]]"}


@dataclass(frozen=True, eq=False)
class AssignedStream:
    """A stream whose columns have Steelyard's names.

    Attributes:
        stream: The stream.
        role: What it is.
        sources: By name of a column, the stream's column that it is.
    """

    stream: MessageStream
    role: Role
    sources: Mapping[str, str]


def ignored_topics(setup: Setup) -> tuple[str, ...]:
    """Return the topics that the setup ignores."""
    return tuple(with_slash(topic) for topic, target in setup.recording.topics.items() if target == IGNORE)


def assign_topics(
    name: str, streams: Sequence[MessageStream], types: Mapping[str, str], setup: Setup
) -> tuple[list[AssignedStream], list[str]]:
    """Assign each stream to a sensor, and return notes on those without one.

    Args:
        name: What is being read, for messages.
        streams: The streams of the bag.
        types: Its topics and their types.
        setup: What the robot has, and which topic is which, where the setup says so.

    Raises:
        RecordingError: The setup names what is not there, or two topics say the same.
    """
    chosen = _read_choices(name, types, setup)
    notes: list[str] = []
    assigned: list[AssignedStream] = []
    for stream in streams:
        if stream.kind == "joints":
            role = chosen.get(stream.topic) or ("commands" if _is_command(stream.topic) else "joints")
            assigned.append(_assign_joints(stream, role))
    for kind in _SENSOR_TABLES:
        of_kind = [stream for stream in streams if stream.kind == kind]
        found, more = _find_sensors(name, kind, of_kind, setup, chosen)
        assigned += [_assign_sensor(stream, sensor, setup) for stream, sensor in found]
        notes += more
    found, more = _find_base(name, [stream for stream in streams if stream.kind == "odometry"], chosen)
    assigned += [
        AssignedStream(stream, "base", {f"{BASE}.{column}": column for column in stream.measured})
        for stream, _ in found
    ]
    notes += more
    _check_columns(name, assigned)
    return [each for each in assigned if each.sources], notes


def _read_choices(name: str, types: Mapping[str, str], setup: Setup) -> dict[str, str]:
    """Return what the setup assigns to the topics in the bag; raise an error if it is impossible."""
    chosen: dict[str, str] = {}
    for written, target in setup.recording.topics.items():
        topic = with_slash(written)
        if target == IGNORE:
            continue
        if topic not in types:
            raise RecordingError(
                f"{name} has no topic {topic!r}, named in [recording.topics]{did_you_mean(topic, types)}"
            )
        kind = kind_of(types[topic])
        if kind is None:
            raise RecordingError(
                f"{name}: [recording.topics] says that {topic!r} is {target!r}, but its type {types[topic]!r} cannot "
                f"be read; there are {in_words(list(ROS_TYPES))}"
            )
        allowed = _targets(kind, setup)
        if allowed is not None and target not in allowed:
            raise RecordingError(
                f"{name}: [recording.topics] says that {topic!r} ({types[topic]}) is {target!r}, which is not of its "
                f"kind{did_you_mean(target, (*allowed, IGNORE))}"
            )
        chosen[topic] = target
    return chosen


def _targets(kind: Kind, setup: Setup) -> tuple[str, ...] | None:
    """Return what a topic can be assigned to, or None for any name."""
    if kind == "joints":
        return ("joints", "commands")
    if kind == "odometry":
        return ("base",)
    return tuple(sensor.name for sensor in _sensors(kind, setup)) if _has_sensors(setup) else None


def _has_sensors(setup: Setup) -> bool:
    return bool(setup.imus or setup.wrench_sensors)


def _sensors(kind: Kind, setup: Setup) -> tuple[Imu, ...] | tuple[WrenchSensor, ...]:
    return setup.imus if kind == "imu" else setup.wrench_sensors


def _is_command(topic: str) -> bool:
    """Return whether a topic commands joints rather than measuring them."""
    last = "/".join(topic.casefold().split("/")[-2:])
    return any(word in last for word in _COMMAND_WORDS)


def _assign_joints(stream: MessageStream, role: str) -> AssignedStream:
    if role == "joints":
        return AssignedStream(stream, "joints", {column: column for column in stream.measured})
    positions = [column for column in stream.measured if column.startswith("q.")]
    return AssignedStream(stream, "commands", {f"q_command.{column[2:]}": column for column in positions})


def _assign_sensor(stream: MessageStream, sensor: str, setup: Setup) -> AssignedStream:
    columns = stream.measured
    if stream.kind == "wrench":
        # A message has six numbers, whatever the sensor measures.
        axes = {each.name: each.axes for each in setup.wrench_sensors}.get(sensor, columns)
        columns = tuple(column for column in columns if column in axes)
    return AssignedStream(stream, "sensor", {f"{sensor}.{column}": column for column in columns})


def _find_sensors(
    name: str, kind: Kind, streams: Sequence[MessageStream], setup: Setup, chosen: Mapping[str, str]
) -> tuple[list[tuple[MessageStream, str]], list[str]]:
    """Return the sensor of each stream that has one, and notes on those that have none."""
    if not streams:
        return [], []
    groups = _group_by_frame(streams)
    sensors = _sensors(kind, setup)
    frames = {sensor.name: sensor.frame for sensor in sensors}
    notes: list[str] = []
    told: dict[str, list[MessageStream]] = {}
    for stream in groups:
        if stream.topic in chosen:
            told.setdefault(stream.topic, []).append(stream)
    found = [
        (_choose_frame(name, several, chosen[topic], frames, notes), chosen[topic]) for topic, several in told.items()
    ]
    free = [stream for stream in groups if stream.topic not in chosen]
    if not _has_sensors(setup):
        found += _name_after_topics(kind, free, [sensor for _, sensor in found])
        return [(member, sensor) for stream, sensor in found for member in groups[stream]], notes
    taken = {sensor for _, sensor in found}
    left: list[MessageStream] = []
    claims: dict[str, list[MessageStream]] = {}
    for stream in free:
        sensor = _matching_sensor(stream, sensors)
        if sensor is None or sensor in taken:
            left.append(stream)
        else:
            claims.setdefault(sensor, []).append(stream)
    if len(left) == len(groups) == len(sensors) == 1:
        stream, sensor = left.pop(), sensors[0].name
        claims[sensor] = [stream]
        notes.append(
            f"{stream.topic!r} was taken for {sensor!r}, the only one of its kind, although its frame is "
            f"{stream.frame!r} and not {sensors[0].frame!r}"
        )
    if left:
        notes.append(
            f"{in_words([_label(stream) for stream in left])} {'was' if len(left) == 1 else 'were'} left out: no "
            f"{_SENSOR_TABLES[kind]} of the setup has that frame, or its name in the topic; say what it is in "
            "[recording.topics]"
        )
    for sensor, several in claims.items():
        other = next((stream for stream in several if stream.topic != several[0].topic), None)
        if other is not None:
            raise RecordingError(
                f"{name}: {_label(several[0])} and {_label(other)} both seem to be the sensor {sensor!r}; choose one "
                f'in [recording.topics] of the setup, such as {other.topic!r} = "{IGNORE}"'
            )
        found.append((_choose_frame(name, several, sensor, frames, notes), sensor))
    found.sort(key=lambda pair: list(frames).index(pair[1]))
    return [(member, sensor) for stream, sensor in found for member in groups[stream]], notes


def _group_by_frame(streams: Sequence[MessageStream]) -> dict[MessageStream, list[MessageStream]]:
    """Group the streams of one sensor: one topic, and frames that are equal but for a prefix, or empty.

    The key of a group is the stream with the longest frame.
    """
    groups: dict[MessageStream, list[MessageStream]] = {}
    for stream in sorted(streams, key=lambda each: -len(_places(each.frame))):
        like = [other for other in groups if other.topic == stream.topic and _is_same_frame(stream.frame, other.frame)]
        # A frame that could be either of two is neither.
        groups.setdefault(like[0] if len(like) == 1 else stream, []).append(stream)
    return {stream: groups[stream] for stream in streams if stream in groups}


def _places(frame: str) -> list[str]:
    return [place for place in frame.split("/") if place]


def _is_same_frame(first: str, second: str) -> bool:
    """Return whether two frames differ at most by a prefix ("robot/foot"), or one of them is empty."""
    shorter, longer = sorted((_places(first), _places(second)), key=len)
    return longer[len(longer) - len(shorter) :] == shorter


def _choose_frame(
    name: str, streams: Sequence[MessageStream], sensor: str, frames: Mapping[str, str], notes: list[str]
) -> MessageStream:
    """Return the stream of a topic that is a sensor's; add a note if there are others, in other frames.

    Raises:
        RecordingError: None of them, or several, are in the sensor's frame.
    """
    if len(streams) == 1:
        return streams[0]
    topic = streams[0].topic
    # Steelyard's own files have the sensor's name for a frame.
    wanted = [each for each in (frames.get(sensor), sensor) if each]
    fitting = [
        stream for stream in streams if stream.frame and any(_is_same_frame(stream.frame, each) for each in wanted)
    ]
    names = in_words([repr(stream.frame) for stream in streams])
    if len(fitting) != 1:
        raise RecordingError(
            f"{name}: the messages of {topic!r} have several frames ({names}), and it is not clear which of them is "
            f"the sensor {sensor!r}; give it that frame in the setup"
        )
    others = in_words([repr(stream.frame) for stream in streams if stream is not fitting[0]])
    notes.append(f"messages of {topic!r} with the frame {others} were left out: {sensor!r} is in {fitting[0].frame!r}")
    return fitting[0]


def _label(stream: MessageStream) -> str:
    return f"{stream.topic!r} (frame {stream.frame!r})"


def _matching_sensor(stream: MessageStream, sensors: Sequence[Imu | WrenchSensor]) -> str | None:
    """Return the sensor that a stream matches: by its frame, else by its topic."""
    frame = stream.frame.lstrip("/")
    words = _words(stream.topic)
    in_topic = [sensor for sensor in sensors if _holds(words, _words(sensor.name))]
    ways = (
        # Steelyard's own files: the sensor's name in both places.
        [sensor for sensor in in_topic if sensor.name == stream.frame],
        [sensor for sensor in sensors if sensor.frame.lstrip("/") == frame],
        [sensor for sensor in sensors if sensor.frame.rpartition("/")[2] == frame.rpartition("/")[2]],
        # "left_foot" rather than "foot", where the topic has both.
        [sensor for sensor in in_topic if len(_words(sensor.name)) == max(len(_words(each.name)) for each in in_topic)],
    )
    for sensors_found in ways:
        if len(sensors_found) == 1:
            return sensors_found[0].name
    return None


def _words(text: str) -> list[str]:
    """Split a topic or a name into words: "/leftFoot/ft_1" is left, foot, ft, 1."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    return [word.casefold() for word in re.split(r"[\W_]+", apart) if word]


def _holds(words: Sequence[str], part: Sequence[str]) -> bool:
    """Return whether some words occur among others, consecutively and in order."""
    size = len(part)
    return size > 0 and any(list(words[start : start + size]) == list(part) for start in range(len(words) - size + 1))


def _name_after_topics(
    kind: Kind, streams: Sequence[MessageStream], taken: Sequence[str]
) -> list[tuple[MessageStream, str]]:
    """Name each stream where no setup names sensors: after its topic, without the word for its type."""
    used = {*taken, *JOINT_QUANTITIES, BASE}
    result = []
    for stream in streams:
        whole = [place for place in stream.topic.split("/") if place]
        places = list(whole) or [kind]
        while len(places) > 1 and set(_words(places[-1])) <= _TYPE_WORDS:
            places.pop()
        last = places[-1]
        short = "_".join(word for word in last.split("_") if word.casefold() not in _TYPE_WORDS) or last
        # A frame that is the topic without its last place is the name under which Steelyard wrote the sensor.
        written = [stream.frame] if stream.frame and stream.frame == "/".join(whole[:-1]) else []
        framed = [f"{short}_{stream.frame}"] if stream.frame else []
        numbered = (f"{short}_{number}" for number in range(2, len(used) + 3))
        candidates = (*written, short, "_".join(places), "_".join(whole or places), *framed, *numbered)
        sensor = next(each for each in candidates if each not in used)
        used.add(sensor)
        result.append((stream, sensor))
    return result


def _find_base(
    name: str, streams: Sequence[MessageStream], chosen: Mapping[str, str]
) -> tuple[list[tuple[MessageStream, str]], list[str]]:
    """Return the stream that is the base's pose."""
    found = [(stream, BASE) for stream in streams if stream.topic in chosen]
    free = [stream for stream in streams if stream.topic not in chosen]
    if found:
        topics = [repr(stream.topic) for stream in free]
        return found, [f"{in_words(topics)} {'was' if len(topics) == 1 else 'were'} left out"] if topics else []
    if len(free) > 1:
        raise RecordingError(
            f"{name}: {in_words([repr(stream.topic) for stream in free])} are all odometry; choose the base's in "
            f'[recording.topics] of the setup, such as {free[0].topic!r} = "base"'
        )
    return [(stream, BASE) for stream in free], []


def _check_columns(name: str, assigned: Sequence[AssignedStream]) -> None:
    """Raise an error if two topics give the same column."""
    topics: dict[str, str] = {}
    for each in assigned:
        topic = each.stream.topic
        shared = [column for column in each.sources if topics.get(column, topic) != topic]
        if shared:
            more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
            raise RecordingError(
                f"{name}: {topics[shared[0]]!r} and {topic!r} both give {shared[0]!r}{more}; choose one in "
                f'[recording.topics] of the setup, such as {topic!r} = "{IGNORE}"',
                column=shared[0],
            )
        topics |= dict.fromkeys(each.sources, topic)
