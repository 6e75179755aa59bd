"""The text of `steelyard demo`: sentences and tables, eighty columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.wording import in_words

if TYPE_CHECKING:
    from steelyard.cli.demo_run import DemoResult
    from steelyard.laboratory import BalanceRun

WIDTH = 80
"""Columns of the text: those of a default terminal."""

_INDENT = "   "
_NAMES = {
    "CAD, encoders as they are": "CAD, encoders not calibrated",
    "CAD": "CAD, encoders calibrated",
    "identified": "identified model",
    "truth": "true model",
}


@dataclass(frozen=True)
class Chapter:
    """A chapter of the text.

    Attributes:
        title: Its heading.
        lines: Its lines, at most `WIDTH` characters each.
    """

    title: str
    lines: tuple[str, ...]


def write_chapters(result: DemoResult) -> tuple[Chapter, ...]:
    """Describe the result, chapter by chapter."""
    return (_robot(result), _calibration(result), _identification(result), _validation(result), _benefit(result))


def next_steps() -> Chapter:
    """List the commands for a robot of the user's own."""
    commands = (
        ("source .venv/bin/activate", "once in each shell"),
        ("steelyard init my_robot.urdf -o my_robot.toml", "where soles and sensors are"),
        ("steelyard inspect my_robot.toml dance.csv", "check the recording"),
        ("steelyard calibrate my_robot.toml limp.csv -o calibrated", ""),
        ("steelyard identify my_robot.toml dance.csv --validate reach.csv \\", ""),
        ("    --offsets calibrated/offsets.json -o results", ""),
    )
    lines = [f"{_INDENT}{command:<45} {comment}".rstrip() for command, comment in commands]
    return Chapter("Next: your own robot", tuple(lines))


def _robot(result: DemoResult) -> Chapter:
    from steelyard.cli.demo_run import LOAD_NAMES, LOADS  # noqa: PLC0415  (it needs the laboratory)

    worst = np.rad2deg(np.abs(result.offset_errors[0]).max())
    loads = in_words([f"{name} ({LOADS[link].mass:g} kg)" for link, name in LOAD_NAMES.items()])
    return Chapter(
        "The robot",
        _wrap(
            f"According to its CAD, this G1 has {result.model.total_mass:.2f} kg; a scale shows {result.scale:.2f} kg. "
            f"It carries {loads} that the CAD does not have, and none of its {len(result.model.links)} links is built "
            f"exactly as drawn. The encoders of legs and waist have offsets of up to {worst:.1f}°. Only the virtual "
            "laboratory knows all this; Steelyard gets the CAD, the mass on the scale, and the sensor data."
        ),
    )


def _calibration(result: DemoResult) -> Chapter:
    before, after = (np.rad2deg(np.abs(each)) for each in result.offset_errors)
    count, poses = len(result.calibration.joints), len(result.calibration.poses)
    rows = [
        [f"error of {count} encoders, RMS", f"{_rms(before):.2f}°", f"{_rms(after):.2f}°"],
        ["largest", f"{before.max():.2f}°", f"{after.max():.2f}°"],
    ]
    notes = [f"{each[0].upper()}{each[1:].rstrip('.')}." for each in result.calibration.undetermined]
    notes.append("Offsets of the arms are not observable; their encoders are used as they are.")
    return Chapter(
        "Calibration: moved with the feet flat on the floor",
        (
            *_table([["", "before", "after"], *rows]),
            "",
            *_wrap(f"From {poses} poses, without motion capture. {' '.join(notes)}"),
        ),
    )


