"""Offsets as text: header, a line for each joint, outliers, numbered notes."""

from __future__ import annotations

import textwrap
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from steelyard.calibration.heights import rms
from steelyard.calibration.pose_noise import PoseNoise

if TYPE_CHECKING:
    from steelyard.calibration.marker_fit import MarkerDistances, MarkerFit
    from steelyard.calibration.offsets import Offsets

WIDTH, _LEAST_WIDTH = 96, 72
"""Characters in a line, by default and at least: what the joint table needs."""

_MOST_SUSPECTS = 12
"""Outliers that are listed; set by judgement, for one screen."""


def describe_offsets(offsets: Offsets, width: int | None = None) -> str:
    """Return the offsets as text, in lines of at most `width` characters; by default 96, and at least 72."""
    width = WIDTH if width is None else max(_LEAST_WIDTH, width)
    thick, thin = "=" * width, "-" * width
    header = (textwrap.wrap(line, width, subsequent_indent=" " * 29) for line in _header(offsets))
    lines = [f" {offsets.model.name}: joint offsets ".center(width, "="), *chain.from_iterable(header), thin]
    lines += _joints(offsets)
    if offsets.marker_fit is not None:
        lines += [thin, *_markers(offsets.marker_fit)]
    if offsets.suspect_poses:
        suspects = (textwrap.wrap(line, width, subsequent_indent="    ") for line in _suspects(offsets))
        lines += [thin, *chain.from_iterable(suspects)]
    lines.append(thick)
    notes = [
        *(f"{sentence}; record poses that differ more, or leave it" for sentence in offsets.undetermined),
        *offsets.notes,
    ]
    if not all(offsets.observable.values()):
        notes.append("offsets that are not observable one by one may be so in combination: use all of them, or none")
    if notes:
        lines.append("Notes:")
    for number, note in enumerate(notes, start=1):
        lines += textwrap.wrap(note, width, initial_indent=f"[{number}] ", subsequent_indent="    ")
    return "\n".join(lines)


def _header(offsets: Offsets) -> list[str]:
    noise = offsets.noise
    problem = offsets.fit.problem
    told = f"{len(offsets.poses)} poses"
    if offsets.provenance.get("candidate_count", 0) > len(offsets.poses):
        told += f", picked from {offsets.provenance['candidate_count']}"
    things = [block.name for block in problem.blocks]
    lines = [("Poses", told), ("Sensors and contacts", ", ".join(things))]
    if isinstance(noise, PoseNoise):
        parts = [f"encoders {np.rad2deg(noise.encoder):.2g}°"]
        parts += [f"orientation {np.rad2deg(noise.orientation):.2g}°"] if problem.imus else []
        parts += [f"flatness {1e3 * noise.flatness:.2g} mm"] if problem.contacts else []
        parts += [f"markers {1e3 * noise.marker:.2g} mm"] if problem.markers else []
        parts += [f"touches {1e3 * noise.touch:.2g} mm"] if problem.touches else []
        lines.append(("Noise, " + ("estimated" if offsets.fit.found else "given"), ", ".join(parts)))
    if problem.contacts:
        lines.append(("Corners off their plane", _pair(rms(offsets.heights_before), rms(offsets.heights_after))))
    if offsets.held_out is not None and problem.contacts:
        held = offsets.held_out
        lines.append((f"… in {held.pose_count} poses not used", _pair(held.heights_before, held.heights_after)))
    markers = offsets.marker_fit
    if markers is not None:
        lines += [("Markers off, before", _distances(markers.before)), ("… after", _distances(markers.after))]
        if markers.held_out is not None:
            lines.append(("… after, cross-validated", _distances(markers.held_out)))
    lines.append(("Cost", f"{offsets.cost_before:.3g} m² before, {offsets.cost_after:.3g} m² after, per pose"))
    return [f"{name + ':':<28} {value}" for name, value in lines]


def _pair(before: float, after: float) -> str:
    return f"{1e3 * before:.2f} mm before, {1e3 * after:.2f} mm after (rms)"


def _distances(distances: MarkerDistances) -> str:
    each = distances.in_millimetres()
    return f"{each['rms']:.2f} mm rms (mean {each['mean']:.2f}, greatest {each['greatest']:.1f})"


def _markers(markers: MarkerFit) -> list[str]:
    """Return the table of placements; that of a floating base differs from pose to pose, and is left out."""
    rows = [
        (f"{name} on {each.frame}, mm", 1e3 * each.position, 1e3 * each.standard_errors)
        for name, each in markers.placements.items()
    ]
    if markers.base.position.ndim == 1:
        base = markers.base
        rows += [
            ("base in the capture's frame, mm", 1e3 * base.position, 1e3 * base.position_errors),
            ("  its rotation vector, °", np.rad2deg(base.rotation_vector), np.rad2deg(base.rotation_errors)),
        ]
    room = max(len(name) for name, _, _ in rows)
    lines = [f"{'placement':<{room}} {'x':>10} {'y':>10} {'z':>10}"]
    for name, values, errors in rows:
        lines.append(f"{name:<{room}} " + " ".join(f"{value:>10.2f}" for value in values))
        lines.append(f"{'  std err':<{room}} " + " ".join(f"{value:>10.2f}" for value in errors))
    return lines


def _joints(offsets: Offsets) -> list[str]:
    room = max(24, *(len(joint) for joint in offsets.joints)) if offsets.joints else 24
    lines = [f"{'joint':<{room}} {'offset':>10} {'std err':>9} {'[0.025':>9} {'0.975]':>9}"]
    intervals = offsets.intervals()
    for joint in offsets.joints:
        slides = offsets.model.joint(joint).kind == "prismatic"
        scale, unit = (1e3, "mm") if slides else (180.0 / np.pi, "°")
        low, high = (scale * end for end in intervals[joint])
        said = "" if offsets.observable[joint] else "  not observable"
        lines.append(
            f"{joint:<{room}} {scale * offsets.values[joint]:>9.3f}{unit} "
            f"{scale * offsets.standard_errors[joint]:>9.3f} {low:>9.3f} {high:>9.3f}{said}"
        )
    return lines


def _suspects(offsets: Offsets) -> list[str]:
    poses = {suspect.pose for suspect in offsets.suspect_poses}
    lines = [f"Set aside, in {len(poses)} of {len(offsets.poses)} poses:"]
    shown = sorted(offsets.suspect_poses, key=lambda suspect: suspect.chance)[:_MOST_SUSPECTS]
    lines += [f"  pose {each.pose} at {each.time:.2f} s: {each.words}" for each in sorted(shown, key=lambda e: e.pose)]
    if len(offsets.suspect_poses) > len(shown):
        lines.append(f"  and {len(offsets.suspect_poses) - len(shown)} more")
    return lines
