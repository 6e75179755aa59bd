"""The story of `steelyard demo` in words and tables, eighty columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.wording import in_words

if TYPE_CHECKING:
    from steelyard.cli.demo_run import Story
    from steelyard.laboratory import BalanceRun

WIDTH = 80
_INDENT = "   "
_NAMES = {
    "CAD, encoders as they are": "the CAD, encoders as they are",
    "CAD": "the CAD, calibrated",
    "identified": "the identified model",
    "truth": "the true model",
}


@dataclass(frozen=True)
class Chapter:
    """A part of the story.

    Attributes:
        title: Its heading.
        lines: What it says, at most `WIDTH` characters each.
    """

    title: str
    lines: tuple[str, ...]


def write_chapters(story: Story) -> tuple[Chapter, ...]:
    """Gives the story, chapter by chapter."""
    return (_robot(story), _calibration(story), _identification(story), _validation(story), _payoff(story))


def next_steps() -> Chapter:
    """Gives what to do with a robot of one's own."""
    road = (
        ("source .venv/bin/activate", "once in each shell"),
        ("steelyard init my_robot.urdf -o my_robot.toml", "where its soles and sensors are"),
        ("steelyard inspect my_robot.toml dance.csv", "is the recording any good?"),
        ("steelyard calibrate my_robot.toml limp.csv -o calibrated", ""),
        ("steelyard identify my_robot.toml dance.csv --validate reach.csv \\", ""),
        ("    --offsets calibrated/offsets.json -o results", ""),
    )
    lines = [f"{_INDENT}{command:<45} {words}".rstrip() for command, words in road]
    return Chapter("Now with a robot of your own", tuple(lines))


def _robot(story: Story) -> Chapter:
    from steelyard.cli.demo_run import LOAD_NAMES, LOADS  # noqa: PLC0415  (it needs the laboratory)

    worst = np.rad2deg(np.abs(story.offset_errors[0]).max())
    loads = in_words([f"{words} ({LOADS[link].mass:g} kg)" for link, words in LOAD_NAMES.items()])
    return Chapter(
        "The robot",
        _wrap(
            f"The CAD of this G1 says {story.model.total_mass:.2f} kg, a scale says {story.scale:.2f} kg. Since it was "
            f"drawn, the robot was given {loads}, and none of its {len(story.model.links)} links was built quite as "
            f"drawn. The encoders of its legs and waist are off by up to {worst:.1f}°. The virtual laboratory knows "
            "all that. Steelyard gets the CAD, the scale, and what the sensors say."
        ),
    )


def _calibration(story: Story) -> Chapter:
    before, after = (np.rad2deg(np.abs(each)) for each in story.offset_errors)
    count, poses = len(story.calibration.joints), len(story.calibration.poses)
    rows = [
        [f"error of {count} encoders, rms", f"{_rms(before):.2f}°", f"{_rms(after):.2f}°"],
        ["worst of them", f"{before.max():.2f}°", f"{after.max():.2f}°"],
    ]
    notes = [f"{each[0].upper()}{each[1:].rstrip('.')}." for each in story.calibration.undetermined]
    notes.append("Nothing feels the arms' encoders: they are taken as they are.")
    return Chapter(
        "Calibration: moved with its feet flat on the floor",
        (
            *_table([["", "before", "after"], *rows]),
            "",
            *_wrap(f"From {poses} poses, without motion capture. {' '.join(notes)}"),
        ),
    )


