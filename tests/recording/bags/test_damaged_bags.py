"""Bags that are cut off, damaged or hostile: what can be read is, and the rest is said."""

from __future__ import annotations

import json
import sqlite3
import struct
import sys

import numpy as np
import pytest
from mcap.writer import CompressionType, Writer

from steelyard import Recording, RecordingError
from steelyard.recording.bags.bag_file import write_ros1, write_ros2
from steelyard.recording.bags.mcap_file import write_mcap
from steelyard.recording.bags.unpacking import MOST_CHUNK_BYTES, DamagedChunkError, decompress
from tests.recording.bags.bags import START, imu, in_order, ramp, read, wrench, write


def messages(count=60):
    stamps = [START + row * 10_000_000 for row in range(count)]
    sensors = [imu("/imu", stamp) for stamp in stamps] + [wrench("/foot/wrench", stamp, range(6)) for stamp in stamps]
    return in_order(ramp(count), sensors)


RECORDING = Recording(np.arange(3) * 0.1, {"q.hip": np.zeros(3)}, "walk")
CHUNKED = {"chunk_size": 3000}
CASES = {
    "zstd.mcap": CHUNKED,
    "lz4.mcap": CHUNKED | {"compression": CompressionType.LZ4},
    "plain.mcap": CHUNKED | {"compression": CompressionType.NONE},
    "unchunked.mcap": {"use_chunking": False},
    "walk.bag": CHUNKED,
    "database": {},
}
FOLDERS = {
    "database": {},
    "mcap": {"storage": "mcap"},
    "packed_file": {"packed": "file"},
    "packed_messages": {"packed": "message"},
}


