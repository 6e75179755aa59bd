"""Messages are taken apart and put together as rosbags does it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.recording.bags.ros_encoding import Encoder, build_template
from steelyard.recording.bags.ros_messages import BrokenMessageError, Decoder, columns_of, find_layout, kind_of
from tests.recording.bags.bags import (
    IMU,
    JOINT_STATE,
    ODOMETRY,
    START,
    WRENCH,
    encode,
    imu,
    joint_state,
    odometry,
    types,
    wrench,
)

KINDS = {JOINT_STATE: "joints", IMU: "imu", WRENCH: "wrench", ODOMETRY: "odometry"}
ENCODINGS = [("ros1", True), ("cdr", True), ("cdr", False)]

floats = st.floats(allow_nan=True, allow_infinity=True, width=64)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
stamps = st.integers(0, 2**31 - 1).flatmap(lambda s: st.integers(0, 999_999_999).map(lambda ns: s * 10**9 + ns))


@st.composite
def joint_states(draw):
    names = draw(st.lists(texts, min_size=1, max_size=6, unique=True))
    numbers = st.lists(floats, min_size=len(names), max_size=len(names))
    fields = [draw(st.just([]) | numbers) for _ in range(3)]
    if not any(fields):
        fields[0] = draw(numbers)
    return joint_state("/j", draw(stamps), names, *fields, frame=draw(texts))


def numbers(count):
    return st.lists(floats, min_size=count, max_size=count)


@st.composite
def sensors(draw):
    frame, stamp = draw(texts), draw(stamps)
    kind = draw(st.sampled_from(["imu", "wrench", "odometry"]))
    if kind == "imu":
        parts = {"gyro": draw(numbers(3)), "accel": draw(numbers(3)), "quat": draw(numbers(4))}
        return imu("/i", stamp, covariance=draw(st.sampled_from([0.0, -1.0])), frame=frame, **parts)
    if kind == "wrench":
        return wrench("/w", stamp, draw(numbers(6)), frame=frame)
    return odometry("/o", stamp, draw(numbers(3)), draw(numbers(4)), frame=frame)


def expected_columns(message, encoding, raw):
    """Gives the columns of a message by rosbags' own reading of it."""
    store = types(encoding)
    read = (store.deserialize_ros1 if encoding == "ros1" else store.deserialize_cdr)(raw, message.kind)
    if message.kind == JOINT_STATE:
        groups = {"q": read.position, "v": read.velocity, "tau": read.effort}
        return {
            f"{quantity}.{name}": value
            for quantity, values in groups.items()
            if len(values)
            for name, value in zip(read.name, values, strict=True)
        }
    if message.kind == WRENCH:
        force, torque = read.wrench.force, read.wrench.torque
        return dict(
            zip(
                ("fx", "fy", "fz", "nx", "ny", "nz"),
                (force.x, force.y, force.z, torque.x, torque.y, torque.z),
                strict=True,
            )
        )
    if message.kind == IMU:
        parts = {"gyro": read.angular_velocity, "accel": read.linear_acceleration, "quat": read.orientation}
        unknown = read.orientation_covariance[0] == -1.0
    else:
        parts = {"position": read.pose.pose.position, "quat": read.pose.pose.orientation}
        unknown = False
    turn = parts["quat"]
    if unknown or turn.x == turn.y == turn.z == turn.w == 0.0:
        turn.x = turn.y = turn.z = turn.w = np.nan
    return {
        f"{part}.{axis}": getattr(value, axis)
        for part, value in parts.items()
        for axis in ("xyzw" if part == "quat" else "xyz")
    }


def decode_one(message, raw, encoding):
    decoded, broken = Decoder(KINDS[message.kind], encoding).decode([raw])
    assert not broken
    (part,) = decoded
    return part, dict(zip(columns_of(KINDS[message.kind], part.layout), part.rows[0].tolist(), strict=True))


