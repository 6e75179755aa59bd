"""Messages of a bag, topic by topic, as streams of rows: decoded in batches, in temporary files where they are many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.recording.bags.ros_messages import ENCODINGS, SECOND, Decoder, columns_of, kind_of
from steelyard.recording.columns import Spool, select_columns, take_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import BoolArray, FloatArray, IntArray
    from steelyard.recording.bags.ros_messages import Decoded, Encoding, Kind, Layout
    from steelyard.recording.file_mark import FileMark

SPOOL_BYTES = 4_000_000
"""Bytes of rows that one stream keeps in memory. Set by judgement: a bag of 25 topics then stays within 100 MB."""

_BATCH_BYTES = 400_000
"""Bytes of messages that are decoded together. Set by judgement: they and their copies fit a second-level cache."""

_BATCH_COUNT = 2048
"""Messages that are decoded together at most.

Set by judgement: the cost per batch is negligible from some hundred on.
"""

STAMPS, RECEIVED = "\0stamps", "\0received"
"""Names of the two clocks of a stream, beside its columns."""

_MOST_STREAMS = 64
"""Sets of joints, or frames, of a topic at most. Set by judgement: each has buffers, and real topics have a few."""

_LATEST = 2**62  # ns; beyond it, differences of two times do not fit

_Key = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class MessageStream:
    """The messages of one publisher of a topic.

    Attributes:
        topic: The topic.
        kind: What its messages are.
        frame: The frame that its first message names.
        joints: Names of the joints, for joint states.
        columns: Columns by name, without the sensor's name, each of shape (n,).
        measured: Names of the columns that have any number.
        clocks: `STAMPS` and `RECEIVED`: integer nanoseconds in the bits of floats, to be stored with the rows.
    """

    topic: str
    kind: Kind
    frame: str
    joints: tuple[str, ...]
    columns: Mapping[str, FloatArray]
    measured: tuple[str, ...]
    clocks: Mapping[str, FloatArray]

    @property
    def stamps(self) -> IntArray:
        """Header stamps, ns, shape (n,); read on request."""
        return self.clocks[STAMPS].view(np.int64)

    @property
    def received(self) -> IntArray:
        """Times of receipt, ns, shape (n,); read on request."""
        return self.clocks[RECEIVED].view(np.int64)


@dataclass(eq=False)
class _GrowingStream:
    """A stream that is being read."""

    layout: Layout
    spool: Spool
    measured: BoolArray


class TopicReader:
    """Collects the messages of one topic; publishers with other joints, or another frame, become separate streams.

    Args:
        file: The file, for error messages.
        topic: The topic.
        kind: What its messages are.
        encoding: How they are encoded.
    """

    def __init__(self, file: str, topic: str, kind: Kind, encoding: Encoding) -> None:
        self.topic = topic
        self.kind = kind
        self.encoding = encoding
        self.message_count = 0
        self._file = file
        self._decoder = Decoder(kind, encoding)
        self._streams: dict[_Key, _GrowingStream] = {}
        self._messages: list[bytes] = []
        self._received: list[int] = []
        self._waiting = 0
        self._broken: list[str] = []
        self._broken_count = 0

    def add(self, received: int, message: bytes) -> None:
        """Add a message and its time of receipt, ns."""
        if not 0 <= received < _LATEST:
            self.drop(f"its time of receipt ({received} ns) is out of range")
            return
        self._messages.append(message)
        self._received.append(received)
        self._waiting += len(message)
        if self._waiting > _BATCH_BYTES or len(self._messages) >= _BATCH_COUNT:
            self._flush()

    def drop(self, reason: str) -> None:
        """Count a message that cannot be decoded."""
        self._broken_count += 1
        self.message_count += 1
        if len(self._broken) < 3:
            self._broken.append(reason)

    def finish(self) -> list[MessageStream]:
        """Return the streams, in the order of their first messages."""
        self._flush()
        streams = [self._finish_stream(growing) for growing in self._streams.values()]
        self._streams.clear()
        return streams

    def _finish_stream(self, growing: _GrowingStream) -> MessageStream:
        columns = growing.spool.finish()
        names = growing.spool.names[: len(growing.measured)]
        received = columns[RECEIVED].view(np.int64)
        if np.any(np.diff(received) < 0):
            # Files that were merged, or written by several threads, may be out of order.
            columns = take_rows(columns, np.argsort(received, kind="stable"))
        return MessageStream(
            topic=self.topic,
            kind=self.kind,
            frame=growing.layout.frame,
            joints=growing.layout.joints,
            columns=select_columns(columns, names),
            measured=tuple(name for name, there in zip(names, growing.measured, strict=True) if there),
            clocks=select_columns(columns, (STAMPS, RECEIVED)),
        )

    @property
    def notes(self) -> list[str]:
        """Notes on messages that could not be decoded."""
        if not self._broken_count:
            return []
        reasons = "; ".join(dict.fromkeys(self._broken))
        return [
            f"{self._broken_count} of {self.message_count} messages of {self.topic!r} cannot be decoded and were "
            f"dropped ({reasons})"
        ]

    def _flush(self) -> None:
        if not self._messages:
            return
        decoded, broken = self._decoder.decode(self._messages)
        received = np.array(self._received, dtype=np.int64)
        for number, reason in broken.items():
            self.drop(
                reason if self._broken else f"the first received at {self._received[number] / SECOND:.3f} s: {reason}"
            )
        self.message_count += len(self._messages) - len(broken)
        self._messages, self._received, self._waiting = [], [], 0
        by_stream: dict[_Key, list[Decoded]] = {}
        for part in decoded:
            if len(part.numbers):
                by_stream.setdefault(self._key(part.layout), []).append(part)
        for key, parts in by_stream.items():
            self._append(key, parts, received)

    def _key(self, layout: Layout) -> _Key:
        if self.kind == "joints":
            return layout.joints, tuple(layout.fields)
        return ((layout.frame,), ()) if self.kind in {"imu", "wrench"} else ((), ())

    def _append(self, key: _Key, parts: list[Decoded], received: IntArray) -> None:
        growing = self._streams.get(key)
        if growing is None:
            growing = self._begin(key, parts[0])
        numbers, stamps, rows = parts[0].numbers, parts[0].stamps, parts[0].rows
        if len(parts) > 1:  # messages of several lengths, in their order
            numbers = np.concatenate([part.numbers for part in parts])
            order = np.argsort(numbers)
            numbers = numbers[order]
            stamps = np.concatenate([part.stamps for part in parts])[order]
            rows = np.concatenate([part.rows for part in parts])[order]
        clocks = np.stack([stamps, received[numbers]], axis=1).view(np.float64)
        growing.spool.append(np.concatenate([rows, clocks], axis=1))
        growing.measured |= ~np.isnan(rows).all(axis=0)

    def _begin(self, key: _Key, part: Decoded) -> _GrowingStream:
        if len(self._streams) >= _MOST_STREAMS:
            what = "sets of joints" if self.kind == "joints" else "frames"
            raise RecordingError(
                f"{self._file}: the messages of {self.topic!r} name more than {_MOST_STREAMS} different {what}; omit "
                f'the topic with {self.topic!r} = "ignore" in [recording.topics] of the setup'
            )
        names = columns_of(self.kind, part.layout)
        growing = _GrowingStream(
            part.layout,
            Spool((*names, STAMPS, RECEIVED), self._file, memory=SPOOL_BYTES),
            np.zeros(len(names), dtype=np.bool_),
        )
        self._streams[key] = growing
        return growing


def with_slash(topic: str) -> str:
    """Return a topic's full name: bags may omit the leading slash."""
    return topic if topic.startswith("/") else f"/{topic}"


