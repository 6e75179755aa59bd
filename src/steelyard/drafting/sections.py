"""The sections of a drafted setup file, and what is told of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.drafting.findings import DraftFinding, FindingKind
from steelyard.drafting.toml_text import comment, commented_out, name_pairs, point_rows, quoted
from steelyard.model.names import in_words
from steelyard.model.setup import WRENCH_AXES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.drafting.locks import LockPosition
    from steelyard.drafting.sensors import DraftedImu, DraftedWrench
    from steelyard.drafting.symmetry import Symmetry
    from steelyard.model.parameters import FloatArray

_EXAMPLE = "vertices = [[0.12, 0.04, -0.05], [0.12, -0.04, -0.05], [-0.06, -0.04, -0.05], [-0.06, 0.04, -0.05]]"
_NO_TORQUES = "a model file does not tell whether joint torques are measured"
_TORQUE_ADVICE = 'if they are, write the joints, or "all", into [torque]'


@dataclass(frozen=True)
class Section:
    """Lines of a setup file, and what is told of them.

    Attributes:
        lines: The lines.
        findings: What they say, and how sure that is.
    """

    lines: tuple[str, ...]
    findings: tuple[DraftFinding, ...]


@dataclass(frozen=True, eq=False)
class DraftedSole:
    """A sole to be written into a setup.

    Attributes:
        name: Its name.
        frame: The frame of its corners.
        vertices: Its corners, shape (n, 3), m; None where it was not seen.
        wrench: Name of the sensor that feels it.
        source: From what it is known, or why not.
        detail: The same at greater length, for the file.
        sure: Whether shapes tell it.
        advice: What to do about it.
    """

    name: str
    frame: str
    vertices: FloatArray | None
    wrench: str
    source: str
    detail: str
    sure: bool
    advice: str


def base_lines(base: str, source: str, *, sure: bool) -> Section:
    """Gives the line that says how the robot is held."""
    finding = DraftFinding("base", _kind(sure), f"{base}: {source}", "" if sure else "check")
    return Section((*_marked(finding, source), f"base = {quoted(base)}"), (finding,))


def lock_section(locks: Mapping[str, tuple[LockPosition, str]]) -> Section:
    """Gives ``[lock]``: joints without which the model does not load."""
    if not locks:
        return Section((), ())
    lines = ["", "# Without these the model is no tree of independent joints with mass beyond each."]
    lines += ["# Joints that follow a locked one are locked with it.", "[lock]"]
    for name, (position, why) in locks.items():
        value = [float(number) for number in position] if isinstance(position, tuple) else position
        lines += comment(f"guessed: {why}; check the position")
        lines.append(f"{quoted(name)} = {value!r}")
    first, (_, why) = next(iter(locks.items()))
    source = f"{in_words(list(locks))} must stand still for the model to load: of {first}, {why}"
    return Section(tuple(lines), (DraftFinding("lock", "guessed", source, "check the positions"),))


def imu_section(imus: Sequence[DraftedImu]) -> Section:
    """Gives the ``[[imu]]`` tables, or a stub."""
    if not imus:
        finding = DraftFinding(
            "imu", "missing", "no sensor or frame of the file is called like one", "if there is one, name its frame"
        )
        stub = ["[[imu]]", 'name  = "pelvis"', 'frame = "the link or site at which it sits"']
        return Section(("", *_marked(finding, finding.source), *commented_out(stub)), (finding,))
    lines: list[str] = []
    findings: list[DraftFinding] = []
    for imu in imus:
        finding = DraftFinding(f"imu {imu.name}", _kind(imu.sure), imu.source, "" if imu.sure else "check")
        findings.append(finding)
        lines += ["", *_marked(finding, imu.source), "[[imu]]"]
        lines += [f"name  = {quoted(imu.name)}", f"frame = {quoted(imu.frame)}"]
    return Section(tuple(lines), tuple(findings))


def wrench_section(sensors: Sequence[DraftedWrench], others: Sequence[DraftedWrench], why_none: str) -> Section:
    """Gives the ``[[wrench_sensor]]`` tables, those that are not needed commented out; or a stub."""
    lines: list[str] = []
    findings: list[DraftFinding] = []
    for sensor in sensors:
        advice = "" if sensor.sure else "check the frame, and whether it is ground or joint"
        finding = DraftFinding(f"wrench sensor {sensor.name}", _kind(sensor.sure), sensor.source, advice)
        findings.append(finding)
        lines += ["", *_marked(finding, sensor.source), *_wrench_lines(sensor)]
    if not sensors:
        finding = DraftFinding(
            "wrench sensors", "missing", why_none, "without wrenches or joint torques nothing is weighed"
        )
        findings.append(finding)
        stub = [
            "[[wrench_sensor]]",
            'name  = "left_foot"',
            'frame = "the link at which it measures"',
            'at    = "ground"',
        ]
        lines += ["", *_marked(finding, f"{finding.source}; {finding.advice}"), *commented_out(stub)]
    for sure in (True, False):
        named = [sensor.name for sensor in others if sensor.sure == sure]
        if named:
            source = f"{'tags' if sure else 'names'} of {in_words(named)}, which feel no sole"
            advice = "take their # away in the setup if they are recorded"
            findings.append(DraftFinding("other wrench sensors", _kind(sure), source, advice))
    for sensor in others:
        finding = DraftFinding(sensor.name, _kind(sensor.sure), sensor.source)
        lines += [
            "",
            *_marked(finding, f"{sensor.source}; used if you take the # away"),
            *commented_out(_wrench_lines(sensor)),
        ]
    return Section(tuple(lines), tuple(findings))


def _wrench_lines(sensor: DraftedWrench) -> list[str]:
    lines = ["[[wrench_sensor]]", f"name  = {quoted(sensor.name)}", f"frame = {quoted(sensor.frame)}"]
    lines.append(f"at    = {quoted(sensor.at)}")
    if sensor.sign != "on_robot":
        lines.append(f"sign  = {quoted(sensor.sign)}")
    if sensor.axes != WRENCH_AXES:
        lines.append(f"axes  = {quoted(' '.join(sensor.axes))}")
    return lines


def sole_section(soles: Sequence[DraftedSole], why_none: str) -> Section:
    """Gives the ``[[sole]]`` tables, stubs for those that were not seen, or one stub where there are no feet."""
    lines: list[str] = []
    findings: list[DraftFinding] = []
    if not soles:
        finding = DraftFinding("soles", "missing", why_none, "if it stands, give the corners of each sole")
        stub = ["[[sole]]", 'name     = "left"', 'frame    = "the link of the foot"', _EXAMPLE]
        return Section(("", *_marked(finding, why_none), *commented_out(stub)), (finding,))
    for sole in soles:
        head = ["[[sole]]", f"name     = {quoted(sole.name)}", f"frame    = {quoted(sole.frame)}"]
        head.append(f"wrench   = {quoted(sole.wrench)}")
        kind: FindingKind = "missing" if sole.vertices is None else _kind(sole.sure)
        finding = DraftFinding(f"sole {sole.name}", kind, sole.source, sole.advice)
        findings.append(finding)
        lines += ["", *_marked(finding, sole.detail)]
        if sole.vertices is None:
            lines += commented_out([*head, _EXAMPLE])
        else:
            lines += [*head, "vertices = [", *(f"    {row}" for row in point_rows(sole.vertices)), "]"]
    return Section(tuple(lines), tuple(findings))


def torque_section(torques: Sequence[str]) -> Section:
    """Gives ``[torque]`` where the file has sensors of joint torques, else a stub."""
    if torques:
        source = f"sensors of joint torques at {in_words(list(torques))}"
        finding = DraftFinding("torque", "found", source)
        listed = ", ".join(quoted(name) for name in torques)
        return Section(("", *_marked(finding, source), "[torque]", f"measured = [{listed}]"), (finding,))
    finding = DraftFinding("torque", "missing", _NO_TORQUES, _TORQUE_ADVICE)
    stub = ["[torque]", 'measured = "all"']
    return Section(("", *_marked(finding, f"{_NO_TORQUES}; {_TORQUE_ADVICE}"), *commented_out(stub)), (finding,))


def mirror_section(symmetry: Symmetry | None, pairs: Sequence[tuple[str, str]], links: int) -> Section:
    """Gives ``[mirror]``, or a stub.

    Args:
        symmetry: What was found.
        pairs: The patterns and names that say it.
        links: How many links are in pairs.
    """
    if symmetry is None or not pairs:
        source = "no two links are called, or placed, like left and right"
        finding = DraftFinding("mirror", "missing", source, "if it is symmetric, write [mirror]")
        stub = ["[mirror]", 'plane = "xz"', 'pairs = [["left_*", "right_*"]]']
        return Section(("", *_marked(finding, source), *commented_out(stub)), (finding,))
    by_name = any(pair.marks for pair in symmetry.partners)
    by_place = [pair for pair in symmetry.partners if not pair.marks]
    worst = max(pair.error for pair in symmetry.partners)
    means = "names and places" if by_name and not by_place else "names, and places" if by_name else "places alone"
    source = f"{links // 2} pairs of links about the {symmetry.plane} plane, by {means} (within {1e3 * worst:.1f} mm)"
    if symmetry.posture:
        source += f"; symmetric only in the posture below, which turns {in_words(list(symmetry.posture))}"
    if symmetry.odd:
        source += f"; without a partner: {in_words(list(symmetry.odd))}"
    sure = by_name and not by_place and not symmetry.posture and not symmetry.odd
    finding = DraftFinding("mirror", _kind(sure), source, "" if sure else "check the pairs")
    lines = ["", *_marked(finding, source), "[mirror]", f"plane = {quoted(symmetry.plane)}", *name_pairs(pairs)]
    if symmetry.posture:
        turned = ", ".join(f"{quoted(name)} = {round(angle, 6)!r}" for name, angle in symmetry.posture.items())
        lines.append(f"posture = {{ {turned} }}")
    return Section(tuple(lines), (finding,))


def _kind(sure: bool) -> FindingKind:
    return "found" if sure else "guessed"


def _marked(finding: DraftFinding, words: str) -> list[str]:
    mark = {"found": "found: {}", "guessed": "guessed: {}; check", "missing": "not found: {}"}[finding.kind]
    return comment(mark.format(words))
