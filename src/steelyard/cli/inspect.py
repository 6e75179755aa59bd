"""`steelyard inspect`: check a recording for faults before using it."""

from __future__ import annotations

import enum
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steelyard.cli.output_folder import Writer, check_folder, write_together
from steelyard.cli.prepared_recordings import survey_seconds
from steelyard.cli.progress import show_progress, show_task
from steelyard.cli.shared_options import AsJson, Quiet, Recordings, SetupName
from steelyard.cli.terminal import on_one_line, print_files, print_finding
from steelyard.exceptions import RecordingWarning
from steelyard.inspection import Channel, Inspection, draw_braille, draw_png, inspect_recording, legend, plan_plots
from steelyard.model import load_model
from steelyard.recording import Recording, find_format, join_recordings, read_recording

_STYLES = {"fault": "bold red", "warning": "yellow", "remark": "dim"}
_PLOT_ROWS = 5
"""Height of a plot in the terminal, in rows of characters. Set by judgement: several plots fit a screen."""


class MessageTime(enum.StrEnum):
    """Which time of a bag's messages is used."""

    MESSAGE = "message"
    RECEIVE = "receive"


def inspect(
    setup: SetupName,
    recordings: Recordings,
    clock: Annotated[
        MessageTime | None, typer.Option(help="For bags: the time stamp in the messages, or the time of receipt.")
    ] = None,
    as_written: Annotated[
        bool, typer.Option("--as-written", help="Read columns without the setup's names, units and delays.")
    ] = False,
    join: Annotated[bool, typer.Option("--join", help="Join the recordings: one that was split into files.")] = False,
    channels: Annotated[bool, typer.Option("--channels", help="Show noise and bandwidth of every channel.")] = False,
    plot: Annotated[bool, typer.Option("--plot", help="Plot each group of channels in the terminal.")] = False,
    png: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write the plots to this folder as PNG.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 even if there is a fault.")] = False,
) -> None:
    """Check a recording for faults before using it.

    Checks clock, names, gaps, limits and units, then compares the sensors with the model: mounting, units, offsets and
    delays. Each finding is one sentence; corrections are printed as lines for the setup file.

    Exits with 0 when there is no fault, 1 when there is one, 2 when the call is wrong.

    Example:  steelyard inspect g1 walk.mcap dance.csv --plot
    """
    model = load_model(setup)
    for path in recordings:
        find_format(path)
    if png is not None:
        check_folder(png, [])
    console = Console(quiet=quiet or as_json)
    results = []
    with warnings.catch_warnings():
        # They are among the findings.
        warnings.simplefilter("ignore", RecordingWarning)
        opened: Iterator[Recording] = (
            read_recording(path, model, mapped=not as_written, clock=clock.value if clock else None)
            for path in recordings
        )
        if join:
            opened = iter([join_recordings(list(opened))])
        for recording in opened:
            task = f"Inspecting {on_one_line(recording.name)}"
            with show_progress(quiet=quiet) as progress, show_task(progress, task, survey_seconds(recording)):
                results.append(inspect_recording(recording, model))
            _print(console, results[-1], channels=channels, plot=plot)
    if png is not None:
        print_files(console, _write_pngs(results, png))
    if as_json:
        typer.echo(json.dumps([result.to_dict() for result in results], indent=2))
    if not exit_zero and not all(result.good for result in results):
        raise typer.Exit(1)


def _write_pngs(results: Sequence[Inspection], folder: Path) -> list[Path]:
    """Draw the plots of each recording into a file; recordings of the same name get numbers."""
    writers: dict[str, Writer] = {}
    for number, result in enumerate(results, start=1):
        name = f"{Path(result.name).name}.png"
        name = name if name not in writers else f"{Path(result.name).name}.{number}.png"
        writers[name] = partial(draw_png, result)
    return write_together(folder, writers, force=True)


