"""Files that nobody should have written, and what must hold when they are read.

A reader may refuse a file with a `RecordingError`, or give a Recording that keeps its promises. Anything else, and a
warning that is not a `RecordingWarning`, is a fault. The same number of examples gives the same examples.
"""

from __future__ import annotations

import io
import tempfile
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard import Recording, RecordingError
from steelyard.exceptions import RecordingWarning
from steelyard.model.setup import parse_setup
from steelyard.recording import read_recording

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = (
    "time",
    "t",
    "timestamp_ns",
    "time [ms]",
    "q.knee",
    "q.a/b",
    "left_foot.fz",
    "pelvis.gyro.x",
    "",
    "x",
    "x[0]",
    "x[1]",
)
CELLS = (
    *(
        "0",
        "1",
        "-1",
        "0.5",
        "1e3",
        "+2",
        "1e999",
        "-inf",
        "nan",
        "NaN",
        "NA",
        "null",
        "None",
        "-",
        "",
        " ",
        "1,5",
        "1.234,5",
    ),
    *(
        "1700000000",
        "1700000000000000000",
        "99999999999999999999",
        "2024-05-01T12:00:00Z",
        "true",
        "0x10",
        "1.",
        ".5",
        "1e",
    ),
    *('"', '"a', '""', "#", "%", "ü", "\x00", "\ufeff", "a\nb", "\u0661", "<b>", "=1+1", "1_000", "'", "\\"),
)


def arbitrary_bytes() -> st.SearchStrategy[bytes]:
    """Gives bytes that mean nothing, some behind the first bytes of a real format."""
    starts = (
        b"",
        b"time,q.knee\n",
        b"PK\x03\x04",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\x1f\x8b\x08",
        b"# ",
        b"\x89MCAP0\r\n",
    )
    return st.builds(lambda start, rest: start + rest, st.sampled_from(starts), st.binary(max_size=600))


@st.composite
def mutated(draw: st.DrawFn, valid: Sequence[bytes]) -> bytes:
    """Gives a valid file with some bytes changed, left out or put in, or with its end cut off."""
    contents = bytearray(draw(st.sampled_from(valid)))
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, max(0, len(contents) - 1)))
        change = draw(st.sampled_from(("set", "delete", "insert", "cut", "repeat")))
        length = draw(st.integers(1, 40))
        if change == "set":
            contents[place : place + 1] = bytes([draw(st.integers(0, 255))])
        elif change == "delete":
            del contents[place : place + length]
        elif change == "insert":
            contents[place:place] = draw(st.binary(min_size=1, max_size=20))
        elif change == "cut":
            del contents[place:]
        else:
            contents[place:place] = contents[place : place + length]
    return bytes(contents)


@st.composite
def odd_tables(draw: st.DrawFn) -> bytes:
    """Gives the text of a table with odd names, fields, separators, ends of lines and encodings."""
    name = st.one_of(st.sampled_from(NAMES), st.text(max_size=8))
    header = draw(st.lists(name, min_size=0, max_size=6))
    cell = st.one_of(st.sampled_from(CELLS), st.floats().map(repr), st.integers().map(str))
    width = draw(st.sampled_from((len(header), len(header), len(header) + 1, max(0, len(header) - 1))))
    rows = draw(st.lists(st.lists(cell, min_size=width, max_size=width), max_size=8))
    if draw(st.booleans()):
        # A clock that runs, so that what is beside it is looked at too.
        rows = [[str(number), *row[1:]] for number, row in enumerate(rows)]
    ragged = draw(st.lists(st.lists(cell, max_size=8), max_size=2))
    place = draw(st.integers(0, len(rows)))
    lines = [header, *rows[:place], *ragged, *rows[place:]]
    separator = draw(st.sampled_from((",", ";", "\t", "|", " ", "  ", ", ")))
    end = draw(st.sampled_from(("\n", "\r\n", "\r", "\n\n")))
    start = draw(st.sampled_from(("", "", "# comment\n", "%", "sep=;\n", "\ufeff")))
    text = start + end.join(separator.join(line) for line in lines) + draw(st.sampled_from(("", end)))
    encoding = draw(st.sampled_from(("utf-8", "utf-8", "utf-16", "latin-1", "utf-16-le")))
    return text.encode(encoding, errors="replace")


