"""From the streams of a bag to a Recording: all topics on the clock of the joints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.model import CLOCKS, ColumnSource
from steelyard.recording.bags.message_clocks import (
    MESSAGE,
    RECEIVE,
    compare_clocks,
    epoch_of,
    first_second,
    read_topic_clock,
    seconds_since,
)
from steelyard.recording.bags.ros_messages import SECOND
from steelyard.recording.bags.topic_rates import note_rates
from steelyard.recording.bags.topics import IGNORE, assign_topics
from steelyard.recording.columns import MEMORY, LazyColumns, MappedColumns, read_rows, take_rows
from steelyard.recording.file_mark import FileMark
from steelyard.recording.recording import Recording
from steelyard.recording.resampling import ResampledColumns, Stream
from steelyard.wording import did_you_mean, in_words, show_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray, IntArray
    from steelyard.model import Setup
    from steelyard.recording.bags.message_clocks import StreamClock
    from steelyard.recording.bags.message_streams import MessageCollector, MessageStream
    from steelyard.recording.bags.topics import AssignedStream, Role


def build_recording(collector: MessageCollector, setup: Setup, clock: str | None) -> Recording:
    """Build the recording from the messages of a bag.

    The joint states with the most joints (then those with the highest rate) give the rows; all other topics are
    resampled on their clock.

    Args:
        collector: Took all messages.
        setup: What the robot has, and how its bags name it.
        clock: "message" or "receive"; by default what the setup says, else "message".

    Raises:
        RecordingError: There are no joint states, or it is not clear which topic is what, or when.
    """
    name = collector.name
    if collector.mark is not None:
        # The setup's topics are those of the bag that this one was made from.
        setup = replace(setup, recording=replace(setup.recording, topics={}))
    clock = clock or setup.recording.clock or MESSAGE
    if clock not in CLOCKS:
        raise RecordingError(f"{name}: there is no clock {clock!r}{did_you_mean(clock, CLOCKS)}")
    streams = collector.finish()
    assigned, topic_notes = assign_topics(name, streams, collector.types, setup)
    if not any(each.role == "joints" for each in assigned):
        raise _no_joints(collector, streams)
    notes = [*collector.notes, *topic_notes]
    origin = first_second([each.stream for each in assigned], clock)
    tracks: list[_Track] = []
    for topic in dict.fromkeys(each.stream.topic for each in assigned):
        of_topic = [each for each in assigned if each.stream.topic == topic]
        clocks, clock_notes = read_topic_clock(name, [each.stream for each in of_topic], clock, origin)
        notes += clock_notes
        for each, when in zip(of_topic, clocks, strict=True):
            if len(when.time):
                _add_track(tracks, _make_track(each, when, tracks))
    master = max((track for track in tracks if track.role == "joints"), key=_importance)
    notes += compare_clocks([each.stream for each in assigned], master.streams[0], clock)
    kept = [
        master,
        *(track for track in tracks if track is not master and _overlaps(name, track, master, clock, notes)),
    ]
    epoch = epoch_of(int(master.time[0]))
    time = seconds_since(master.time, epoch)
    time.setflags(write=False)
    on_clock = [
        Stream(track.topic, time if track.time is master.time else seconds_since(track.time, epoch), track.columns)
        for track in kept
    ]
    notes += note_rates(on_clock[0], on_clock[1:])
    columns = ResampledColumns(time, on_clock)
    values = columns.load() if 8 * columns.row_count * len(columns) <= MEMORY else columns
    mark = collector.mark or FileMark()
    return Recording(time, values, name, epoch, tuple(dict.fromkeys(notes)), mark.mapped, mark.origin)


@dataclass(frozen=True, eq=False)
class _Track:
    """Streams of one topic that make one table: their times, and columns under Steelyard's names."""

    topic: str
    role: Role
    streams: tuple[MessageStream, ...]
    time: IntArray
    columns: Mapping[str, FloatArray]


