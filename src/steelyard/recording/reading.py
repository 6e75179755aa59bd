"""Reading recordings: which reader a file needs, by its ending or its first bytes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from steelyard.exceptions import RecordingError, RecordingWarning
from steelyard.model import CLOCKS, RecordingMap, Setup, as_path
from steelyard.recording.file_errors import unreadable
from steelyard.recording.identity import Identity, hash_file
from steelyard.recording.recording import sensor_of
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from steelyard.model import Imu, Model, WrenchSensor
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

_MAPPED_BEFORE = "its columns were mapped before it was written; the setup's map was not applied again"


def read_recording(
    path: str | Path, model: Model | None = None, *, mapped: bool = True, clock: str | None = None
) -> Recording:
    """Read a recording: CSV, Parquet, NPZ, HDF5 (also MATLAB's .mat of version 7.3), MCAP, or a ROS 1 or 2 bag.

    Columns get Steelyard's names by the setup's ``[recording]``, and the sensor delays that the setup states are
    removed; the recording is then `mapped`. A file that Steelyard wrote from such a recording is marked, and neither is
    applied again; CSV files have no mark: read those with ``mapped=False``. A recording larger than memory stays on
    disk. Whatever is unusual becomes a note of the recording, and a `RecordingWarning`.

    Args:
        path: A file, or the folder of a ROS 2 bag.
        model: Its setup names the sensors, and maps the names in recordings.
        mapped: Whether to apply the setup's map and delays.
        clock: The clock of a bag: header stamps ("message") or times of receipt ("receive"); by default the setup's.

    Raises:
        RecordingError: The file cannot be read, or contradicts the setup; the message says what to do.
    """
    file = as_path(path)
    if clock is not None and clock not in CLOCKS:
        raise RecordingError(f"the clock is {clock!r}; give 'message' or 'receive'")
    setup = model.setup if model is not None else Setup()
    if not mapped:
        setup = replace(setup, recording=RecordingMap())
    kind = find_format(file)
    if kind in {"mcap", "ros1", "ros2"}:
        recording = _read_messages(file, kind, setup, clock or setup.recording.clock)
    else:
        recording = _read_columns(file, kind, setup.recording, model.joints if model is not None else ())
    if recording.identity is None or not recording.identity.is_known:
        recording = replace(recording, identity=Identity(hash_file(file)))
    if mapped:
        recording = _remove_delays(recording, setup)
    for note in recording.notes:
        warnings.warn(f"{recording.name}: {note}", RecordingWarning, stacklevel=2)
    return recording


def find_format(path: Path) -> str:
    """Determine the format of a file or folder by its ending, else by its first bytes; text is read as CSV.

    Raises:
        RecordingError: There is no such file, it cannot be read, or its format is unknown.
    """
    try:
        if path.is_dir():
            return _format_of_folder(path)
        if not path.exists():
            raise RecordingError(f"there is no file {str(path)!r}; check the path")
        if not path.is_file():
            raise RecordingError(f"{str(path)!r} is not a file; give a file, or the folder of a ROS 2 bag")
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise unreadable(repr(path.name), error) from error
    ending = path.with_suffix("").suffix if path.suffix.lower() == ".gz" else path.suffix
    if ending.lower() in ENDINGS:
        return ENDINGS[ending.lower()]
    for start, kind in _FIRST_BYTES.items():
        if head.startswith(start):
            return kind
    if b"\0" in head:
        raise RecordingError(
            f"{path.name}: the format {path.suffix!r} is not supported{did_you_mean(path.suffix, ENDINGS)}; convert it "
            "to one of these"
        )
    return "csv"


def _format_of_folder(path: Path) -> str:
    if (path / "metadata.yaml").is_file() or any(path.glob("*.db3")) or any(path.glob("*.mcap")):
        return "ros2"
    raise RecordingError(f"the folder {str(path)!r} holds no ROS 2 bag (no metadata.yaml); give a file in it")


def _read_columns(path: Path, kind: str, recording_map: RecordingMap, joints: Sequence[str]) -> Recording:
    # Imported on demand: the packages of the formats take longer to import than all the rest of Steelyard.
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
    from steelyard.recording.bags.bag_file import read_bag  # noqa: PLC0415
    from steelyard.recording.tables.table import apply_map  # noqa: PLC0415

    recording = read_bag(path, kind, setup, clock)
    return recording if recording.mapped else apply_map(recording, setup.recording)


def _remove_delays(recording: Recording, setup: Setup) -> Recording:
    """Return the recording without the delays of its sensors, marked as mapped if that or the map changed it."""
    there = {sensor_of(name) for name in recording.columns}
    sensors: list[Imu | WrenchSensor] = [*setup.imus, *setup.wrench_sensors]
    delays = {each.name: each.delay for each in sensors if each.delay != 0.0 and each.name in there}
    changed = setup.recording.changes_columns or bool(delays)
    if recording.mapped:
        return replace(recording, notes=(*recording.notes, _MAPPED_BEFORE)) if changed else recording
    return replace(recording.without_delays(delays), mapped=changed)