def _print(console: Console, result: Inspection, *, channels: bool, plot: bool) -> None:
    clock = result.clock
    console.print(Text(result.name, style="bold"), soft_wrap=True)
    gaps = f"{len(clock.gaps)} gaps" if len(clock.gaps) != 1 else "1 gap"
    console.print(
        f"{result.row_count} rows, {clock.end - clock.start:.2f} s at {clock.rate:.5g} Hz, jitter "
        f"{round(1e3 * clock.jitter, 4):g} ms, {gaps}",
        highlight=False,
    )
    console.print(_table(result, channels=channels))
    if result.vertical_force:
        force, weight = result.vertical_force["force"], result.vertical_force["weight"]
        share = f"{100.0 * (force / weight - 1.0):+.1f} %"
        console.print(
            f"mean vertical force {force:.1f} N, the model's weight {weight:.1f} N ({share})", highlight=False
        )
    if result.delays is not None:
        text = ", ".join(str(delay) for delay in result.delays.by_sensor.values())
        print_finding(console, "delays against the encoders: ", text)
    if result.misfit is not None:
        console.print(f"misfit of sensors and model: {result.misfit:.2g} times the default noise", highlight=False)
    if plot:
        _print_plots(console, result)
    for finding in result.findings:
        print_finding(console, f"{finding.severity}: ", finding.words, _STYLES[finding.severity])
    if not result.findings:
        console.print("no faults found", style="green")
    if result.setup_lines:
        console.print("write into the setup:", style="cyan")
        for line in result.setup_lines:
            console.print(Text(f"    {line}", style="cyan"), soft_wrap=True)
    console.print()


def _table(result: Inspection, *, channels: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("channel" if channels else "group", overflow="fold", min_width=14)
    for heading in ("", "rate Hz", "silent", "least", "most", "noise", "band Hz"):
        if heading or not channels:
            table.add_column(heading, justify="right", no_wrap=True)
    groups: dict[str, list[Channel]] = {}
    for channel in result.channels:
        groups.setdefault(channel.name if channels else channel.group, []).append(channel)
    for group, members in groups.items():
        spectra = [channel.spectrum for channel in members if channel.spectrum is not None]
        there = [channel.column for channel in members if channel.column.count]
        span = max(result.clock.end - result.clock.start, 1e-9)
        missing = max(channel.column.silence for channel in members)
        cells = [
            _number([spectrum.rate for spectrum in spectra], np.median),
            f"{missing:.3g} s" if missing > max(0.05, 3.0 * span / max(result.row_count, 1)) else "-",
            f"{min(column.low for column in there):.4g}" if there else "-",
            f"{max(column.high for column in there):.4g}" if there else "-",
            _number([spectrum.noise for spectrum in spectra], np.median),
            _number([spectrum.band for spectrum in spectra], max),
        ]
        name = Text(" ".join(group.split()))
        table.add_row(name, *cells) if channels else table.add_row(name, str(len(members)), *cells)
    return table


def _number(values: Sequence[float], reduce: Callable[[Sequence[float]], Any]) -> str:
    finite = [value for value in values if np.isfinite(value)]
    return f"{reduce(finite):.3g}" if finite else "-"


def _print_plots(console: Console, result: Inspection) -> None:
    width = max(20, min(console.width - 12, 100))
    for plot in plan_plots(result):
        low, high = plot.range
        title = Text(" ".join(plot.title.split()), style="bold") + Text(f"  {plot.unit}", style="dim")
        for name, colour in legend(plot):
            title += Text(f"  {' '.join(name.split())}", style=colour)
        if plot.left_out:
            title += Text(f"  and {plot.left_out} that vary less", style="dim")
        console.print(title, soft_wrap=True)
        rows = draw_braille(plot, width, _PLOT_ROWS)
        for number, row in enumerate(rows):
            label = f"{high:.3g}" if number == 0 else f"{low:.3g}" if number == len(rows) - 1 else ""
            line = Text(f"{label:>10} ", style="dim")
            for character, dot_colour in row:
                line.append(character, style=dot_colour or "")
            console.print(line)
    console.print(
        Text(
            f"{'':>10} {result.clock.start:<{width // 2}.3g}{f'{result.clock.end:.4g} s':>{width - width // 2}}",
            style="dim",
        )
    )
