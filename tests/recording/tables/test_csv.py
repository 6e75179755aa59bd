"""CSV files in any reasonable dialect give the same recording; the others are refused with the place of the fault."""

import gzip
import warnings

import numpy as np
import pytest

from steelyard import Recording, RecordingError
from steelyard.exceptions import RecordingWarning
from steelyard.model.setup import parse_setup
from steelyard.recording import columns, read_recording
from steelyard.recording.tables import csv_file
from steelyard.recording.tables.table import read_table
from tests.recording import fuzzing

TABLE = Recording(
    np.array([0.0, 0.25, 0.5]),
    {"q.knee": np.array([1.5, -2.5, 1e-3]), "left_foot.fz": np.array([np.nan, 300.5, 301.25])},
)


def read(tmp_path, contents, name="walk.csv"):
    path = tmp_path / name
    path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordingWarning)
        return read_recording(path)


def rows(*lines):
    return "time,q.a,q.b\n" + "\n".join(lines)


@pytest.mark.parametrize("number", range(len(fuzzing.dialects())))
def test_every_dialect_gives_the_same_recording(tmp_path, number):
    contents = fuzzing.dialects()[number]
    for packed in (contents, gzip.compress(contents)):
        recording = read(tmp_path, packed)
        assert recording.columns == TABLE.columns
        assert recording.sha256 == TABLE.sha256
        assert recording.notes == ()


def test_endings_of_text_are_known(tmp_path):
    for name in ("a.csv", "a.tsv", "a.txt", "a.CSV", "a.csv.gz", "a.log", "a"):
        contents = fuzzing.dialects()[0]
        assert read(tmp_path, gzip.compress(contents) if name.endswith("gz") else contents, name).sha256 == TABLE.sha256


@pytest.mark.parametrize(
    "name",
    [
        "q.a/b",
        "q.a,b",
        "q.left knee",
        'q.the "left" one',
        "q.two\nlines",
        "q.<b>bold</b>",
        "q.Gelenk ÄÖ 膝",
        "q.#1",
        "q.'a'",
    ],
)
def test_any_name_survives(tmp_path, name):
    recording = Recording(TABLE.time, {name: TABLE.column("q.knee"), "q.z": TABLE.time})
    recording.write(tmp_path / "walk.csv")
    assert read_recording(tmp_path / "walk.csv").sha256 == recording.sha256


