"""Offsets of encoders: written and read again they are the same, and whoever takes them takes any of their forms."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.exceptions import MotionError
from steelyard.motion.encoder_offsets import as_offsets, read_offsets, units_of, write_offsets
from tests.laboratory.trials import robot, short_trial

OFFSETS = {"left_knee_joint": 0.1, "right_knee_joint": -0.03}
ENDINGS = (".json", ".csv")
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@dataclass(frozen=True)
class Found:
    """Stands for what calibration gives."""

    values: object


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("offsets")


@pytest.mark.parametrize("ending", ENDINGS)
@given(values=st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), FINITE))
def test_what_is_written_is_read_to_the_last_bit(folder, ending, values) -> None:
    path = folder / f"offsets{ending}"
    write_offsets(path, values)
    assert read_offsets(path) == values
    assert list(read_offsets(path)) == list(values)


def test_json_says_how_far_to_trust_each_and_where_it_came_from(tmp_path) -> None:
    path = tmp_path / "offsets.json"
    write_offsets(
        path,
        {"hip": np.float64(0.25), "slide": 0.5, "neck": 0.0},
        standard_errors={"hip": 0.01, "neck": np.inf},
        observable={"hip": np.True_, "neck": False},
        units={"slide": "m"},
        extra={"recordings": ["walk.mcap"], "cost": np.nan, "poses": np.int64(3), "weights": np.array([1.0, np.inf])},
    )

    def refuse(word: str) -> None:
        raise AssertionError(word)

    stored = json.loads(path.read_text("utf-8"), parse_constant=refuse)
    assert stored["steelyard_offsets"] == 1
    assert stored["joints"] == {
        "hip": {"unit": "rad", "value": 0.25, "standard_error": 0.01, "observable": True},
        "slide": {"unit": "m", "value": 0.5, "standard_error": None, "observable": None},
        "neck": {"unit": "rad", "value": 0.0, "standard_error": None, "observable": False},
    }
    assert stored["provenance"] == {"recordings": ["walk.mcap"], "cost": None, "poses": 3, "weights": [1.0, None]}
    assert read_offsets(path) == {"hip": 0.25, "slide": 0.5, "neck": 0.0}


def test_csv_is_a_table_with_degrees_and_intervals(tmp_path) -> None:
    path = tmp_path / "offsets.csv"
    write_offsets(
        path,
        {"hip": np.pi / 6, "slide": 0.5, 'a "knee", left': -0.1},
        standard_errors={"hip": 0.01, "slide": np.inf},
        observable={"hip": True, "slide": False},
        units={"slide": "m"},
        level=0.9,
    )
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    hip, slide, knee = rows
    assert list(hip) == [
        "joint",
        "unit",
        "offset",
        "offset_deg",
        "standard_error",
        "low",
        "high",
        "level",
        "observable",
    ]
    assert (hip["joint"], hip["unit"], hip["observable"]) == ("hip", "rad", "true")
    assert float(hip["offset_deg"]) == pytest.approx(30.0, rel=1e-15)
    # 5 % of a normal distribution lie above 1.6449 standard deviations.
    assert float(hip["high"]) == pytest.approx(np.pi / 6 + 0.016448536, abs=1e-9)
    assert float(hip["low"]) + float(hip["high"]) == pytest.approx(np.pi / 3, rel=1e-12)
    assert float(hip["level"]) == 0.9
    assert (slide["unit"], slide["offset_deg"], slide["standard_error"], slide["high"]) == ("m", "", "", "")
    assert slide["observable"] == "false"
    assert (knee["joint"], knee["low"], knee["observable"]) == ('a "knee", left', "", "")


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_offset_that_is_not_known_is_left_out(tmp_path, ending) -> None:
    path = tmp_path / f"offsets{ending}"
    write_offsets(path, {"hip": 0.1, "neck": np.nan})
    assert read_offsets(path) == {"hip": 0.1}


def test_a_spreadsheets_csv_is_read(tmp_path) -> None:
    path = tmp_path / "offsets.csv"
    path.write_bytes("\ufeffjoint,note,offset\r\nhip,by hand, 0.1 \r\n\r\n".encode())
    assert read_offsets(path) == {"hip": 0.1}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_failure_leaves_what_was_there(tmp_path, ending, monkeypatch) -> None:
    path = tmp_path / f"offsets{ending}"
    write_offsets(path, OFFSETS)
    before = path.read_bytes()

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(MotionError, match=r"cannot be written \(No space left on device\); choose another path"):
        write_offsets(path, {"hip": 1.0})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("offsets.yaml", {}, r"offsets\.yaml: offsets are written as \.json or \.csv, not '\.yaml'"),
        ("offsets", {}, r"written as \.json or \.csv, not ''"),
        ("nowhere/offsets.json", {}, r"there is no folder '.*nowhere'; create it first"),
        ("folder.json", {}, r"folder\.json' is a folder; name a file in it"),
        ("a\0b.json", {}, r"is not a valid file name"),
        ("x.json", {"values": [0.1]}, r"the offsets are \[0\.1\]; give numbers by joint, rad or m"),
        ("x.json", {"values": {"hip": "wide"}}, r"the offset of 'hip' is 'wide'; give rad or m"),
        ("x.json", {"values": {3: 0.1}}, r"the joint name 3 is not a string; give its name"),
        (
            "x.json",
            {"standard_errors": {"hip": -1.0}},
            r"standard error of 'hip' is -1\.0; give a number of at least zero",
        ),
        ("x.json", {"standard_errors": {"knee": 0.1}}, r"'knee' has a standard error but no offset; leave it out"),
        ("x.json", {"observable": {"knee": True}}, r"'knee' has an observability flag but no offset"),
        ("x.json", {"observable": {"hip": "yes"}}, r"the observability flag of 'hip' is 'yes'; give True or False"),
        ("x.json", {"units": {"hip": "deg"}}, r"the unit of 'hip' is 'deg'; give 'rad' or 'm'"),
        ("x.csv", {"level": 95}, r"the confidence level is 95; give one between 0 and 1, such as 0\.95"),
        (
            "x.json",
            {"extra": {"model": object()}},
            r"provenance.*object.*give plain numbers, strings, lists and mappings",
        ),
    ],
)
def test_what_cannot_be_written_is_said_in_one_sentence(tmp_path, name, options, message) -> None:
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(MotionError, match=message):
        write_offsets(tmp_path / name, **{"values": {"hip": 0.1}, **options})
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.json"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "", r"a\.json is not valid JSON; write offsets with write_offsets"),
        ("a.json", "{'joints': 1}", r"is not valid JSON"),
        ("a.json", "[" * 100_000, r"is not valid JSON"),
        ("a.json", b"\xff\xfe\x00", r"is not valid JSON"),
        ("a.json", "[]", r"is not an offset file; write offsets with write_offsets"),
        ("a.json", '{"joints": {}}', r"is not an offset file"),
        (
            "a.json",
            '{"steelyard_offsets": 2, "joints": {}}',
            r"has layout 2, this version reads 1; use the version that",
        ),
        ("a.json", '{"steelyard_offsets": 1}', r"has no 'joints'"),
        ("a.json", '{"steelyard_offsets": 1, "joints": {"hip": 0.1}}', r"'hip' is 0\.1; write a mapping with 'value'"),
        ("a.json", '{"steelyard_offsets": 1, "joints": {"hip": {}}}', r"'hip'"),
        ("a.json", '{"steelyard_offsets": 1, "joints": {"hip": {"value": "a"}}}', r"the offset of 'hip' is 'a'; write"),
        ("a.json", '{"steelyard_offsets": 1, "joints": {"hip": {"value": true}}}', r"the offset of 'hip' is True"),
        ("a.json", '{"steelyard_offsets": 1, "joints": {"hip": {"value": NaN}}}', r"the offset of 'hip' is nan"),
        ("a.json", f'{{"steelyard_offsets": 1, "joints": {{"hip": {{"value": 1{"0" * 400}}}}}}}', r"'hip' is inf"),
        (
            "a.json",
            '{"steelyard_offsets": 1, "joints": {"hip": {"value": 1, "unit": "deg"}}}',
            r"the unit of 'hip' is 'deg'; write rad or m",
        ),
        (
            "a.json",
            '{"steelyard_offsets": 1, "joints": {"hip": {"value": 1}, "hip": {"value": 2}}}',
            r"'hip' is listed twice; keep one",
        ),
        ("a.csv", "", r"has no column 'joint'; .* 'joint' and 'offset'"),
        ("a.csv", "joint;offset\nhip;0.1\n", r"has no column 'joint'"),
        ("a.csv", "joint,value\nhip,0.1\n", r"has no column 'offset'"),
        ("a.csv", "joint,offset\nhip,wide\n", r"line 2: the offset of 'hip' is 'wide'; write a number"),
        ("a.csv", "joint,offset\nhip,nan\n", r"line 2: the offset of 'hip' is 'nan'"),
        ("a.csv", "joint,offset\nhip,1_0\n", r"line 2: the offset of 'hip' is '1_0'"),
        ("a.csv", "joint,offset\nhip,1\nhip,2\n", r"line 3: 'hip' is listed twice; keep one"),
        ("a.csv", "joint,offset\n,1\n", r"line 2: the joint name is missing; add it"),
        ("a.csv", "joint,offset\nhip\n", r"line 2: 2 cells expected, 1 found"),
        ("a.csv", "joint,offset\nhip,0,1\n", r"line 2: 2 cells expected, 3 found"),
        ("a.csv", "joint,offset,unit\nhip,5,deg\n", r"line 2: the unit of 'hip' is 'deg'; write rad or m"),
        ("a.csv", b"joint,offset\n\xff,1\n", r"is not UTF-8"),
        ("a.csv", 'joint,offset\n"hip,1\n', r"is not a valid CSV table"),
        ("a.txt", "", r"offsets are read from \.json or \.csv, not '\.txt'"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path, name, text, message) -> None:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(MotionError, match=message) as caught:
        read_offsets(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path) -> None:
    with pytest.raises(MotionError, match=r"gone\.json: there is no such file; check the path"):
        read_offsets(tmp_path / "gone.json")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(MotionError, match=r"folder\.csv cannot be read \(Is a directory\); check the path"):
        read_offsets(tmp_path / "folder.csv")
    with pytest.raises(MotionError, match=r"is not a valid file name"):
        read_offsets("a\0b.json")


def test_any_form_is_taken(tmp_path) -> None:
    write_offsets(tmp_path / "offsets.json", OFFSETS)
    forms = (
        OFFSETS,
        MappingProxyType(OFFSETS),
        tmp_path / "offsets.json",
        str(tmp_path / "offsets.json"),
        Found(OFFSETS),
        Found(MappingProxyType(OFFSETS)),
    )
    for form in forms:
        assert dict(as_offsets(form)) == OFFSETS
    assert dict(as_offsets(None)) == {}
    for wrong in ([0.1], 3, Found([0.1]), Found(OFFSETS.values)):
        with pytest.raises(
            MotionError, match=r"offsets are .*; give numbers by joint \(rad or m\), an offset file, or"
        ):
            as_offsets(wrong)


def test_a_motion_is_the_same_by_every_form(tmp_path) -> None:
    model, recording = robot("g1"), short_trial("g1", "dance", noise="default").recording
    write_offsets(tmp_path / "offsets.csv", OFFSETS)
    wanted = sy.reconstruct_motion(model, recording, cutoff=5.0, offsets=OFFSETS)
    assert any("encoder offsets are added to 2 joints" in note for note in wanted.notes)
    for form in (tmp_path / "offsets.csv", Found(OFFSETS)):
        motion = sy.reconstruct_motion(model, recording, cutoff=5.0, offsets=form)
        np.testing.assert_array_equal(motion.q, wanted.q)
        streamed = list(sy.stream_motion(model, recording, cutoff=5.0, offsets=form))
        np.testing.assert_allclose(np.concatenate([piece.q for piece in streamed]), wanted.q, rtol=0.0, atol=1e-9)
    write_offsets(tmp_path / "other.json", {"left_nee_joint": 0.1})
    with pytest.raises(MotionError, match=r"no joint 'left_nee_joint' to add an offset to; did you mean"):
        sy.reconstruct_motion(model, recording, offsets=tmp_path / "other.json")


def test_units_are_those_of_the_joints(tmp_path) -> None:
    file = tmp_path / "arm.urdf"
    file.write_text(
        '<robot name="arm"><link name="a"/><link name="b"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" '
        'iyy="1" iyz="0" izz="1"/></inertial></link><joint name="rail" type="prismatic"><parent link="a"/>'
        '<child link="b"/><limit lower="0" upper="1" effort="1" velocity="1"/></joint></robot>'
    )
    assert units_of(sy.load_model(file, base="fixed")) == {"rail": "m"}
    assert set(units_of(robot("g1")).values()) == {"rad"}
