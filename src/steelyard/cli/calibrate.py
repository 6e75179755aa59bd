"""`steelyard calibrate`: by how much are the joints' encoders off?"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from steelyard.calibration import MOST_POSES, MOUNTING, WIDTH, Offsets, PlainSums, draw_heights, draw_poses
from steelyard.calibration import calibrate as calibrate_joints
from steelyard.cli.output_folder import check_folder, write_together
from steelyard.cli.progress import show_progress, show_usual
from steelyard.cli.recording_reader import Reader
from steelyard.cli.shared_options import AsJson, Force, Quiet, Recordings, SetupName
from steelyard.cli.terminal import print_wrapped, tell_next
from steelyard.model import Model, load_model
from steelyard.motion import write_calibrated_model
from steelyard.recording import Recording, find_format

_SEEN_A_SECOND, _FITTED_A_SECOND = 1200.0, 150.0
"""Poses that are looked at, and fitted, in a second, about."""
_ENDINGS = {"URDF": ".urdf", "MJCF": ".xml"}


def calibrate(
    setup: SetupName,
    recordings: Recordings,
    joint: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Look for this joint's offset alone; may be repeated. By default all."),
    ] = None,
    imu: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Inertial sensor to use; may be repeated. By default all recorded."),
    ] = None,
    flat: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOLE=FROM:TO", help="Seconds in which a sole was flat; may be repeated. By default always."
        ),
    ] = None,
    poses: Annotated[
        int, typer.Option(metavar="COUNT", min=2, help="Use so many poses at most, those that tell most.")
    ] = MOST_POSES,
    interval: Annotated[float, typer.Option(metavar="SECONDS", min=1e-3, help="Between the poses to pick from.")] = 0.2,
    mounting: Annotated[
        float,
        typer.Option(
            metavar="DEGREES", min=0.0, help="How far inertial sensors may be turned against their frames (one sd)."
        ),
    ] = float(np.rad2deg(MOUNTING)),
    plain: Annotated[
        float | None,
        typer.Option(
            metavar="METRES",
            help="Plain sums as in the paper, orientations by points at this distance; nothing is set aside.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write the offsets, the corrected model file and pictures there."
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """By how much are the joints' encoders off?

    Finds joint offsets without motion capture: from what encoders and inertial
    sensors said while the robot was moved, by hand or by itself, with its feet
    flat on the floor. Says which offsets the poses tell, how well, and in which
    of them a foot was not flat. Writes offsets.json (for `steelyard identify
    --offsets`), offsets.csv (for the firmware), and a copy of the model file that
    takes the encoders' readings as they are.

    Exits with 0 when there are offsets, 1 when the data or the problem is bad,
    2 when the call is wrong.

    Example:  steelyard calibrate g1 limp.mcap -o calibrated
    """
    touching = _parse_flat(flat or [])
    if plain is not None and not plain > 0.0:
        raise typer.BadParameter(f"{plain:g} m is no distance; give more than none", param_hint="--plain")
    model = load_model(setup)
    for path in recordings:
        find_format(path)
    names = _file_names(model)
    if output is not None:
        check_folder(output, names, force=force)

    console = Console(quiet=quiet or as_json)
    with show_progress(quiet=quiet) as progress:
        reader = Reader(model, None, progress)
        with reader.naming():
            opened = reader.recordings(recordings)
            with show_usual(progress, "Calibrating", _usual_seconds(opened, interval, poses)):
                found = calibrate_joints(
                    model,
                    opened,
                    joints=joint,
                    imus=imu,
                    touching=touching or None,
                    noise=None if plain is None else PlainSums(plain),
                    mounting=float(np.deg2rad(mounting)),
                    robust=plain is None,
                    poses=poses,
                    interval=interval,
                )
    reader.tell(console)
    console.print(Text(f"\n{found.summary(min(console.width, WIDTH))}\n"), soft_wrap=True)
    files, notes = ([], []) if output is None else _write(output, found, names)
    for path in files:
        console.print(Text(f"written: {path}", style="green"), soft_wrap=True)
    tell_next(console, output, f"next: steelyard identify ... --offsets {output}/offsets.json" if output else "")
    for note in notes:
        print_wrapped(console, f"  {note}", "yellow")
    if as_json:
        typer.echo(json.dumps({**found.to_dict(), "files": [str(path) for path in files], "file_notes": notes}))


def _usual_seconds(recordings: Sequence[Recording], interval: float, poses: int) -> float:
    """Gives about how long it takes to look at all poses, and to fit some of them."""
    seen = sum(recording.duration for recording in recordings) / interval
    return seen / _SEEN_A_SECOND + min(seen, poses) / _FITTED_A_SECOND


def _parse_flat(texts: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for text in texts:
        name, _, span = text.rpartition("=")
        start, _, end = span.partition(":")
        try:
            stretch = (float(start), float(end))
        except ValueError:
            stretch = (np.nan, np.nan)
        if not name or not stretch[0] < stretch[1]:
            raise typer.BadParameter(f"{text!r} is no stretch of time; write left=2.5:30", param_hint="--flat")
        found.setdefault(name, []).append(stretch)
    return found


def _file_names(model: Model) -> list[str]:
    source = model.description.file
    model_file = f"{(model.setup.path or source.path).stem}_calibrated{_ENDINGS[source.format]}"
    pictures = ["heights.png", "poses.png"] if find_spec("matplotlib") else []
    return ["offsets.json", "offsets.csv", model_file, *pictures]


def _write(folder: Path, found: Offsets, names: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Writes all files, and gives them with what to know of the model file."""
    notes: list[str] = []
    writers: list[Callable[[Path], object]] = [
        found.write,
        found.write,
        lambda path: notes.extend(write_calibrated_model(found.model, found, path).notes),
        lambda path: draw_heights(found, path),
        lambda path: draw_poses(found, path),
    ]
    return write_together(folder, dict(zip(names, writers, strict=False))), notes
