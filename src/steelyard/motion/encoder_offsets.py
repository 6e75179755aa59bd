"""Offsets of encoders: what must be added to their readings to get true positions, in files and as arguments.

A file of offsets is JSON, which also tells how far to trust each and where it came from, or CSV, a table for whoever
corrects the readings in the robot itself. Both are read again; the ending of the name says which it is.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from steelyard.exceptions import MotionError
from steelyard.model import as_path, is_folder, write_with_offsets
from steelyard.motion.smoothing import is_number
from steelyard.whole_file import draft_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.model import Model, WrittenModel

FORMAT = 1
"""Number of the JSON layout; files of another are refused."""

UNITS = ("rad", "m")
COLUMNS = ("joint", "unit", "offset", "offset_deg", "standard_error", "low", "high", "level", "observable")
"""Columns of the CSV; only "joint" and "offset" (rad or m) are needed to read one."""

_ENDINGS = (".json", ".csv")
_REMEDY = "write offsets with write_offsets"


class HasOffsets(Protocol):
    """What has offsets by joint, such as a calibration's result."""

    @property
    def values(self) -> Mapping[str, float]:
        """Offsets by joint, rad or m."""


OffsetsLike = Mapping[str, float] | str | Path | HasOffsets
"""Offsets by joint, a file of them, or what has them as `values`."""


def as_offsets(offsets: OffsetsLike | None) -> Mapping[str, float]:
    """Gives offsets by joint, in whichever form they come; none for None.

    Whether a model has the joints is another question; see `check_offsets`.

    Raises:
        MotionError: They are none of these, or the file is bad.
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
        f"offsets are {offsets!r}; give numbers by joint, rad or m, a file of them, or what has them as `values`"
    )


def units_of(model: Model) -> dict[str, str]:
    """Gives "rad" or "m" for each joint of a model that has a single position."""
    joints = [model.joint(name) for name in model.joints]
    return {joint.name: "m" if joint.kind == "prismatic" else "rad" for joint in joints if joint.position_size == 1}


def write_calibrated_model(model: Model, offsets: OffsetsLike, path: str | Path) -> WrittenModel:
    """Writes a copy of a model's own file whose joints count in the encoders' readings.

    At the readings, each joint of the copy stands where the model's own stands at the readings plus their offsets:
    origins are turned about the joint's axis or shifted along it, and limits, couplings and the rest that counts in
    positions mean the same true positions. Whoever uses the copy must not add the offsets again.

    Args:
        model: The model; where its parameters are not those of the file, they are written too, as by `write_model`.
        offsets: By joint, rad or m; a file of them; or what has them as `values`.
        path: Where to write; the ending must be that of the model's own format.

    Raises:
        MotionError: The file of offsets is bad.
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
    """Writes offsets; the ending says how: .json or .csv. The file appears complete or not at all.

    What is not finite is written as null, or as an empty cell: not known.

    Args:
        path: Where; a file that is there is replaced.
        values: By joint, what must be added to its readings, rad or m.
        standard_errors: Of some or all of them, rad or m.
        observable: Whether the data told of an offset, for some or all of them.
        level: Share of cases in which the CSV's low and high hold the truth, by the normal distribution.
        units: "rad" or "m" by joint; joints that are not named turn. See `units_of`.
        extra: What else JSON keeps, as "provenance": plain numbers, texts, lists and mappings.

    Raises:
        MotionError: A number is none, the ending is unknown, or the file cannot be written.
    """
    target = as_path(path)
    ending = _find_ending(target, "written as")
    rows = _rows(values, standard_errors or {}, observable or {}, units or {})
    text = _as_json(rows, extra or {}) if ending == ".json" else _as_csv(rows, level)
    try:
        if not target.parent.is_dir():
            raise MotionError(f"{target.name}: there is no folder {str(target.parent)!r}; make it first")
        if is_folder(target):
            raise MotionError(f"{str(target)!r} is a folder; name a file in it")
        content = text.encode("utf-8")
        with draft_of(target) as draft:
            draft.write_bytes(content)
    except OSError as error:
        raise MotionError(
            f"{target} cannot be written ({error.strerror}); choose another place, or make room"
        ) from error
    except UnicodeEncodeError as error:
        raise MotionError(f"{target}: a joint's name is no text that a file can hold; rename it") from error