def _identification(result: DemoResult) -> Chapter:
    estimate, true, cad = result.estimate, result.truth.masses, result.model.masses
    rows = [
        [f"{each.group} ({each.true_mass:.1f} kg)", f"{1e3 * each.cad:.0f} g", f"{1e3 * each.identified:.0f} g"]
        for each in result.mass_errors
    ]
    com, distance = result.com_errors, result.distances
    further = [
        ["centre of mass of the robot", f"{1e3 * com[0]:.1f} mm", f"{1e3 * com[1]:.1f} mm"],
        ["affine distance to the true links", f"{distance[0]:.3f}", f"{distance[1]:.3f}"],
    ]
    errors = dict(zip(estimate.model.links, estimate.standard_errors[:, 0], strict=True))
    links = [
        [link, f"{cad[link]:.2f}", f"{estimate.masses[link]:.2f} ± {errors[link]:.2f}", f"{true[link]:.2f}"]
        for link in result.worst_links
    ]
    informed = float(estimate.determined[:, 0].mean())
    return Chapter(
        f"Identification: {result.training.duration:.0f} s of dance, and the scale",
        (
            *_table([["error of the masses, RMS", "CAD", "identified"], *rows, *further]),
            "",
            *_table([["largest errors of the CAD, kg", "CAD", "identified", "truth"], *links]),
            "",
            *_wrap(
                f"{result.masses_in_intervals} of {len(true)} true masses lie within their 95 % intervals. Not every "
                "parameter of a standing robot is observable: on average, the data determined "
                f"{100.0 * informed:.0f} % of a mass and the CAD, as prior, the rest. Report and estimate list this "
                "for each link."
            ),
        ),
    )


def _validation(result: DemoResult) -> Chapter:
    fits = result.validation.world or result.validation.wrench
    candidates = [fits.reference, fits.corrected, fits.estimate, fits.truth]
    rows = []
    for number, (axis, unit) in enumerate(zip(fits.rows, fits.units, strict=True)):
        values = [f"{fit.rmse[number]:.3f}" for fit in candidates if fit is not None]
        rows.append([f"{axis} ({unit})", *values])
    learned = ""
    if fits.truth is not None and np.any(fits.estimate.rmse < 0.9 * fits.truth.rmse):
        learned = " Where the identified model has less, it also fits sensor errors common to both motions."
    return Chapter(
        f"Validation: {result.validation.duration:.0f} s of reaching that were not used",
        (
            *_table([["error of the ground wrench, RMS", "CAD", "scaled CAD", "identified", "truth"], *rows], 32),
            "",
            *_wrap(
                "The scaled CAD has all masses multiplied by the factor that fits the dance best. All four predict "
                "with the sensor offsets estimated from the dance; the residual of the truth is noise and remaining "
                f"errors of sensors and encoders.{learned}"
            ),
        ),
    )


def _benefit(result: DemoResult) -> Chapter:
    rows = [[_NAMES[name], *_tracking(run)] for name, run in result.runs.items()]
    seconds = max(run.time[-1] for run in result.runs.values())
    return Chapter(
        "Benefit: the same balance controller with each model",
        (
            f"{_INDENT}{'':<35}{'centre of mass':>19}{'zero-moment point':>20}",
            *_table([["model of the controller", "RMS", "max.", "RMS", "max."], *rows]),
            "",
            *_wrap(
                f"{seconds:.0f} s of swaying and reaching: tracking errors of the true centre of mass and of "
                "the zero-moment point. Task, gains, noise and robot are the same; only the controller's model differs."
            ),
        ),
    )


def _tracking(run: BalanceRun) -> list[str]:
    if run.fall is not None:
        return [f"fell after {run.fall.start:.1f} s"]
    errors = (run.com_error, run.zmp_error)
    return [f"{1e3 * each:.1f} mm" for error in errors for each in (error.rms, error.greatest)]


def _table(rows: Sequence[Sequence[str]], first: int = 35) -> list[str]:
    """Format a table: the first column aligned left, the others right; a short row has one text after its name."""
    count = max(len(row) for row in rows)
    whole = [row for row in rows if len(row) == count]
    widths = [max(len(row[column]) for row in whole) + 3 for column in range(1, count)]
    lines = []
    for row in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths, strict=False)]
        lines.append(f"{_INDENT}{row[0]:<{first}}{'   ' + row[1] if len(row) < count else ''.join(cells)}".rstrip())
    return lines


def _wrap(text: str) -> tuple[str, ...]:
    return tuple(textwrap.wrap(text, WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT))


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