@pytest.mark.parametrize(("encoding", "little_endian"), ENCODINGS)
@given(message=joint_states() | sensors())
def test_a_message_is_read_as_rosbags_reads_it(encoding, little_endian, message):
    raw = encode(message, encoding, little_endian=little_endian)
    part, values = decode_one(message, raw, encoding)
    expected = expected_columns(message, encoding, raw)
    assert list(values) == list(expected)
    np.testing.assert_array_equal(list(values.values()), list(expected.values()))
    assert part.stamps.tolist() == [message.stamp]
    assert part.layout.frame == message.frame


@pytest.mark.parametrize("encoding", ["ros1", "cdr"])
@given(messages=st.lists(joint_states(), min_size=1, max_size=12), again=st.integers(1, 3))
def test_many_messages_of_many_shapes_are_read_like_each_alone(encoding, messages, again):
    messages = messages * again
    raws = [encode(message, encoding) for message in messages]
    decoder = Decoder("joints", encoding)
    for _ in range(2):  # with layouts that are new, and with layouts that are known
        decoded, broken = decoder.decode(raws)
        assert not broken
        assert sorted(number for part in decoded for number in part.numbers.tolist()) == list(range(len(raws)))
        for part in decoded:
            assert np.all(np.diff(part.numbers) > 0)
            for number, stamp, row in zip(part.numbers, part.stamps, part.rows, strict=True):
                alone, _ = decode_one(messages[number], raws[number], encoding)
                assert columns_of("joints", part.layout) == columns_of("joints", alone.layout)
                assert stamp == messages[number].stamp
                np.testing.assert_array_equal(row, alone.rows[0])


def test_bytes_between_fields_do_not_matter():
    clean = encode(joint_state("/j", START, ["a"], [1.5], [2.5]), "cdr")
    dirty = bytearray(clean)
    for place in (2, 3, 17, 18, 19, 30, 31):  # the header's options, and what aligns the next number
        assert dirty[place] == 0
        dirty[place] = 0xAA
    decoded, broken = Decoder("joints", "cdr").decode([clean, bytes(dirty)])
    assert not broken
    assert len(decoded) == 1
    np.testing.assert_array_equal(decoded[0].rows, [[1.5, 2.5], [1.5, 2.5]])


@pytest.mark.parametrize("encoding", ["ros1", "cdr"])
@given(
    message=joint_states() | sensors(), places=st.lists(st.floats(0, 1, exclude_max=True), max_size=6), data=st.data()
)
def test_broken_messages_are_named_and_never_crash(encoding, message, places, data):
    raw = bytearray(encode(message, encoding))
    for place in places:
        raw[int(place * len(raw))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))]
    good = encode(message, encoding)
    decoded, broken = Decoder(KINDS[message.kind], encoding).decode([good, bytes(raw), good])
    taken = [number for part in decoded for number in part.numbers.tolist()]
    assert sorted([*taken, *broken]) == [0, 1, 2]
    assert {0, 2} <= set(taken)
    assert all(broken.values())


def test_what_is_broken_is_said():
    good = joint_state("/j", START, ["a", "b"], [1.0, 2.0])
    twice = encode(joint_state("/j", START, ["a", "a"], [1.0, 2.0]), "cdr")
    uneven = encode(joint_state("/j", START, ["a", "b"], [1.0]), "cdr")
    nameless = encode(joint_state("/j", START, [], []), "cdr")
    empty = encode(joint_state("/j", START, ["a"]), "cdr")
    whole = encode(good, "cdr")
    not_utf8 = whole.replace(b"a\0", b"\xff\0")
    no_time = whole[:8] + (10**9).to_bytes(4, "little") + whole[12:]
    endless = whole.replace((2).to_bytes(4, "little"), (2**31).to_bytes(4, "little"), 1)
    raws = [twice, uneven, nameless, empty, whole[:-1], whole + bytes(8), not_utf8, no_time, endless, b"", b"\7\7\7\7"]
    decoded, broken = Decoder("joints", "cdr").decode(raws)
    assert not any(len(part.numbers) for part in decoded)
    assert [broken[number] for number in range(len(raws))] == [
        "it names a joint twice",
        "it has 2 names, but the size of 'position' is 1",
        "it names no joints",
        "it has names, but no position, velocity or effort",
        "it ends too early",
        "it goes on for 8 bytes after its end",
        "a name in it is not UTF-8",
        "its stamp is no time",
        "it ends before the 2147483648 elements that it announces",
        "it does not begin like a CDR message",
        "it does not begin like a CDR message",
    ]