def read_offsets(path: str | Path) -> dict[str, float]:
    """Reads a file of offsets that `write_offsets` wrote, or a CSV with at least the columns joint and offset.

    Joints whose offset the file says is not known (null, or an empty cell) are left out.

    Returns:
        By joint, what must be added to its readings, rad or m, in the order of the file.

    Raises:
        MotionError: The file is missing, or holds no offsets; the message says where and what to do.
    """
    source = as_path(path)
    ending = _find_ending(source, "read from")
    try:
        raw = source.read_bytes()
    except FileNotFoundError as error:
        raise MotionError(
            f"{source}: there is no such file; check the path, or let steelyard calibrate write it"
        ) from error
    except OSError as error:
        raise MotionError(f"{source} cannot be read ({error.strerror}); check the path and its permissions") from error
    return _read_json(source, raw) if ending == ".json" else _read_csv(source, raw)


@dataclass(frozen=True)
class _Row:
    """An offset with all that is known of it; None where that is not known."""

    joint: str
    unit: str
    value: float | None
    standard_error: float | None
    observable: bool | None


def _find_ending(path: Path, what: str) -> str:
    if "\0" in str(path):
        raise MotionError(f"{str(path)!r} is no name that a file can have; give another")
    ending = path.suffix.lower()
    if ending not in _ENDINGS:
        raise MotionError(f"{path.name}: offsets are {what} {' or '.join(_ENDINGS)}, not {path.suffix!r}")
    return ending


def _rows(
    values: Mapping[str, float],
    standard_errors: Mapping[str, float],
    observable: Mapping[str, bool],
    units: Mapping[str, str],
) -> list[_Row]:
    if not isinstance(values, Mapping):
        raise MotionError(f"the offsets are {values!r}; give numbers by joint, rad or m")
    for given, what in ((standard_errors, "a standard error"), (observable, "a word on observability")):
        for joint in given:
            if joint not in values:
                raise MotionError(f"{joint!r} has {what} but no offset; leave it out", channel=str(joint))
    rows = []
    for joint, value in values.items():
        if not isinstance(joint, str):
            raise MotionError(f"a joint is called {joint!r}; give its name as text")
        unit = units.get(joint, "rad")
        if unit not in UNITS:
            raise MotionError(f"the unit of {joint!r} is {unit!r}; give 'rad' or 'm'", channel=joint)
        offset = _finite_or_none(value, f"the offset of {joint!r} is {value!r}; give rad or m", joint)
        wide = standard_errors.get(joint)
        words = f"the standard error of {joint!r} is {wide!r}; give a number from zero"
        error = None if wide is None else _finite_or_none(wide, words, joint)
        if error is not None and error < 0.0:
            raise MotionError(words, channel=joint)
        seen = observable.get(joint)
        if seen is not None and not isinstance(seen, bool | np.bool_):
            raise MotionError(f"whether {joint!r} is observable is {seen!r}; give True or False", channel=joint)
        rows.append(_Row(joint, unit, offset, error, None if seen is None else bool(seen)))
    return rows


def _finite_or_none(value: Any, words: str, joint: str) -> float | None:
    """Gives a number, or None where it is not finite."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise MotionError(words, channel=joint)
    try:
        number = float(value)
    except OverflowError as error:
        raise MotionError(words, channel=joint) from error
    return number if math.isfinite(number) else None


def _as_json(rows: Sequence[_Row], extra: Mapping[str, Any]) -> str:
    joints = {
        row.joint: {
            "unit": row.unit,
            "value": row.value,
            "standard_error": row.standard_error,
            "observable": row.observable,
        }
        for row in rows
    }
    contents = {"steelyard_offsets": FORMAT, "joints": joints, "provenance": _plain(extra)}
    return json.dumps(contents, indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Gives what JSON can hold; numbers that are not finite become None."""
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
        f"the provenance of offsets holds {type(value).__name__}; give plain numbers, texts, lists and mappings"
    )


