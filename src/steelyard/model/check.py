"""Is this model physically possible? Every finding in words, with the link where it hurts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from steelyard.exceptions import ModelError
from steelyard.model.consistency import diagnose
from steelyard.model.files.packages import is_file, resolve_uri
from steelyard.model.geometry import link_points
from steelyard.model.mirror import MirrorDifference, compare_sides, unpaired_links
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sized

    from steelyard.model.consistency import Consistency
    from steelyard.model.model import Model

Severity = Literal["impossible", "singular", "remark"]


@dataclass(frozen=True)
class Finding:
    """Something that a user of the model should know.

    Attributes:
        severity: "impossible" (no body has these numbers), "singular" (on the edge of what is possible), or "remark".
        name: The link, part or joint.
        words: What is the matter, and what it means, in a sentence.
        distance: For impossible links, how far the nearest possible one is: kg m², and relative to the link's own.
        relative_distance: The same, relative to the link's second moments.
    """

    severity: Severity
    name: str
    words: str
    distance: float = 0.0
    relative_distance: float = 0.0


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """What `check_model` found.

    Attributes:
        model: The model.
        findings: In the order impossible, singular, remark.
        mirror_differences: In what right links differ from the images of left ones; empty without ``[mirror]``.
    """

    model: Model
    findings: tuple[Finding, ...]
    mirror_differences: tuple[MirrorDifference, ...]

    @property
    def possible(self) -> bool:
        """Whether no link is impossible; singular ones are allowed."""
        return not self.names("impossible")

    def names(self, severity: Severity) -> list[str]:
        """Gives the names with findings of one severity, each once."""
        return list(dict.fromkeys(finding.name for finding in self.findings if finding.severity == severity))

    def summary(self) -> str:
        """Gives the whole check as text."""
        model = self.model
        lines = [
            f"{model.name}: {len(model.links)} links, {len(model.joints)} joints, {model.base} base, "
            f"{model.total_mass:.3f} kg",
            self.verdict(),
        ]
        lines += [f"  {finding.severity}: {finding.name}: {finding.words}" for finding in self.findings]
        if self.mirror_differences:
            lines.append(f"  left and right differ in {_count(self.mirror_differences, 'place')}:")
            lines += [f"    {describe_difference(difference)}" for difference in self.mirror_differences]
        return "\n".join(lines)

    def verdict(self) -> str:
        """Gives the answer in a sentence."""
        impossible, singular = self.names("impossible"), self.names("singular")
        if impossible:
            also = f", and {len(singular)} singular" if singular else ""
            return f"Not physically possible: {_count(impossible, 'link')} cannot exist ({in_words(impossible)}){also}."
        if singular:
            verb = "is" if len(singular) == 1 else "are"
            return (
                f"Physically possible, but {_count(singular, 'link')} {verb} singular: {in_words(singular, limit=12)}."
            )
        return "Physically possible: every link could be a real body."

    def to_dict(self) -> dict[str, Any]:
        """Gives the check as plain tables, for JSON."""
        model = self.model
        return {
            "model": model.name,
            "file": str(model.description.file.path),
            "links": list(model.links),
            "joints": list(model.joints),
            "base": model.base,
            "total_mass": model.total_mass,
            "possible": self.possible,
            "findings": [vars(finding) for finding in self.findings],
            "mirror_differences": [vars(difference) for difference in self.mirror_differences],
        }


def check_model(model: Model) -> ModelCheck:
    """Tells which links are impossible or singular and why, and what else is odd about a model.

    Links are judged as they are identified, their welded parts lumped. Parts of the file that could not exist alone are
    remarked on too: there the numbers can be mended.
    """
    findings = _link_findings(model)
    findings += _part_findings(model)
    findings += _odd_limits(model)
    missing = _missing_meshes(model)
    findings += missing
    findings += _lost_centres(model, {finding.name for finding in missing})
    connectors = [body.name for body in model.bodies[1:] if body.massless]
    if connectors:
        words = "without mass between joints: it carries no parameters"
        findings += [Finding("remark", name, words) for name in connectors]
    findings += [
        Finding(
            "remark", link, f"its name fits {side!r} of [mirror], but it has no partner; it counts as a middle link"
        )
        for link, side in unpaired_links(model).items()
    ]
    order = ("impossible", "singular", "remark")
    findings.sort(key=lambda finding: order.index(finding.severity))
    differences = compare_sides(model) if model.setup.mirror is not None else []
    return ModelCheck(model, tuple(findings), tuple(differences))


def describe_difference(difference: MirrorDifference) -> str:
    """Gives a difference between left and right as a phrase."""
    units = {"mass": "kg", "com": "m", "inertia": "kg·m²", "origin": "m", "axis": "rad"}
    percent = 100.0 * difference.difference / difference.size if difference.size else 0.0
    share = f" ({percent:.0f} %)" if percent >= 10.0 else f" ({percent:.2g} %)" if percent else ""
    what = {"com": "centre of mass", "origin": "joint origin", "axis": "joint axis"}.get(
        difference.quantity, difference.quantity
    )
    return (
        f"{difference.left} | {difference.right}: {what} by {difference.difference:.2g} "
        f"{units[difference.quantity]}{share}"
    )


def _link_findings(model: Model) -> list[Finding]:
    findings = []
    for link, parameters in zip(model.links, model.parameters, strict=True):
        diagnosis = diagnose(parameters)
        if diagnosis.status != "possible":
            words, distance, relative = _in_words(diagnosis), diagnosis.distance, diagnosis.relative_distance
            findings.append(Finding(diagnosis.status, link, words, distance, relative))
    return findings


def _part_findings(model: Model) -> list[Finding]:
    """Remarks on impossible and singular parts that the file welds to others, or to a fixed base."""
    findings = []
    for index, body in enumerate(model.bodies):
        massive = [member.part for member in body.members if not member.part.massless]
        if len(massive) == 1 and index in model.link_bodies:
            continue  # the part is the link
        for part in massive:
            diagnosis = diagnose(part.parameters)
            if diagnosis.status != "possible":
                words = (
                    f"{diagnosis.status} as the file has it, though only a part of {body.name}: {_in_words(diagnosis)}"
                )
                findings.append(Finding("remark", part.name, words, diagnosis.distance, diagnosis.relative_distance))
    return findings


def _in_words(diagnosis: Consistency) -> str:
    words = "; ".join(diagnosis.reasons)
    if diagnosis.status == "impossible" and diagnosis.mass_deficit == 0.0:
        words += (
            f"; the nearest possible link is {diagnosis.distance:.2g} kg·m² away "
            f"({100.0 * diagnosis.relative_distance:.2g} % of its second moments)"
        )
    return words


def _odd_limits(model: Model) -> list[Finding]:
    return [
        Finding(
            "remark", body.joint.name, f"its limits allow no motion: from {body.joint.lower:g} to {body.joint.upper:g}"
        )
        for body in model.bodies
        if body.joint.lower >= body.joint.upper
    ]


def _missing_meshes(model: Model) -> list[Finding]:
    missing = {
        part.name: geometry.uri
        for part in model.description.parts.values()
        for geometry in part.geometries
        if geometry.shape == "mesh" and geometry.vertices is None and not _found(str(geometry.uri), model)
    }
    return [Finding("remark", name, f"its mesh {uri} is not found") for name, uri in missing.items()]


def _found(uri: str, model: Model) -> bool:
    path = resolve_uri(uri, beside=model.description.file.path, packages=model.description.packages)
    return path is not None and is_file(path)


def _lost_centres(model: Model, without_mesh: set[str]) -> list[Finding]:
    """Remarks on centres of mass outside the box around the link's own shapes, by more than a tenth of its size.

    Args:
        model: The model.
        without_mesh: Parts whose mesh is not found, which has its own remark.
    """
    findings = []
    for link, index, parameters in zip(model.links, model.link_bodies, model.parameters, strict=True):
        if parameters[0] <= 0.0 or without_mesh & {member.part.name for member in model.bodies[index].members}:
            continue
        try:
            points = link_points(model, link)
        except ModelError as error:
            findings.append(Finding("remark", link, str(error)))
            continue
        if len(points) < 4:
            continue
        low, high = points.min(axis=0), points.max(axis=0)
        com = parameters[1:4] / parameters[0]
        outside = float(np.linalg.norm(com - np.clip(com, low, high)))
        if outside > 0.1 * float(np.linalg.norm(high - low)):
            words = f"its centre of mass is {1000.0 * outside:.0f} mm outside the box around its shapes"
            findings.append(Finding("remark", link, words))
    return findings


def _count(names: Sized, what: str) -> str:
    return f"{len(names)} {what}" + ("s" if len(names) > 1 else "")
