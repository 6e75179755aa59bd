"""MCAP files: read from front to back, complete or truncated, and written."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO

from steelyard.exceptions import RecordingError
from steelyard.recording.bags.scan_log import ScanLog, complaint
from steelyard.recording.bags.topic_writing import encode_messages, plan_topics
from steelyard.recording.bags.unpacking import MOST_CHUNK_BYTES, DamagedChunkError, decompress
from steelyard.recording.file_errors import needing, unreadable
from steelyard.recording.file_mark import MARK, describe_for_bag, parse_bag_mark

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.recording.bags.message_streams import MessageCollector, TopicReader
    from steelyard.recording.recording import Recording

MAGIC = b"\x89MCAP0\r\n"

_RECORD = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<HIQQ")
_SCHEMA, _CHANNEL, _MESSAGE_RECORD, _CHUNK, _METADATA, _DATA_END = 0x03, 0x04, 0x05, 0x06, 0x0C, 0x0F
_MOST_MARK_BYTES = 10_000
"""Bytes of a metadata record at most that may be Steelyard's mark, which has about 120; other tools' may be large."""

_COMPRESSIONS = {"": "none", "zstd": "zstd", "lz4": "lz4"}


def scan_mcap(path: Path, collector: MessageCollector) -> None:
    """Pass all messages of an MCAP file, of ROS 1 or ROS 2, to a collector, in the order of the file.

    The summary at its end is not needed: a truncated file is read as far as it goes.

    Raises:
        RecordingError: It is no MCAP file, or cannot be opened.
    """
    with needing("mcap", "reading .mcap files"):
        import mcap.records  # noqa: F401, PLC0415 (an extra)
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise RecordingError(
                    f"{collector.name} is no MCAP file: its first bytes are wrong; copy it again, or correct its ending"
                )
            scan = _Scan(file, collector)
            notes = scan.run()
    except OSError as error:
        raise unreadable(collector.name, error) from error
    collector.mark = parse_bag_mark(scan.mark) if scan.mark is not None else None
    # A bag may consist of several files.
    collector.notes += notes if path.name == collector.name else [f"{path.name!r}: {note}" for note in notes]


class _Scan:
    """One pass through an MCAP file."""

    def __init__(self, file: BinaryIO, collector: MessageCollector) -> None:
        self._file = file
        self._collector = collector
        self._types: dict[int, str] = {}
        self._readers: dict[int, TopicReader | None] = {}
        self._log = ScanLog()
        self.mark: dict[str, str] | None = None

    def run(self) -> list[str]:
        """Read the whole file, and return notes on what was damaged."""
        size = self._file.seek(0, 2)
        place = self._file.seek(len(MAGIC))
        cut_off: str | None = "it has no end"
        while len(head := self._file.read(_RECORD.size)) == _RECORD.size:
            kind, length = _RECORD.unpack(head)
            place += _RECORD.size
            if kind == _DATA_END:
                cut_off = None
                break
            if length > size - place:
                break
            place += length
            if kind in {_SCHEMA, _CHANNEL, _MESSAGE_RECORD, _CHUNK} or (
                kind == _METADATA and length <= _MOST_MARK_BYTES
            ):
                if length > MOST_CHUNK_BYTES:
                    self._log.note_damage(f"a record of {length} bytes is too large")
                    self._file.seek(place)
                else:
                    self._read_record(kind, self._file.read(length))
            else:
                self._file.seek(place)
        return self._log.notes(cut_off)

    def _read_record(self, kind: int, contents: bytes) -> None:
        try:
            if kind == _CHUNK:
                self._read_chunk(contents)
            elif kind == _METADATA:
                self._read_mark(contents)
            else:
                self._read_small_record(kind, contents, 0, len(contents))
        except _record_errors() as error:
            self._log.note_damage(complaint(error) if str(error) else "a record ends too early")

    def _read_mark(self, contents: bytes) -> None:
        from mcap.data_stream import ReadDataStream  # noqa: PLC0415 (an extra)
        from mcap.records import Metadata  # noqa: PLC0415

        record = Metadata.read(ReadDataStream(BytesIO(contents)))
        if record.name == MARK:
            self.mark = record.metadata

    def _read_chunk(self, contents: bytes) -> None:
        from mcap.data_stream import ReadDataStream  # noqa: PLC0415 (an extra)
        from mcap.records import Chunk  # noqa: PLC0415

        chunk = Chunk.read(ReadDataStream(BytesIO(contents)))
        compression = _COMPRESSIONS.get(chunk.compression, chunk.compression)
        records = decompress(chunk.data, compression, chunk.uncompressed_size)
        if chunk.uncompressed_crc and zlib.crc32(records) != chunk.uncompressed_crc:
            raise DamagedChunkError("the checksum of a chunk is wrong")
        place, size = 0, len(records)
        while place + _RECORD.size <= size:
            kind, length = _RECORD.unpack_from(records, place)
            place += _RECORD.size
            if length > size - place:
                raise DamagedChunkError("a record goes on after the end of its chunk")
            self._read_small_record(kind, records, place, place + length)
            place += length

    def _read_small_record(self, kind: int, records: bytes, start: int, stop: int) -> None:
        if kind == _MESSAGE_RECORD:
            if stop - start < _MESSAGE.size:
                raise DamagedChunkError("a message ends too early")
            channel, _, received, _ = _MESSAGE.unpack_from(records, start)
            self._log.note_message(received, known=channel in self._readers)
            if (reader := self._readers.get(channel)) is not None:
                reader.add(received, records[start + _MESSAGE.size : stop])
        elif kind in {_SCHEMA, _CHANNEL}:
            self._read_definition(kind, records[start:stop])

    def _read_definition(self, kind: int, contents: bytes) -> None:
        from mcap.data_stream import ReadDataStream  # noqa: PLC0415 (an extra)
        from mcap.records import Channel, Schema  # noqa: PLC0415

        stream = ReadDataStream(BytesIO(contents))
        if kind == _SCHEMA:
            schema = Schema.read(stream)
            self._types[schema.id] = schema.name
            return
        channel = Channel.read(stream)
        if channel.id not in self._readers:
            type_name = self._types.get(channel.schema_id, "a type that is not named")
            self._readers[channel.id] = self._collector.open_topic(channel.topic, type_name, channel.message_encoding)


def _record_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that mcap raises for an invalid record."""
    from mcap.exceptions import McapError  # noqa: PLC0415 (an extra)

    return (DamagedChunkError, McapError, OverflowError, struct.error, UnicodeDecodeError)