def _make_track(each: AssignedStream, when: StreamClock, known: Sequence[_Track]) -> _Track:
    # Sensors that are read together have one clock: it is kept once.
    time = next((track.time for track in known if np.array_equal(track.time, when.time)), when.time)
    columns = each.stream.columns if when.keep is None else take_rows(each.stream.columns, np.flatnonzero(when.keep))
    mapped = MappedColumns(columns, len(time), {name: ColumnSource(theirs) for name, theirs in each.sources.items()})
    lazy = isinstance(columns, LazyColumns)
    return _Track(each.stream.topic, each.role, (each.stream,), time, mapped if lazy else mapped.load())


def _add_track(tracks: list[_Track], track: _Track) -> None:
    """Add a track; streams of one topic that share columns are merged."""
    for other in [each for each in tracks if not each.columns.keys().isdisjoint(track.columns)]:
        tracks.remove(other)
        time = np.unique(np.concatenate([other.time, track.time]))
        columns = _MergedColumns(time, [(other.time, other.columns), (track.time, track.columns)])
        track = _Track(track.topic, track.role, other.streams + track.streams, time, columns)
    tracks.append(track)


class _MergedColumns(LazyColumns):
    """Tables on parts of one clock; where two have a row at the same time, the later one's number is used."""

    def __init__(self, time: IntArray, parts: Sequence[tuple[IntArray, Mapping[str, FloatArray]]]) -> None:
        super().__init__(tuple(dict.fromkeys(name for _, columns in parts for name in columns)), len(time))
        self._parts = [(np.searchsorted(time, own), columns) for own, columns in parts]

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, FloatArray]:
        """Read some rows of some columns."""
        result = {name: np.full(stop - start, np.nan) for name in names}
        for rows, columns in self._parts:
            low, high = np.searchsorted(rows, [start, stop])
            places = rows[low:high] - start
            there = [name for name in names if name in columns]
            for name, values in read_rows(columns, there, int(low), int(high)).items():
                measured = ~np.isnan(values)
                result[name][places[measured]] = values[measured]
        return result


def _importance(track: _Track) -> tuple[bool, int, float]:
    """Return the rank of joint states for giving the rows: positions, then number of joints, then rate."""
    joints = {joint for stream in track.streams for joint in stream.joints}
    duration = int(track.time[-1] - track.time[0])
    rate = (len(track.time) - 1) / duration if duration else 0.0
    return any(name.startswith("q.") for name in track.columns), len(joints), rate


def _overlaps(name: str, track: _Track, master: _Track, clock: str, notes: list[str]) -> bool:
    """Return whether a track overlaps the master in time; add a note if it does not.

    Raises:
        RecordingError: It has by the times of receipt, but not by those that the messages carry.
    """
    if _meet(track.time, master.time):
        return True
    received = (each.streams[0].received for each in (track, master))
    if clock == MESSAGE and _meet(*received):
        raise RecordingError(
            f"{name}: the times that the messages of {track.topic!r} carry are {_apart(track.time, master.time):.6g} s "
            f"away from those of {master.topic!r}: two clocks; read the bag by the time of receipt "
            f'(clock = "{RECEIVE}"), or leave the topic out ({track.topic!r} = "{IGNORE}" in [recording.topics])'
        )
    notes.append(f"{track.topic!r} was left out: all of it lies before or after {master.topic!r}")
    return False


def _meet(first: IntArray, second: IntArray) -> bool:
    return bool(first[0] <= second[-1] and second[0] <= first[-1])


def _apart(first: IntArray, second: IntArray) -> float:
    return abs(int(first[0]) - int(second[0])) / SECOND


def _no_joints(collector: MessageCollector, streams: Sequence[MessageStream]) -> RecordingError:
    """Return the error for a bag without joint states, which lists its topics."""
    topics = [f"{show_name(topic)} ({show_name(type_name)})" for topic, type_name in collector.types.items()]
    there = f"its topics are {in_words(topics, limit=8)}" if topics else "it has no topics"
    told = [stream.topic for stream in streams if stream.kind == "joints"]
    hint = (
        f'; if {told[0]!r} is what encoders measured, write {told[0]!r} = "joints" in [recording.topics] of the setup'
        if told
        else ""
    )
    notes = "".join(f"; {note}" for note in collector.notes)
    return RecordingError(f"{collector.name} has no joint states (sensor_msgs/JointState): {there}{hint}{notes}")
