"""The check of a model: which links are impossible or singular, and what else is odd, a sentence each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from steelyard.exceptions import ModelError
from steelyard.model.consistency import diagnose
from steelyard.model.files.packages import is_file, resolve_uri
from steelyard.model.geometry.points import link_points
from steelyard.model.mirror import MirrorDifference, compare_sides, unpaired_links
from steelyard.wording import count, in_words

if TYPE_CHECKING:
    from steelyard.model.consistency import Consistency
    from steelyard.model.model import Model

Severity = Literal["impossible", "singular", "remark"]


@dataclass(frozen=True)
class ModelFinding:
    """Something that a user of the model should know.

    Attributes:
        severity: "impossible" (no body has these numbers), "singular" (on the edge of what is possible), or "remark".
        name: The link, part or joint.
        words: What is wrong and what it means, a sentence.
        distance: For impossible links, the distance to the nearest possible one, kg m².
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
    findings: tuple[ModelFinding, ...]
    mirror_differences: tuple[MirrorDifference, ...]

    @property
    def possible(self) -> bool:
        """Whether no link is impossible; singular ones are allowed."""
        return not self.names("impossible")

    def names(self, severity: Severity) -> list[str]:
        """Return the names with findings of one severity, each once."""
        return list(dict.fromkeys(finding.name for finding in self.findings if finding.severity == severity))

    def summary(self) -> str:
        """Return the whole check as text."""
        model = self.model
        lines = [
            f"{model.name}: {len(model.links)} links, {len(model.joints)} joints, {model.base} base, "
            f"{model.total_mass:.3f} kg",
            self.verdict(),
        ]
        lines += [f"  {finding.severity}: {finding.name}: {finding.words}" for finding in self.findings]
        if self.mirror_differences:
            lines.append(f"  left and right differ in {count(len(self.mirror_differences), 'place', 'places')}:")
            lines += [f"    {describe_difference(difference)}" for difference in self.mirror_differences]
        return "\n".join(lines)

    def verdict(self) -> str:
        """Return the result in a sentence."""
        impossible, singular = self.names("impossible"), self.names("singular")
        if impossible:
            also = f", and {len(singular)} singular" if singular else ""
            links = count(len(impossible), "link", "links")
            return f"Not physically possible: {links} cannot exist ({in_words(impossible)}){also}."
        if singular:
            subject = count(len(singular), "link is", "links are")
            return f"Physically possible, but {subject} singular: {in_words(singular, limit=12)}."
        return "Physically possible: every link could be a real body."

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain tables, for JSON."""
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
    """Check which links are impossible or singular and why, and what else is odd about a model.

    Links are checked as they are identified, their welded parts lumped. Impossible parts of the file get a remark too,
    because the numbers to correct are theirs.
    """
    missing = _missing_meshes(model)
    findings = [
        *_check_links(model),
        *_check_parts(model),
        *(
            _remark(body.joint.name, f"its limits allow no motion: from {body.joint.lower:g} to {body.joint.upper:g}")
            for body in model.bodies
            if body.joint.lower >= body.joint.upper
        ),
        *(_remark(part, f"its mesh {uri} is not found") for part, uri in missing.items()),
        *_check_centres(model, set(missing)),
        *(
            _remark(body.name, "without mass between joints: it carries no parameters")
            for body in model.bodies[1:]
            if body.massless
        ),
        *(
            _remark(link, f"its name matches {side!r} of [mirror], but it has no partner; it counts as a middle link")
            for link, side in unpaired_links(model).items()
        ),
    ]
    order = ("impossible", "singular", "remark")
    findings.sort(key=lambda finding: order.index(finding.severity))
    differences = compare_sides(model) if model.setup.mirror is not None else []
    return ModelCheck(model, tuple(findings), tuple(differences))


def describe_difference(difference: MirrorDifference) -> str:
    """Return a difference between left and right as a phrase."""
    units = {"mass": "kg", "com": "m", "inertia": "kg·m²", "origin": "m", "axis": "rad"}
    percent = 100.0 * difference.difference / difference.size if difference.size else 0.0
    share = f" ({percent:.0f} %)" if percent >= 10.0 else f" ({percent:.2g} %)" if percent else ""
    quantity = difference.quantity
    what = {"com": "centre of mass", "origin": "joint origin", "axis": "joint axis"}.get(quantity, quantity)
    return f"{difference.left} | {difference.right}: {what} by {difference.difference:.2g} {units[quantity]}{share}"


def _remark(name: str, words: str) -> ModelFinding:
    return ModelFinding("remark", name, words)


def _check_links(model: Model) -> list[ModelFinding]:
    found = [(link, diagnose(parameters)) for link, parameters in zip(model.links, model.parameters, strict=True)]
    return [
        ModelFinding(each.status, link, _explain(each), each.distance, each.relative_distance)
        for link, each in found
        if each.status != "possible"
    ]


def _check_parts(model: Model) -> list[ModelFinding]:
    """Return remarks on impossible and singular parts that the file welds to others, or to a fixed base."""
    findings = []
    for index, body in enumerate(model.bodies):
        massive = [member.part for member in body.members if not member.part.massless]
        if len(massive) == 1 and index in model.link_bodies:
            continue  # the part is the link
        for part in massive:
            diagnosis = diagnose(part.parameters)
            if diagnosis.status != "possible":
                words = f"{diagnosis.status} in the file, but only a part of {body.name}: {_explain(diagnosis)}"
                distances = (diagnosis.distance, diagnosis.relative_distance)
                findings.append(ModelFinding("remark", part.name, words, *distances))
    return findings


def _explain(diagnosis: Consistency) -> str:
    words = "; ".join(diagnosis.reasons)
    if diagnosis.status == "impossible" and diagnosis.mass_deficit == 0.0:
        words += (
            f"; the nearest possible link is {diagnosis.distance:.2g} kg·m² away "
            f"({100.0 * diagnosis.relative_distance:.2g} % of its second moments)"
        )
    return words


def _missing_meshes(model: Model) -> dict[str, str]:
    """Return the mesh that is not found, by name of the part."""
    beside, packages = model.description.file.path, model.description.packages
    meshes = [
        (part.name, str(geometry.uri))
        for part in model.description.parts.values()
        for geometry in part.geometries
        if geometry.shape == "mesh" and geometry.vertices is None
    ]
    paths = [resolve_uri(uri, beside=beside, packages=packages) for _, uri in meshes]
    return {part: uri for (part, uri), path in zip(meshes, paths, strict=True) if path is None or not is_file(path)}


def _check_centres(model: Model, without_mesh: set[str]) -> list[ModelFinding]:
    """Return remarks on centres of mass outside the box around the link's shapes, by more than a tenth of its size.

    Args:
        model: The model.
        without_mesh: Parts whose mesh is not found, which have their own remark.
    """
    findings = []
    for link, index, parameters in zip(model.links, model.link_bodies, model.parameters, strict=True):
        if parameters[0] <= 0.0 or without_mesh & {member.part.name for member in model.bodies[index].members}:
            continue
        try:
            points = link_points(model, link)
        except ModelError as error:
            findings.append(_remark(link, str(error)))
            continue
        if len(points) < 4:
            continue
        low, high = points.min(axis=0), points.max(axis=0)
        com = parameters[1:4] / parameters[0]
        outside = float(np.linalg.norm(com - np.clip(com, low, high)))
        if outside > 0.1 * float(np.linalg.norm(high - low)):
            words = f"its centre of mass is {1000.0 * outside:.0f} mm outside the box around its shapes"
            findings.append(_remark(link, words))
    return findings
