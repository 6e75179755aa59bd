"""Writing a model's parameters back into its file, everything else untouched.

A link is often several parts welded together. Its heaviest part gets the link's new parameters less those of the other
parts, which stay as the file has them. If that remainder is not a possible body, the heaviest part gets the whole link
and the others lose their mass; but if a part is behind a joint that is only locked in this model, where it needs its
own mass, every part gets a share of the change. A note reports both. The result is read again before it replaces
anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import ModelError
from steelyard.model.consistency import (
    from_scaled_pseudo_inertia,
    is_possible,
    project_to_interior,
    scaled_pseudo_inertia,
)
from steelyard.model.files.packages import as_path, is_folder
from steelyard.model.files.xml_document import parse_xml
from steelyard.model.loading import build_model, describe_document
from steelyard.model.parameters import change_frame
from steelyard.whole_file import draft_of
from steelyard.wording import in_words

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.model.lumping import Body, Member
    from steelyard.model.model import Model

ROUND_TRIP = 1e-12
"""Relative error up to which parameters read again count as those written: some thousand roundings of doubles, which a
change of frame and an eigenvalue decomposition need. Set by judgement."""


@dataclass(frozen=True)
class WrittenModel:
    """A model file that was written.

    Attributes:
        path: The file.
        notes: Sentences for the user: parts that were merged, paths that were adjusted.
    """

    path: Path
    notes: tuple[str, ...]


def write_model(model: Model, path: str | Path) -> WrittenModel:
    """Write a model's parameters into a copy of the file that it came from.

    Links whose parameters are those of the file stay as they are, byte by byte. The file appears complete or not at
    all.

    Args:
        model: The model.
        path: Where to write; the ending must be that of the model's own format.

    Raises:
        ModelError: The mass of a link is not positive, the ending is another format's, or the folder is missing.
    """
    target = as_path(path)
    content, notes = rewrite(model, target)
    replace_model_file(target, content)
    return WrittenModel(target, tuple(notes))


def rewrite(model: Model, target: Path) -> tuple[bytes, list[str]]:
    """Return the bytes of the model's own file with its parameters, checked by reading them again, and notes.

    Args:
        model: The model.
        target: Where they will be written.

    Raises:
        ModelError: As for `write_model`.
    """
    _refuse_other_format(model, target)
    changes, notes = plan_changes(model)
    content, remarks = model.description.file.with_parameters(changes, target)
    _check_written(model, content, target)
    return content, [*notes, *remarks]


def plan_changes(model: Model) -> tuple[dict[str, FloatArray], list[str]]:
    """Return the new ten parameters of each part that changes, in the part's own frame, and notes for the user."""
    changes: dict[str, FloatArray] = {}
    notes: list[str] = []
    impossible: list[str] = []
    for row, index in enumerate(model.link_bodies):
        body, wanted = model.bodies[index], model.parameters[row]
        if np.array_equal(wanted, body.lumped_parameters):
            continue
        if wanted[0] <= 0.0:
            raise ModelError(
                f"link {body.name!r} has the mass {wanted[0]:g} kg, which no model file can hold; identify with a "
                "method that keeps masses positive, or project the parameters first (project_to_interior)",
                names=[body.name],
            )
        if not is_possible(wanted):
            impossible.append(body.name)
        shares, note = _divide(body, wanted)
        notes += note
        for member, share in shares:
            back = member.placement.inverse()
            changes[member.part.name] = change_frame(share, back.rotation, back.translation)
    if impossible:
        notes.insert(
            0, f"the parameters of {in_words(impossible)} are physically impossible; they are written unchanged"
        )
    return changes, notes


def _divide(body: Body, wanted: FloatArray) -> tuple[list[tuple[Member, FloatArray]], list[str]]:
    """Return the new parameters, in the body's frame, of the parts of a body that change, and a note if several do."""
    massive = [member for member in body.members if not member.part.massless]
    carrier = max(massive, key=lambda member: float(member.part.parameters[0]))
    rest = [member for member in massive if member is not carrier]
    remainder = wanted - sum((member.parameters_in_body for member in rest), np.zeros_like(wanted))
    if not rest or is_possible(remainder) or (remainder[0] > 0.0 and not is_possible(wanted)):
        return [(carrier, remainder)], []
    names = [member.part.name for member in rest]
    trouble = (
        f"link {body.name!r}: with {in_words(names)} unchanged, no possible body is left for {carrier.part.name!r}; "
    )
    if any(member.locked for member in massive) and is_possible(wanted):
        return _stretch(massive, carrier, wanted), [trouble + "all parts share the change"]
    merged = [(carrier, wanted), *((member, np.zeros_like(wanted)) for member in rest)]
    return merged, [trouble + "their mass is merged into it"]


