"""`steelyard calibrate`: estimate the offsets of the joint encoders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from steelyard.calibration import MOST_POSES, MOUNTING, WIDTH, PlainSums, draw_heights, draw_poses
from steelyard.calibration import calibrate as calibrate_joints
from steelyard.cli.output_folder import Writer, check_folder, name_model_file, write_together
from steelyard.cli.prepared_recordings import print_recordings
from steelyard.cli.progress import show_progress, show_task
from steelyard.cli.shared_options import AsJson, Force, Quiet, Recordings, SetupName
from steelyard.cli.shell_options import with_shell_notes
from steelyard.cli.terminal import print_files, print_next_step, print_summary
from steelyard.model import Marker, Model, load_model
from steelyard.motion import write_calibrated_model
from steelyard.preparation import naming, open_recording
from steelyard.recording import Recording, find_format

_SAMPLED_PER_SECOND, _FITTED_PER_SECOND = 1200.0, 150.0
"""Poses that are sampled, and that are fitted, per second. They only set the time left that a progress bar shows; no
measurement is on record."""


def calibrate(
    setup: SetupName,
    recordings: Recordings,
    joint: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Calibrate only this joint; may be repeated. By default all joints."),
    ] = None,
    imu: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Inertial sensor to use; may be repeated. By default all recorded ones."),
    ] = None,
    marker: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL=FRAME",
            help="Marker to use, and a frame of its link; may be repeated. By default those of the setup.",
        ),
    ] = None,
    flat: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOLE=FROM:TO", help="Seconds in which a sole was flat; may be repeated. By default always."
        ),
    ] = None,
    poses: Annotated[
        int, typer.Option(metavar="COUNT", min=2, help="Use at most this many poses, the most informative ones.")
    ] = MOST_POSES,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=1e-3, help="Time between the poses to choose from.")
    ] = 0.2,
    mounting: Annotated[
        float,
        typer.Option(metavar="DEGREES", min=0.0, help="Standard deviation of the inertial sensors' mounting angles."),
    ] = float(np.rad2deg(MOUNTING)),
    plain: Annotated[
        float | None,
        typer.Option(
            metavar="METRES",
            help="Unweighted sums as in the paper, with orientations as points at this distance; no outlier handling.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write offsets, corrected model file and plots to this folder."
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Estimate the offsets of the joint encoders.

    Needs no motion capture: encoders and inertial sensors, recorded while the robot
    was moved, by hand or by itself, with its feet flat on the floor, are enough.
    Markers of motion capture (columns marker.LABEL.x to .z, in metres) are used
    where there are any: an arm with a fixed base is calibrated with one on its hand.
    Reports which offsets are observable from the poses, with standard errors, in
    which poses a foot was not flat, and how far markers are off, in mm. Writes offsets.json (for `steelyard identify
    --offsets`), offsets.csv (for the firmware), and a copy of the model file that
    takes the encoders' raw readings.

    Exits with 0 when there are offsets, 1 when the data or the problem is bad,
    2 when the call is wrong.

    Example:  steelyard calibrate g1 limp.mcap -o calibrated
    """
    touching = _parse_flat(flat or [])
    labels = _parse_markers(marker or [])
    if plain is not None and not plain > 0.0:
        raise typer.BadParameter(f"{plain:g} m is not a distance; give a positive number", param_hint="--plain")
    model = load_model(setup)
    for each in labels:
        model.frame(each.frame)
    for path in recordings:
        find_format(path)
    names = _file_names(model)
    if output is not None:
        check_folder(output, names, force=force)

    console = Console(quiet=quiet or as_json)
    with show_progress(quiet=quiet) as progress, naming(recordings[-1].name):
        opened = [open_recording(model, path) for path in recordings]
        with show_task(progress, "Calibrating", _expected_seconds(opened, interval, poses)):
            found = calibrate_joints(
                model,
                opened,
                joints=joint,
                imus=imu,
                markers=_with_positions(model, labels) if labels else None,
                touching=touching or None,
                noise=None if plain is None else PlainSums(plain),
                mounting=float(np.deg2rad(mounting)),
                robust=plain is None,
                poses=poses,
                interval=interval,
            )
    print_recordings(console, opened)
    print_summary(console, with_shell_notes(found).summary(min(console.width, WIDTH)))
    files: list[Path] = []
    notes: list[str] = []
    if output is not None:
        drawings: list[Writer] = [lambda path: draw_poses(found, path)]
        if found.fit.problem.contacts:
            drawings.insert(0, lambda path: draw_heights(found, path))
        writers: list[Writer] = [
            found.write,
            found.write,
            lambda path: notes.extend(write_calibrated_model(found.model, found, path).notes),
            *drawings,
        ]
        files = write_together(output, dict(zip(names, writers, strict=False)), force=force)
    print_files(console, files, notes)
    print_next_step(
        console,
        f"next: steelyard identify ... --offsets {output}/offsets.json"
        if output
        else "nothing was written; -o DIR keeps the results",
    )
    if as_json:
        typer.echo(json.dumps({**found.to_dict(), "files": [str(path) for path in files], "file_notes": notes}))


def _expected_seconds(recordings: Sequence[Recording], interval: float, poses: int) -> float:
    sampled = sum(recording.duration for recording in recordings) / interval
    return sampled / _SAMPLED_PER_SECOND + min(sampled, poses) / _FITTED_PER_SECOND


def _parse_flat(texts: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for text in texts:
        name, _, span = text.rpartition("=")
        start, _, end = span.partition(":")
        try:
            interval = (float(start), float(end))
        except ValueError:
            interval = (np.nan, np.nan)
        if not name or not interval[0] < interval[1]:
            raise typer.BadParameter(f"{text!r} is not an interval of time; write left=2.5:30", param_hint="--flat")
        found.setdefault(name, []).append(interval)
    return found


def _parse_markers(texts: Sequence[str]) -> list[Marker]:
    markers = []
    for text in texts:
        label, _, frame = text.partition("=")
        if not label or not frame:
            raise typer.BadParameter(f"{text!r} names no frame; write hand=arm_left_7_link", param_hint="--marker")
        markers.append(Marker(label, frame))
    return markers


def _with_positions(model: Model, markers: Sequence[Marker]) -> list[Marker]:
    """Return the markers; those that the setup has at the same frame with the position it states."""
    known = {(marker.name, marker.frame): marker for marker in model.setup.markers}
    return [known.get((marker.name, marker.frame), marker) for marker in markers]


def _file_names(model: Model) -> list[str]:
    # Soles are flat contacts where the base floats.
    heights = ["heights.png"] if model.base == "floating" and model.setup.soles else []
    plots = [*heights, "poses.png"] if find_spec("matplotlib") else []
    return ["offsets.json", "offsets.csv", name_model_file(model, "calibrated"), *plots]
