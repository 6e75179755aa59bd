"""ROS bags: ROS 1 files, ROS 2 folders and MCAP files read as recordings; bags of ROS 1 and 2 written from them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from steelyard.exceptions import RecordingError
from steelyard.recording.bags.mcap_file import scan_mcap
from steelyard.recording.bags.message_streams import MessageCollector
from steelyard.recording.bags.ros1_scan import CALLER, MAPPED_CALLER, scan_ros1
from steelyard.recording.bags.scan_log import complaint
from steelyard.recording.bags.topic_recording import build_recording
from steelyard.recording.bags.topic_writing import encode_messages, plan_topics
from steelyard.recording.bags.topics import ignored_topics
from steelyard.recording.file_errors import needing, unreadable, unwritable
from steelyard.recording.file_mark import MARK, describe_for_bag, parse_bag_mark
from steelyard.whole_file import draft_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rosbags.interfaces import Connection
    from rosbags.rosbag2 import Reader

    from steelyard.model import Setup
    from steelyard.recording.bags.message_streams import TopicReader
    from steelyard.recording.bags.topic_writing import OutgoingTopic
    from steelyard.recording.recording import Recording

METADATA = "metadata.yaml"

_MOST_METADATA_BYTES = 10_000_000
"""Bytes of a ``metadata.yaml`` at most. Set by judgement: real ones have a few kB, and parsing YAML is slow."""

_KNOWN_VERSION = 9
"""Newest version of ``metadata.yaml`` that rosbags reads."""


def read_bag(path: Path, kind: str, setup: Setup, clock: str | None = None) -> Recording:
    """Read a bag of ROS messages.

    Args:
        path: A file, or the folder of a ROS 2 bag with its ``metadata.yaml``.
        kind: "mcap", "ros1" or "ros2".
        setup: The robot's sensors, and which topics they publish.
        clock: "message" or "receive"; by default the setup's, else "message".

    Raises:
        RecordingError: It is no such bag, has no joint states, or it is ambiguous which topic is which sensor.
    """
    collector = MessageCollector(path.name, ignored_topics(setup))
    if kind == "mcap":
        scan_mcap(path, collector)
    elif kind == "ros1":
        scan_ros1(path, collector)
    elif path.is_dir():
        _scan_folder(path, collector)
    else:
        _scan_with_rosbags(path, collector)
    return build_recording(collector, setup, clock)


def _scan_folder(folder: Path, collector: MessageCollector) -> None:
    if not (folder / METADATA).exists():
        files = sorted(file for file in folder.iterdir() if file.suffix in {".mcap", ".db3"})
        if len(files) != 1:
            raise RecordingError(
                f"{folder.name} has no {METADATA}, and {len(files)} .mcap or .db3 files; make it a bag with: "
                "ros2 bag reindex"
            )
        collector.notes.append(
            f"the bag has no {METADATA}: it was not closed; its only file {files[0].name!r} was read"
        )
        scan = scan_mcap if files[0].suffix == ".mcap" else _scan_with_rosbags
        scan(files[0], collector)
        return
    information = _read_metadata(folder)
    mcap_files = _plain_mcap_files(folder, information)
    if mcap_files is None:
        _scan_with_rosbags(folder, collector, information.get("version"))
    else:
        for file in mcap_files:
            scan_mcap(file, collector)
    custom = information.get("custom_data")
    texts = custom if isinstance(custom, dict) else {}
    ours = {key.removeprefix(f"{MARK}."): text for key, text in texts.items() if str(key).startswith(f"{MARK}.")}
    collector.mark = parse_bag_mark(ours) if "mapped" in ours else None


def _plain_mcap_files(folder: Path, information: Mapping[str, Any]) -> list[Path] | None:
    """Return the files of a bag whose storage is MCAP without another compression around it, else None."""
    if information.get("storage_identifier") != "mcap" or information.get("compression_mode") not in {None, "", "none"}:
        return None
    names = information.get("relative_file_paths")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RecordingError(f"{folder.name}: {METADATA} does not list the bag's files; mend it with: ros2 bag reindex")
    # The first versions wrote paths from outside of the folder; nothing outside of it is read.
    files = [folder / Path(name).name for name in names]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise RecordingError(f"{folder.name}: the file {missing[0]!r} of the bag is not there; copy it there")
    return files


def _read_metadata(folder: Path) -> dict[str, Any]:
    with needing("rosbags", "reading ROS 2 bags"):
        from ruamel.yaml import YAML  # noqa: PLC0415 (an extra)
        from ruamel.yaml.error import YAMLError  # noqa: PLC0415
    try:
        with (folder / METADATA).open("rb") as file:
            text = file.read(_MOST_METADATA_BYTES + 1)
        contents = None if len(text) > _MOST_METADATA_BYTES else YAML(typ="safe").load(text.decode())
    except OSError as error:
        raise unreadable(f"{folder.name}: {METADATA}", error) from error
    except (YAMLError, UnicodeDecodeError, ValueError, TypeError, RecursionError) as error:
        raise RecordingError(f"{folder.name}: {METADATA} is broken; mend it with: ros2 bag reindex") from error
    information = contents.get("rosbag2_bagfile_information") if isinstance(contents, dict) else None
    if not isinstance(information, dict) or not _is_tree(information):
        raise RecordingError(f"{folder.name}: {METADATA} is not a ROS 2 bag's; mend it with: ros2 bag reindex")
    return information


def _is_tree(contents: Any) -> bool:
    """Return whether no part occurs twice, as YAML's aliases make it: a few of them can expand without end."""
    waiting, seen = [contents], set()  # addresses are unique here: `contents` holds every part of it
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict | list):
            continue
        if id(part) in seen:
            return False
        seen.add(id(part))
        waiting += part.values() if isinstance(part, dict) else part
    return True


