"""Encoder offsets, added to readings to get true positions: their files and arguments.

An offset file is JSON, with uncertainty and provenance, or CSV, a table for correcting readings in the robot itself.
Both can be read; the file extension decides.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from steelyard.arrays import is_finite_number
from steelyard.exceptions import MotionError
from steelyard.model import as_path, is_folder, write_with_offsets
from steelyard.whole_file import draft_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.model import Model, WrittenModel

FORMAT = 1
"""Version of the JSON layout; files of any other are refused."""

UNITS = ("rad", "m")
COLUMNS = ("joint", "unit", "offset", "offset_deg", "standard_error", "low", "high", "level", "observable")
"""Columns of the CSV; reading one requires only "joint" and "offset" (rad or m)."""

_EXTENSIONS = (".json", ".csv")
_REMEDY = "write offsets with write_offsets"


class HasOffsets(Protocol):
    """An object with offsets by joint, such as a calibration result."""

    @property
    def values(self) -> Mapping[str, float]:
        """Offsets by joint, rad or m."""


OffsetsLike = Mapping[str, float] | str | Path | HasOffsets
"""Offsets by joint, an offset file, or an object that has them as `values`."""


def as_offsets(offsets: OffsetsLike | None) -> Mapping[str, float]:
    """Return offsets by joint from any accepted form; empty for None.

    Joint names are not checked here; see `check_offsets`.

    Raises:
        MotionError: The form is unknown, or the file is invalid.
    """
    if offsets is None:
        return {}
    if isinstance(offsets, Mapping):
        return offsets
    if isinstance(offsets, str | Path):
        return read_offsets(offsets)
    values = getattr(offsets, "values", None)
    if isinstance(values, Mapping):
        return values
    raise MotionError(
        f"offsets are {offsets!r}; give numbers by joint (rad or m), an offset file, or an object with `values`"
    )


def units_of(model: Model) -> dict[str, str]:
    """Return "rad" or "m" for each joint of a model that has a single position."""
    joints = [model.joint(name) for name in model.joints]
    return {joint.name: "m" if joint.kind == "prismatic" else "rad" for joint in joints if joint.position_size == 1}


def write_calibrated_model(model: Model, offsets: OffsetsLike, path: str | Path) -> WrittenModel:
    """Write a copy of the model's file whose joint zeros are those of the encoders.

    At raw readings, the copy has the pose that the original has at readings plus offsets: joint origins are rotated
    about or shifted along the joint axis, and limits, couplings and other positions are converted. Do not add the
    offsets again when using the copy.

    Args:
        model: The model; parameters that differ from the file's are written too, as by `write_model`.
        offsets: By joint, rad or m; an offset file; or an object that has them as `values`.
        path: Where to write, with the extension of the model's own format.

    Raises:
        MotionError: The offset file is invalid.
        ModelError: A joint is unknown, or the file cannot be written.
    """
    return write_with_offsets(model, as_offsets(offsets), path)


def write_offsets(
    path: str | Path,
    values: Mapping[str, float],
    standard_errors: Mapping[str, float] | None = None,
    observable: Mapping[str, bool] | None = None,
    *,
    level: float = 0.95,
    units: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write offsets to a .json or .csv file, atomically.

    Values that are not finite are written as null, or as an empty cell: unknown.

    Args:
        path: Where to write; an existing file is replaced.
        values: By joint, the offset to add to its readings, rad or m.
        standard_errors: By joint, for some or all, rad or m.
        observable: By joint, for some or all, whether the offset is observable from the data.
        level: Confidence level of the CSV's low and high, from the normal distribution.
        units: "rad" or "m" by joint; "rad" by default. See `units_of`.
        extra: Further entries for the JSON's "provenance": plain numbers, strings, lists and mappings.

    Raises:
        MotionError: A value is not a number, the extension is unknown, or the file cannot be written.
    """
    target = as_path(path)
    extension = _find_extension(target, "written as")
    rows = _rows(values, standard_errors or {}, observable or {}, units or {})
    text = _as_json(rows, extra or {}) if extension == ".json" else _as_csv(rows, level)
    try:
        if not target.parent.is_dir():
            raise MotionError(f"{target.name}: there is no folder {str(target.parent)!r}; create it first")
        if is_folder(target):
            raise MotionError(f"{str(target)!r} is a folder; name a file in it")
        content = text.encode("utf-8")
        with draft_of(target) as draft:
            draft.write_bytes(content)
    except OSError as error:
        raise MotionError(
            f"{target} cannot be written ({error.strerror}); choose another path, or free space"
        ) from error
    except UnicodeEncodeError as error:
        raise MotionError(f"{target}: a joint name cannot be encoded as UTF-8; rename it") from error