def test_names_that_a_text_cannot_give_back_are_not_written(tmp_path):
    for name in ("q.a ", "q.\0", "time", "", "q.\ud800"):
        with pytest.raises(RecordingError, match=r"cannot be (named|written)"):
            Recording(TABLE.time, {name: TABLE.time}).write(tmp_path / "walk.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_row_of_units_is_heeded(tmp_path):
    recording = read(
        tmp_path, "time,q.a,q.b,left_foot.fz,left_foot.nx\n[ms],[deg],rad,kN,N mm\n0,1,1,1,1\n500,2,2,2,2\n"
    )
    np.testing.assert_array_equal(recording.time, [0.0, 0.5])
    for name, factor in (("q.a", np.pi / 180), ("q.b", 1.0), ("left_foot.fz", 1e3), ("left_foot.nx", 1e-3)):
        np.testing.assert_allclose(recording.column(name), [factor, 2 * factor], rtol=1e-15)
    assert recording.notes == (
        "the row under the header ('[ms]', '[deg]', 'rad', 'kN' and 1 more) is read as units; the known ones are "
        "converted to SI",
        "1 column is in deg, as the file states ('q.a'), and converted to SI",
        "1 column is in kN, as the file states ('left_foot.fz'), and converted to SI",
        "1 column is in N mm, as the file states ('left_foot.nx'), and converted to SI",
    )
    unknown = read(tmp_path, "time,q.a,q.b\ns,furlong,g\n0,1,1\n1,2,2\n")
    np.testing.assert_array_equal(unknown.column("q.a"), [1.0, 2.0])
    np.testing.assert_array_equal(unknown.column("q.b"), [1.0, 2.0], err_msg="grams are not the pull of the earth")


def test_a_unit_in_the_header_is_heeded(tmp_path):
    text = "time,q.a [deg],pelvis.accel.x (g),q.b [rad],q.c [furlong]\n0,90,1,1,1\n1,180,2,2,2\n"
    recording = read(tmp_path, text)
    assert recording.columns == ("q.a", "pelvis.accel.x", "q.b", "q.c [furlong]")
    np.testing.assert_allclose(recording.column("q.a"), [np.pi / 2, np.pi], rtol=1e-15)
    np.testing.assert_allclose(recording.column("pelvis.accel.x"), [9.80665, 19.6133], rtol=1e-15)
    assert recording.notes[0] == "1 column is in deg, as the file states ('q.a'), and converted to SI"
    assert len(recording.notes) == 2
    (tmp_path / "walk.csv").write_text(text)
    for source, factor in (
        ("q.a [deg]", np.pi / 180),
        ({"from": "q.a [deg]", "unit": "deg"}, np.pi / 180),
        ({"from": "q.a [deg]", "scale": 2.0}, 2.0),
    ):
        chosen = parse_setup({"recording": {"columns": {"q.knee": source}}}).recording
        mapped = read_table(csv_file.CsvSource(tmp_path / "walk.csv"), chosen)
        np.testing.assert_allclose(mapped.column("q.knee"), [90 * factor, 180 * factor], rtol=1e-15)


def test_both_names_stay_where_a_unit_would_make_them_one(tmp_path):
    recording = read(tmp_path, "time,q.a,q.a [deg]\n0,1,57\n1,2,114\n")
    np.testing.assert_array_equal(recording.column("q.a"), [1.0, 2.0])
    assert recording.columns == ("q.a", "q.a [deg]")


def test_lines_above_the_header_are_skipped(tmp_path):
    table = "time,q.a,q.b\n" + "".join(f"{number},1,2\n" for number in range(5))
    for above in ("Robot: G1\n", "Robot,G1\nRate,1000\n\n", "export of Monday, by hand\nfirst run\n"):
        recording = read(tmp_path, above + table)
        assert recording.columns == ("q.a", "q.b")
        assert len(recording) == 5
        assert "above the header" in recording.notes[0]
        with pytest.raises(RecordingError, match=r"'q.a' holds 'x7' in row 3 below the header"):
            read(tmp_path, (above + table).replace("2,1,2", "2,x7,2"))


def test_a_header_without_end_is_refused(tmp_path):
    for contents in ("time," + "q" * (1 << 21) + "\n0,1\n", "# made by hand\ntime," + "q" * (1 << 21) + "\n0,1\n"):
        with pytest.raises(RecordingError, match=r"its header does not end within the first 1 MiB"):
            read(tmp_path, contents)


def test_a_comma_between_commas_is_no_decimal_sign(tmp_path):
    with pytest.raises(RecordingError, match=r"the column 'q.a' holds text, such as '1,234'"):
        read(tmp_path, 'time,q.a\n0,"1,234"\n1,"5,678"\n')
    with pytest.raises(RecordingError, match=r"'q.a' holds '1,234' in row 2"):
        read(tmp_path, 'time,q.a\n0,1\n1,"1,234"\n2,3\n')
    assert read(tmp_path, "time;q.a\n0;1,234\n1;5,678\n").column("q.a")[0] == 1.234


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be", "latin-1"])
def test_a_last_line_without_end_is_told(tmp_path, encoding):
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    note = "the file does not end with a line break: its last row may be truncated"
    for end, expected in (("", (note,)), ("\n", ()), ("\r\n", ()), ("\n  ", ())):
        contents = (mark + rows("0,1,2", "1,2,3.14") + end).encode(encoding)
        for packed in (contents, gzip.compress(contents)):
            assert read(tmp_path, packed).notes == expected


def test_a_packed_last_line_that_is_cut_is_dropped(tmp_path):
    # Not every cut field makes a row short: that it has no end is seen in the text, not in the packed bytes.
    for cut in ("1,2,-1.5e", "1,2,3e+"):
        recording = read(tmp_path, gzip.compress(rows("0,1,2", "0.5,1,2", cut).encode()))
        assert len(recording) == 2
        assert recording.notes == ("its last line is truncated and was dropped",)
        with pytest.raises(RecordingError, match=r"'q.b' holds"):
            read(tmp_path, gzip.compress(rows("0,1,2", "0.5,1,2", cut, "").encode()))


def test_latin_1_is_read_with_a_note(tmp_path):
    recording = read(tmp_path, "time,q.a,Winkel [°]\n0,1,2\n1,2,3\n".encode("latin-1"))
    assert "read as Latin-1" in recording.notes[0]
    assert recording.notes[1] == "1 column is not used: 'Winkel [°]'"


@pytest.mark.parametrize(
    "word", ["", "nan", "NaN", "NAN", "NA", "n/a", "null", "NULL", "None", "-", "-nan(ind)", "1.#QNAN", '""', "  "]
)
def test_missing_values(tmp_path, word):
    recording = read(tmp_path, rows("0,1,2", f"1,{word},3", "2,4,5"))
    np.testing.assert_array_equal(recording.column("q.a"), [1.0, np.nan, 4.0])
    np.testing.assert_array_equal(recording.column("q.b"), [2.0, 3.0, 5.0])


def test_text_is_ignored_unless_it_is_wanted(tmp_path):
    text = "time,frame,q.a\n0,pelvis,1\n1,pelvis,2\n"
    assert read(tmp_path, text).notes == ("1 column is not used: 'frame'",)
    with pytest.raises(RecordingError, match=r"the column 'q.frame' holds text, such as 'pelvis'; only numbers"):
        read(tmp_path, text.replace("frame", "q.frame"))


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("", r"walk.csv is empty"),
        ("\n \n", r"walk.csv is empty"),
        ("time,q.a\n", r"walk.csv has no rows"),
        (b"\x00\x01\x02\x03", r"is no text: it holds zero bytes"),
        (bytes(range(1, 256)), r"is no text"),
        ("0,1,2\n1,2,3\n", r"has no header: its first row holds numbers; write the columns' names above it"),
        ("# made by hand\n0,1,2\n1,2,3\n", r"no column of time|no header"),
        ("only\n1\n2\n", r"has no header of several names"),
        ("time,q.a,q.a\n0,1,2\n", r"two columns called 'q.a'"),
        (rows("0,1,2", "1,x7,3", "2,3,4"), r"'q.a' holds 'x7' in row 2 below the header"),
        (rows("0,1,2", "a,1,3", "2,3,4"), r"'time' holds 'a' in row 2 below the header"),
        (rows("s,rad,rad", "0,1,2", "1,x7,3", "2,3,4"), r"'q.a' holds 'x7' in row 3 below the header"),
        (rows("0,1,2", "1,5", "2,3,4"), r"row 2 below the header has 2 fields, the header has 3: '1,5'"),
        (rows("0,1,2", "1,5,6,7", "2,3,4"), r"row 2 below the header has 4 fields, the header has 3"),
        (rows("0,1,2", "1,5,6", "2,3,4,5"), r"row 3 below the header has 4 fields"),
        (rows("0,1,2", ",5,6", "2,3,4"), r"the time of row 1 is missing"),
        (rows("0;1;2", "1;2;3"), r"has no column|fields"),
        ("time;q.a\n0,5;1.234,5\n1,5;2\n", r"'q.a' holds '1.234,5' in row 1"),
        (rows("0,1,2", '1,"2,3', "2,3,4", "3,4,5"), r"row 2 below the header opens a quotation mark"),
    ],
)
def test_faults_are_named_with_their_place(tmp_path, contents, message):
    with pytest.raises(RecordingError, match=message):
        read(tmp_path, contents)