def _scan_with_rosbags(path: Path, collector: MessageCollector, version: object = None) -> None:
    """Pass all messages of a ROS 2 bag to a collector, in the order of their receipt.

    Args:
        path: The folder, or one ``.db3`` file.
        collector: Receives them.
        version: Version of the folder's ``metadata.yaml``.
    """
    with needing("rosbags", "reading ROS 2 bags"):
        from rosbags.rosbag2 import Reader  # noqa: PLC0415 (an extra)
    try:
        reader = Reader(path)
        reader.open()
    except _rosbags_errors() as error:
        if isinstance(version, int) and version > _KNOWN_VERSION:
            raise RecordingError(
                f"{collector.name}: {METADATA} is of version {version}, and versions up to {_KNOWN_VERSION} are known; "
                "install a newer rosbags, or write the bag as MCAP with: ros2 bag convert"
            ) from error
        raise _unreadable(collector.name, error) from error
    try:
        readers: dict[int, TopicReader] = {}
        for connection in reader.connections:
            extension: Any = connection.ext
            taken = collector.open_topic(
                str(connection.topic), str(connection.msgtype), str(extension.serialization_format)
            )
            if taken is not None:
                readers[connection.id] = taken
        wanted = [connection for connection in reader.connections if connection.id in readers]
        for connection, received, contents in _messages(reader, wanted, collector.name):
            if isinstance(received, int) and isinstance(contents, bytes):
                readers[connection.id].add(received, contents)
            else:
                readers[connection.id].drop("its time or its contents are of another type")
    finally:
        reader.close()


def _messages(reader: Reader, wanted: Sequence[Connection], name: str) -> Iterator[tuple[Connection, Any, Any]]:
    """Yield the messages of some topics; an error inside of rosbags becomes a RecordingError."""
    if not wanted:
        return
    messages = reader.messages(wanted)
    while True:
        try:
            message = next(messages, None)
        except _rosbags_errors() as error:
            raise _unreadable(name, error) from error
        if message is None:
            return
        yield message


def _rosbags_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that rosbags raises for an invalid bag."""
    import apsw  # noqa: PLC0415 (an extra)
    from rosbags.rosbag2 import ReaderError  # noqa: PLC0415

    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdError  # noqa: PLC0415
    else:
        from backports.zstd import ZstdError  # noqa: PLC0415

    return (
        ReaderError, apsw.Error, ZstdError, AssertionError, AttributeError, EOFError, LookupError, OSError,
        OverflowError, RecursionError, TypeError, ValueError,
    )  # fmt: skip


def _unreadable(name: str, error: Exception) -> RecordingError:
    return RecordingError(f"{name} cannot be read as a ROS 2 bag ({complaint(error)}); mend it with: ros2 bag reindex")


def write_ros1(recording: Recording, path: Path) -> None:
    """Write a recording as a ROS 1 bag.

    Raises:
        RecordingError: A column fits no message, or rosbags refuses the file.
        OSError: The file cannot be written.
    """
    with needing("rosbags", "writing .bag files"):
        from rosbags.rosbag1 import Writer, WriterError  # noqa: PLC0415 (an extra)
        from rosbags.typesys import Stores, get_typestore  # noqa: PLC0415
    topics = plan_topics(recording)
    types = get_typestore(Stores.ROS1_NOETIC)
    try:
        with Writer(path) as writer:
            caller = MAPPED_CALLER if recording.mapped else CALLER
            connections = [
                writer.add_connection(topic.name, topic.ros2_type, typestore=types, callerid=caller) for topic in topics
            ]
            for message in encode_messages(recording, topics, "ros1"):
                writer.write(connections[message.topic], message.stamp, message.contents)
    except WriterError as error:
        raise RecordingError(f"{path.name} cannot be written ({error})") from error


def write_ros2(recording: Recording, folder: Path, *, storage: Literal["mcap", "sqlite3"] = "mcap") -> None:
    """Write a recording as a ROS 2 bag: a folder, which must not exist yet.

    Args:
        recording: The recording.
        folder: The folder to make; it appears when all is written.
        storage: Storage of the messages; MCAP is the default of ROS 2 since Iron.

    Raises:
        RecordingError: A column fits no message, or the folder exists or cannot be written.
    """
    topics = plan_topics(recording)
    if folder.exists():
        raise RecordingError(
            f"{folder.name} exists already; ROS 2 bags are not overwritten: remove it, or choose another name"
        )
    try:
        with draft_folder(folder.parent) as temporary:
            # rosbags names the file of messages after the folder in which it is first written.
            draft = temporary / "recording"
            _fill_ros2(recording, topics, draft, storage)
            draft.rename(folder)
    except OSError as error:
        raise unwritable(folder.name, error) from error


def _fill_ros2(recording: Recording, topics: Sequence[OutgoingTopic], folder: Path, storage: str) -> None:
    with needing("rosbags", "writing ROS 2 bags"):
        from rosbags.rosbag2 import StoragePlugin, Writer, WriterError  # noqa: PLC0415 (an extra)
        from rosbags.typesys import Stores, get_typestore  # noqa: PLC0415
    types = get_typestore(Stores.ROS2_HUMBLE)
    try:
        with Writer(folder, version=8, storage_plugin=StoragePlugin[storage.upper()]) as writer:
            for key, value in describe_for_bag(recording).items():
                writer.set_custom_data(f"{MARK}.{key}", value)
            connections = [writer.add_connection(topic.name, topic.ros2_type, typestore=types) for topic in topics]
            for message in encode_messages(recording, topics, "cdr"):
                writer.write(connections[message.topic], message.stamp, message.contents)
    except WriterError as error:
        raise RecordingError(f"{folder.name} cannot be written ({error})") from error
