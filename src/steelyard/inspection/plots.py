"""Plots of a recording, group by group: in the terminal with braille dots, or as a PNG."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from steelyard.exceptions import RecordingError
from steelyard.inspection.survey import BINS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.inspection.inspection import Channel, Inspection

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Palette for colour-blind readers (Okabe and Ito)."""

_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bits of the dots of a braille character (Unicode block U+2800), by row and column."""

_UNITS = {
    "q": "rad",
    "q_command": "rad",
    "v": "rad/s",
    "tau": "N m",
    "gyro": "rad/s",
    "accel": "m/s²",
    "quat": "",
    "position": "m",
    "force": "N",
    "moment": "N m",
}


@dataclass(frozen=True, eq=False)
class Plot:
    """Contents of one plot.

    Attributes:
        title: Heading.
        unit: Unit of the readings.
        channels: The channels, at most as many as `COLOURS`.
        left_out: Number of channels of the group that are not shown.
    """

    title: str
    unit: str
    channels: tuple[Channel, ...]
    left_out: int

    @property
    def range(self) -> tuple[float, float]:
        """Minimum and maximum."""
        low = min(float(np.nanmin(channel.lows)) for channel in self.channels)
        high = max(float(np.nanmax(channel.highs)) for channel in self.channels)
        return low, high


def plan_plots(inspection: Inspection) -> list[Plot]:
    """Return a plot for each group of columns; of a large group, the channels with the largest range."""
    groups: dict[str, list[Channel]] = {}
    for channel in inspection.channels:
        if channel.column.count:
            groups.setdefault(channel.group, []).append(channel)
    plots = []
    for title, channels in groups.items():
        unit = _UNITS.get(title.rpartition(".")[2], "")
        by_motion = sorted(channels, key=lambda channel: -(channel.column.high - channel.column.low))
        shown = by_motion[: len(COLOURS)] if len(channels) > len(COLOURS) else channels
        plots.append(Plot(title, unit, tuple(shown), len(channels) - len(shown)))
    return plots


def draw_braille(plot: Plot, width: int, height: int) -> list[list[tuple[str, str | None]]]:
    """Draw a plot as rows of coloured characters; each character has two by four dots.

    Args:
        plot: The plot.
        width: Characters across.
        height: Rows of characters.
    """
    low, high = plot.range
    span = (high - low) or 1.0
    dots = np.zeros((height, width), dtype=np.int64)
    colours: list[list[str | None]] = [[None] * width for _ in range(height)]
    for channel, colour in zip(plot.channels, COLOURS, strict=False):
        for column, (least, greatest) in enumerate(_resample(channel, 2 * width)):
            if np.isnan(least):
                continue
            first = round((1.0 - (greatest - low) / span) * (4 * height - 1))
            last = round((1.0 - (least - low) / span) * (4 * height - 1))
            for dot in range(first, last + 1):
                dots[dot // 4, column // 2] |= _DOTS[dot % 4, column % 2]
                colours[dot // 4][column // 2] = colour
    return [
        [(chr(0x2800 + int(dots[row, column])), colours[row][column]) for column in range(width)]
        for row in range(height)
    ]


def _resample(channel: Channel, count: int) -> list[tuple[float, float]]:
    """Return minimum and maximum in each of `count` bins."""
    edges = np.linspace(0, len(channel.lows), count + 1)
    result = []
    for start, stop in pairwise(edges):
        part = slice(int(start), max(int(start) + 1, int(np.ceil(stop))))
        lows, highs = channel.lows[part], channel.highs[part]
        there = np.isfinite(lows)
        result.append((float(lows[there].min()), float(highs[there].max())) if there.any() else (np.nan, np.nan))
    return result


def draw_png(inspection: Inspection, path: Path) -> None:
    """Draw all plots into one PNG.

    Raises:
        RecordingError: matplotlib is missing, or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError as error:
        raise RecordingError('PNG plots need matplotlib; install it with: pip install "steelyard[plot]"') from error
    plots = plan_plots(inspection)
    if not plots:
        raise RecordingError(f"{inspection.name} holds no readings to draw; check the logger")
    figure = Figure(figsize=(10.0, 1.7 * len(plots) + 0.8), layout="constrained")
    figure.suptitle(_escaped(inspection.name), x=0.01, ha="left", fontsize=11, fontweight="bold")
    axes = np.atleast_1d(figure.subplots(len(plots), 1, sharex=True))
    time = np.linspace(inspection.clock.start, inspection.clock.end, BINS)
    for axis, plot in zip(axes, plots, strict=True):
        for channel, colour in zip(plot.channels, COLOURS, strict=False):
            lows, highs = _bridge_bins(channel.lows), _bridge_bins(channel.highs)
            axis.fill_between(time, lows, highs, color=colour, alpha=0.35, linewidth=0.0)
            axis.plot(time, 0.5 * (lows + highs), color=colour, linewidth=0.9, label=_escaped(short_name(channel)))
        left_out = f" (the {len(plot.channels)} of {len(plot.channels) + plot.left_out} with the largest range)"
        axis.set_title(_escaped(plot.title) + (left_out if plot.left_out else ""), loc="left", fontsize=9)
        axis.set_ylabel(plot.unit, fontsize=8)
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7, frameon=False)
    axes[-1].set_xlabel("time (s)", fontsize=8)
    try:
        figure.savefig(path, dpi=110, format="png")
    except OSError as error:
        raise RecordingError(f"{path} cannot be written ({error.strerror}); check the folder") from error


def short_name(channel: Channel) -> str:
    """Return a channel's name without its group's."""
    for stem in (channel.group, channel.group.rpartition(".")[0]):
        if stem and channel.name.startswith(f"{stem}."):
            return channel.name.removeprefix(f"{stem}.")
    return channel.name


def _bridge_bins(values: FloatArray) -> FloatArray:
    """Interpolate over single empty bins of a slow recording, which has fewer rows than there are bins."""
    there = np.flatnonzero(np.isfinite(values))
    if len(there) < 2 or len(there) == len(values):
        return values
    near = np.min(np.abs(np.arange(len(values))[:, None] - there[None, :]), axis=1) <= np.median(np.diff(there))
    return np.where(near, np.interp(np.arange(len(values)), there, values[there]), np.nan)


def _escaped(text: str) -> str:
    """Escape a name for matplotlib, which would read ``$`` as mathematics, and keep it on one line."""
    return " ".join(text.split()).replace("$", r"\$")


def legend(plot: Plot) -> Sequence[tuple[str, str]]:
    """Return the channels' short names with their colours."""
    return [(short_name(channel), colour) for channel, colour in zip(plot.channels, COLOURS, strict=False)]