@st.composite
def odd_archives(draw: st.DrawFn) -> bytes:
    """Gives an NPZ file whose archive is whole, of arrays that are not."""
    rows = draw(st.integers(0, 5))
    members = {}
    for name in draw(
        st.lists(st.sampled_from((*NAMES, "epoch", "steelyard", "steelyard_mapped")), max_size=5, unique=True)
    ):
        shape = draw(
            st.sampled_from(((rows,), (rows, 2), (2, rows), (rows, rows), (1, rows), (), (3,), (2, 2, 2), (rows, 0)))
        )
        kind = draw(
            st.sampled_from((">f8", "<f4", "<f2", "<i8", ">u8", "?", "<M8[ns]", "<m8[h]", "<c16", "<U3", "S2", "<i1"))
        )
        numbers = draw(st.lists(st.integers(-3, 300), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
        array = np.array(numbers, dtype=np.int64).reshape(shape)
        array = array.astype("U3").astype(kind) if kind[0] == "S" else array.astype(kind)
        members[name] = npy_bytes(np.asfortranarray(array) if draw(st.booleans()) else array)
    if members and draw(st.booleans()):
        hurt = draw(st.sampled_from(sorted(members)))
        members[hurt] = draw(mutated([members[hurt]]))
    return zip_bytes(members, compression=draw(st.sampled_from((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))))


@st.composite
def odd_parquet(draw: st.DrawFn) -> bytes:
    """Gives a whole Parquet file of columns that nobody expects."""
    rows = draw(st.integers(0, 5))
    numbers = st.lists(st.one_of(st.none(), st.integers(0, 100)), min_size=rows, max_size=rows)
    columns = []
    names = draw(st.lists(st.sampled_from(NAMES), max_size=5))
    for number, _ in enumerate(names):
        kind = draw(
            st.sampled_from(
                (
                    *(pa.null(), pa.float16(), pa.float64(), pa.int64(), pa.uint8(), pa.bool_(), pa.string()),
                    *(pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.duration("ms"), pa.decimal128(9, 2)),
                    *(pa.list_(pa.int64()), pa.dictionary(pa.int8(), pa.string()), pa.binary(), pa.date32()),
                )
            )
        )
        running = number == 0 and draw(st.booleans()) and kind == pa.int64()
        column = pa.array(list(range(rows)) if running else draw(numbers), pa.int64())
        columns.append(_cast(column, kind))
    metadata = draw(st.sampled_from(({}, {"steelyard": "0", "epoch": "5"}, {"steelyard": "0", "epoch": "x"})))
    mark = draw(st.sampled_from(({}, {"steelyard_mapped": "true"}, {"steelyard_mapped": "7"})))
    schema = pa.schema([pa.field(name, column.type) for name, column in zip(names, columns, strict=True)])
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema.with_metadata(metadata | mark)), stream)
    return stream.getvalue()


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Gives numbers as some type, empty where they cannot be."""
    try:
        return column.cast(kind)
    except pa.ArrowException:
        return pa.nulls(len(column), kind)


def npy_bytes(array: Any) -> bytes:
    """Gives an array as NumPy writes it."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def zip_bytes(members: dict[str, bytes], *, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Gives an NPZ file of given members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, contents in members.items():
            archive.writestr(f"{name}.npy", contents)
    return stream.getvalue()


def small_recording() -> Recording:
    """Gives a recording with gaps, to be damaged."""
    rng = np.random.default_rng(5)
    columns = {name: rng.normal(size=12) for name in ("q.knee", "v.knee", *(f"left_foot.f{axis}" for axis in "xyz"))}
    columns |= {f"pelvis.{kind}.{axis}": rng.normal(size=12) for kind in ("gyro", "accel") for axis in "xyz"}
    columns["left_foot.fz"][3:5] = np.nan
    return Recording(np.arange(12) * 0.01, columns, "small", epoch=1_700_000_000)


