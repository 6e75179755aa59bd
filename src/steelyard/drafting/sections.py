"""Sections of a drafted setup file, with their findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.drafting.draft_findings import DraftFinding, FindingKind
from steelyard.drafting.toml_text import comment, commented_out, format_points, name_pairs, quoted
from steelyard.model import WRENCH_AXES
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard.arrays import FloatArray
    from steelyard.drafting.locks import LockPosition
    from steelyard.drafting.sensor_search import DraftedImu, DraftedWrench
    from steelyard.drafting.symmetry import Symmetry

_EXAMPLE = "vertices = [[0.12, 0.04, -0.05], [0.12, -0.04, -0.05], [-0.06, -0.04, -0.05], [-0.06, 0.04, -0.05]]"
_NO_TORQUES = "the model file does not state whether joint torques are measured"
_TORQUE_ADVICE = 'if they are, list the joints, or "all", in [torque]'


@dataclass(frozen=True)
class SetupSection:
    """Lines of a setup file, with their findings.

    Attributes:
        lines: Lines of TOML.
        findings: Findings on these lines.
    """

    lines: tuple[str, ...]
    findings: tuple[DraftFinding, ...]


@dataclass(frozen=True, eq=False)
class DraftedSole:
    """Sole to be written into a setup.

    Attributes:
        name: Name of the sole.
        frame: Frame of its corners.
        vertices: Corners in `frame`, shape (n, 3), m; None where it was not found.
        wrench: Name of the sensor that measures its load.
        source: Evidence for it, or the reason why it is missing.
        detail: Longer version of `source`, for the file.
        sure: Whether it follows from shapes.
        advice: Action for the user.
    """

    name: str
    frame: str
    vertices: FloatArray | None
    wrench: str
    source: str
    detail: str
    sure: bool
    advice: str


def base_lines(base: str, source: str, *, sure: bool) -> SetupSection:
    """Format the line that declares the base."""
    finding = DraftFinding("base", _kind(sure), f"{base}: {source}", "" if sure else "check")
    return SetupSection((*_marked(finding, source), f"base = {quoted(base)}"), (finding,))


def lock_section(locks: Mapping[str, tuple[LockPosition, str]]) -> SetupSection:
    """Format ``[lock]``: joints without whose lock the model does not load."""
    if not locks:
        return SetupSection((), ())
    lines = ["", "# Locked so that every joint is independent and moves some mass."]
    lines += ["# Joints that mimic a locked joint are locked with it.", "[lock]"]
    for name, (position, why) in locks.items():
        value = [float(number) for number in position] if isinstance(position, tuple) else position
        lines += comment(f"guessed: {why}; check the position")
        lines.append(f"{quoted(name)} = {value!r}")
    first, (_, why) = next(iter(locks.items()))
    source = f"{in_words(list(locks))} must be locked for the model to load; {first}: {why}"
    return SetupSection(tuple(lines), (DraftFinding("lock", "guessed", source, "check the positions"),))


def imu_section(imus: Sequence[DraftedImu]) -> SetupSection:
    """Format the ``[[imu]]`` tables, or a stub."""
    if not imus:
        finding = DraftFinding(
            "imu", "missing", "the file has no IMU tag and no frame named like one", "if there is one, enter its frame"
        )
        stub = ["[[imu]]", 'name  = "pelvis"', 'frame = "the link or site where it is mounted"']
        return SetupSection(("", *_marked(finding, finding.source), *commented_out(stub)), (finding,))
    lines: list[str] = []
    findings: list[DraftFinding] = []
    for imu in imus:
        finding = DraftFinding(f"imu {imu.name}", _kind(imu.sure), imu.source, "" if imu.sure else "check")
        findings.append(finding)
        lines += ["", *_marked(finding, imu.source), "[[imu]]"]
        lines += [f"name  = {quoted(imu.name)}", f"frame = {quoted(imu.frame)}"]
    return SetupSection(tuple(lines), tuple(findings))


def wrench_section(sensors: Sequence[DraftedWrench], others: Sequence[DraftedWrench], why_none: str) -> SetupSection:
    """Format the ``[[wrench_sensor]]`` tables, those not needed commented out; or a stub."""
    lines: list[str] = []
    findings: list[DraftFinding] = []
    for sensor in sensors:
        advice = "" if sensor.sure else "check the frame, and whether it is at the ground or in a joint"
        finding = DraftFinding(f"wrench sensor {sensor.name}", _kind(sensor.sure), sensor.source, advice)
        findings.append(finding)
        lines += ["", *_marked(finding, sensor.source), *_wrench_lines(sensor)]
    if not sensors:
        finding = DraftFinding("wrench sensors", "missing", why_none, "identification needs wrenches or joint torques")
        findings.append(finding)
        stub = ["[[wrench_sensor]]", 'name  = "left_foot"', 'frame = "the link where it measures"', 'at    = "ground"']
        lines += ["", *_marked(finding, f"{finding.source}; {finding.advice}"), *commented_out(stub)]
    for sure in (True, False):
        named = [sensor.name for sensor in others if sensor.sure == sure]
        if named:
            source = f"{in_words(named)} by {'tag' if sure else 'name'}, not loaded by a sole"
            advice = "uncomment them in the setup if they are recorded"
            findings.append(DraftFinding("other wrench sensors", _kind(sure), source, advice))
    for sensor in others:
        finding = DraftFinding(sensor.name, _kind(sensor.sure), sensor.source)
        lines += ["", *_marked(finding, f"{sensor.source}; uncomment to use it"), *commented_out(_wrench_lines(sensor))]
    return SetupSection(tuple(lines), tuple(findings))


def _wrench_lines(sensor: DraftedWrench) -> list[str]:
    lines = ["[[wrench_sensor]]", f"name  = {quoted(sensor.name)}", f"frame = {quoted(sensor.frame)}"]
    lines.append(f"at    = {quoted(sensor.at)}")
    if sensor.sign != "on_robot":
        lines.append(f"sign  = {quoted(sensor.sign)}")
    if sensor.axes != WRENCH_AXES:
        lines.append(f"axes  = {quoted(' '.join(sensor.axes))}")
    return lines


def sole_section(soles: Sequence[DraftedSole], why_none: str) -> SetupSection:
    """Format the ``[[sole]]`` tables; a stub for a sole without corners, one stub where there are no feet."""
    lines: list[str] = []
    findings: list[DraftFinding] = []
    if not soles:
        finding = DraftFinding("soles", "missing", why_none, "if it stands on feet, enter the corners of each sole")
        stub = ["[[sole]]", 'name     = "left"', 'frame    = "the link of the foot"', _EXAMPLE]
        return SetupSection(("", *_marked(finding, why_none), *commented_out(stub)), (finding,))
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
            lines += [*head, "vertices = [", *(f"    {row}" for row in format_points(sole.vertices)), "]"]
    return SetupSection(tuple(lines), tuple(findings))


def torque_section(torques: Sequence[str]) -> SetupSection:
    """Format ``[torque]`` where the file has joint torque sensors, else a stub."""
    if torques:
        source = f"joint torque sensors at {in_words(list(torques))}"
        finding = DraftFinding("torque", "found", source)
        listed = ", ".join(quoted(name) for name in torques)
        return SetupSection(("", *_marked(finding, source), "[torque]", f"measured = [{listed}]"), (finding,))
    finding = DraftFinding("torque", "missing", _NO_TORQUES, _TORQUE_ADVICE)
    stub = ["[torque]", 'measured = "all"']
    return SetupSection(("", *_marked(finding, f"{_NO_TORQUES}; {_TORQUE_ADVICE}"), *commented_out(stub)), (finding,))


def mirror_section(symmetry: Symmetry | None, pairs: Sequence[tuple[str, str]], links: int) -> SetupSection:
    """Format ``[mirror]``, or a stub.

    Args:
        symmetry: Symmetry of the model; None where there is none.
        pairs: Patterns and names that cover its pairs.
        links: Number of links in pairs.
    """
    if symmetry is None or not pairs:
        source = "no two links form a left-right pair by name or position"
        finding = DraftFinding("mirror", "missing", source, "if it is symmetric, fill in [mirror]")
        stub = ["[mirror]", 'plane = "xz"', 'pairs = [["left_*", "right_*"]]']
        return SetupSection(("", *_marked(finding, source), *commented_out(stub)), (finding,))
    by_name = any(pair.marks for pair in symmetry.partners)
    by_position = [pair for pair in symmetry.partners if not pair.marks]
    worst = max(pair.error for pair in symmetry.partners)
    means = "position alone" if not by_name else "name or position" if by_position else "name and position"
    source = f"{links // 2} pairs of links about the {symmetry.plane} plane, by {means} (within {1e3 * worst:.1f} mm)"
    if symmetry.posture:
        source += f"; symmetric only in the posture below, which moves {in_words(list(symmetry.posture))}"
    if symmetry.odd:
        source += f"; without a partner: {in_words(list(symmetry.odd))}"
    sure = by_name and not by_position and not symmetry.posture and not symmetry.odd
    finding = DraftFinding("mirror", _kind(sure), source, "" if sure else "check the pairs")
    lines = ["", *_marked(finding, source), "[mirror]", f"plane = {quoted(symmetry.plane)}", *name_pairs(pairs)]
    if symmetry.posture:
        positions = ", ".join(f"{quoted(name)} = {round(angle, 6)!r}" for name, angle in symmetry.posture.items())
        lines.append(f"posture = {{ {positions} }}")
    return SetupSection(tuple(lines), (finding,))


def _kind(sure: bool) -> FindingKind:
    return "found" if sure else "guessed"


def _marked(finding: DraftFinding, words: str) -> list[str]:
    mark = {"found": "found: {}", "guessed": "guessed: {}; check", "missing": "not found: {}"}[finding.kind]
    return comment(mark.format(words))
