"""Messages of a bag, topic by topic, into streams of rows: decoded in batches, out of memory where they are many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.recording.bags.ros_messages import ENCODINGS, SECOND, Decoder, columns_of, kind_of
from steelyard.recording.columns import LazyColumns, Spool, select_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.recording.bags.ros_messages import Decoded, Encoding, IntArray, Kind, Layout
    from steelyard.recording.identity import Identity

SPOOL_BYTES = 4_000_000
"""Bytes of rows that one stream keeps in memory: several of them are read at once."""

_BATCH_BYTES = 400_000
"""Bytes of messages that are decoded together: they should fit a processor's cache."""

_BATCH_COUNT = 2048

STAMPS, RECEIVED = "\0stamps", "\0received"
"""Names of the two clocks of a stream, beside its columns."""

_MOST_STREAMS = 64
_LATEST = 2**62  # ns; beyond it, differences of two times do not fit

_Key = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class MessageStream:
    """What one publisher of a topic says.

    Attributes:
        topic: The topic.
        kind: What its messages are.
        frame: The frame that its first message names.
        joints: Names of the joints, for joint states.
        columns: Columns by name, without the sensor in front, each of shape (n,).
        measured: Names of the columns in which there is a number at all.
        clocks: `STAMPS` and `RECEIVED`: whole nanoseconds in the bits of numbers, so that they lie beside the rows.
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
        """Times that the messages carry, ns, shape (n,); read when asked for."""
        return self.clocks[STAMPS].view(np.int64)

    @property
    def received(self) -> IntArray:
        """Times of their receipt, ns, shape (n,); read when asked for."""
        return self.clocks[RECEIVED].view(np.int64)


@dataclass(eq=False)
class _GrowingStream:
    """A stream while it is being read."""

    layout: Layout
    spool: Spool
    measured: np.ndarray[tuple[int], np.dtype[np.bool_]]


class TopicReader:
    """Takes the messages of one topic; publishers that name other joints, or another frame, become streams apart.

    Args:
        file: What is being read, for messages.
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
        """Takes a message and the time of its receipt, ns."""
        if not 0 <= received < _LATEST:
            self.drop(f"its time of receipt ({received} ns) is none")
            return
        self._messages.append(message)
        self._received.append(received)
        self._waiting += len(message)
        if self._waiting > _BATCH_BYTES or len(self._messages) >= _BATCH_COUNT:
            self._flush()

    def drop(self, reason: str) -> None:
        """Takes note of a message that cannot be read."""
        self._broken_count += 1
        self.message_count += 1
        if len(self._broken) < 3:
            self._broken.append(reason)

    def finish(self) -> list[MessageStream]:
        """Gives the streams, the one that came first first."""
        self._flush()
        streams = [self._finish_stream(growing) for growing in self._streams.values()]
        self._streams.clear()
        return streams

    def _finish_stream(self, growing: _GrowingStream) -> MessageStream:
        columns = growing.spool.finish()
        names = growing.spool.names[: len(growing.measured)]
        received = columns[RECEIVED].view(np.int64)
        if np.any(np.diff(received) < 0):
            # Files that were merged, or written by several threads, need not be in order.
            columns = _sort_rows(columns, np.argsort(received, kind="stable"))
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
        """What was wrong with messages."""
        if not self._broken_count:
            return []
        reasons = "; ".join(dict.fromkeys(self._broken))
        return [
            f"{self._broken_count} of {self.message_count} messages of {self.topic!r} cannot be read and were dropped "
            f"({reasons})"
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
        if len(parts) > 1:  # messages of several lengths, in the order in which they came
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
                f"{self._file}: the messages of {self.topic!r} name more than {_MOST_STREAMS} different {what}; leave "
                f'the topic out with {self.topic!r} = "ignore" in [recording.topics] of the setup'
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
    """Gives a topic as ROS spells it in full: bags may have it without the slash in front."""
    return topic if topic.startswith("/") else f"/{topic}"


def _sort_rows(columns: Mapping[str, FloatArray], order: IntArray) -> Mapping[str, FloatArray]:
    if isinstance(columns, LazyColumns):
        return _SortedRows(columns, order)
    return {name: values[order] for name, values in columns.items()}


class _SortedRows(LazyColumns):
    """The rows of lazy columns in another order; neighbours should not have been far apart."""

    def __init__(self, whole: LazyColumns, order: IntArray) -> None:
        super().__init__(whole.names, len(order))
        self._whole = whole
        self._order = order

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Gives some rows of some columns."""
        rows = self._order[start:stop]
        if len(rows) == 0:
            return {name: np.empty(0) for name in names}
        first = int(rows.min())
        part = self._whole.read(names, first, int(rows.max()) + 1)
        return {name: values[rows - first] for name, values in part.items()}


class MessageCollector:
    """Takes the messages of a bag, and gives its streams.

    Args:
        name: What is being read, for messages.
        ignored: Topics that need not be looked at.

    Attributes:
        types: Types of the messages, by topic.
        notes: What was noticed.
        written: Whether Steelyard wrote the bag: its topics are then called after the sensors.
        mapped: Whether it did so after a setup's map was applied.
        origin: Which recording it is, where that is stated.
    """

    def __init__(self, name: str, ignored: tuple[str, ...] = ()) -> None:
        self.name = name
        self.types: dict[str, str] = {}
        self.notes: list[str] = []
        self.written = False
        self.mapped = False
        self.origin: Identity | None = None
        self._ignored = frozenset(ignored)
        self._readers: dict[tuple[str, Kind, Encoding], TopicReader] = {}

    def open_topic(self, topic: str, type_name: str, encoding: str) -> TopicReader | None:
        """Gives what takes the messages of a topic, or None where they need not be read."""
        topic = with_slash(topic)
        self.types.setdefault(topic, type_name)
        kind = kind_of(type_name)
        if kind is None or topic in self._ignored:
            return None
        if encoding not in ENCODINGS:
            note = f"{topic!r} was left out: its messages are in {encoding!r}; 'cdr' and 'ros1' can be read"
            if note not in self.notes:
                self.notes.append(note)
            return None
        key = (topic, kind, encoding)
        if key not in self._readers:
            self._readers[key] = TopicReader(self.name, *key)
        return self._readers[key]

    def finish(self) -> list[MessageStream]:
        """Gives the streams of all topics, in the order in which the topics were opened."""
        streams = [stream for reader in self._readers.values() for stream in reader.finish()]
        for reader in self._readers.values():
            self.notes += reader.notes
        return streams
