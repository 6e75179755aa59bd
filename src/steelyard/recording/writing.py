"""Writing recordings: the format by the ending of the name, the file complete or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.exceptions import RecordingError
from steelyard.model import as_path
from steelyard.recording.file_errors import unwritable
from steelyard.whole_file import draft_of
from steelyard.wording import did_you_mean, show_name

if TYPE_CHECKING:
    from steelyard.recording.recording import Recording

WRITTEN = (".csv", ".csv.gz", ".parquet", ".npz", ".h5", ".hdf5", ".mcap", ".bag")
"""Endings of files that can be written; a name without one is the folder of a ROS 2 bag."""

_LONGEST_NAME = 4096
"""Bytes of a column's name at most. Set by judgement: far above any real name, far below the limits of the formats."""


def write_recording(recording: Recording, path: str | Path) -> None:
    """Write a recording; the ending sets the format: .csv, .csv.gz, .parquet, .npz, .h5, .mcap, .bag; none: ROS 2.

    Reading it again gives the same numbers to the last bit, except that CSV loses the epoch, and that messages hold
    only what their types can. Whether the recording was `mapped`, and its `origin`, are stored and used when it is
    read, except in CSV files; see `Recording.origin`. The file is written beside its target first: a failure leaves an
    existing file unchanged.

    Args:
        recording: What to write.
        path: Where; an existing file is replaced, a folder is not; of a link, the file that it points to is replaced.

    Raises:
        RecordingError: The ending is unknown, there are no columns, or the file cannot be written.
    """
    target = as_path(path)
    _check_names(recording)
    try:
        _check_and_write(recording, target)
    except OSError as error:
        raise unwritable(show_name(target.name), error) from error


def check_ending(path: str | Path) -> None:
    """Raise an error if no recording can be written to a name, before there is one.

    Raises:
        RecordingError: The ending is unknown; the message lists the known ones.
    """
    _find_ending(as_path(path))


def _check_and_write(recording: Recording, target: Path) -> None:
    ending = _find_ending(target)
    if target.is_symlink():
        target = Path(os.path.realpath(target))
    if not target.parent.is_dir():
        raise RecordingError(f"there is no folder {str(target.parent)!r} to write {target.name!r} into; make it first")
    if not ending:
        from steelyard.recording.bags.bag_file import write_ros2  # noqa: PLC0415

        write_ros2(recording, target)
        return
    if target.is_dir():
        raise RecordingError(f"{str(target)!r} is a folder; give the name of a file")
    with draft_of(target) as draft:
        _write(recording, draft, ending)


def _find_ending(path: Path) -> str:
    if "\0" in str(path):
        raise RecordingError(f"{show_name(path.name)} is not a valid file name; give another")
    name = path.name.lower()
    for ending in WRITTEN:
        if name.endswith(ending):
            return ending
    if name.endswith(".mat"):
        raise RecordingError(f"{path.name}: MATLAB's files can be read, not written; write .h5, which MATLAB reads too")
    if path.suffix and not path.is_dir():
        raise RecordingError(
            f"{path.name}: a recording cannot be written as {path.suffix!r}{did_you_mean(path.suffix, WRITTEN)}"
        )
    return ""


def _check_names(recording: Recording) -> None:
    """Raise an error for names that could not be read back, and if there are no columns."""
    if not recording.columns:
        raise RecordingError(f"{recording.name} has no columns; there is nothing to write")
    for name in recording.columns:
        try:
            good = 0 < len(name.encode()) <= _LONGEST_NAME and name != "time" and "\0" not in name
        except UnicodeEncodeError:
            good = False
        if not good:
            raise RecordingError(f"a column called {show_name(name)} cannot be written; rename it", column=name)


def _write(recording: Recording, path: Path, ending: str) -> None:
    # Each format is imported when it is needed: that takes longer than all the rest of Steelyard.
    from steelyard import __version__  # noqa: PLC0415

    if ending in {".csv", ".csv.gz"}:
        from steelyard.recording.tables.csv_file import write_csv  # noqa: PLC0415

        write_csv(recording, path, packed=ending == ".csv.gz")
    elif ending == ".parquet":
        from steelyard.recording.tables.parquet_file import write_parquet  # noqa: PLC0415

        write_parquet(recording, path, __version__)
    elif ending == ".npz":
        from steelyard.recording.tables.npz_file import write_npz  # noqa: PLC0415

        write_npz(recording, path, __version__)
    elif ending in {".h5", ".hdf5"}:
        from steelyard.recording.tables.hdf5_file import write_hdf5  # noqa: PLC0415

        write_hdf5(recording, path, __version__)
    elif ending == ".mcap":
        from steelyard.recording.bags.mcap_file import write_mcap  # noqa: PLC0415

        write_mcap(recording, path)
    else:
        from steelyard.recording.bags.bag_file import write_ros1  # noqa: PLC0415

        write_ros1(recording, path)