def _stretch(massive: list[Member], carrier: Member, wanted: FloatArray) -> list[tuple[Member, FloatArray]]:
    """Change every part alike: ``P' = A P Aᵀ`` with the one positive definite ``A`` that gives the wanted sum.

    Possible parts stay possible, impossible ones are projected first, and all add up to the whole.
    """
    parts = scaled_pseudo_inertia(project_to_interior([member.parameters_in_body for member in massive]))
    root = _square_root(parts.sum(axis=0))
    inverse = np.linalg.inv(root)
    stretch = inverse @ _square_root(root @ scaled_pseudo_inertia(wanted) @ root) @ inverse
    stretched = from_scaled_pseudo_inertia(stretch @ parts @ stretch.T)
    shares = {member.part.name: share for member, share in zip(massive, stretched, strict=True)}
    shares[carrier.part.name] += wanted - sum(shares.values(), np.zeros_like(wanted))
    return [(member, shares[member.part.name]) for member in massive]


def _square_root(positive: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(positive)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _refuse_other_format(model: Model, target: Path) -> None:
    source = model.description.file
    endings = {"URDF": (".urdf", ".xml"), "MJCF": (".xml", ".mjcf")}[source.format]
    if target.suffix.lower() not in endings:
        raise ModelError(
            f"the model was read from {source.path.name}, a {source.format}, and is written as one: end the name in "
            f"{' or '.join(endings)}, not {target.suffix or 'nothing'!r}",
            path=target,
        )
    if not is_folder(target.parent):
        raise ModelError("the folder does not exist; make it first", path=target)
    if is_folder(target):
        raise ModelError("this is a folder; name a file in it", path=target)


def read_again(model: Model, content: bytes, target: Path) -> Model:
    """Build a model from bytes as if they stood at `target`, with the same setup, base and locks.

    Raises:
        ModelError: They cannot be read.
    """
    try:
        description = describe_document(parse_xml(target, content))
        return build_model(description, model.setup, base=model.base, locks=model.locks)
    except ModelError as error:
        raise ModelError(f"nothing was written, because the result could not be read again: {error}") from error


def _check_written(model: Model, content: bytes, target: Path) -> None:
    """Check that the bytes, read again, give the parameters of the model."""
    again = read_again(model, content, target)
    if again.links != model.links:
        raise ModelError("read again, the written model has other links; it was not written", path=target)
    wrong = [
        link
        for link, wanted, found in zip(model.links, model.parameters, again.parameters, strict=True)
        if round_trip_error(wanted, found) > ROUND_TRIP
    ]
    if wrong:
        raise ModelError(
            f"read again, the parameters of {in_words(wrong)} are not those written; nothing was written",
            path=target,
            names=wrong,
        )


def round_trip_error(wanted: FloatArray, found: FloatArray) -> float:
    """Return the greatest relative error of mass, first moment and inertia, each relative to its own size.

    The size of the first moment is at least the mass times the radius of gyration, so that rounding is allowed for a
    centre of mass near the joint.
    """
    mass = abs(wanted[0])
    inertia = float(np.linalg.norm(wanted[4:]))
    sizes = (mass, max(float(np.linalg.norm(wanted[1:4])), float(np.sqrt(mass * inertia))), inertia)
    errors = (
        abs(wanted[0] - found[0]),
        np.linalg.norm(wanted[1:4] - found[1:4]),
        np.linalg.norm(wanted[4:] - found[4:]),
    )
    return max(float(error) / size if size > 0.0 else float(error) for error, size in zip(errors, sizes, strict=True))


def replace_model_file(target: Path, content: bytes) -> None:
    """Write a file completely, or leave the old one.

    Raises:
        ModelError: It cannot be written.
    """
    try:
        with draft_of(target) as draft:
            draft.write_bytes(content)
    except OSError as error:
        raise ModelError(f"the file cannot be written ({error.strerror})", path=target) from error