class MessageCollector:
    """Collects the messages of a bag, and returns its streams.

    Args:
        name: The file, for error messages.
        ignored: Topics that are not read.

    Attributes:
        types: Types of the messages, by topic.
        notes: What was unusual, a sentence each.
        mark: Its mark, where Steelyard wrote the bag: its topics are then named after the sensors.
    """

    def __init__(self, name: str, ignored: tuple[str, ...] = ()) -> None:
        self.name = name
        self.types: dict[str, str] = {}
        self.notes: list[str] = []
        self.mark: FileMark | None = None
        self._ignored = frozenset(ignored)
        self._readers: dict[tuple[str, Kind, Encoding], TopicReader] = {}

    def open_topic(self, topic: str, type_name: str, encoding: str) -> TopicReader | None:
        """Return the reader for the messages of a topic, or None if they are not needed."""
        topic = with_slash(topic)
        self.types.setdefault(topic, type_name)
        kind = kind_of(type_name)
        if kind is None or topic in self._ignored:
            return None
        if encoding not in ENCODINGS:
            note = f"{topic!r} was ignored: its messages are in {encoding!r}; 'cdr' and 'ros1' can be read"
            if note not in self.notes:
                self.notes.append(note)
            return None
        key = (topic, kind, encoding)
        if key not in self._readers:
            self._readers[key] = TopicReader(self.name, *key)
        return self._readers[key]

    def finish(self) -> list[MessageStream]:
        """Return the streams of all topics, in the order in which the topics were opened."""
        streams = [stream for reader in self._readers.values() for stream in reader.finish()]
        for reader in self._readers.values():
            self.notes += reader.notes
        return streams