def written(recording: Recording, ending: str) -> bytes:
    """Gives the bytes of the file that a recording is written as."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"written{ending}"
        recording.write(path)
        return path.read_bytes()


MAPS: tuple[dict[str, Any], ...] = (
    {},
    {"columns": {"q.*": "x*", "left_foot.fz": {"from": "q.knee", "unit": "kg", "offset": 1.0}}},
    {"columns": {"left_foot.*": "pelvis.gyro.*"}, "time": "t", "time_unit": "ms"},
    {"arrays": {"x": ["q.a", "", "q.c"], "q.knee": ["tau.knee"]}, "time": "x[0]", "time_unit": "ns"},
)
"""What setups may make of a file: nothing, other names and units, another time, arrays."""


def check_contents(contents: bytes, ending: str, recording_map: dict[str, Any] | None = None) -> Recording | None:
    """Reads a file of these contents: a Recording that keeps its promises, or None where it was refused."""
    model = SimpleNamespace(setup=parse_setup({"recording": recording_map or {}}), joints=("knee", "x"))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RecordingWarning)
        path = Path(folder) / f"odd{ending}"
        path.write_bytes(contents)
        try:
            # Of a model, readers look at the setup and the joints alone.
            recording = read_recording(path, cast("Any", model))
        except RecordingError as error:
            message = str(error)
        else:
            _check_promises(recording)
            return recording
        assert message
        assert "\n" not in message, "a message is one line"
        return None


def _check_promises(recording: Recording) -> None:
    assert len(recording) > 0
    assert np.all(np.diff(recording.time) > 0.0)
    for name in recording.columns:
        values = recording.column(name)
        assert values.shape == recording.time.shape
        assert not np.any(np.isinf(values))


def check_csv(examples: int) -> None:
    """Reads odd CSV files of every kind."""
    valid = [written(small_recording(), ".csv"), written(small_recording(), ".csv.gz"), *dialects()]
    for kind in (arbitrary_bytes(), mutated(valid), odd_tables()):
        _check_all(kind, ".csv", examples)


def check_npz(examples: int) -> None:
    """Reads odd NPZ files of every kind."""
    packed = io.BytesIO()
    recording = small_recording()
    np.savez_compressed(packed, time=recording.time, **{"q.knee": recording.column("q.knee"), "x": np.ones((12, 3))})
    valid = [written(recording, ".npz"), packed.getvalue()]
    for kind in (arbitrary_bytes(), mutated(valid), odd_archives()):
        _check_all(kind, ".npz", examples)


def check_parquet(examples: int) -> None:
    """Reads odd Parquet files of every kind."""
    valid = [written(small_recording(), ".parquet")]
    _check_all(odd_parquet(), ".parquet", examples)
    for kind in (arbitrary_bytes(), mutated(valid)):
        _check_all(kind, ".parquet", examples)


def check_hdf5(examples: int) -> None:
    """Reads odd HDF5 files of every kind."""
    valid = [written(small_recording(), ".h5")]
    for kind in (arbitrary_bytes(), mutated(valid)):
        _check_all(kind, ".h5", examples)


def check_mcap(examples: int) -> None:
    """Reads odd MCAP files of every kind."""
    valid = [written(small_recording(), ".mcap")]
    for kind in (arbitrary_bytes(), mutated(valid)):
        _check_all(kind, ".mcap", examples)


def dialects() -> list[bytes]:
    """Gives one small table in many dialects; all hold the same numbers."""
    plain = "time,q.knee,left_foot.fz\n0.0,1.5,\n0.25,-2.5,300.5\n0.5,1e-3,301.25\n"
    german = plain.replace(",", ";").replace(".", ",").replace("q,knee", "q.knee").replace("foot,fz", "foot.fz")
    return [
        plain.encode(),
        plain.replace(",", ";").encode(),
        plain.replace(",", "\t").encode(),
        plain.replace(",", " | ").encode(),
        plain.replace("1.5,", "1.5,nan").replace(",", "   ").encode(),
        german.encode(),
        german.replace(";", "\t").encode(),
        plain.replace("\n", "\r\n").encode(),
        plain.replace("\n", "\r").encode(),
        plain.encode("utf-8-sig"),
        plain.encode("utf-16"),
        ("# written by hand\n% on Monday, twice\n" + plain).encode(),
        ("#" + plain).encode(),
        ("% " + plain).encode(),
        ("sep=,\n" + plain).encode(),
        plain.replace("time,q.knee,left_foot.fz", '"time","q.knee" ,"left_foot.fz"').encode(),
        plain.replace("time,q.knee,left_foot.fz", 'time, "q.knee",  "left_foot.fz"').encode(),
        plain.replace(",\n", ",NA\n").encode(),
        plain.replace(",\n", ", None \n").encode(),
        plain.replace(",\n", ",-\n").encode(),
        plain.replace("\n", ",\n").encode(),
        plain.replace("0.25", "+0.25").replace("300.5", " 300.5 ").encode(),
        plain.replace("0.5,", "\n\n0.5,").encode(),
    ]


def _check_all(kind: st.SearchStrategy[bytes], ending: str, examples: int) -> None:
    @settings(
        max_examples=examples, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(kind, st.sampled_from(MAPS))
    def holds(contents: bytes, recording_map: dict[str, Any]) -> None:
        check_contents(contents, ending, recording_map)

    holds()
