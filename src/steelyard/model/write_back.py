"""Writing a model's parameters back into its file, everything else untouched.

A link is often several parts welded together. Its new parameters go into its heaviest part, which becomes the link less
its other parts; these stay as the file has them. Where that remainder would be no possible body, the heaviest part
takes the whole link and the others lose their mass, and it is said so. What is written is read again, before it
replaces anything.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import ModelError
from steelyard.model.consistency import is_possible
from steelyard.model.loading import build_model
from steelyard.model.names import in_words
from steelyard.model.parameters import FloatArray, change_frame

if TYPE_CHECKING:
    from steelyard.model.lumping import Body, Member
    from steelyard.model.model import Model

ROUND_TRIP = 1e-12
"""Relative error up to which parameters read again count as those written."""


@dataclass(frozen=True)
class WrittenModel:
    """A model file that was written.

    Attributes:
        path: The file.
        notes: What a user should know: parts that were merged, paths that were adjusted.
    """

    path: Path
    notes: tuple[str, ...]


def write_model(model: Model, path: str | Path) -> WrittenModel:
    """Writes a model's parameters into a copy of the file that it came from.

    Links whose parameters are those of the file stay as they are, byte by byte. The file appears complete or not at
    all.

    Args:
        model: The model.
        path: Where to write; the ending must be that of the model's own format.

    Raises:
        ModelError: A link has a mass that no file can hold, the ending is another format's, or the folder is missing.
    """
    target = Path(path).expanduser()
    _refuse_other_format(model, target)
    changes, merged, notes = plan_changes(model)
    content, remarks = model.description.file.with_parameters(changes, merged, target)
    _read_again(model, content, target)
    _replace(target, content)
    return WrittenModel(target, (*notes, *remarks))


def plan_changes(model: Model) -> tuple[dict[str, FloatArray], dict[str, str], list[str]]:
    """Gives the parts to change, the parts that lose their mass (and to whom), and what to tell the user.

    Returns:
        New ten parameters by part, in the part's own frame; the taker of each merged part; notes.
    """
    changes: dict[str, FloatArray] = {}
    merged: dict[str, str] = {}
    notes: list[str] = []
    for row, index in enumerate(model.link_bodies):
        body, wanted = model.bodies[index], model.parameters[row]
        if np.array_equal(wanted, body.lumped_parameters):
            continue
        if wanted[0] < 0.0 or (wanted[0] == 0.0 and np.any(wanted)):
            raise ModelError(
                f"link {body.name!r} has the mass {wanted[0]:g} kg, which no model file can hold; identify with a "
                "method that keeps masses positive, or project the parameters first (project_to_interior)",
                names=[body.name],
            )
        carrier, rest = _split(body)
        remainder = wanted - sum((member.parameters_in_body for member in rest), np.zeros_like(wanted))
        if rest and not is_possible(remainder) and is_possible(wanted):
            names = [member.part.name for member in rest]
            merged |= dict.fromkeys(names, carrier.part.name)
            notes.append(
                f"link {body.name!r}: with {in_words(names)} as they are, nothing possible is left for "
                f"{carrier.part.name!r}; their mass is merged into it"
            )
            remainder = wanted
        back = carrier.placement.inverse()
        changes[carrier.part.name] = change_frame(remainder, back.rotation, back.translation)
        if not is_possible(wanted):
            notes.append(f"link {body.name!r} is written as it is, but no real body has its parameters")
    return changes, merged, notes


def _split(body: Body) -> tuple[Member, list[Member]]:
    massive = [member for member in body.members if not member.part.massless]
    carrier = max(massive, key=lambda member: float(member.part.parameters[0]))
    return carrier, [member for member in massive if member is not carrier]


def _refuse_other_format(model: Model, target: Path) -> None:
    source = model.description.file
    endings = {"URDF": (".urdf", ".xml"), "MJCF": (".xml", ".mjcf")}[source.format]
    if target.suffix.lower() not in endings:
        raise ModelError(
            f"the model was read from {source.path.name}, a {source.format}, and is written as one: end the name in "
            f"{' or '.join(endings)}, not {target.suffix or 'nothing'!r}",
            path=target,
        )
    if not target.parent.is_dir():
        raise ModelError("the folder does not exist; make it first", path=target)


def _read_again(model: Model, content: bytes, target: Path) -> None:
    """Checks that the bytes mean the parameters that they were made from."""
    description = model.description.file.describe(content, target)
    again = build_model(description, model.setup, base=model.base, locks=model.locks)
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
    """Gives the greatest relative error of mass, first moment and inertia, each against its own size.

    The first moment's size is at least the mass times the radius of gyration, so that a centre of mass near the
    joint is not held to digits that a file cannot hold.
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


def _replace(target: Path, content: bytes) -> None:
    """Writes a file completely, or leaves what was there."""
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise ModelError(f"the folder cannot be written to ({error.strerror})", path=target) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