@pytest.mark.parametrize("encoding", ["ros1", "cdr"])
@given(message=joint_states())
def test_joint_states_are_written_as_rosbags_writes_them(encoding, message):
    values = {
        field: message.values[field] for field in ("position", "velocity", "effort") if len(message.values[field])
    }
    template = build_template("joints", encoding, message.frame, joints=message.values["name"], fields=tuple(values))
    written = Encoder("joints", encoding, template).encode(
        np.array([message.stamp]), {field: np.array([numbers]) for field, numbers in values.items()}
    )
    assert same_but_for_count(written.tobytes(), encode(message, encoding), encoding)


@pytest.mark.parametrize("encoding", ["ros1", "cdr"])
def test_sensors_are_written_as_rosbags_writes_them(encoding):
    rng = np.random.default_rng(3)
    gyro, accel, quat, six = rng.normal(size=3), rng.normal(size=3), rng.normal(size=4), rng.normal(size=6)
    cases = [
        (
            imu("/i", START + 5, gyro=gyro, accel=accel, quat=quat, frame="chest"),
            {"gyro": gyro, "accel": accel, "quat": quat},
        ),
        (imu("/i", START + 5, gyro=gyro, accel=accel, covariance=-1.0, frame="chest"), {"gyro": gyro, "accel": accel}),
        (wrench("/w", START, six, frame="sole"), {"wrench": six}),
    ]
    for message, values in cases:
        kind = KINDS[message.kind]
        template = build_template(kind, encoding, message.frame, fields=tuple(values))
        rows = {field: row[None] for field, row in values.items()}
        written = Encoder(kind, encoding, template).encode(np.array([message.stamp]), rows)
        assert same_but_for_count(written.tobytes(), encode(message, encoding), encoding)


def same_but_for_count(ours, theirs, encoding):
    """ROS 1 counts the messages of a publisher in the first four bytes."""
    return ours[4:] == theirs[4:] if encoding == "ros1" else ours == theirs


def test_ros1_counts_its_messages():
    encoder = Encoder("wrench", "ros1", build_template("wrench", "ros1", ""))
    both = [encoder.encode(np.array([START, START + 1]), {"wrench": np.zeros((2, 6))}) for _ in range(2)]
    assert np.concatenate(both)[:, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sensor_msgs/JointState", "joints"),
        ("sensor_msgs/msg/JointState", "joints"),
        ("sensor_msgs__msg__JointState", "joints"),
        ("sensor_msgs::msg::dds_::JointState_", "joints"),
        ("sensor_msgs/msg/Imu", "imu"),
        ("geometry_msgs/WrenchStamped", "wrench"),
        ("nav_msgs/msg/Odometry", "odometry"),
        ("geometry_msgs/Wrench", None),
        ("my_msgs/msg/Imu", None),
        ("", None),
    ],
)
def test_types_are_known_in_every_spelling(name, kind):
    assert kind_of(name) == kind


def test_a_layout_is_found_once_for_all():
    with pytest.raises(BrokenMessageError, match="ends too early"):
        find_layout("wrench", "ros1", b"\0" * 10)
    layout = find_layout("wrench", "ros1", encode(wrench("/w", START, range(6), frame="f"), "ros1"))
    assert layout.frame == "f"
    assert layout.fields == {"wrench": (17, 6)}
