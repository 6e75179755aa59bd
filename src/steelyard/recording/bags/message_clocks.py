"""The two clocks of a bag: header stamps, and times of receipt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.model import CLOCKS
from steelyard.recording.bags.ros_messages import SECOND
from steelyard.recording.clocks import EPOCH, RESTART, clean_clock
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.arrays import BoolArray, FloatArray, IntArray
    from steelyard.recording.bags.message_streams import MessageStream


MESSAGE, RECEIVE = CLOCKS

_START_PERIODS = 10
"""Usual periods within which a first stamp is the start of a clock at zero.

Set by judgement: some messages may be lost.
"""

_NOTEWORTHY = 0.1
"""Seconds between stamp and receipt from which a note is due. Set by judgement: networks and recorders take less."""

_OTHER_CLOCK = 0.05
"""Seconds between the delays of two topics from which their clocks differ. Set by judgement: drivers differ by less."""

_DRIFT = 0.02
"""Seconds of drift from which a note is due. Set by judgement: two periods of a sensor at 100 Hz."""


@dataclass(frozen=True, eq=False)
class StreamClock:
    """The times of the rows of a stream.

    Attributes:
        time: Increasing nanoseconds, shape (n,).
        keep: Which rows of the stream they belong to, or None for all.
    """

    time: IntArray
    keep: BoolArray | None


def read_topic_clock(
    name: str, streams: Sequence[MessageStream], clock: str, origin: int
) -> tuple[list[StreamClock], list[str]]:
    """Return the clocks of the streams of one topic, and notes on what was wrong with them.

    The streams are checked together, in the order of receipt: a clock that restarts while the order of the joints
    changes shows in neither of them alone.

    Args:
        name: What is being read, for messages.
        streams: The streams of one topic.
        clock: "message" or "receive".
        origin: The second that messages count from.

    Raises:
        RecordingError: The clock jumps back, or often runs backwards.
    """
    topic = streams[0].topic
    received = [stream.received for stream in streams]
    keeps: dict[int, BoolArray] = {}
    notes: list[str] = []
    times = list(received)
    if clock == MESSAGE:
        stamps = [stream.stamps for stream in streams]
        stamped = _find_stamped(stamps)
        times = [own if yes else theirs for own, theirs, yes in zip(stamps, received, stamped, strict=True)]
        if not all(stamped):
            whose = "some messages" if any(stamped) else "the messages"
            notes.append(f"{whose} of {topic!r} carry no time; the time of their receipt is used")
        numbers = [number for number, yes in enumerate(stamped) if yes]
        if numbers:
            order = np.argsort(np.concatenate([received[number] for number in numbers]), kind="stable")
            together = np.concatenate([stamps[number] for number in numbers])[order]
            unstamped = _find_unstamped(together)
            _refuse_restart(f"{name}, topic {topic!r}", seconds_since(together[~unstamped], origin))
            if unstamped.any():
                count = int(np.count_nonzero(unstamped))
                notes.append(f"{count} of {len(unstamped)} messages of {topic!r} carry no time and were dropped")
                stamped_rows = np.empty_like(unstamped)
                stamped_rows[order] = ~unstamped
                ends = np.cumsum([len(stamps[number]) for number in numbers])
                keeps = dict(zip(numbers, np.split(stamped_rows, ends[:-1]), strict=True))
    clocks = []
    for number, time in enumerate(times):
        each, more = _increase(name, topic, time, keeps.get(number), origin)
        clocks.append(each)
        notes += more
    return clocks, notes


def _increase(
    name: str, topic: str, time: IntArray, keep: BoolArray | None, origin: int
) -> tuple[StreamClock, list[str]]:
    """Return the clock of a stream without the rows at which time does not increase."""
    kept = time if keep is None else time[keep]
    try:
        increasing, notes = clean_clock(seconds_since(kept, origin), f"{name}, topic {topic!r}")
    except RecordingError as error:
        if RECEIVE in str(error):
            raise
        raise RecordingError(
            f'{error}, or read the bag by the time of receipt (clock = "{RECEIVE}")', column="time"
        ) from error
    if increasing is not None:
        kept = kept[increasing]
        if keep is None:
            keep = increasing
        else:
            keep = keep.copy()
            keep[np.flatnonzero(keep)[~increasing]] = False
    return StreamClock(kept, keep), [f"{topic!r}: {note}" for note in notes]


def _find_stamped(stamps: Sequence[IntArray]) -> list[bool]:
    """Return which streams of a topic are read by their header stamps.

    Times of receipt can be mixed with stamps that count from 1970, but not with those of a simulation.
    """
    stamped = [bool(each.any()) for each in stamps]
    if any(stamped) and not all(stamped):
        known = np.concatenate([each[each != 0] for each in stamps])
        if np.median(known) < EPOCH * SECOND:
            return [True] * len(stamps)
    return stamped


def _find_unstamped(stamps: IntArray) -> BoolArray:
    """Return which messages have no stamp, though others do; a clock may also start, or restart, at zero."""
    zero: BoolArray = stamps == 0
    if not zero.any() or zero.all():
        return np.zeros(len(stamps), dtype=np.bool_)
    known = stamps[~zero]
    if np.median(known) >= EPOCH * SECOND:
        return zero
    leading = int(np.argmax(~zero))
    period = float(np.median(np.diff(known))) if len(known) > 1 else 0.0
    # Zeros among later times are none; where the clock goes on from zero it was started again.
    place = np.cumsum(~zero)[zero]
    before, after = np.concatenate([known[:1], known])[place], np.concatenate([known, known[-1:]])[place]
    unstamped = zero.copy()
    unstamped[zero] = after >= before
    unstamped[:leading] = known[0] > max(RESTART * SECOND, _START_PERIODS * period)
    return unstamped


def _refuse_restart(where: str, time: FloatArray) -> None:
    """Raise an error if a clock jumps back.

    Args:
        where: File and topic.
        time: Seconds in the order of receipt, shape (n,).
    """
    steps = np.diff(time)
    back = np.flatnonzero(steps <= -RESTART)
    if len(back) == 0:
        return
    more = f", and {len(back) - 1} times more" if len(back) > 1 else ""
    raise RecordingError(
        f"{where}: the clock jumps back by {-steps[back[0]]:.3f} s after {time[back[0]]:.3f} s (message {back[0]})"
        f'{more}; cut the recording there, or read the bag by the time of receipt (clock = "{RECEIVE}")',
        column="time",
    )


def first_second(streams: Sequence[MessageStream], clock: str) -> int:
    """Return the whole second since 1970 of the earliest message, or zero if the clock has another origin."""
    firsts = [
        int(stream.stamps[stream.stamps != 0][0])
        if clock == MESSAGE and stream.stamps.any()
        else int(stream.received[0])
        for stream in streams
    ]
    return epoch_of(min(firsts))


def epoch_of(time: int) -> int:
    """Return the whole second of a time in ns if it counts from 1970, else zero."""
    second = time // SECOND
    return second if abs(second) > EPOCH else 0


def seconds_since(time: IntArray, epoch: int) -> FloatArray:
    """Return seconds since a whole second, subtracted before they become floats: no nanosecond is lost."""
    return (time - epoch * SECOND).astype(np.float64) / SECOND


def compare_clocks(streams: Sequence[MessageStream], master: MessageStream, clock: str) -> list[str]:
    """Return notes on topics whose two clocks differ, or whose clock differs from that of the joints."""
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
    """Return the median delay from stamp to receipt, its spread, and its drift over the recording, all in seconds.

    The spread is that of the middle 90 % about the drift.
    """
    stamped = stream.stamps != 0
    offsets = (stream.received[stamped] - stream.stamps[stamped]).astype(np.float64) / SECOND
    tenth = max(1, len(offsets) // 10)
    drift = float(np.median(offsets[-tenth:]) - np.median(offsets[:tenth]))
    rest = offsets - np.linspace(0.0, drift, len(offsets))
    low, high = np.percentile(rest, [5.0, 95.0])
    return float(np.median(offsets)), float(high - low), drift
