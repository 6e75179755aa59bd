"""The two clocks of a bag: the times that messages carry, and the times of their receipt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.model.names import in_words
from steelyard.recording.clocks import EPOCH, clean_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.recording.clocks import BoolArray
    from steelyard.recording.message_streams import MessageStream
    from steelyard.recording.ros_messages import IntArray

MESSAGE, RECEIVE = "message", "receive"

_SECOND = 1_000_000_000
_NOTEWORTHY = 0.1
_OTHER_CLOCK = 0.05
_DRIFT = 0.02


@dataclass(frozen=True, eq=False)
class StreamClock:
    """When the rows of a stream are.

    Attributes:
        time: Increasing nanoseconds, shape (n,).
        keep: Which rows of the stream they belong to, or None for all.
    """

    time: IntArray
    keep: BoolArray | None


def read_stream_clock(name: str, stream: MessageStream, clock: str, origin: int) -> tuple[StreamClock, list[str]]:
    """Gives when the rows of a stream are, and what was wrong with its clock.

    Args:
        name: What is being read, for messages.
        stream: The stream.
        clock: "message" or "receive".
        origin: The second that messages count from.

    Raises:
        RecordingError: The clock jumps back, or often runs backwards.
    """
    notes: list[str] = []
    time, keep = stream.received, None
    if clock == MESSAGE:
        if not stream.stamps.any():
            notes.append(f"the messages of {stream.topic!r} carry no time; the time of their receipt is used")
        else:
            time = stream.stamps
            keep = _drop_unstamped(stream, notes)
    kept = time if keep is None else time[keep]
    try:
        increasing, more = clean_clock(seconds_since(kept, origin), f"{name}, topic {stream.topic!r}")
    except RecordingError as error:
        if RECEIVE in str(error):
            raise
        raise RecordingError(
            f'{error}, or read the bag by the time of receipt (clock = "{RECEIVE}")', column="time"
        ) from error
    notes += [f"{stream.topic!r}: {note}" for note in more]
    if increasing is not None:
        kept = kept[increasing]
        if keep is None:
            keep = increasing
        else:
            keep = keep.copy()
            keep[np.flatnonzero(keep)[~increasing]] = False
    return StreamClock(kept, keep), notes


def _drop_unstamped(stream: MessageStream, notes: list[str]) -> BoolArray | None:
    """Gives which rows carry a time, where some do not; a clock that starts at zero does."""
    unstamped: BoolArray = stream.stamps == 0
    if not unstamped.any() or np.median(stream.stamps[~unstamped]) < EPOCH * _SECOND:
        return None
    count = int(np.count_nonzero(unstamped))
    notes.append(f"{count} of {len(unstamped)} messages of {stream.topic!r} carry no time and were dropped")
    return ~unstamped


def first_second(streams: Sequence[MessageStream], clock: str) -> int:
    """Gives the whole second since 1970 of the earliest message, or zero where the clock is another."""
    firsts = [
        int(stream.stamps[stream.stamps != 0][0])
        if clock == MESSAGE and stream.stamps.any()
        else int(stream.received[0])
        for stream in streams
    ]
    return epoch_of(min(firsts))


def epoch_of(time: int) -> int:
    """Gives the whole second of a time in ns, where it counts from 1970, else zero."""
    second = time // _SECOND
    return second if abs(second) > EPOCH else 0


def seconds_since(time: IntArray, epoch: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Gives seconds since a whole second; no nanosecond is lost before they become floats."""
    return (time - epoch * _SECOND).astype(np.float64) / _SECOND


def compare_clocks(streams: Sequence[MessageStream], master: MessageStream, clock: str) -> list[str]:
    """Gives notes on topics whose two clocks differ, or whose clock is another than the joints'."""
    offsets: dict[str, tuple[float, float, float]] = {}
    for stream in streams:
        if stream.topic not in offsets and stream.stamps.any():
            offsets[stream.topic] = _offset(stream)
    used = f"{clock} time is used"
    far = {topic: each for topic, each in offsets.items() if abs(each[0]) > _NOTEWORTHY}
    notes: list[str] = []
    if far:
        medians = [each[0] for each in far.values()]
        together = max(medians) - min(medians) < _OTHER_CLOCK
        groups = [list(far)] if together else [[topic] for topic in far]
        for topics in groups:
            median, spread, _ = far[topics[0]]
            notes.append(
                f"message and receive times of {in_words([repr(topic) for topic in topics], limit=2)} differ by "
                f"{median:.3g} s (median), spread {1e3 * spread:.2g} ms; {used}"
            )
    if clock != MESSAGE:
        return notes
    reference = offsets.get(master.topic)
    for topic, (median, spread, drift) in offsets.items():
        if reference is not None and abs(median - reference[0]) > max(_OTHER_CLOCK, spread):
            notes.append(
                f"{topic!r} is on another clock than {master.topic!r}: its messages are received {median:.3g} s after "
                f'their time, the others {reference[0]:.3g} s; clock = "{RECEIVE}" would put them together'
            )
        if abs(drift) > max(_DRIFT, spread):
            notes.append(f"the times of {topic!r} drift by {1e3 * drift:.3g} ms against the times of receipt; {used}")
    return notes


def _offset(stream: MessageStream) -> tuple[float, float, float]:
    """Gives how long after their time messages are received, its spread, and how much more at the end, all in seconds.

    The spread is that of the middle nine tenths, about the drift.
    """
    stamped = stream.stamps != 0
    offsets = (stream.received[stamped] - stream.stamps[stamped]).astype(np.float64) / _SECOND
    tenth = max(1, len(offsets) // 10)
    drift = float(np.median(offsets[-tenth:]) - np.median(offsets[:tenth]))
    rest = offsets - np.linspace(0.0, drift, len(offsets))
    low, high = np.percentile(rest, [5.0, 95.0])
    return float(np.median(offsets)), float(high - low), drift