def _as_csv(rows: Sequence[_Row], level: float) -> str:
    if not (is_number(level) and 0.0 < level < 1.0):
        raise MotionError(f"the level is {level!r}; give a share between 0 and 1, such as 0.95")
    reach = NormalDist().inv_cdf(0.5 + 0.5 * float(level))
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(COLUMNS)
    for row in rows:
        offset, error = row.value, row.standard_error
        degrees = math.degrees(offset) if offset is not None and row.unit == "rad" else None
        interval: tuple[float | None, ...] = (None, None, None)
        if offset is not None and error is not None:
            interval = (offset - reach * error, offset + reach * error, float(level))
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
                raise MotionError(f"{path}: {key!r} is there twice; keep one", channel=key)
            found[key] = value
        return found

    try:
        # Whole numbers of any length are numbers like others here.
        stored = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=once, parse_int=float)
    except (ValueError, RecursionError) as error:
        raise MotionError(f"{path} is no JSON text; {_REMEDY}") from error
    if not isinstance(stored, dict) or "steelyard_offsets" not in stored:
        raise MotionError(f"{path} holds no offsets; {_REMEDY}")
    version = stored["steelyard_offsets"]
    if version != FORMAT:
        said = f"{version:g}" if isinstance(version, float) else repr(version)
        raise MotionError(f"{path} has the layout {said}, this version reads {FORMAT}; use the version that wrote it")
    joints = stored.get("joints")
    if not isinstance(joints, dict):
        raise MotionError(f"{path} holds no joints; {_REMEDY}")
    offsets = {}
    for joint, entry in joints.items():
        if not isinstance(entry, dict) or "value" not in entry:
            raise MotionError(f"{path}: {joint!r} is {entry!r}; write a mapping with 'value'", channel=joint)
        _check_unit(f"{path}:", joint, entry.get("unit", "rad"))
        value = entry["value"]
        if value is None:
            continue
        if not is_number(value):
            raise MotionError(f"{path}: the offset of {joint!r} is {value!r}; write a number, rad or m", channel=joint)
        offsets[joint] = float(value)
    return offsets


def _read_csv(path: Path, raw: bytes) -> dict[str, float]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MotionError(f"{path} is no UTF-8 text; save it as UTF-8") from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    offsets: dict[str, float] = {}
    seen: set[str] = set()
    try:
        columns = [name.strip() for name in next(reader, [])]
        for needed in ("joint", "offset"):
            if needed not in columns:
                raise MotionError(f"{path} has no column {needed!r}; a table of offsets has 'joint' and 'offset'")
        for cells in reader:
            where = f"{path}, line {reader.line_num}:"
            if not cells:
                continue
            if len(cells) != len(columns):
                raise MotionError(f"{where} {len(columns)} cells are needed, there are {len(cells)}; mend the line")
            row = dict(zip(columns, cells, strict=True))
            joint, said = row["joint"], row["offset"].strip()
            if not joint:
                raise MotionError(f"{where} there is no joint's name; write it")
            if joint in seen:
                raise MotionError(f"{where} {joint!r} is there twice; keep one", channel=joint)
            seen.add(joint)
            _check_unit(where, joint, row.get("unit", "rad").strip() or "rad")
            if said:
                offsets[joint] = _number_of(where, joint, said)
    except csv.Error as error:
        raise MotionError(f"{path} is no table ({error}); {_REMEDY}") from error
    return offsets


def _number_of(where: str, joint: str, text: str) -> float:
    try:
        # Python takes 1_000 for a number; no other reader of tables does.
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise MotionError(f"{where} the offset of {joint!r} is {text!r}; write a number, rad or m", channel=joint)
    return value


def _check_unit(where: str, joint: str, unit: Any) -> None:
    if unit not in UNITS:
        raise MotionError(f"{where} the unit of {joint!r} is {unit!r}; write rad or m", channel=joint)
