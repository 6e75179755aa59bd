"""ROS 1 bags, read from front to back: their index, which a truncated bag lacks, is not needed."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO

from steelyard.exceptions import RecordingError
from steelyard.recording.bags.ros_messages import SECOND
from steelyard.recording.bags.scan_log import ScanLog
from steelyard.recording.bags.unpacking import MOST_CHUNK_BYTES, DamagedChunkError, decompress
from steelyard.recording.file_errors import unreadable
from steelyard.recording.file_mark import FileMark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from steelyard.recording.bags.message_streams import MessageCollector, TopicReader

MAGIC = b"#ROSBAG V"
VERSION = b"2.0"

CALLER = "/steelyard"
"""The publisher that bags written by Steelyard name: a ROS 1 bag has no other field for a mark."""

MAPPED_CALLER = f"{CALLER}/mapped"
"""The same, where a setup's map has been applied to the columns."""

_MOST_HEADER_BYTES = 1_000_000
"""Bytes of a record's header at most. Set by judgement: real ones have some hundred, a damaged length any number."""

_MESSAGE, _BAG_HEADER, _CHUNK, _CONNECTION = 2, 3, 5, 7
_UINT32 = struct.Struct("<I")
_TIME = struct.Struct("<II")

_Header = dict[bytes, bytes]


def scan_ros1(path: Path, collector: MessageCollector) -> None:
    """Pass all messages of a ROS 1 bag to a collector, in the order of the file.

    Raises:
        RecordingError: It is no bag of version 2.0, or is encrypted, or cannot be opened.
    """
    try:
        with path.open("rb") as file:
            first_line = file.readline(64)
            if not first_line.startswith(MAGIC):
                raise RecordingError(
                    f"{collector.name} is no ROS 1 bag: its first bytes are wrong; copy it again, or correct its ending"
                )
            version = first_line.removeprefix(MAGIC).strip()
            if version != VERSION:
                raise RecordingError(
                    f"{collector.name} is a bag of version {version.decode('ascii', 'replace')!r}; convert it to "
                    "version 2.0 with: rosbag migrate"
                )
            _Scan(collector).run(file)
    except OSError as error:
        raise unreadable(collector.name, error) from error


class _Scan:
    """One pass through a bag."""

    def __init__(self, collector: MessageCollector) -> None:
        self._collector = collector
        self._readers: dict[bytes, TopicReader | None] = {}
        self._callers: set[bytes] = set()
        self._log = ScanLog()

    def run(self, file: BinaryIO) -> None:
        size = file.seek(0, 2)
        file.seek(len(MAGIC) + len(VERSION) + 1)  # and the end of its line
        cut_off: str | None = None
        try:
            for header, length in _records(file, size):
                self._read_record(header, length, file)
        except DamagedChunkError as error:
            cut_off = str(error)
        self._collector.notes += self._log.notes(cut_off)
        if self._callers in ({CALLER.encode()}, {MAPPED_CALLER.encode()}):
            self._collector.mark = FileMark(mapped=MAPPED_CALLER.encode() in self._callers)

    def _read_record(self, header: _Header, length: int, file: BinaryIO) -> None:
        """Read a record at the top level of the bag; the caller skips what is left of it."""
        operation = header.get(b"op", b"")
        if operation == bytes([_CHUNK]):
            if length > MOST_CHUNK_BYTES:
                self._log.note_damage(f"a chunk of {length} bytes is too large")
                return
            try:
                self._read_chunk(header, file.read(length))
            except DamagedChunkError as error:
                self._log.note_damage(str(error))
        elif operation == bytes([_BAG_HEADER]):
            if header.get(b"encryptor"):
                raise RecordingError(f"{self._collector.name} is encrypted; decrypt it with: rosbag decrypt")
        # A bag that was truncated while a chunk was written has the chunk's records without its size.
        elif operation in {bytes([_MESSAGE]), bytes([_CONNECTION])} and length <= MOST_CHUNK_BYTES:
            self._read_inner_record(operation, header, file.read(length))

    def _read_chunk(self, header: _Header, contents: bytes) -> None:
        try:
            (size,) = _UINT32.unpack(header.get(b"size", b""))
            compression = header.get(b"compression", b"").decode("ascii")
        except (struct.error, UnicodeDecodeError) as error:
            raise DamagedChunkError("a chunk does not say how it is packed") from error
        records = decompress(contents, compression, size)
        stream = BytesIO(records)
        for inner, length in _records(stream, len(records)):
            self._read_inner_record(inner.get(b"op", b""), inner, stream.read(length))

    def _read_inner_record(self, operation: bytes, header: _Header, contents: bytes) -> None:
        if operation == bytes([_MESSAGE]):
            try:
                seconds, nanoseconds = _TIME.unpack(header[b"time"])
                connection = header[b"conn"]
            except (KeyError, struct.error) as error:
                raise DamagedChunkError("a message does not say when it came") from error
            received = SECOND * seconds + nanoseconds
            self._log.note_message(received, known=connection in self._readers)
            if (reader := self._readers.get(connection)) is not None:
                reader.add(received, contents)
        elif operation == bytes([_CONNECTION]):
            self._open_topic(header, contents)

    def _open_topic(self, header: _Header, contents: bytes) -> None:
        fields = _parse_header(contents)
        try:
            connection = header[b"conn"]
            topic = header[b"topic"].decode()
            type_name = fields[b"type"].decode()
        except (KeyError, UnicodeDecodeError) as error:
            raise DamagedChunkError("a connection does not say its topic and type") from error
        self._callers.add(fields.get(b"callerid", b""))
        if connection not in self._readers:
            self._readers[connection] = self._collector.open_topic(topic, type_name, "ros1")


def _records(stream: BinaryIO, size: int) -> Iterator[tuple[_Header, int]]:
    """Yield the header of each record and the length of its data, at which the stream is then positioned.

    Raises:
        DamagedChunkError: It ends within a record.
    """
    position = stream.tell()
    while position < size:
        stream.seek(position)
        header_length = _read_length(stream)
        contents = stream.read(header_length) if header_length <= _MOST_HEADER_BYTES else b""
        if len(contents) < header_length:
            raise DamagedChunkError("it ends within a header")
        header = _parse_header(contents)
        length = _read_length(stream)
        position = stream.tell() + length
        if position > size:
            raise DamagedChunkError("it ends within a record")
        yield header, length


def _read_length(stream: BinaryIO) -> int:
    try:
        return int(_UINT32.unpack(stream.read(4))[0])
    except struct.error as error:
        raise DamagedChunkError("it ends within a record") from error


def _parse_header(contents: bytes) -> _Header:
    """Return the fields of a header by name."""
    fields: _Header = {}
    position = 0
    while position + 4 <= len(contents):
        (length,) = _UINT32.unpack_from(contents, position)
        name, equals, value = contents[position + 4 : position + 4 + length].partition(b"=")
        position += 4 + length
        if not equals or position > len(contents):
            raise DamagedChunkError("a header has no fields")
        fields[name] = value
    return fields
