"""Which topic is which sensor."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard import RecordingError
from steelyard.model.recording_map import RecordingMap
from steelyard.model.setup import Imu, Setup, WrenchSensor
from steelyard.recording.bags.message_streams import RECEIVED, STAMPS, MessageStream
from steelyard.recording.bags.ros_messages import ROS_TYPES
from steelyard.recording.bags.topics import assign_topics, ignored_topics

COLUMNS = {
    "imu": ("gyro.x", "accel.x", "quat.x"),
    "wrench": ("fx", "fy", "fz", "nx", "ny", "nz"),
    "odometry": ("position.x", "quat.x"),
}
TYPES = {kind: name for name, kind in ROS_TYPES.items()}
IMUS = (Imu("pelvis", "imu_in_pelvis"), Imu("torso", "imu_in_torso"))
FEET = (WrenchSensor("left_foot", "left_ankle"), WrenchSensor("right_foot", "right_ankle"))


def stream(kind, topic, frame="", joints=("hip",), fields=("q",)):
    names = COLUMNS.get(kind) or tuple(f"{field}.{joint}" for field in fields for joint in joints)
    time = np.arange(3)
    clocks = {STAMPS: time.view(np.float64), RECEIVED: time.view(np.float64)}
    return MessageStream(topic, kind, frame, joints if kind == "joints" else (), {}, names, clocks)


def assign(*streams, setup=None, **topics):
    setup = setup or Setup(imus=IMUS, wrench_sensors=FEET)
    if topics:
        chosen = RecordingMap(topics={f"/{topic}": target for topic, target in topics.items()})
        setup = Setup(imus=setup.imus, wrench_sensors=setup.wrench_sensors, recording=chosen)
    types = {each.topic: TYPES[each.kind] for each in streams} | {"/tf": "tf2_msgs/TFMessage"}
    left = [each for each in streams if each.topic not in ignored_topics(setup)]
    assigned, notes = assign_topics("walk.bag", left, types, setup)
    return {each.stream.topic: sorted({name.partition(".")[0] for name in each.sources}) for each in assigned}, notes


@pytest.mark.parametrize("frame", ["imu_in_torso", "/imu_in_torso", "robot/imu_in_torso", "/g1/imu_in_torso"])
def test_a_sensor_is_found_by_its_frame(frame):
    assert assign(stream("imu", "/imu/data", frame)) == ({"/imu/data": ["torso"]}, [])


@pytest.mark.parametrize("topic", ["/torso/imu", "/imu_torso", "/g1/TorsoImu/data", "/imu/torso/raw"])
def test_else_by_its_name_in_the_topic(topic):
    assert assign(stream("imu", topic, "somewhere")) == ({topic: ["torso"]}, [])


def test_the_frame_counts_for_more_than_the_topic():
    found, _ = assign(stream("imu", "/torso/imu", "imu_in_pelvis"), stream("imu", "/pelvis/imu", "imu_in_torso"))
    assert found == {"/torso/imu": ["pelvis"], "/pelvis/imu": ["torso"]}


def test_a_longer_name_counts_for_more_than_a_shorter_one_within_it():
    setup = Setup(wrench_sensors=(WrenchSensor("foot", "a"), WrenchSensor("left_foot", "b")))
    found, _ = assign(stream("wrench", "/left_foot/wrench"), stream("wrench", "/foot/wrench"), setup=setup)
    assert found == {"/left_foot/wrench": ["left_foot"], "/foot/wrench": ["foot"]}


def test_what_steelyard_wrote_is_found_even_where_names_and_frames_cross():
    setup = Setup(wrench_sensors=(WrenchSensor("foot", "ankle"), WrenchSensor("sole", "foot")))
    written = [stream("wrench", f"/{name}/wrench", name) for name in ("foot", "sole")]
    assert assign(*written, setup=setup)[0] == {"/foot/wrench": ["foot"], "/sole/wrench": ["sole"]}


def test_a_single_sensor_is_taken_for_the_only_one_and_said():
    setup = Setup(imus=IMUS[:1])
    found, notes = assign(stream("imu", "/imu/data", "imu_link"), setup=setup)
    assert found == {"/imu/data": ["pelvis"]}
    assert notes == [
        "'/imu/data' was taken for 'pelvis', the only one of its kind, although its frame is 'imu_link' and not "
        "'imu_in_pelvis'"
    ]


def test_sensors_that_the_setup_does_not_have_are_left_out_and_said():
    found, notes = assign(
        stream("imu", "/head/imu", "head"), stream("imu", "/torso/imu"), stream("imu", "/hand/imu", "h")
    )
    assert found == {"/torso/imu": ["torso"]}
    assert len(notes) == 1
    assert notes[0].startswith("'/head/imu' (frame 'head') and '/hand/imu' (frame 'h') were left out")
    found, notes = assign(stream("wrench", "/left_foot/ft"), setup=Setup(imus=IMUS))
    assert not found
    assert "'/left_foot/ft' (frame '') was left out: no [[wrench_sensor]]" in notes[0]


def test_two_topics_for_one_sensor_are_an_error_until_one_is_chosen():
    two = (stream("imu", "/imu/data", "imu_in_torso"), stream("imu", "/imu/data_raw", "imu_in_torso"))
    with pytest.raises(
        RecordingError,
        match=r"walk.bag: '/imu/data' .*'/imu/data_raw' .*both.*'torso'; choose one in \[recording.topics\]",
    ):
        assign(*two)
    assert assign(*two, **{"imu/data_raw": "ignore"})[0] == {"/imu/data": ["torso"]}
    found, notes = assign(*two, **{"imu/data_raw": "torso"})
    assert found == {"/imu/data_raw": ["torso"]}
    assert "'/imu/data' (frame 'imu_in_torso') was left out" in notes[0]


def test_the_setup_wins():
    found, _ = assign(stream("imu", "/torso/imu", "imu_in_torso"), **{"torso/imu": "pelvis"})
    assert found == {"/torso/imu": ["pelvis"]}
    found, _ = assign(stream("joints", "/joint_commands"), joint_commands="joints")
    assert found == {"/joint_commands": ["q"]}


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ({"joint_state": "joints"}, r"has no topic '/joint_state', .*did you mean '/joint_states'"),
        ({"imu": "pelvi"}, r"'/imu' \(sensor_msgs/Imu\) is 'pelvi', which is not of its kind; did you mean 'pelvis'"),
        ({"imu": "left_foot"}, r"'/imu' .* is 'left_foot', which is not of its kind"),
        ({"joint_states": "base"}, r"'base', which is not of its kind; .*'joints'"),
        ({"tf": "base"}, r"'/tf' is 'base', but its type 'tf2_msgs/TFMessage' cannot be read"),
    ],
)
def test_wrong_choices_are_named(topics, message):
    with pytest.raises(RecordingError, match=message):
        assign(stream("joints", "/joint_states"), stream("imu", "/imu"), **topics)


def test_a_topic_that_is_ignored_need_not_be_there():
    assert assign(stream("joints", "/joint_states"), camera="ignore")[0] == {"/joint_states": ["q"]}


@pytest.mark.parametrize(
    ("topic", "quantity"),
    [
        ("/joint_states", "q"),
        ("/commander/arm/joint_states", "q"),
        ("/joint_commands", "q_command"),
        ("/arm/command", "q_command"),
        ("/desired/joint_states", "q_command"),
        ("/joint_target", "q_command"),
        ("/joint_states_reference", "q_command"),
    ],
)
def test_commands_are_told_from_states_by_their_topic(topic, quantity):
    assert assign(stream("joints", topic, fields=("q", "tau")))[0] == {
        topic: ["q", "tau"] if quantity == "q" else [quantity]
    }


def test_topics_that_share_joints_are_an_error_and_others_are_not():
    arm, leg = stream("joints", "/arm", joints=("elbow",)), stream("joints", "/leg", joints=("hip", "knee"))
    assert assign(arm, leg)[0] == {"/arm": ["q"], "/leg": ["q"]}
    torques = stream("joints", "/torques", joints=("hip", "knee"), fields=("tau",))
    assert assign(leg, torques)[0] == {"/leg": ["q"], "/torques": ["tau"]}
    both = stream("joints", "/all", joints=("knee", "hip", "elbow"))
    with pytest.raises(
        RecordingError, match=r"'/leg' and '/all' both give 'q.knee' and 1 more; choose one .*'/all' = \"ignore\""
    ):
        assign(leg, both)


def test_odometry_is_the_base():
    assert assign(stream("odometry", "/odom"))[0] == {"/odom": ["base"]}
    two = (stream("odometry", "/odom"), stream("odometry", "/slam"))
    with pytest.raises(RecordingError, match=r"'/odom' and '/slam' are all odometry; choose.*'/odom' = \"base\""):
        assign(*two)
    assert assign(*two, slam="base") == ({"/slam": ["base"]}, ["'/odom' was left out"])


def test_an_axis_that_a_sensor_lacks_is_no_column():
    setup = Setup(wrench_sensors=(WrenchSensor("board", "plate", axes=("fz", "nx", "ny")),))
    assigned, _ = assign_topics("x", [stream("wrench", "/board")], {"/board": TYPES["wrench"]}, setup)
    assert list(assigned[0].sources) == ["board.fz", "board.nx", "board.ny"]


def test_without_a_setup_sensors_are_called_after_their_topics():
    streams = [
        stream("wrench", "/left_foot/wrench"),
        stream("wrench", "/right_foot_ft_sensor"),
        stream("imu", "/imu"),
        stream("imu", "/imu/data"),
        stream("imu", "/robot/torso/imu/data_raw"),
        stream("imu", "/head/torso/imu"),
        stream("imu", "/base/imu"),
        stream("imu", "/left foot_ft/imu", "left foot_ft"),
    ]
    found, notes = assign(*streams, setup=Setup())
    assert not notes
    assert [names[0] for names in found.values()] == [
        "imu", "imu_data", "torso", "head_torso", "base_imu", "left foot_ft", "left_foot", "right_foot",
    ]  # fmt: skip


def test_without_sensors_in_the_setup_any_name_can_be_chosen():
    assert assign(stream("imu", "/imu"), setup=Setup(), imu="chest")[0] == {"/imu": ["chest"]}


def frames_of(found):
    return [each.stream.frame for each in found]


def assign_frames(frames, *, target="left_foot", sensors=FEET, topic="/ft"):
    setup = Setup(wrench_sensors=sensors, recording=RecordingMap(topics={topic: target} if target else {}))
    streams = [stream("wrench", topic, frame) for frame in frames]
    return assign_topics("walk.bag", streams, {topic: TYPES["wrench"]}, setup)


@pytest.mark.parametrize("target", ["left_foot", None])
def test_of_two_frames_on_one_topic_the_sensors_own_is_taken(target):
    found, notes = assign_frames(["left_ankle", "elsewhere"], target=target, topic="/left_foot/ft")
    assert frames_of(found) == ["left_ankle"]
    assert notes == [
        "messages of '/left_foot/ft' with the frame 'elsewhere' were left out: 'left_foot' is in 'left_ankle'"
    ]


@pytest.mark.parametrize("sensors", [FEET, ()])
def test_two_frames_of_which_none_is_the_sensors_are_an_error(sensors):
    with pytest.raises(
        RecordingError, match=r"walk.bag: the messages of '/ft' have several frames \('left' and 'right'\).*'left_foot'"
    ):
        assign_frames(["left", "right"], sensors=sensors)
    with pytest.raises(RecordingError, match=r"several frames \('a/left_ankle' and 'b/left_ankle'\)"):
        assign_frames(["a/left_ankle", "b/left_ankle"])


@pytest.mark.parametrize("frames", [["", "plate"], ["plate", "robot/plate", ""], ["/plate", "plate"], ["a/b/c", "c"]])
@pytest.mark.parametrize("target", ["left_foot", None])
def test_a_frame_that_is_empty_or_changes_by_a_prefix_is_the_same(frames, target):
    found, notes = assign_frames(frames, target=target, topic="/left_foot/ft")
    assert sorted(frames_of(found)) == sorted(frames)
    assert {tuple(each.sources) for each in found} == {tuple(f"left_foot.{axis}" for axis in COLUMNS["wrench"])}
    assert notes == []


def test_an_empty_frame_beside_two_others_is_neither():
    found, notes = assign_frames(["", "left_ankle", "elsewhere"])
    assert frames_of(found) == ["left_ankle"]
    assert "with the frame '' and 'elsewhere' were left out" in notes[0]


def test_two_sensors_may_share_a_topic_where_their_frames_tell_them_apart():
    found, notes = assign_frames(["left_ankle", "right_ankle"], target=None)
    assert {each.stream.frame: next(iter(each.sources)) for each in found} == {
        "left_ankle": "left_foot.fx",
        "right_ankle": "right_foot.fx",
    }
    assert notes == []