def _identification(story: Story) -> Chapter:
    estimate, true, cad = story.estimate, story.truth.masses, story.model.masses
    rows = [
        [f"{each.group} ({each.true_mass:.1f} kg)", f"{1e3 * each.cad:.0f} g", f"{1e3 * each.identified:.0f} g"]
        for each in story.mass_errors
    ]
    com, distance = story.com_errors, story.distances
    further = [
        ["centre of mass of the whole robot", f"{1e3 * com[0]:.1f} mm", f"{1e3 * com[1]:.1f} mm"],
        ["distance of a link to the true one", f"{distance[0]:.3f}", f"{distance[1]:.3f}"],
    ]
    errors = dict(zip(estimate.model.links, estimate.standard_errors[:, 0], strict=True))
    links = [
        [link, f"{cad[link]:.2f}", f"{estimate.masses[link]:.2f} ± {errors[link]:.2f}", f"{true[link]:.2f}"]
        for link in story.worst_links
    ]
    decided = float(estimate.determined[:, 0].mean())
    return Chapter(
        f"Identification: {story.training.time[-1] - story.training.time[0]:.0f} s of dance, and the scale",
        (
            *_table([["error of the masses, rms", "CAD", "identified"], *rows, *further]),
            "",
            *_table([["what the CAD has most wrong, kg", "CAD", "identified", "truth"], *links]),
            "",
            *_wrap(
                f"{story.held} of {len(true)} true masses lie in their 95 % intervals. A robot that stands does not "
                f"show everything: the data decided {100.0 * decided:.0f} % of the masses, on average, and the rest "
                "stays as near to the CAD as bodies that can exist allow; report and estimate say which is which."
            ),
        ),
    )


def _validation(story: Story) -> Chapter:
    fits = story.validation.world or story.validation.wrench
    candidates = [fits.reference, fits.corrected, fits.estimate, fits.truth]
    rows = []
    for number, (axis, unit) in enumerate(zip(fits.rows, fits.units, strict=True)):
        values = [f"{fit.rmse[number]:.3f}" for fit in candidates if fit is not None]
        rows.append([f"{axis} ({unit})", *values])
    learned = ""
    if fits.truth is not None and np.any(fits.estimate.rmse < 0.9 * fits.truth.rmse):
        learned = " Where the identified model leaves less, it has learned errors that they make in both motions."
    return Chapter(
        f"Validation: {story.validation.duration:.0f} s of reaching that were not seen",
        (
            *_table([["error of the floor's wrench, rms", "CAD", "scaled CAD", "identified", "truth"], *rows], 32),
            "",
            *_wrap(
                "The scaled CAD is the CAD times the one factor that suits the dance best. All four predict with what "
                "the dance told of the sensors' offsets; what the truth leaves is noise, and what is still wrong of "
                f"sensors and encoders.{learned}"
            ),
        ),
    )


def _payoff(story: Story) -> Chapter:
    rows = [[_NAMES[name], *_tracking(run)] for name, run in story.runs.items()]
    lines = [
        f"{_INDENT}{'':<35}{'centre of mass':>19}{'zero-moment point':>20}",
        *_table([["what the controller believes", "rms", "worst", "rms", "worst"], *rows]),
    ]
    return Chapter(
        "The payoff: one balance controller, one robot",
        (
            *lines,
            "",
            *_wrap(
                f"{_seconds(story.runs.values()):.0f} s of swaying and reaching: distances of the true centre of mass "
                "and of the floor's zero-moment point from where they should be. Task, gains, noise and robot are the "
                "same; only the model differs that the controller believes."
            ),
        ),
    )


def _tracking(run: BalanceRun) -> list[str]:
    if run.fall is not None:
        return [f"fell after {run.fall.start:.1f} s"]
    errors = (run.com_error, run.zmp_error)
    return [f"{1e3 * each:.1f} mm" for error in errors for each in (error.rms, error.greatest)]


def _seconds(runs: Iterable[BalanceRun]) -> float:
    return max(float(run.time[-1]) for run in runs)


def _table(rows: Sequence[Sequence[str]], first: int = 35) -> list[str]:
    """Gives a table: the first column to the left, the others to the right; a row of two cells may be cut short."""
    count = max(len(row) for row in rows)
    whole = [row for row in rows if len(row) == count]
    widths = [max(len(row[column]) for row in whole) + 3 for column in range(1, count)]
    lines = []
    for row in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths, strict=False)]
        lines.append(f"{_INDENT}{row[0]:<{first}}{'   ' + row[1] if len(row) < count else ''.join(cells)}".rstrip())
    return lines


def _wrap(words: str) -> tuple[str, ...]:
    return tuple(textwrap.wrap(words, WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT))


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