def write_mcap(recording: Recording, path: Path) -> None:
    """Write a recording as a compressed MCAP file of ROS 2 messages.

    Raises:
        RecordingError: A column fits no message.
        OSError: The file cannot be written.
    """
    with needing("mcap", "writing .mcap files"):
        from mcap.writer import Writer  # noqa: PLC0415 (an extra)
    with needing("rosbags", "writing .mcap files"):
        from rosbags.typesys import Stores, get_typestore  # noqa: PLC0415
    topics = plan_topics(recording)
    types = get_typestore(Stores.ROS2_HUMBLE)
    with path.open("wb") as file:
        writer: Any = Writer(file)
        writer.start(profile="ros2", library="steelyard")
        writer.add_metadata(MARK, describe_for_bag(recording))
        schemas: dict[str, int] = {}
        channels = []
        for topic in topics:
            name = topic.ros2_type
            if name not in schemas:
                definition, _ = types.generate_msgdef(name, ros_version=2)
                schemas[name] = writer.register_schema(name, "ros2msg", definition.encode())
            channels.append(writer.register_channel(topic.name, "cdr", schemas[name]))
        for message in encode_messages(recording, topics, "cdr"):
            writer.add_message(channels[message.topic], message.stamp, message.contents, message.stamp, message.number)
        writer.finish()
