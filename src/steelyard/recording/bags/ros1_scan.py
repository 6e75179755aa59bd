"""ROS 1 bags from front to back: their index, which a cut-off bag does not have, is not needed."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import TYPE_CHECKING, BinaryIO

from steelyard.exceptions import RecordingError
from steelyard.recording.bags.ros_messages import SECOND
from steelyard.recording.bags.scan_log import ScanLog
from steelyard.recording.bags.unpacking import MOST_CHUNK_BYTES, DamagedChunkError, decompress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from steelyard.recording.bags.message_streams import MessageCollector, TopicReader

MAGIC = b"#ROSBAG V"
VERSION = b"2.0"

CALLER = "/steelyard"
"""The node that a bag which Steelyard wrote names as the publisher of its topics."""

MAPPED_CALLER = f"{CALLER}/mapped"
"""The same, where a setup's map is in the columns already."""

_MOST_HEADER_BYTES = 1_000_000
_MESSAGE, _BAG_HEADER, _CHUNK, _CONNECTION = 2, 3, 5, 7
_UINT32 = struct.Struct("<I")
_TIME = struct.Struct("<II")

_Header = dict[bytes, bytes]


def scan_ros1(path: Path, collector: MessageCollector) -> None:
    """Gives all messages of a ROS 1 bag to a collector, in the order in which they stand in it.

    Raises:
        RecordingError: It is no bag of version 2.0, or is encrypted, or cannot be opened.
    """
    try:
        with path.open("rb") as file:
            first_line = file.readline(64)
            if not first_line.startswith(MAGIC):
                raise RecordingError(
                    f"{collector.name} is no ROS 1 bag: it does not begin as one; copy it again, or give it its right "
                    "ending"
                )
            version = first_line.removeprefix(MAGIC).strip()
            if version != VERSION:
                raise RecordingError(
                    f"{collector.name} is a bag of version {version.decode('ascii', 'replace')!r}; make it one of "
                    "version 2.0 with: rosbag migrate"
                )
            _Scan(collector).run(file)
    except OSError as error:
        raise RecordingError(f"{collector.name} cannot be read ({error.strerror})") from error


class _Scan:
    """One way through a bag."""

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
        self._collector.written = self._callers in ({CALLER.encode()}, {MAPPED_CALLER.encode()})
        self._collector.mapped = self._callers == {MAPPED_CALLER.encode()}

    def _read_record(self, header: _Header, length: int, file: BinaryIO) -> None:
        """Reads a record of the bag itself; what follows a header that is not needed is passed over by the caller."""
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
        # A bag that was cut off while a chunk was being written has the chunk's records without its size.
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
            self._log.last = received
            if self._log.first is None:
                self._log.first = received
            if connection not in self._readers:
                self._log.unknown += 1
                return
            reader = self._readers[connection]
            if reader is not None:
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
    """Gives the header of each record and the length of what follows; the stream then stands before it.

    Raises:
        DamagedChunkError: It ends within a record.
    """
    place = stream.tell()
    while place < size:
        stream.seek(place)
        header = _parse_header(_read(stream, _read_length(stream), _MOST_HEADER_BYTES))
        length = _read_length(stream)
        place = stream.tell() + length
        if place > size:
            raise DamagedChunkError("it ends within a record")
        yield header, length


def _read_length(stream: BinaryIO) -> int:
    try:
        return int(_UINT32.unpack(stream.read(4))[0])
    except struct.error as error:
        raise DamagedChunkError("it ends within a record") from error


def _read(stream: BinaryIO, length: int, most: int) -> bytes:
    contents = stream.read(length) if length <= most else b""
    if len(contents) < length:
        raise DamagedChunkError("it ends within a header")
    return contents


def _parse_header(letters: bytes) -> _Header:
    """Gives the fields of a header by name."""
    fields: _Header = {}
    place = 0
    while place + 4 <= len(letters):
        (length,) = _UINT32.unpack_from(letters, place)
        name, equals, value = letters[place + 4 : place + 4 + length].partition(b"=")
        place += 4 + length
        if not equals or place > len(letters):
            raise DamagedChunkError("a header has no fields")
        fields[name] = value
    return fields
