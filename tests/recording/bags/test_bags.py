"""Recordings survive being written as bags, and others' bags are read."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap.writer import CompressionType
from rosbags import rosbag1
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

from steelyard import Recording, RecordingError
from steelyard.model.recording_map import RecordingMap
from steelyard.model.setup import Imu, Setup, WrenchSensor
from steelyard.recording.bags.bag_file import write_ros1, write_ros2
from steelyard.recording.bags.mcap_file import write_mcap
from steelyard.recording.columns import LazyColumns
from tests.laboratory.trials import robot, short_trial
from tests.recording.bags.bags import START, imu, in_order, joint_state, odometry, ramp, read, types, wrench, write

FORMATS = {
    "walk.mcap": write_mcap,
    "walk.bag": write_ros1,
    "walk_mcap": write_ros2,
    "walk_sqlite3": lambda recording, path: write_ros2(recording, path, storage="sqlite3"),
}
TIME = np.arange(50) * 0.01


def assert_same(first, second):
    assert set(first.columns) == set(second.columns)
    for name in first.columns:
        np.testing.assert_array_equal(first.column(name), second.column(name), err_msg=name, strict=True)
    offset = float(second.epoch - first.epoch)
    np.testing.assert_allclose(second.time + offset, first.time, rtol=0.0, atol=1e-9)


@pytest.fixture(scope="module")
def trial():
    return replace(short_trial("g1", "sway", noise="default").recording, epoch=1_760_000_000)


@pytest.mark.parametrize("name", FORMATS)
def test_a_trial_comes_back_bit_for_bit(trial, name, tmp_path):
    writer = FORMATS[name]
    assert np.isnan(trial.column("pelvis.quat.x")).sum() > 1000  # a sensor that is slower than the rows
    writer(trial, tmp_path / name)
    again = read(tmp_path / name, robot("g1").setup, None)
    assert_same(trial, again)
    assert again.epoch == trial.epoch
    assert again.name == name
    assert again.notes == ()
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", FORMATS)
def test_rows_without_readings_come_back_without_them(trial, name, tmp_path):
    values = {column: trial.column(column).copy() for column in trial.columns}
    for column, readings in values.items():
        if column.startswith("q."):
            readings[[0, 5, 6, 700, -1]] = np.nan  # no joint has a reading
        elif column.startswith("left_foot."):
            readings[[10, 300]] = np.nan
        elif column.startswith("right_foot."):
            readings[np.arange(len(readings)) % 10 != 3] = np.nan  # a tenth as often as the joints
        elif column.startswith("torso."):
            readings[:1000] = np.nan
    masked = trial.with_values(values)
    writer = FORMATS[name]
    writer(masked, tmp_path / name)
    assert_same(masked, read(tmp_path / name, robot("g1").setup, None))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("mapped", [True, False])
def test_a_bag_says_whether_a_map_is_in_it_already(name, mapped, tmp_path):
    recording = Recording(TIME, {"q.hip": TIME, "left.fz": TIME}, "x", mapped=mapped)
    writer = FORMATS[name]
    writer(recording, tmp_path / name)
    setup = Setup(wrench_sensors=(WrenchSensor("left", "ankle"),))
    assert read(tmp_path / name, setup, None).mapped == mapped
    # The setup speaks of the bag that this one was made from: its topics are not looked for.
    setup = replace(setup, recording=RecordingMap(topics={"/ft/raw": "left"}))
    assert_same(recording, read(tmp_path / name, setup, None))


@pytest.mark.parametrize("name", FORMATS)
def test_any_columns_come_back(name, tmp_path):
    rng = np.random.default_rng(5)
    names = [
        "q.a/b", "q.<b>\n", "q.é.x", "v.a/b", "tau.<b>\n", "tau.only torque", "q_command.a/b",
        "imu.gyro.x", "imu.gyro.z", "odd name_ft.quat.x", "odd name_ft.quat.y", "odd name_ft.quat.z",
        "odd name_ft.quat.w", "left.fx", "left.nz", "base.position.x", "base.quat.w",
    ]  # fmt: skip
    columns = {name: rng.normal(size=len(TIME)) for name in names}
    columns["left.fx"][::3] = np.nan
    columns["left.nz"][::3] = np.nan  # these rows are not written at all
    columns["left.nz"][1::3] = np.nan
    columns["v.a/b"][7:] = np.nan
    columns["q.a/b"][3] = np.inf
    recording = Recording(TIME + 0.25, columns, "odd", 1_760_000_000)
    writer = FORMATS[name]
    writer(recording, tmp_path / name)
    assert_same(recording, read(tmp_path / name, Setup(), None))


@pytest.mark.parametrize("name", FORMATS)
def test_times_since_zero_stay_so(name, tmp_path):
    writer = FORMATS[name]
    recording = Recording(np.cumsum(np.random.default_rng(0).uniform(0.001, 2.0, 50)), {"q.hip": TIME}, "x")
    writer(recording, tmp_path / name)
    again = read(tmp_path / name, Setup(), None)
    assert again.epoch == 0
    assert_same(recording, again)


@pytest.mark.parametrize("name", FORMATS)
def test_others_read_what_is_written(trial, name, tmp_path):
    short = trial.rows(0, 100)
    FORMATS[name](short, tmp_path / name)
    store = get_typestore(Stores.ROS1_NOETIC if name.endswith(".bag") else Stores.ROS2_HUMBLE)
    seen = {}
    with AnyReader([tmp_path / name], default_typestore=store) as reader:
        for connection, received, raw in reader.messages():
            message = reader.deserialize(raw, connection.msgtype)
            stamp = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
            assert stamp == received
            seen.setdefault(connection.topic, []).append((stamp, message))
    assert list(seen) == [
        "/joint_states", "/joint_commands", "/pelvis/imu", "/torso/imu", "/left_foot/wrench", "/right_foot/wrench",
    ]  # fmt: skip
    joints = [name.removeprefix("q.") for name in short.columns if name.startswith("q.")]
    for row, (stamp, message) in enumerate(seen["/joint_states"]):
        assert stamp == 1_760_000_000 * 10**9 + round(short.time[row] * 1e9)
        assert message.name == joints
        np.testing.assert_array_equal(message.position, [short.column(f"q.{joint}")[row] for joint in joints])
        assert len(message.velocity) == len(message.effort) == 0
    for row, (_, message) in enumerate(seen["/torso/imu"]):
        assert message.header.frame_id == "torso"
        assert message.linear_acceleration.z == short.column("torso.accel.z")[row]
        np.testing.assert_array_equal(message.orientation.w, short.column("torso.quat.w")[row])
    assert seen["/left_foot/wrench"][3][1].wrench.torque.y == short.column("left_foot.ny")[3]


def test_mcaps_own_reader_reads_what_is_written(trial, tmp_path):
    write_mcap(trial.rows(0, 50), tmp_path / "walk.mcap")
    with (tmp_path / "walk.mcap").open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        messages = list(reader.iter_messages(topics=["/right_foot/wrench"]))
        assert reader.get_header().profile == "ros2"
    assert len(messages) == 50
    schema, channel, message = messages[4]
    assert (schema.name, schema.encoding, channel.message_encoding) == (
        "geometry_msgs/msg/WrenchStamped",
        "ros2msg",
        "cdr",
    )
    read_by_rosbags = types("cdr").deserialize_cdr(message.data, schema.name)
    assert read_by_rosbags.wrench.force.z == trial.column("right_foot.fz")[4]


def others_messages():
    rng = np.random.default_rng(2)
    names, rows = ("hip", "knee"), 30
    numbers = rng.normal(size=(rows, 22))
    stamps = [START + row * 5_000_000 for row in range(rows)]
    messages = []
    for stamp, row in zip(stamps, numbers, strict=True):
        messages.append(joint_state("/joint_states", stamp, names, row[:2], row[2:4], row[4:6]))
        messages.append(imu("/imu", stamp, gyro=row[6:9], accel=row[9:12], covariance=-1.0, frame="imu_link"))
        messages.append(wrench("/left/wrench", stamp, row[12:18]))
        messages.append(odometry("/odom", stamp, row[18:21]))
    columns = {
        "q.hip": 0, "q.knee": 1, "v.hip": 2, "v.knee": 3, "tau.hip": 4, "tau.knee": 5, "pelvis.gyro.x": 6,
        "pelvis.gyro.y": 7, "pelvis.gyro.z": 8, "pelvis.accel.x": 9, "pelvis.accel.y": 10, "pelvis.accel.z": 11,
        "left.fx": 12, "left.fy": 13, "left.fz": 14, "left.nx": 15, "left.ny": 16, "left.nz": 17,
        "base.position.x": 18, "base.position.y": 19, "base.position.z": 20,
    }  # fmt: skip
    values = {name: numbers[:, column] for name, column in columns.items()}
    values |= {f"base.quat.{axis}": np.full(rows, float(axis == "w")) for axis in "xyzw"}
    return messages, Recording(np.arange(rows) * 0.005, values, "others", 1_760_000_000)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("others.mcap", {}),
        ("others.mcap", {"encoding": "ros1", "compression": CompressionType.LZ4}),
        ("others.mcap", {"little_endian": False, "compression": CompressionType.NONE}),
        ("others.mcap", {"use_chunking": False}),
        ("others.bag", {}),
        ("others", {}),
        ("others", {"storage": "mcap"}),
    ],
)
def test_what_others_wrote_is_read(name, options, tmp_path):
    messages, expected = others_messages()
    setup = Setup(imus=(Imu("pelvis", "imu_link"),), wrench_sensors=(WrenchSensor("left", "left_sole"),))
    again = read(write(tmp_path / name, messages, **options), setup)
    assert_same(expected, again)
    assert again.notes == ()
    assert not again.mapped


def test_a_bag_that_is_packed_differently_is_the_same(tmp_path):
    messages, expected = others_messages()
    write(tmp_path / "plain.bag", messages)
    for packing in ("BZ2", "LZ4"):
        path = tmp_path / f"{packing}.bag"
        writer = rosbag1.Writer(path)
        writer.set_compression(rosbag1.Writer.CompressionFormat[packing])
        with rosbag1.Reader(tmp_path / "plain.bag") as reader, writer:
            writer.chunk_threshold = 3000
            connections = {
                each.id: writer.add_connection(each.topic, each.msgtype, msgdef=each.msgdef.data, md5sum=each.digest)
                for each in reader.connections
            }
            for connection, received, raw in reader.messages():
                writer.write(connections[connection.id], received, raw)
        setup = Setup(imus=(Imu("pelvis", "imu_link"),), wrench_sensors=(WrenchSensor("left", "left_sole"),))
        assert_same(expected, read(path, setup))


def test_a_single_database_and_a_bag_that_was_not_closed_are_read(tmp_path):
    messages = ramp(20)
    write(tmp_path / "sql", messages)
    write(tmp_path / "mc", messages, storage="mcap")
    expected = read(tmp_path / "sql")
    assert_same(expected, read(tmp_path / "sql" / "sql.db3"))
    for folder in ("sql", "mc"):
        (tmp_path / folder / "metadata.yaml").unlink()
        again = read(tmp_path / folder)
        assert_same(expected, again)
        assert "the bag has no metadata.yaml" in again.notes[0]
    shutil.copy(tmp_path / "mc" / "mc.mcap", tmp_path / "mc" / "more.mcap")
    with pytest.raises(RecordingError, match=r"mc has no metadata.yaml, and 2 .mcap or .db3 files; .*ros2 bag reindex"):
        read(tmp_path / "mc")


def test_a_bag_of_several_files_is_one_recording(tmp_path):
    messages = ramp(60)
    whole = read(write(tmp_path / "whole", messages, storage="mcap"))
    split = tmp_path / "split"
    shutil.copytree(tmp_path / "whole", split)
    (split / "whole.mcap").unlink()
    write(split / "b.mcap", messages[:25])
    write(split / "a.mcap", messages[25:])
    text = (split / "metadata.yaml").read_text()
    (split / "metadata.yaml").write_text(text.replace("- whole.mcap", "- elsewhere/b.mcap\n  - a.mcap"))
    assert_same(whole, read(split))
    (split / "a.mcap").unlink()
    with pytest.raises(RecordingError, match=r"split: the file 'a.mcap' of the bag is not there"):
        read(split)


def test_publishers_of_one_topic_may_have_other_joints(tmp_path):
    arm = [joint_state("/joint_states", START + row * 7_000_000, ["elbow"], [row * 0.007]) for row in range(29)]
    recording = read(write(tmp_path / "two.mcap", in_order(ramp(20), arm)))
    assert set(recording.columns) == {"q.hip", "q.knee", "q.elbow"}
    assert len(recording) == 20
    np.testing.assert_allclose(recording.column("q.elbow"), recording.time, rtol=0.0, atol=1e-12)


def test_one_joint_in_messages_of_several_shapes_is_one_column(tmp_path):
    messages = [
        joint_state("/joint_states", START + row * 10_000_000, *shape)
        for row in range(30)
        for shape in [
            (["hip", "knee"], [row, -row]),
            (["knee", "hip"], [-row, row], [0.5, 0.25]),
            (["hip"], [row], [], [7.0]),
        ][row % 3 : row % 3 + 1]
    ]
    recording = read(write(tmp_path / "mixed.bag", messages))
    rows = np.arange(30)
    assert set(recording.columns) == {"q.hip", "q.knee", "v.hip", "v.knee", "tau.hip"}
    np.testing.assert_array_equal(recording.column("q.hip"), rows)
    np.testing.assert_array_equal(recording.column("q.knee"), np.where(rows % 3 == 2, np.nan, -rows))
    np.testing.assert_array_equal(recording.column("v.hip"), np.where(rows % 3 == 1, 0.25, np.nan))
    np.testing.assert_array_equal(recording.column("tau.hip"), np.where(rows % 3 == 2, 7.0, np.nan))


def test_a_large_bag_stays_out_of_memory_and_is_the_same(trial, tmp_path, monkeypatch):
    write_mcap(trial, tmp_path / "walk.mcap")
    monkeypatch.setattr("steelyard.recording.bags.message_streams.SPOOL_BYTES", 100_000)
    monkeypatch.setattr("steelyard.recording.bags.topic_recording.MEMORY", 100_000)
    again = read(tmp_path / "walk.mcap", robot("g1").setup)
    assert isinstance(again.values, LazyColumns)
    assert_same(trial, again)
    parts = list(again.chunks(rows=700))
    for name in trial.columns:
        np.testing.assert_array_equal(np.concatenate([part.column(name) for part in parts]), trial.column(name))


def test_messages_that_stand_in_no_order_are_sorted_by_receipt(tmp_path, monkeypatch):
    messages = ramp(400)
    expected = read(write(tmp_path / "sorted.mcap", messages))
    order = np.argsort(np.arange(400) // 10 * 10 + np.random.default_rng(1).uniform(0, 25, 400))
    shuffled = write(tmp_path / "shuffled.mcap", [messages[row] for row in order])
    assert_same(expected, read(shuffled))
    monkeypatch.setattr("steelyard.recording.bags.message_streams.SPOOL_BYTES", 1000)
    monkeypatch.setattr("steelyard.recording.bags.topic_recording.MEMORY", 1000)
    assert_same(expected, read(shuffled))


def test_messages_in_other_encodings_are_left_out_and_said(tmp_path):
    path = write(tmp_path / "json.mcap", ramp(5), declared="json")
    with pytest.raises(
        RecordingError, match=r"json.mcap has no joint states.*'/joint_states' was ignored: its messages are in 'json'"
    ):
        read(path)


def test_without_joint_states_the_topics_are_listed(tmp_path):
    messages = [imu(f"/imu_{number}", START + number) for number in range(10)]
    with pytest.raises(
        RecordingError, match=r"x.mcap has no joint states .*'/imu_0' \('sensor_msgs/msg/Imu'\).*'/imu_7'.* and 2 more$"
    ):
        read(write(tmp_path / "x.mcap", messages))
    told = [joint_state("/desired", START, ["hip"], [1.0])]
    with pytest.raises(RecordingError, match=r"if '/desired' is what encoders measured, write '/desired' = \"joints\""):
        read(write(tmp_path / "y.mcap", told))


def test_broken_messages_are_dropped_and_counted(tmp_path):
    messages = ramp(20)
    messages[5] = joint_state("/joint_states", START + 50_000_000, ["hip", "knee"], [1.0])
    recording = read(write(tmp_path / "some.mcap", messages))
    assert len(recording) == 19
    (note,) = recording.notes
    assert note.startswith(
        "1 of 20 messages of '/joint_states' cannot be decoded and were dropped (the first received at"
    )
    assert "it has 2 names, but the size of 'position' is 1" in note
    with pytest.raises(
        RecordingError, match=r"none.mcap has no joint states.*1 of 1 messages of '/joint_states' cannot be decoded"
    ):
        read(write(tmp_path / "none.mcap", [messages[5]]))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({f"q.hip.{axis}": TIME for axis in "xyzw"}, "the ball joint 'hip' has no place in a ROS joint state"),
        ({"v.hip": TIME, "left.fz": TIME}, r"x has no positions of joints \('q.<joint>'\).*; write another format"),
        ({"q.hip": TIME, "temperature": TIME}, "the column 'temperature' fits no ROS message"),
    ],
)
@pytest.mark.parametrize("name", FORMATS)
def test_what_fits_no_message_is_refused(name, columns, message, tmp_path):
    with pytest.raises(RecordingError, match=message):
        FORMATS[name](Recording(TIME, columns, "x"), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_times_that_fit_no_stamp_are_refused(tmp_path):
    for time, epoch in ((TIME - 1.0, 0), (TIME, 2**31)):
        with pytest.raises(RecordingError, match="a ROS stamp cannot hold the times"):
            write_ros2(Recording(time, {"q.hip": TIME}, "x", epoch), tmp_path / "x")
        assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_not_overwritten(tmp_path):
    recording = Recording(TIME, {"q.hip": TIME}, "x")
    write_ros2(recording, tmp_path / "x")
    before = (tmp_path / "x" / "metadata.yaml").read_text()
    with pytest.raises(RecordingError, match="x exists already"):
        write_ros2(recording, tmp_path / "x")
    assert (tmp_path / "x" / "metadata.yaml").read_text() == before
    with pytest.raises(RecordingError, match=r"y cannot be written \(No such file or directory\)"):
        write_ros2(recording, tmp_path / "nowhere" / "y")
