"""Reading recordings: which reader a file needs, by its ending or its first bytes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from steelyard.exceptions import RecordingError, RecordingWarning
from steelyard.model import CLOCKS, RecordingMap, Setup, as_path
from steelyard.recording.identity import hash_file, known_identity
from steelyard.recording.recording import sensor_of
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from steelyard.model import Model
    from steelyard.recording.recording import Recording

ENDINGS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    ".npz": "npz",
    **dict.fromkeys((".h5", ".hdf5", ".hdf", ".mat"), "hdf5"),
    ".mcap": "mcap",
    ".bag": "ros1",
    ".db3": "ros2",
}
"""Formats by the ending of a file."""

_FIRST_BYTES = {
    b"PAR1": "parquet",
    b"PK\x03\x04": "npz",
    b"\x89HDF\r\n\x1a\n": "hdf5",
    b"MATLAB ": "hdf5",
    b"\x89MCAP0\r\n": "mcap",
    b"#ROSBAG": "ros1",
    b"SQLite format 3\0": "ros2",
    b"\x1f\x8b": "csv",
    b"\xff\xfe": "csv",
    b"\xfe\xff": "csv",
}

_MESSAGES = ("mcap", "ros1", "ros2")
_MAPPED_BEFORE = "its columns were mapped already when it was written; the setup's map was not applied again"


def read_recording(
    path: str | Path, model: Model | None = None, *, mapped: bool = True, clock: str | None = None
) -> Recording:
    """Reads a recording: CSV, Parquet, NPZ, HDF5 (also MATLAB's .mat of version 7.3), MCAP, or a ROS 1 or 2 bag.

    Columns get Steelyard's names by the setup's ``[recording]``, and the delays of sensors that the setup states are
    taken out; the recording is `mapped` then. A file that Steelyard wrote of such a recording says so, and is read as
    it is; CSV files cannot say it: read those with ``mapped=False``. What is larger than memory stays on
    disk. Each thing noticed is a note of the recording, and a `RecordingWarning`.

    Args:
        path: A file, or the folder of a ROS 2 bag.
        model: Whose setup says how recordings name things, and which sensors there are.
        mapped: Whether the setup's map and delays are applied.
        clock: Of a bag: the time that messages carry ("message"), or that of their receipt ("receive"); by default the
            setup says.

    Raises:
        RecordingError: The file cannot be read, or is not as the setup says; the message says what to do.
    """
    place = as_path(path)
    if clock is not None and clock not in CLOCKS:
        raise RecordingError(f"the clock is {clock!r}; give 'message' or 'receive'")
    setup = model.setup if model is not None else Setup()
    if not mapped:
        setup = replace(setup, recording=RecordingMap())
    kind = find_format(place)
    if kind in _MESSAGES:
        recording = _read_messages(place, kind, setup, clock or setup.recording.clock)
    else:
        recording = _read_columns(place, kind, setup.recording, model.joints if model is not None else ())
    if recording.identity is None or not recording.identity.is_known:
        recording = replace(recording, identity=known_identity(hash_file(place)))
    if mapped:
        recording = _take_delays_out(recording, setup)
    for note in recording.notes:
        warnings.warn(f"{recording.name}: {note}", RecordingWarning, stacklevel=2)
    return recording


def find_format(path: Path) -> str:
    """Gives the format of a file or folder: by its ending, else by its first bytes; text is taken for CSV.

    Raises:
        RecordingError: There is no such file, it cannot be read, or nobody knows its format.
    """
    try:
        if path.is_dir():
            return _format_of_folder(path)
        if not path.exists():
            raise RecordingError(f"there is no file {str(path)!r}; check the path")
        if not path.is_file():
            raise RecordingError(f"{str(path)!r} is no file; give a file, or the folder of a ROS 2 bag")
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise RecordingError(
            f"{path.name!r} cannot be read ({error.strerror}); check the path and permissions"
        ) from error
    ending = path.with_suffix("").suffix if path.suffix.lower() == ".gz" else path.suffix
    if ending.lower() in ENDINGS:
        return ENDINGS[ending.lower()]
    for start, kind in _FIRST_BYTES.items():
        if head.startswith(start):
            return kind
    if b"\0" in head:
        raise RecordingError(
            f"{path.name}: the format {path.suffix!r} is not known{did_you_mean(path.suffix, ENDINGS)}; convert it to "
            "one of these"
        )
    return "csv"


def _format_of_folder(path: Path) -> str:
    if (path / "metadata.yaml").is_file() or any(path.glob("*.db3")) or any(path.glob("*.mcap")):
        return "ros2"
    raise RecordingError(f"the folder {str(path)!r} holds no ROS 2 bag (no metadata.yaml); give a file in it")


def _read_columns(path: Path, kind: str, recording_map: RecordingMap, joints: Sequence[str]) -> Recording:
    # Each format is imported when it is needed: that takes longer than all the rest of Steelyard.
    from steelyard.recording.tables.table import read_table  # noqa: PLC0415

    if kind == "parquet":
        from steelyard.recording.tables.parquet_file import read_parquet  # noqa: PLC0415

        return read_parquet(path, recording_map, joints)
    if kind == "npz":
        from steelyard.recording.tables.npz_file import NpzSource  # noqa: PLC0415

        return read_table(NpzSource(path, recording_map), recording_map, joints)
    if kind == "hdf5":
        from steelyard.recording.tables.hdf5_file import Hdf5Source  # noqa: PLC0415

        return read_table(Hdf5Source(path, recording_map), recording_map, joints)
    from steelyard.recording.tables.csv_file import CsvSource  # noqa: PLC0415

    return read_table(CsvSource(path), recording_map, joints)


def _read_messages(path: Path, kind: str, setup: Setup, clock: str | None) -> Recording:
    from steelyard.recording.tables.table import apply_map  # noqa: PLC0415

    if kind == "mcap":
        from steelyard.recording.bags.mcap_file import read_mcap  # noqa: PLC0415

        recording = read_mcap(path, setup, clock)
    elif kind == "ros1":
        from steelyard.recording.bags.bag_file import read_ros1  # noqa: PLC0415

        recording = read_ros1(path, setup, clock)
    else:
        from steelyard.recording.bags.bag_file import read_ros2  # noqa: PLC0415

        recording = read_ros2(path, setup, clock)
    return recording if recording.mapped else apply_map(recording, setup.recording)


def _take_delays_out(recording: Recording, setup: Setup) -> Recording:
    """Gives the recording without the delays of its sensors, and marked, where that, or the map, changed it."""
    delays = _delays(setup, recording)
    changed = setup.recording.changes_columns or bool(delays)
    if recording.mapped:
        return replace(recording, notes=(*recording.notes, _MAPPED_BEFORE)) if changed else recording
    return replace(recording.without_delays(delays), mapped=changed)


def _delays(setup: Setup, recording: Recording) -> dict[str, float]:
    """Gives the delays of the sensors that the recording has."""
    delays = {imu.name: imu.delay for imu in setup.imus} | {each.name: each.delay for each in setup.wrench_sensors}
    there = {sensor_of(name) for name in recording.columns}
    return {sensor: delay for sensor, delay in delays.items() if delay != 0.0 and sensor in there}