def read_offsets(path: str | Path) -> dict[str, float]:
    """Load an offset file written by `write_offsets`, or a CSV with at least the columns joint and offset.

    Joints with an unknown offset (null, or an empty cell) are left out.

    Returns:
        By joint, the offset to add to its readings, rad or m, in the order of the file.

    Raises:
        MotionError: The file is missing or invalid; the message says where and what to do.
    """
    source = as_path(path)
    extension = _find_extension(source, "read from")
    try:
        raw = source.read_bytes()
    except FileNotFoundError as error:
        raise MotionError(
            f"{source}: there is no such file; check the path, or create it with `steelyard calibrate`"
        ) from error
    except OSError as error:
        raise MotionError(f"{source} cannot be read ({error.strerror}); check the path and its permissions") from error
    return _read_json(source, raw) if extension == ".json" else _read_csv(source, raw)


@dataclass(frozen=True)
class _Row:
    """One joint's entry; None for unknown values."""

    joint: str
    unit: str
    value: float | None
    standard_error: float | None
    observable: bool | None


def _find_extension(path: Path, what: str) -> str:
    if "\0" in str(path):
        raise MotionError(f"{str(path)!r} is not a valid file name; give another")
    extension = path.suffix.lower()
    if extension not in _EXTENSIONS:
        raise MotionError(f"{path.name}: offsets are {what} {' or '.join(_EXTENSIONS)}, not {path.suffix!r}")
    return extension


def _rows(
    values: Mapping[str, float],
    standard_errors: Mapping[str, float],
    observable: Mapping[str, bool],
    units: Mapping[str, str],
) -> list[_Row]:
    if not isinstance(values, Mapping):
        raise MotionError(f"the offsets are {values!r}; give numbers by joint, rad or m")
    for given, what in ((standard_errors, "a standard error"), (observable, "an observability flag")):
        for joint in given:
            if joint not in values:
                raise MotionError(f"{joint!r} has {what} but no offset; leave it out", channel=str(joint))
    rows = []
    for joint, value in values.items():
        if not isinstance(joint, str):
            raise MotionError(f"the joint name {joint!r} is not a string; give its name")
        unit = units.get(joint, "rad")
        if unit not in UNITS:
            raise MotionError(f"the unit of {joint!r} is {unit!r}; give 'rad' or 'm'", channel=joint)
        offset = _finite_or_none(value, f"the offset of {joint!r} is {value!r}; give rad or m", joint)
        given_error = standard_errors.get(joint)
        message = f"the standard error of {joint!r} is {given_error!r}; give a number of at least zero"
        error = None if given_error is None else _finite_or_none(given_error, message, joint)
        if error is not None and error < 0.0:
            raise MotionError(message, channel=joint)
        seen = observable.get(joint)
        if seen is not None and not isinstance(seen, bool | np.bool_):
            raise MotionError(f"the observability flag of {joint!r} is {seen!r}; give True or False", channel=joint)
        rows.append(_Row(joint, unit, offset, error, None if seen is None else bool(seen)))
    return rows