@pytest.mark.parametrize("cut", ["1,2", "1,2,", "1", "1,2,-1.5e", "1,2,3e+"])
def test_a_last_line_that_is_cut_is_dropped(tmp_path, cut):
    recording = read(tmp_path, rows("0,1,2", "0.5,1,2", cut))
    if cut == "1,2,":
        # Nothing tells this from a missing value.
        assert len(recording) == 3
    else:
        assert len(recording) == 2
        assert recording.notes == ("its last line is truncated and was dropped",)


def test_comments_and_empty_rows_between_are_skipped(tmp_path):
    recording = read(tmp_path, rows("0,1,2", "# a remark", "", "1,2,3", "   ", "2,3,4", ",,", ",,", ""))
    np.testing.assert_array_equal(recording.column("q.b"), [2.0, 3.0, 4.0])
    assert recording.notes == ("2 empty rows were dropped",)


def test_whole_times_stay_whole(tmp_path):
    stamps = 1_700_000_000_123_456_789 + np.arange(4) * 10_000_001
    recording = read(tmp_path, "stamp_ns,q.a\n" + "".join(f"{stamp},1\n" for stamp in stamps))
    assert recording.epoch == 1_700_000_000
    np.testing.assert_array_equal(np.rint(recording.time * 1e9).astype(int), stamps - recording.epoch * 10**9)


