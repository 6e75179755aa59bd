"""Storage of Evidence: plain arrays and JSON, never pickle."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.exceptions import EvidenceError
from steelyard.regression.evidence import Evidence
from steelyard.regression.evidence_key import EvidenceKey
from steelyard.regression.origins import Origin
from steelyard.regression.recording_errors import ErrorBlock, RecordingErrors
from steelyard.whole_file import draft_of

FORMAT = 3
"""Version of the file layout; later versions read it, or refuse it in one sentence."""


def save_evidence(evidence: Evidence, path: str | Path) -> None:
    """Write evidence to a file, all of it or nothing.

    Raises:
        EvidenceError: The file cannot be written.
    """
    heads = [
        {
            "recording": each.recording,
            "noise": each.noise,
            "blocks": [{"names": block.names, "next": block.coupling.shape[1]} for block in each.blocks],
        }
        for each in evidence.errors
    ]
    blocks: dict[str, Any] = {
        f"errors_{number}_{knot}": np.concatenate([block.triangle, block.coupling, block.rows], axis=1)
        for number, each in enumerate(evidence.errors)
        for knot, block in enumerate(each.blocks)
    }
    try:
        with draft_of(Path(path)) as draft, draft.open("wb") as file:
            np.savez(
                file,
                format=np.array(FORMAT),
                key=np.array(json.dumps(asdict(evidence.key))),
                factor=evidence.factor,
                independent=evidence.independent,
                dependence=evidence.dependence,
                counts=np.array([evidence.sample_count, evidence.row_count], dtype=np.int64),
                effective_count=np.array([evidence.effective_count, evidence.spent]),
                channels=np.array(list(evidence.totals), dtype=np.str_),
                totals=np.array(list(evidence.totals.values()), dtype=np.float64).reshape(-1, 2),
                joints=np.array(list(evidence.travel), dtype=np.str_),
                travel=np.array(list(evidence.travel.values()), dtype=np.float64).reshape(-1, 2),
                origins=np.array(json.dumps(evidence.origins)),
                variance=np.array(np.nan if evidence.variance is None else evidence.variance),
                errors=np.array(json.dumps(heads)),
                preparation=np.array(json.dumps(dict(evidence.preparation))),
                **blocks,
            )
    except OSError as error:
        raise EvidenceError(f"{path}: the evidence cannot be written ({error.strerror})") from error


def load_evidence(path: str | Path) -> Evidence:
    """Read evidence that `Evidence.save` wrote.

    Raises:
        EvidenceError: The file is missing, is not evidence, or is of another version.
    """
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        stated = int(arrays["format"]) if "format" in arrays else 1
        if "key" in arrays and stated != FORMAT:
            raise EvidenceError(f"{path} is evidence of layout {stated}, this version reads {FORMAT}; gather it again")
        stored = json.loads(str(arrays["key"]))
        fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in stored.items()}
        effective, spent = arrays["effective_count"].tolist()
        return Evidence(
            EvidenceKey(**fields),
            arrays["factor"],
            arrays["independent"],
            arrays["dependence"],
            int(arrays["counts"][0]),
            float(effective),
            int(arrays["counts"][1]),
            _pairs(arrays["channels"], arrays["totals"]),
            _pairs(arrays["joints"], arrays["travel"]),
            tuple(
                Origin(str(sha256), float(start), float(end))
                for sha256, start, end in json.loads(str(arrays["origins"]))
            ),
            None if np.isnan(arrays["variance"]) else float(arrays["variance"]),
            tuple(_errors_of(head, arrays, number)
                  for number, head in enumerate(json.loads(str(arrays["errors"])))),
            float(spent),
            json.loads(str(arrays["preparation"])),
        )  # fmt: skip
    except FileNotFoundError as error:
        raise EvidenceError(f"{path}: there is no such file; check the path") from error
    except KeyError as error:
        raise EvidenceError(f"{path} is not a file of evidence (it lacks {error}); gather it again") from error
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise EvidenceError(f"{path} is not a file of evidence ({error}); gather it again") from error


def _errors_of(head: dict[str, Any], arrays: dict[str, Any], number: int) -> RecordingErrors:
    blocks = []
    for knot, each in enumerate(head["blocks"]):
        stored, count = arrays[f"errors_{number}_{knot}"], len(each["names"])
        parts = np.split(stored, [count, count + int(each["next"])], axis=1)
        blocks.append(ErrorBlock(tuple(map(str, each["names"])), *parts))
    return RecordingErrors(str(head["recording"]), tuple(blocks), float(head["noise"]))


def _pairs(names: Any, values: Any) -> dict[str, tuple[float, float]]:
    return {str(name): (float(one), float(two)) for name, (one, two) in zip(names, values, strict=True)}