def _finite_or_none(value: Any, message: str, joint: str) -> float | None:
    """Return a number, or None where it is not finite."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise MotionError(message, channel=joint)
    try:
        number = float(value)
    except OverflowError as error:
        raise MotionError(message, channel=joint) from error
    return number if math.isfinite(number) else None


def _as_json(rows: Sequence[_Row], extra: Mapping[str, Any]) -> str:
    joints = {row.joint: {key: value for key, value in asdict(row).items() if key != "joint"} for row in rows}
    contents = {"steelyard_offsets": FORMAT, "joints": joints, "provenance": _plain(extra)}
    return json.dumps(contents, indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Convert a value to plain JSON types; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Path):
        return str(value)
    raise MotionError(
        f"the provenance of offsets holds a {type(value).__name__}; give plain numbers, strings, lists and mappings"
    )


def _as_csv(rows: Sequence[_Row], level: float) -> str:
    if not (is_finite_number(level) and 0.0 < level < 1.0):
        raise MotionError(f"the confidence level is {level!r}; give one between 0 and 1, such as 0.95")
    quantile = NormalDist().inv_cdf(0.5 + 0.5 * float(level))
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(COLUMNS)
    for row in rows:
        offset, error = row.value, row.standard_error
        degrees = math.degrees(offset) if offset is not None and row.unit == "rad" else None
        interval: tuple[float | None, ...] = (None, None, None)
        if offset is not None and error is not None:
            interval = (offset - quantile * error, offset + quantile * error, float(level))
        numbers = (offset, degrees, error, *interval)
        cells = ["" if number is None else repr(number) for number in numbers]
        seen = "" if row.observable is None else str(row.observable).lower()
        writer.writerow([row.joint, row.unit, *cells, seen])
    return stream.getvalue()


def _read_json(path: Path, raw: bytes) -> dict[str, float]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise MotionError(f"{path}: {key!r} is listed twice; keep one", channel=key)
            found[key] = value
        return found

    try:
        # Integers of any length are read as floats, so that none overflows later.
        stored = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=once, parse_int=float)
    except (ValueError, RecursionError) as error:
        raise MotionError(f"{path} is not valid JSON; {_REMEDY}") from error
    if not isinstance(stored, dict) or "steelyard_offsets" not in stored:
        raise MotionError(f"{path} is not an offset file; {_REMEDY}")
    version = stored["steelyard_offsets"]
    if version != FORMAT:
        shown = f"{version:g}" if isinstance(version, float) else repr(version)
        raise MotionError(f"{path} has layout {shown}, this version reads {FORMAT}; use the version that wrote it")
    joints = stored.get("joints")
    if not isinstance(joints, dict):
        raise MotionError(f"{path} has no 'joints'; {_REMEDY}")
    offsets = {}
    for joint, entry in joints.items():
        if not isinstance(entry, dict) or "value" not in entry:
            raise MotionError(f"{path}: {joint!r} is {entry!r}; write a mapping with 'value'", channel=joint)
        _check_unit(f"{path}:", joint, entry.get("unit", "rad"))
        value = entry["value"]
        if value is None:
            continue
        if not is_finite_number(value):
            raise MotionError(f"{path}: the offset of {joint!r} is {value!r}; write a number, rad or m", channel=joint)
        offsets[joint] = float(value)
    return offsets


def _read_csv(path: Path, raw: bytes) -> dict[str, float]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MotionError(f"{path} is not UTF-8; save it as UTF-8") from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    offsets: dict[str, float] = {}
    seen: set[str] = set()
    try:
        columns = [name.strip() for name in next(reader, [])]
        for needed in ("joint", "offset"):
            if needed not in columns:
                raise MotionError(f"{path} has no column {needed!r}; an offset table has 'joint' and 'offset'")
        for cells in reader:
            where = f"{path}, line {reader.line_num}:"
            if not cells:
                continue
            if len(cells) != len(columns):
                raise MotionError(f"{where} {len(columns)} cells expected, {len(cells)} found; correct the line")
            row = dict(zip(columns, cells, strict=True))
            joint, text_value = row["joint"], row["offset"].strip()
            if not joint:
                raise MotionError(f"{where} the joint name is missing; add it")
            if joint in seen:
                raise MotionError(f"{where} {joint!r} is listed twice; keep one", channel=joint)
            seen.add(joint)
            _check_unit(where, joint, row.get("unit", "rad").strip() or "rad")
            if text_value:
                offsets[joint] = _parse_offset(where, joint, text_value)
    except csv.Error as error:
        raise MotionError(f"{path} is not a valid CSV table ({error}); {_REMEDY}") from error
    return offsets


def _parse_offset(where: str, joint: str, text: str) -> float:
    try:
        # Python parses 1_000 as a number; no other CSV reader does.
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise MotionError(f"{where} the offset of {joint!r} is {text!r}; write a number, rad or m", channel=joint)
    return value


def _check_unit(where: str, joint: str, unit: Any) -> None:
    if unit not in UNITS:
        raise MotionError(f"{where} the unit of {joint!r} is {unit!r}; write rad or m", channel=joint)
