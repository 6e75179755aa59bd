"""`steelyard simulate`: simulate a motion in the virtual laboratory, where the truth is known."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console

import steelyard
from steelyard.cli.interrupts import run_in_thread
from steelyard.cli.output_folder import Writer, check_file, write_files, write_json
from steelyard.cli.progress import show_progress, show_task
from steelyard.cli.shared_options import AsJson, Force, Quiet, SetupName, check_names, parse_pair
from steelyard.cli.terminal import print_files, print_note
from steelyard.exceptions import LaboratoryError, SteelyardError
from steelyard.model import PARAMETER_SYMBOLS, load_model
from steelyard.recording import check_ending

if TYPE_CHECKING:
    from steelyard.laboratory import Trial
    from steelyard.model import Model

_PLANNING_SECONDS, _REAL_TIME_FACTOR = 1.0, 8.0
"""Expected time of planning a motion, s, and speed of the simulation relative to real time. They only set the time left
that a progress bar shows; no measurement is on record."""


def complete_motions(incomplete: str) -> list[str]:
    """Return the motions that begin with what is typed; none where the laboratory is not installed."""
    try:
        return [name for name in _motions() if name.startswith(incomplete)]
    except SteelyardError:
        return []


def simulate(
    setup: SetupName,
    motion: Annotated[
        str,
        typer.Argument(metavar="MOTION", help="sway, reach, dance, postures or limp.", autocompletion=complete_motions),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The recording: .csv, .csv.gz, .parquet, .npz, .h5, .mcap or .bag; without an ending, a ROS 2 bag.",
        ),
    ],
    seed: Annotated[int, typer.Option(metavar="NUMBER", min=0, help="Each number draws another robot and motion.")] = 0,
    duration: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Duration; by default that of the motion.")
    ] = None,
    noise: Annotated[bool, typer.Option("--noise/--no-noise", help="Realistic or perfect sensors.")] = True,
    spread: Annotated[
        float,
        typer.Option(metavar="SHARE", min=0.0, max=0.5, help="Relative difference of the true robot from its model."),
    ] = 0.2,
    payload: Annotated[
        list[str] | None, typer.Option(metavar="LINK=KG", help="Add a payload to a link or frame; may be repeated.")
    ] = None,
    offset_max: Annotated[
        float, typer.Option(metavar="DEGREES", min=0.0, help="Largest encoder offset, drawn for each joint.")
    ] = 0.0,
    truth: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write the true parameters and errors.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a motion in the virtual laboratory, where the truth is known.

    A robot that differs from its model moves on a floor, and its realistic sensors are recorded. With --truth, the true
    masses, centres of mass and inertias, encoder offsets and sensor errors are written too: to test Steelyard, or other
    software, where the answer is known.

    Exits with 0 when there is a recording, 1 when there is none (the robot fell, or cannot move so), 2 when the call
    is wrong.

    Example: steelyard simulate g1 dance -o dance.csv --truth truth.json
    """
    check_names([motion], _motions(), "MOTION")
    payloads = dict(parse_pair(entry, "--payload", "LINK=KG", "torso_link=2") for entry in payload or [])
    if truth is not None and truth.suffix.lower() != ".json":
        raise typer.BadParameter(f"{str(truth)!r} does not end in .json", param_hint="--truth")
    model = load_model(setup)
    check_ending(output)
    check_file(output, force=force)
    if truth is not None:
        if truth.absolute() == output.absolute():
            raise typer.BadParameter("recording and truth cannot be the same file", param_hint="--truth")
        check_file(truth, force=force)

    console = Console(quiet=quiet or as_json)
    with (
        show_progress(quiet=quiet) as progress,
        show_task(progress, f"Simulating {motion}", _expected(motion, duration)),
    ):
        trial: Trial = run_in_thread(
            lambda: _simulate(
                model,
                motion,
                seed=seed,
                duration=duration,
                noise="default" if noise else None,
                spread=spread,
                payloads=payloads,
                offsets=float(np.deg2rad(offset_max)) if offset_max else None,
            )
        )
    writers: dict[Path, Writer] = {output: trial.recording.write}
    if truth is not None:
        writers[truth] = lambda path: write_json(path, truth_to_dict(trial, model))
    files = write_files(writers, force=force)
    for line in _describe(trial, model):
        print_note(console, line, "")
    print_files(console, files)
    if as_json:
        typer.echo(json.dumps({**_to_dict(trial), "files": [str(path) for path in files]}))


def truth_to_dict(trial: Trial, model: Model) -> dict[str, Any]:
    """Return the truth, ready for JSON: SI units, parameters in the order of the model."""
    true = trial.truth
    return {
        **_to_dict(trial),
        "links": list(true.model.links),
        "parameter_names": list(PARAMETER_SYMBOLS),
        "parameters": true.parameters.tolist(),
        "masses": true.masses,
        "total_mass": true.model.total_mass,
        "model_parameters": model.parameters.tolist(),
        "offsets": dict(true.offsets),
        "biases": dict(true.biases),
        "armature": dict(true.armature),
    }


def _motions() -> tuple[str, ...]:
    """Return the names of the motions.

    Raises:
        LaboratoryError: MuJoCo is missing.
    """
    _ = steelyard.simulate
    motions: tuple[str, ...] = import_module("steelyard.laboratory").MOTIONS
    return motions


def _expected(motion: str, duration: float | None) -> float:
    durations: dict[str, float] = import_module("steelyard.stance").MOTION_DURATIONS
    return _PLANNING_SECONDS + (durations[motion] if duration is None else duration) / _REAL_TIME_FACTOR


def _simulate(model: Model, motion: str, **options: Any) -> Trial:
    """Simulate a trial and its recording.

    Raises:
        LaboratoryError: The robot fell.
    """
    trial = steelyard.simulate(model, motion, **options)
    for event in trial.events:
        if event.kind == "fall":
            raise LaboratoryError(
                f"{model.name} fell at {event.start:.2f} s ({event.detail}), and nothing was written; choose another "
                "motion or seed, or a lighter payload"
            )
    _ = trial.recording
    return trial


def _to_dict(trial: Trial) -> dict[str, Any]:
    return {
        "robot": trial.truth.model.name,
        "motion": trial.trajectory.name,
        "duration": trial.recording.duration,
        "rows": len(trial.recording),
        "columns": list(trial.recording.columns),
        "seed": trial.seed,
        "events": [{"kind": event.kind, "start": event.start, "detail": event.detail} for event in trial.events],
    }


def _describe(trial: Trial, model: Model) -> list[str]:
    recording, true = trial.recording, trial.truth
    lines = [
        f"{true.model.name}, {trial.trajectory.name!r}: {len(recording)} rows, {len(recording.columns)} columns, "
        f"{recording.duration:.2f} s",
        f"true mass {true.model.total_mass:.3f} kg, mass of the model {model.total_mass:.3f} kg",
    ]
    worst = max(true.offsets, key=lambda joint: abs(true.offsets[joint]), default=None)
    if worst is not None and true.offsets[worst]:
        lines.append(f"encoder offsets are up to {abs(np.rad2deg(true.offsets[worst])):.2f}° ({worst})")
    lines += [f"{event.kind} at {event.start:.2f} s: {event.detail}" for event in trial.events]
    return lines
