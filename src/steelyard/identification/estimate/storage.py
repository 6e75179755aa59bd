"""Storage of estimates: JSON files that contain the model and setup, never pickle."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from steelyard.exceptions import IdentifiabilityError, SteelyardError
from steelyard.identification.estimate.base_parameters import BaseParameters
from steelyard.identification.estimate.estimate import Estimate, Fit, LevelReport, Status
from steelyard.identification.estimate.nuisance_fit import NuisanceFit
from steelyard.identification.estimate.packed_arrays import pack_array, unpack_array
from steelyard.identification.estimate.sensor_errors import SensorErrors
from steelyard.identification.sampling.posterior import Posterior
from steelyard.identification.solvers.certificate import Certificate
from steelyard.model import build_model, describe_document, parse_setup, parse_xml, setup_tables
from steelyard.regression import EvidenceKey, Origin
from steelyard.whole_file import draft_of

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray
    from steelyard.model import Model

FORMAT = 2
"""Version of the file layout; files of another version are refused."""

_BASE_ARRAYS = ("groupings", "values", "reference", "covariance", "effects")


def estimate_to_dict(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate as plain numbers and text."""
    base = estimate.base
    return {
        "format": FORMAT,
        "method": estimate.method,
        "status": estimate.status,
        "links": list(estimate.model.links),
        "parameters": estimate.solution.tolist(),
        "reference": estimate.reference.tolist(),
        "covariance": estimate.covariance.tolist(),
        "noise_covariance": estimate.noise_covariance.tolist(),
        "determined": estimate.determined.tolist(),
        "base": {
            "names": list(base.names),
            "unknowns": list(base.unknowns),
            "dropped": list(base.dropped),
            "freedom": _plain(base.freedom),
            "condition": _plain(base.condition),
            **{name: getattr(base, name).tolist() for name in _BASE_ARRAYS},
        },
        "active": list(estimate.active),
        "nuisance": dict(estimate.nuisance),
        "nuisance_fit": None if estimate.nuisance_fit is None else estimate.nuisance_fit.to_dict(),
        "sensor_errors": [asdict(each) for each in estimate.sensor_errors],
        "preparation": _as_json(dict(estimate.preparation)),
        "fit": {name: _plain(value) for name, value in asdict(estimate.fit).items()},
        "mass_scale": estimate.mass_scale,
        "notes": list(estimate.notes),
        "key": {name: _plain(value) for name, value in asdict(estimate.key).items()},
        "origins": [list(origin) for origin in estimate.origins],
        "options": _as_json(estimate.options),
        "certificate": None if estimate.certificate is None else asdict(estimate.certificate),
        "levels": [{name: _plain(value) for name, value in asdict(level).items()} for level in estimate.levels],
        "belief_freedom": _plain(estimate.belief_freedom),
        "posterior": None if estimate.posterior is None else estimate.posterior.to_dict(),
        "provenance": _as_json(estimate.provenance),
        "model": _model_to_dict(estimate.model),
    }


def save_estimate(estimate: Estimate, path: str | Path) -> None:
    """Write an estimate to a JSON file, all of it or nothing.

    Raises:
        IdentifiabilityError: The file cannot be written.
    """
    try:
        text = json.dumps(_pack(estimate), allow_nan=False)
    except ValueError as error:
        raise IdentifiabilityError(
            f"{path}: an estimate with numbers that are not finite cannot be stored; identify again"
        ) from error
    try:
        with draft_of(Path(path)) as draft:
            draft.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise IdentifiabilityError(
            f"{path}: the estimate cannot be written ({error.strerror}); name another path, or make room"
        ) from error


