"""Messages of many topics come onto one clock: gaps stay empty, and clocks that differ are named."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard import RecordingError
from steelyard.model.recording_map import RecordingMap
from steelyard.model.setup import Setup
from steelyard.recording.resampling import ResampledColumns, Stream
from tests.recording.bags.bags import SECOND, START, imu, in_order, joint_state, ramp, wrench, write
from tests.recording.bags.bags import read as read_bag_file

MS = 1_000_000


def read(tmp_path, *parts, clock=None, setup=None):
    return read_bag_file(write(tmp_path / "walk.mcap", in_order(*parts)), setup, clock)


def forces(stamps, *, lag=0, topic="/foot/wrench"):
    """Readings whose fz is the time in seconds since the start."""
    return [wrench(topic, int(at), [0, 0, (at - START) / SECOND, 0, 0, 0], received=int(at) + lag) for at in stamps]


def shifted(messages, offset):
    """Gives messages whose stamps say another time than that of their receipt."""
    return [message._replace(stamp=message.stamp + offset) for message in messages]


def test_a_sensor_on_the_same_instants_keeps_its_readings_and_its_gaps(tmp_path):
    stamps = START + np.arange(200) * 10 * MS
    there = (np.arange(200) < 80) | (np.arange(200) >= 90)
    recording = read(tmp_path, ramp(), forces(stamps[there]))
    expected = np.where(there, np.arange(200) / 100, np.nan)
    np.testing.assert_array_equal(recording.column("foot.fz"), expected)
    np.testing.assert_array_equal(recording.column("q.hip"), np.arange(200) / 100)


def test_a_sensor_between_the_instants_is_put_on_them_by_straight_lines_but_never_over_a_gap(tmp_path):
    rng = np.random.default_rng(4)
    stamps = START + (np.arange(-2, 500) * 4 + rng.uniform(0.0, 3.0, 502)) * MS
    silence = (stamps > START + 800 * MS) & (stamps < START + 900 * MS)
    recording = read(tmp_path, ramp(), forces(stamps[~silence]))
    last = stamps[stamps <= START + 800 * MS].max()
    following = stamps[stamps >= START + 900 * MS].min()
    rows = START + np.arange(200) * 10 * MS
    gap = (rows > last) & (rows < following)
    assert 8 <= gap.sum() <= 11
    values = recording.column("foot.fz")
    np.testing.assert_array_equal(np.isnan(values), gap)
    np.testing.assert_allclose(values[~gap], recording.time[~gap], rtol=0.0, atol=1e-9)


def test_a_slower_sensor_is_not_a_gap(tmp_path):
    recording = read(tmp_path, ramp(), forces(START + np.arange(0, 67) * 30 * MS + 3 * MS))
    inside = (recording.time >= 0.003) & (recording.time <= 1.983)
    np.testing.assert_array_equal(recording.measured("foot.fz"), inside)


def test_which_rows_are_read_together_does_not_matter():
    rng = np.random.default_rng(8)
    time = np.cumsum(rng.uniform(0.0005, 0.0015, 3000))
    turns = rng.normal(size=4) + np.cumsum(rng.normal(size=(3000, 4)), axis=0) * 0.02
    turns *= np.where(rng.uniform(size=3000) < 0.1, -1.0, 1.0)[:, None] / np.linalg.norm(turns, axis=1, keepdims=True)
    turns[np.arange(3000) % 150 != 0] = np.nan  # far slower than the rows
    values = {f"chest.quat.{axis}": turns[:, number] for number, axis in enumerate("xyzw")}
    values["chest.gyro.x"] = rng.normal(size=3000)
    columns = ResampledColumns(np.arange(1500) * 0.002, [Stream("/imu", time, values)])
    whole = columns.read(columns.names, 0, 1500)
    assert np.isfinite(whole["chest.quat.x"]).sum() > 1300
    for size in (1, 97, 400):
        for name in columns.names:
            parts = [columns.read([name], start, min(1500, start + size))[name] for start in range(0, 1500, size)]
            np.testing.assert_array_equal(np.concatenate(parts), whole[name])


def test_nothing_is_said_before_and_after_the_readings(tmp_path):
    recording = read(tmp_path, ramp(), forces(START + np.arange(50, 100) * 10 * MS + MS))
    rows = np.arange(200)
    np.testing.assert_array_equal(recording.measured("foot.fz"), (rows > 50) & (rows <= 99))


def test_the_joints_that_are_most_give_the_rows(tmp_path):
    many = [joint_state("/body", START + row * 20 * MS, ["a", "b", "c"], [0, 0, 0]) for row in range(50)]
    few = [joint_state("/hand", START + row * MS, ["d"], [row]) for row in range(1000)]
    assert len(read(tmp_path, few, many)) == 50
    slow = [joint_state("/slow", START + row * 20 * MS, ["d"], [0]) for row in range(50)]
    fast = [joint_state("/fast", START + row * 10 * MS, ["e"], [0]) for row in range(100)]
    assert len(read(tmp_path, slow, fast)) == 100


def test_stamps_are_exact_to_the_nanosecond_since_1970(tmp_path):
    stamps = [START + 123_456_789 + row * 1_000_001 for row in range(50)]
    recording = read(tmp_path, [joint_state("/j", stamp, ["a"], [0.0]) for stamp in stamps])
    assert recording.epoch == START // SECOND
    again = [recording.epoch * SECOND + round(time * 1e9) for time in recording.time]
    assert again == stamps


def test_the_clock_can_be_that_of_receipt(tmp_path):
    late = [message._replace(received=message.stamp + 5 * MS) for message in ramp()]
    assert read(tmp_path, late).time[0] == 0.0
    assert read(tmp_path, late, clock="receive").time[0] == pytest.approx(0.005, abs=1e-12)
    setup = Setup(recording=RecordingMap(clock="receive"))
    assert read(tmp_path, late, setup=setup).time[0] == pytest.approx(0.005, abs=1e-12)
    assert read(tmp_path, late, setup=setup, clock="message").time[0] == 0.0
    with pytest.raises(RecordingError, match=r"no clock 'recieve'; did you mean 'receive'"):
        read(tmp_path, late, clock="recieve")


def test_messages_without_stamps_are_taken_as_received_and_said(tmp_path):
    unstamped = [message._replace(stamp=0) for message in ramp()]
    recording = read(tmp_path, unstamped)
    assert recording.epoch == START // SECOND
    np.testing.assert_allclose(recording.time, np.arange(200) / 100, rtol=0.0, atol=1e-12)
    assert recording.notes == ("the messages of '/joint_states' carry no time; the time of their receipt is used",)
    some = [message._replace(stamp=0) if row in {3, 4} else message for row, message in enumerate(ramp())]
    recording = read(tmp_path, some)
    assert len(recording) == 198
    assert recording.notes == ("2 of 200 messages of '/joint_states' carry no time and were dropped",)


def test_a_clock_that_starts_at_zero_is_one(tmp_path):
    recording = read(tmp_path, ramp(50, start=0))
    assert (recording.epoch, len(recording), recording.time[0]) == (0, 50, 0.0)
    assert recording.notes == ()


def test_clocks_that_differ_are_named_with_offset_and_spread(tmp_path):
    rng = np.random.default_rng(0)
    joints = [message._replace(received=message.stamp + int(rng.uniform(0, 4 * MS))) for message in ramp()]
    late = [message._replace(received=message.received + 3200 * MS) for message in joints]
    (note,) = read(tmp_path, late).notes
    assert note.startswith("message and receive times of '/joint_states' differ by 3.2 s (median), spread 3.")
    assert note.endswith(" ms; message time is used")
    assert read(tmp_path, late, clock="receive").notes[0].endswith("receive time is used")
    assert read(tmp_path, joints).notes == ()


def test_a_sensor_on_another_machines_clock_is_named(tmp_path):
    feet = forces(START + np.arange(200) * 10 * MS)
    other = shifted(feet, -500 * MS)
    recording = read(tmp_path, ramp(), other)
    assert recording.notes == (
        "message and receive times of '/foot/wrench' differ by 0.5 s (median), spread 0 ms; message time is used",
        "'/foot/wrench' is on another clock than '/joint_states': its messages are received 0.5 s after their time, "
        'the others 0 s; clock = "receive" would put them together',
    )
    assert recording.column("foot.fz")[0] == pytest.approx(0.5)
    together = read(tmp_path, ramp(), other, clock="receive")
    np.testing.assert_allclose(together.column("foot.fz"), together.time, rtol=0.0, atol=1e-12)


def test_a_sensor_whose_clock_never_meets_the_joints_is_an_error_with_the_remedy(tmp_path):
    other = shifted(forces(START + np.arange(200) * 10 * MS), -50 * SECOND)
    with pytest.raises(
        RecordingError, match=r"'/foot/wrench' carry are 50 s away from .* '/joint_states': .*clock = \"receive\""
    ):
        read(tmp_path, ramp(), other)
    assert read(tmp_path, ramp(), other, clock="receive").measured("foot.fz").all()
    before = forces(START - 50 * SECOND + np.arange(20) * 10 * MS)
    recording = read(tmp_path, ramp(), before)
    assert recording.columns == ("q.hip", "q.knee")
    assert "'/foot/wrench' was left out: all of it lies before or after '/joint_states'" in recording.notes


def test_a_clock_that_drifts_is_named(tmp_path):
    slow = [message._replace(stamp=START + (message.stamp - START) * 97 // 100) for message in ramp()]
    (note,) = read(tmp_path, slow).notes
    assert note.startswith("the times of '/joint_states' drift by 5")
    assert note.endswith("ms against the times of receipt; message time is used")


def test_a_clock_that_jumps_back_is_an_error_that_says_where(tmp_path):
    messages = ramp()
    jumped = messages[:120] + shifted(messages[120:], -3 * SECOND)
    with pytest.raises(
        RecordingError,
        match=r"walk.mcap, topic '/joint_states': the clock jumps back by 2.990 s after 1.190 s.*clock = \"receive\"",
    ):
        read(tmp_path, jumped)
    assert len(read(tmp_path, jumped, clock="receive")) == 200


def test_a_few_messages_out_of_order_are_dropped_and_said(tmp_path):
    messages = ramp()
    messages[50] = messages[50]._replace(stamp=messages[48].stamp + 1)
    messages[70] = messages[70]._replace(stamp=messages[69].stamp)
    recording = read(tmp_path, messages)
    np.testing.assert_array_equal(recording.column("q.hip"), np.delete(np.arange(200), [50, 70]) / 100)
    (note,) = recording.notes
    assert note.startswith(
        "'/joint_states': 2 of 200 rows have times that do not increase (1 repeated and 1 out of order)"
    )
    swapped = [message for pair in zip(messages[1::2], messages[::2], strict=True) for message in pair]
    swapped = [message._replace(received=START + row) for row, message in enumerate(swapped)]
    with pytest.raises(RecordingError, match=r"'/joint_states': time runs backwards in .*clock = \"receive\""):
        read(tmp_path, swapped)


def test_ros1_bags_have_the_same_clocks(tmp_path):
    messages = [message._replace(received=message.stamp + 250 * MS) for message in ramp(20)]
    feet = [imu("/chest/imu", START + row * 10 * MS, gyro=(row, 0, 0)) for row in range(20)]
    path = write(tmp_path / "walk.bag", in_order(messages, feet))
    recording = read_bag_file(path)
    np.testing.assert_array_equal(recording.column("chest.gyro.x"), np.arange(20))
    assert len(recording.notes) == 2
    shifted_rows = read_bag_file(path, clock="receive")
    assert shifted_rows.time[0] == pytest.approx(0.25)


def joints_from(count, order, stamp, received):
    """Joint states at 100 Hz whose positions are the row and its negative."""
    return [
        joint_state("/joint_states", stamp + row * 10 * MS, order, [row, -row], received=received + row * 10 * MS)
        for row in range(count)
    ]


@pytest.mark.parametrize("second", [("knee", "hip"), ("elbow", "wrist")])
def test_a_clock_that_starts_again_while_the_joints_change_is_an_error(second, tmp_path):
    first = joints_from(300, ("hip", "knee"), START, START)
    again = joints_from(300, second, START + 3 * MS, START + 5 * SECOND)
    with pytest.raises(
        RecordingError,
        match=r"walk.mcap, topic '/joint_states': the clock jumps back by 2.987 s after 2.990 s \(message 299\); cut",
    ):
        read(tmp_path, first, again)
    assert read(tmp_path, first, again, clock="receive").duration == pytest.approx(
        7.99 if second[0] == "knee" else 2.99
    )


def test_publishers_of_one_topic_may_come_late_by_different_times(tmp_path):
    late = joints_from(200, ("elbow", "wrist"), START, START + 400 * MS)
    recording = read(tmp_path, ramp(), late)
    np.testing.assert_array_equal(recording.column("q.elbow"), np.arange(200))


def simulated(stamps, **options):
    return [
        joint_state("/joint_states", int(stamp), ["hip"], [row], received=START + row * 10 * MS, **options)
        for row, stamp in enumerate(stamps)
    ]


def test_messages_before_a_simulation_tells_the_time_are_dropped_and_said(tmp_path):
    times = 523 * SECOND + np.arange(100) * 10 * MS
    recording = read(tmp_path, simulated([0, 0, 0, *times]))
    np.testing.assert_array_equal(recording.column("q.hip"), np.arange(3, 103))
    assert recording.time[0] == 523.0
    assert recording.notes[0] == "3 of 103 messages of '/joint_states' carry no time and were dropped"
    assert not any("leap" in note for note in recording.notes)


def test_zeros_among_the_times_of_a_simulation_are_none(tmp_path):
    times = 523 * SECOND + np.arange(100) * 10 * MS
    times[[20, 21, 50, 99]] = 0
    recording = read(tmp_path, simulated(times))
    np.testing.assert_array_equal(recording.column("q.hip"), np.delete(np.arange(100), [20, 21, 50, 99]))
    assert recording.notes[0] == "4 of 100 messages of '/joint_states' carry no time and were dropped"


def test_a_simulation_that_starts_at_zero_keeps_it_and_one_that_starts_again_is_an_error(tmp_path):
    times = np.arange(100) * 10 * MS
    assert len(read(tmp_path, simulated(times))) == 100
    with pytest.raises(RecordingError, match=r"the clock jumps back by 1.990 s after 1.990 s"):
        read(tmp_path, simulated([*(np.arange(200) * 10 * MS), *times]))


def test_a_stream_without_times_in_a_simulation_is_dropped(tmp_path):
    hip = simulated(5 * SECOND + np.arange(100) * 10 * MS)
    knee = [joint_state("/joint_states", 0, ["knee"], [row], received=START + row * 10 * MS + MS) for row in range(50)]
    recording = read(tmp_path, hip, knee)
    assert recording.columns == ("q.hip",)
    assert recording.notes[0] == "50 of 150 messages of '/joint_states' carry no time and were dropped"
    wall = read(tmp_path, ramp(names=("hip",)), knee)
    np.testing.assert_allclose(wall.column("q.knee")[1:50], np.arange(1, 50) - 0.1, rtol=0.0, atol=1e-6)
    assert "some messages of '/joint_states' carry no time; the time of their receipt is used" in wall.notes


def test_a_clock_that_leaps_is_named(tmp_path):
    leap = np.where(np.arange(200) < 120, 0, 3600 * SECOND)
    joints = [message._replace(stamp=message.stamp + int(more)) for message, more in zip(ramp(), leap, strict=True)]
    assert read(tmp_path, joints).notes[0].startswith("'/joint_states': time leaps by 3600.010 s after 1.1900 s")
    assert not any("leap" in note for note in read(tmp_path, ramp()).notes)


def test_a_topic_that_is_far_slower_than_the_joints_says_what_is_between_its_readings(tmp_path):
    on_rows = forces(START + np.arange(0, 200, 10) * 10 * MS)
    rng = np.random.default_rng(3)
    beside = [*START + np.arange(0, 200, 10) * 10 * MS + rng.integers(MS, 9 * MS, 20)]
    assert read(tmp_path, ramp(), on_rows).notes == (
        "'/foot/wrench' comes at 10 Hz, the joints at 100 Hz: between its readings nothing",
    )
    (note,) = read(tmp_path, ramp(), forces(beside)).notes
    assert note.endswith("Hz, the joints at 100 Hz: between its readings straight lines")
    both = read(tmp_path, ramp(), on_rows, forces(START + np.arange(0, 200, 10) * 10 * MS, topic="/hand/wrench"))
    assert both.notes == (
        "'/foot/wrench' and '/hand/wrench' come at 10 Hz, the joints at 100 Hz: between their readings nothing",
    )
    assert read(tmp_path, ramp(), forces(START + np.arange(0, 200, 2) * 10 * MS)).notes == ()


def test_a_topic_of_which_little_is_left_is_named(tmp_path):
    burst = np.concatenate([START + start * 500 * MS + np.arange(50) * MS // 10 + 1 for start in range(4)])
    recording = read(tmp_path, ramp(), forces(burst))
    assert np.count_nonzero(recording.measured("foot.fz")) == 0
    assert recording.notes == (
        "'/foot/wrench' has about as many messages as the joints, but 100 % of the rows have no reading of it: its "
        "messages come in bursts, with gaps between them",
    )