@pytest.mark.parametrize("zone", ["", "Z", "+00:00"])
def test_dates_are_times(tmp_path, zone):
    recording = read(tmp_path, f"time,q.a\n2024-05-01 12:00:00.25{zone},1\n2024-05-01T12:00:00.500000001{zone},2\n")
    assert recording.epoch == 1_714_564_800
    np.testing.assert_array_equal(recording.time, [0.25, 0.500000001])
    with pytest.raises(RecordingError, match=r"'time' holds '2024-05-41 12:00:00"):
        read(tmp_path, f"time,q.a\n2024-05-01 12:00:00{zone},1\n2024-05-41 12:00:00{zone},2\n")


def test_what_is_odd_far_into_the_file_is_read_as_well(tmp_path, monkeypatch):
    # Blocks of a few rows: the first are read in one go, the odd field later turns up in a block of its own.
    monkeypatch.setattr(csv_file, "_BLOCK_BYTES", 200)
    monkeypatch.setattr(csv_file, "_ROWS_IN_BLOCK", 1)
    count = 300
    numbers = np.random.default_rng(1).normal(size=count)
    lines = [f"{number},{value!r},0" for number, value in enumerate(numbers.tolist())]
    lines[200] = "200.5, nAn ,0"
    lines[250] += "\n# a remark"
    expected = numbers.copy()
    expected[200] = np.nan
    recording = read(tmp_path, rows(*lines) + "\n300,1")
    np.testing.assert_array_equal(recording.column("q.a"), expected)
    assert recording.time[200] == 200.5
    assert recording.notes == ("its last line is truncated and was dropped",)
    lines[280] = "280,oops,0"
    with pytest.raises(RecordingError, match=r"'q.a' holds 'oops' in row 28[12] below the header"):
        read(tmp_path, rows(*lines))


def test_a_large_file_is_read_through_a_temporary_one(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    recording = Recording(np.arange(5000) * 0.002, {f"q.j{number}": rng.normal(size=5000) for number in range(8)})
    recording.write(tmp_path / "walk.csv")
    monkeypatch.setattr(columns, "MEMORY", 100_000)
    monkeypatch.setattr(columns, "CHUNK_BYTES", 30_000)
    outside = read_recording(tmp_path / "walk.csv")
    assert isinstance(outside.values, columns.LazyColumns)
    assert outside.sha256 == recording.sha256


def test_a_damaged_archive_is_refused(tmp_path):
    packed = gzip.compress(fuzzing.dialects()[0] * 50)
    with pytest.raises(RecordingError, match=r"is damaged and cannot be decompressed"):
        read(tmp_path, packed[:-20], "walk.csv.gz")
    with pytest.raises(RecordingError, match=r"is damaged and cannot be decompressed"):
        read(tmp_path, packed[:30] + b"\xff\xff" + packed[32:], "walk.csv.gz")