def _pack(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate as plain numbers and text, with its large arrays packed."""
    plain = estimate_to_dict(estimate)
    packed = {**plain, "base": dict(plain["base"])}
    for name in ("covariance", "noise_covariance"):
        packed[name] = pack_array(plain[name])
    for name in _BASE_ARRAYS:
        packed["base"][name] = pack_array(plain["base"][name])
    if estimate.posterior is not None:
        packed["posterior"] = {**plain["posterior"], "data_root": pack_array(estimate.posterior.data_root)}
    return packed


def load_estimate(path: str | Path) -> Estimate:
    """Read an estimate that `Estimate.save` wrote, with its model and setup.

    Raises:
        IdentifiabilityError: The file is missing, or contains no estimate.
    """
    try:
        stored = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise IdentifiabilityError(f"{path}: there is no such file; check the path") from error
    except IsADirectoryError as error:
        raise IdentifiabilityError(f"{path} is a folder; give the estimate.json in it") from error
    except OSError as error:
        raise IdentifiabilityError(f"{path}: the estimate cannot be read ({error.strerror}); check the file") from error
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise IdentifiabilityError(
            f"{path} is not an estimate: it is no JSON text; give the estimate.json that Estimate.save wrote"
        ) from error
    if not isinstance(stored, dict) or "format" not in stored:
        raise IdentifiabilityError(f"{path} is not an estimate; write one with Estimate.save, or `steelyard identify`")
    if stored["format"] != FORMAT:
        raise IdentifiabilityError(
            f"{path} has the layout {stored['format']!r}, this version reads {FORMAT}; use the version that wrote it"
        )
    try:
        return _estimate_of(stored)
    except SteelyardError as error:
        raise IdentifiabilityError(f"{path}: its model cannot be rebuilt: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise IdentifiabilityError(f"{path} is not a whole estimate ({error}); save it again") from error


def _estimate_of(stored: dict[str, Any]) -> Estimate:
    model = _model_of(stored["model"]).with_parameters(stored["reference"])
    if list(model.links) != stored["links"]:
        raise ValueError("its links are not those of the model in it")
    if stored["status"] not in get_args(Status):
        raise ValueError(f"there is no status {stored['status']!r}")
    count = 10 * len(model.links)
    base = stored["base"]
    rank, unknowns = len(base["names"]), len(base["unknowns"])
    shapes = {"groupings": (rank, unknowns), "covariance": (rank, rank)}
    arrays = {name: _array(base, name, shapes.get(name, (rank,))) for name in _BASE_ARRAYS}
    fields: dict[str, Any] = {name: _tuple(value) for name, value in stored["key"].items()}
    for name in ("priors", "own_priors"):
        fields[name] = tuple(np.inf if prior is None else float(prior) for prior in stored["key"].get(name, ()))
    fit: dict[str, Any] = {name: np.inf if value is None else value + 0 for name, value in stored["fit"].items()}
    return Estimate(
        model=model,
        method=str(stored["method"]),
        status=stored["status"],
        solution=_array(stored, "parameters", (len(model.links), 10)),
        covariance=_array(stored, "covariance", (count, count)),
        noise_covariance=_array(stored, "noise_covariance", (count, count)),
        determined=_array(stored, "determined", (len(model.links), 10)),
        base=BaseParameters(
            names=tuple(base["names"]),
            unknowns=tuple(base["unknowns"]),
            dropped=tuple(base["dropped"]),
            freedom=np.inf if base["freedom"] is None else float(base["freedom"]),
            condition=np.inf if base["condition"] is None else float(base["condition"]),
            **arrays,
        ),
        active=tuple(stored["active"]),
        nuisance=dict(stored["nuisance"]),
        nuisance_fit=None if stored.get("nuisance_fit") is None else NuisanceFit.from_dict(stored["nuisance_fit"]),
        sensor_errors=tuple(SensorErrors(**each) for each in stored.get("sensor_errors", ())),
        preparation=dict(stored.get("preparation", {})),
        fit=Fit(**fit),
        mass_scale=float(stored["mass_scale"]),
        notes=tuple(stored["notes"]),
        key=EvidenceKey(**fields),
        origins=tuple(Origin(str(sha256), float(start), float(end)) for sha256, start, end in stored["origins"]),
        options=dict(stored["options"]),
        certificate=None if stored.get("certificate") is None else Certificate(**stored["certificate"]),
        levels=tuple(
            LevelReport(**{name: _tuple(value) for name, value in level.items()}) for level in stored.get("levels", ())
        ),
        belief_freedom=np.inf if stored.get("belief_freedom") is None else float(stored["belief_freedom"]),
        posterior=None if stored.get("posterior") is None else Posterior.from_dict(_unpack(stored["posterior"])),
        version=str(stored["provenance"]["steelyard"]),
    )


def _unpack(posterior: dict[str, Any]) -> dict[str, Any]:
    root = posterior["data_root"]
    return {**posterior, "data_root": unpack_array(root) if not isinstance(root, dict) or "float32" in root else root}


def _model_to_dict(model: Model) -> dict[str, Any]:
    file = model.description.file
    content, _ = file.with_parameters({}, file.path)
    return {
        "file": str(file.path),
        "text": parse_xml(file.path, content).content.decode("utf-8"),
        "sha256": file.sha256,
        "base": model.base,
        "locks": {joint: np.asarray(place).tolist() for joint, place in model.locks.items()},
        "setup": _as_json(setup_tables(model.setup)),
        "setup_file": None if model.setup.path is None else str(model.setup.path),
    }


def _model_of(stored: dict[str, Any]) -> Model:
    document = parse_xml(Path(stored["file"]), stored["text"].encode("utf-8"))
    # The text was stored with its includes resolved; an include found now would read an unverified file.
    if any(element.tag == "include" for element in document.root.walk()) or document.sha256 != stored["sha256"]:
        raise ValueError("the text of its model was changed")
    description = describe_document(document)
    path = stored["setup_file"]
    setup = parse_setup(stored["setup"], None if path is None else Path(path))
    locks = {joint: np.array(place, dtype=np.float64) for joint, place in stored["locks"].items()}
    return build_model(description, setup, base=stored["base"], locks=locks)


def _array(stored: dict[str, Any], name: str, shape: tuple[int, ...]) -> FloatArray:
    array = unpack_array(stored[name])
    if array.shape != shape or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be {shape} finite numbers")
    return array


def _plain(value: Any) -> Any:
    """Return a value for JSON, with None for infinities and NaN."""
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _as_json(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_as_json(each) for each in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return _plain(value) if isinstance(value, str | int | float | bool | None) else str(value)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