@pytest.fixture(scope="module", params=CASES)
def bag(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bags")
    path = write(folder / request.param, messages(), **CASES[request.param])
    return path / "database.db3" if path.is_dir() else path


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_file_that_is_cut_off_is_read_as_far_as_it_goes(share, bag, tmp_path):
    whole = read(bag)
    cut = tmp_path / f"cut{bag.suffix}"
    cut.write_bytes(bag.read_bytes()[: int(share * bag.stat().st_size)])
    if bag.suffix == ".db3":
        with pytest.raises(RecordingError, match=r"cut.db3 cannot be read as a ROS 2 bag .*ros2 bag reindex"):
            read(cut)
        return
    part = read(cut)
    assert 5 < len(part) <= len(whole)
    np.testing.assert_array_equal(part.column("q.hip"), whole.column("q.hip")[: len(part)])
    # Behind its messages an MCAP file has an index that nobody misses.
    assert len(part) == len(whole) or part.notes[-1].startswith("the file is cut off after 0.")


def test_a_bag_that_crashed_while_it_was_recorded_is_read(tmp_path):
    whole = write(tmp_path / "whole.bag", ramp(60))
    contents = whole.read_bytes()
    # A recorder writes a chunk's sizes when it closes the chunk, and the place of the index when it closes the bag.
    size_field = contents.index(b"size=")
    header_end = size_field + len(b"size=") + 4
    (data_size,) = struct.unpack_from("<I", contents, header_end)
    crashed = bytearray(contents[: header_end + 4 + data_size // 2])
    crashed[header_end : header_end + 4] = bytes(4)
    crashed[size_field + 5 : size_field + 9] = bytes(4)
    place = contents.index(b"index_pos=") + len(b"index_pos=")
    crashed[place : place + 8] = bytes(8)
    (tmp_path / "crashed.bag").write_bytes(crashed)
    part = read(tmp_path / "crashed.bag")
    assert 20 < len(part) < 60
    np.testing.assert_array_equal(part.column("q.knee"), -np.arange(len(part)) / 100)
    assert part.notes[-1].startswith("the file is cut off after 0.")


def test_a_damaged_chunk_is_left_out_and_said(tmp_path):
    path = write(tmp_path / "x.mcap", ramp(200), chunk_size=3000)
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 3] ^= 0xFF
    path.write_bytes(contents)
    recording = read(path)
    assert 150 < len(recording) < 200
    (note,) = recording.notes
    assert note.startswith("1 damaged piece of the file was left out (after 0.")


def test_topics_that_a_damaged_chunk_defined_are_said(tmp_path):
    path = write(tmp_path / "x.mcap", ramp(200), chunk_size=3000)
    contents = bytearray(path.read_bytes())
    contents[200] ^= 0xFF
    path.write_bytes(contents)
    with pytest.raises(
        RecordingError, match=r"1 damaged piece.* messages are of topics that nothing in the file defines"
    ):
        read(path)


def mutate(contents, rng):
    """Gives contents with a few bytes changed, taken out or cut off."""
    changed = bytearray(contents)
    way = rng.integers(6)
    for _ in range(rng.integers(1, 6)):
        place = int(rng.integers(len(changed)))
        if way == 0:
            changed[place] = int(rng.integers(256))
        elif way == 1:
            changed[place : place + 4] = rng.bytes(4)
        elif way == 2:
            changed[place : place + 8] = b"\xff" * 8
        elif way == 3:
            changed[place:place] = bytes(3)
        elif way == 4:
            del changed[place : place + int(rng.integers(1, 100))]
        else:
            return bytes(changed[:place])
    return bytes(changed)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # quaternions of 1e300
def test_whatever_bytes_there_are_a_recording_or_a_clear_error_comes_out(bag, tmp_path):
    rng = np.random.default_rng(11)
    contents = bag.read_bytes()
    path = tmp_path / f"mutated{bag.suffix}"
    read_count, refused = 0, []
    for _ in range(150):
        path.write_bytes(mutate(contents, rng))
        try:
            assert len(read(path)) > 0
        except RecordingError as error:
            refused.append(str(error))
        else:
            read_count += 1
    assert read_count > 10
    assert all(path.name in error for error in refused)


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("part", ["metadata", "messages"])
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # quaternions of 1e300
def test_whatever_a_folder_holds_a_recording_or_a_clear_error_comes_out(name, part, tmp_path):
    rng = np.random.default_rng(12)
    folder = write(tmp_path / name, messages(), **FOLDERS[name])
    whole = read(folder)
    assert len(whole) == 60
    (path,) = [file for file in folder.iterdir() if (file.name == "metadata.yaml") == (part == "metadata")]
    contents = path.read_bytes()
    refused = []
    for _ in range(60):
        path.write_bytes(mutate(contents, rng))
        try:
            assert len(read(folder)) > 0
        except RecordingError as error:
            refused.append(str(error))
    assert refused
    assert all(error.startswith(name) and error.isprintable() for error in refused)


@pytest.mark.parametrize("packed", ["file", "message"])
def test_a_packed_database_that_is_cut_off_or_garbage_is_refused(packed, tmp_path):
    folder = write(tmp_path / "x", ramp(20), packed=packed)
    (path,) = [file for file in folder.iterdir() if file.name != "metadata.yaml"]
    contents = path.read_bytes()
    for broken in (contents[: len(contents) // 2], b"", b"garbage" * 100):
        path.write_bytes(broken)
        with pytest.raises(RecordingError, match=r"^x cannot be read as a ROS 2 bag .*ros2 bag reindex"):
            read(folder)


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
@pytest.mark.parametrize(
    "text",
    [
        # Deep enough for a RecursionError: at 400 the parser does not reach it, and another check refuses them.
        "[" * 1500,
        "a: " + "[" * 1500 + "]" * 1500,
        "{a: " * 1500 + "}" * 1500,
        "x: &x [1]\nrosbag2_bagfile_information: {version: 5, storage_identifier: sqlite3, a: [*x, *x]}",
        "rosbag2_bagfile_information: &x {version: 5, storage_identifier: sqlite3, a: *x}",
        "#" * 10_000_001,
    ],
)
def test_metadata_that_nobody_would_write_are_refused(storage, text, tmp_path):
    folder = write(tmp_path / "x", ramp(5), storage=storage)
    (folder / "metadata.yaml").write_text(text)
    with pytest.raises(RecordingError, match=r"^x: metadata.yaml is .*ros2 bag reindex"):
        read(folder)


def test_a_database_with_odd_cells_is_read_around_them(tmp_path):
    write(tmp_path / "x", ramp(20))
    with sqlite3.connect(tmp_path / "x" / "x.db3") as database:
        database.execute("UPDATE messages SET data = 'text' WHERE id = 3")
        database.execute("UPDATE messages SET timestamp = 'noon' WHERE id = 4")
    database.close()
    recording = read(tmp_path / "x" / "x.db3")
    assert len(recording) == 18
    assert "2 of 20 messages of '/joint_states' cannot be decoded" in recording.notes[0]


def test_metadata_may_be_of_any_version_but_must_be_there(tmp_path):
    write(tmp_path / "x", ramp(5), storage="mcap")
    for text in (
        "",
        "[1, 2]",
        "a: {",
        json.dumps({"rosbag2_bagfile_information": {"storage_identifier": "mcap"}}),
        "\0",
    ):
        (tmp_path / "x" / "metadata.yaml").write_text(text)
        with pytest.raises(RecordingError, match=r"^x: metadata.yaml .*ros2 bag reindex"):
            read(tmp_path / "x")


def test_metadata_of_a_version_to_come_are_named(tmp_path):
    folder = write(tmp_path / "x", ramp(5))
    text = (folder / "metadata.yaml").read_text()
    (folder / "metadata.yaml").write_text(text.replace("version: 8", "version: 12"))
    with pytest.raises(RecordingError, match=r"^x: metadata.yaml is of version 12, .* up to 9 are known; install"):
        read(folder)


def test_names_in_a_file_cannot_write_on_the_terminal(tmp_path):
    with (tmp_path / "x.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start("ros2")
        schema = writer.register_schema("\x1b[31mred\nline", "ros2msg", b"")
        writer.register_channel("/\x1b[2Jtopic", "cdr", schema)
        writer.finish()
    with pytest.raises(RecordingError) as caught:
        read(tmp_path / "x.mcap")
    assert str(caught.value).isprintable()
    folder = write(tmp_path / "y", ramp(5))
    text = (folder / "metadata.yaml").read_text()
    (folder / "metadata.yaml").write_text(text.replace("storage_identifier: sqlite3", 'storage_identifier: "a\\eb"'))
    with pytest.raises(RecordingError) as caught:
        read(folder)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", [0x01, 0x03, 0x04, 0x05, 0x06, 0x09, 0x77])
def test_lengths_that_lie_take_no_memory(kind, tmp_path):
    whole = write(tmp_path / "x.mcap", ramp(10), compression=CompressionType.NONE).read_bytes()
    head = whole[:8]
    hostile = struct.pack("<BQ", kind, 2**62)
    (tmp_path / "a.mcap").write_bytes(head + hostile + whole[8:])
    with pytest.raises(RecordingError, match=r"a.mcap has no joint states.*the file is cut off after 0.000 s"):
        read(tmp_path / "a.mcap")
    inner = struct.pack("<QQQI", 0, 0, 2**62, 0) + struct.pack("<I", 4) + b"zstd" + struct.pack("<Q", 2**62)
    (tmp_path / "b.mcap").write_bytes(head + struct.pack("<BQ", kind, len(inner)) + inner + whole[8:])
    assert len(read(tmp_path / "b.mcap")) == 10


def test_a_chunk_is_never_larger_than_it_says():
    import bz2

    import lz4.frame
    import zstandard

    contents = bytes(10_000_000)
    packed = {
        "zstd": zstandard.compress(contents),
        "lz4": lz4.frame.compress(contents),
        "bz2": bz2.compress(contents),
        "none": contents,
    }
    for compression, chunk in packed.items():
        assert decompress(chunk, compression, len(contents)) == contents
        for size in (1000, len(contents) - 1, len(contents) + 1):
            with pytest.raises(DamagedChunkError, match="bytes instead of"):
                decompress(chunk, compression, size)
        with pytest.raises(DamagedChunkError, match="too large"):
            decompress(chunk, compression, MOST_CHUNK_BYTES + 1)
        if compression != "none":
            with pytest.raises(DamagedChunkError):
                decompress(b"garbage" + chunk, compression, len(contents))
    with pytest.raises(DamagedChunkError, match="the compression 'rar' is not known"):
        decompress(b"", "rar", 0)


@pytest.mark.parametrize("name", ["x.mcap", "x.bag", "x.db3"])
@pytest.mark.parametrize("contents", [b"", b"time,q\n1,2\n", b"\x89MCAP0\r\n", b"#ROSBAG V2.0\n", b"#ROSBAG V1.2\n"])
def test_what_is_no_bag_is_refused(name, contents, tmp_path):
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(RecordingError, match=r"^x\."):
        read(tmp_path / name)


def test_a_bag_of_an_old_version_says_how_to_migrate(tmp_path):
    (tmp_path / "x.bag").write_bytes(b"#ROSBAG V1.2\n" + bytes(100))
    with pytest.raises(RecordingError, match=r"x.bag is a bag of version '1.2'; .*rosbag migrate"):
        read(tmp_path / "x.bag")


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    for name in ("x.mcap", "x.bag", "x.db3"):
        with pytest.raises(RecordingError, match=r"^x\."):
            read(tmp_path / name)


def test_a_topic_with_too_many_publishers_is_refused(tmp_path):
    many = [imu("/imu", START + number, frame=f"frame {number}") for number in range(100)]
    with pytest.raises(RecordingError, match=r"'/imu' name more than 64 different frames; .*'/imu' = \"ignore\""):
        read(write(tmp_path / "x.mcap", many))


@pytest.mark.parametrize(
    ("package", "call", "message"),
    [
        ("mcap", lambda path: read(path.with_suffix(".mcap")), "reading .mcap files needs the package mcap"),
        ("mcap", lambda path: write_mcap(RECORDING, path), "writing .mcap files needs the package mcap"),
        ("rosbags", lambda path: write_ros1(RECORDING, path), "writing .bag files needs the package rosbags"),
        ("rosbags", lambda path: write_ros2(RECORDING, path), "writing ROS 2 bags needs the package rosbags"),
        ("rosbags.rosbag2", read, "reading ROS 2 bags needs the package rosbags"),
        (
            "zstandard",
            lambda _: decompress(b"", "zstd", 0),
            "reading bags packed with zstd needs the package zstandard",
        ),
        ("lz4.frame", lambda _: decompress(b"", "lz4", 0), "reading bags packed with lz4 needs the package lz4"),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(package, call, message, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RecordingError, match=message + r'; install it with: pip install "steelyard\[ros\]"'):
        call(tmp_path / "x")
    assert not list(tmp_path.iterdir())
