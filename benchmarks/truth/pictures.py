"""How far from the truth each method ends, robot by robot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.papers.jovic_pictures import pyplot, save_picture
from benchmarks.truth.scores import CAD, CORRECTED, GEOMETRIC, names, over_runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

COLOURS = {"g1": "#2e86c1", "talos": "#c0392b", "icub": "#1e8449", "romeo": "#b9770e"}
OTHER = "#555555"
SHORT = {"CAD, mass corrected": "CAD,\nmass corrected", "quadratic, alpha = 1": "quadratic,\nalpha = 1",
         "quadratic, alpha = 1, SI units": "quadratic, alpha = 1,\nSI units",
         "quadratic, alpha cross-validated": "quadratic,\nalpha cross-validated"}  # fmt: skip
MOST = 4.0
"""Greatest ratio that is drawn; what is beyond stands on the upper edge."""


def draw_methods(by_robot: Mapping[str, Sequence[Mapping[str, Mapping[str, Any]]]]) -> Path:
    """Draws masses' and affine distances to the truth over the CAD's: a point for each true robot.

    Above the line a method made the CAD worse. Hollow points on the upper edge are further out, or have links that
    cannot exist.
    """
    plt = pyplot()
    runs = [run for each in by_robot.values() for run in each]
    labels = sorted((label for label in names(runs) if label != CAD), key=lambda label: label != CORRECTED)
    figure, panels = plt.subplots(2, 1, figsize=(12.0, 8.2), sharex=True)
    titles = {
        "mass_ratio": "masses: rms error over links, as a share of CAD's",
        "affine_ratio": "whole links: affine-invariant distance to the truth, as a share of CAD's",
    }
    for panel, (what, title) in zip(panels, titles.items(), strict=True):
        for number, (name, each) in enumerate(by_robot.items()):
            shift = 0.17 * (number - 0.5 * (len(by_robot) - 1))
            for place, label in enumerate(labels):
                values = over_runs(each, label, what)
                x = place + shift + np.linspace(-0.05, 0.05, len(values)) if len(values) else np.zeros(0)
                near = values <= MOST
                colour = COLOURS.get(name, OTHER)
                first = name if place == 0 else None
                panel.scatter(x[near], values[near], s=13, color=colour, label=first, linewidths=0, zorder=3)
                panel.scatter(x[~near], np.full(int((~near).sum()), MOST), s=16, facecolors="none",
                              edgecolors=colour, linewidths=0.9, clip_on=False, zorder=3)  # fmt: skip
                if len(values) and np.median(values) <= MOST:
                    panel.hlines(np.median(values), place + shift - 0.075, place + shift + 0.075, color=colour, lw=2.2)
        panel.axhline(1.0, color="#222222", linewidth=1.0)
        panel.text(len(labels) - 0.45, 1.0, "as CAD", fontsize=8, va="center")
        if GEOMETRIC in labels:
            place = labels.index(GEOMETRIC)
            panel.axvspan(place - 0.5, place + 0.5, color="#f2f2f2", zorder=0)
        panel.set_yscale("log")
        masses = what == "mass_ratio"
        ticks = [0.1, 0.2, 0.5, 1.0, 2.0] if masses else [0.7, 0.8, 0.9, 1.0, 2.0]
        edge = f"≥ {MOST:g}" if masses else f"≥ {MOST:g}, or\ncannot exist"
        panel.set_ylim(ticks[0], MOST)
        panel.set_yticks([*ticks, MOST], [*(f"{tick:g}" for tick in ticks), edge])
        panel.minorticks_off()
        panel.set_xlim(-0.5, len(labels) - 0.5)
        panel.set_title(title, loc="left", fontsize=10)
        panel.grid(axis="y", color="#dddddd", linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=9)
    panels[1].set_xticks(range(len(labels)), [SHORT.get(label, label) for label in labels], fontsize=9)
    panels[0].legend(frameon=False, fontsize=9, ncols=len(by_robot), loc="upper right", bbox_to_anchor=(1.0, 1.13))
    figure.tight_layout()
    return save_picture(plt, figure, "truth_methods")


def draw_limits(by_kind: Mapping[str, Mapping[str, Any]], label: str = GEOMETRIC) -> Path:
    """Draws one method's ratios to the CAD's distances as sensors, and then motions, stop being what limits it.

    Args:
        by_kind: Scores in columns (`in_columns`), by what the data are called.
        label: The method.
    """
    plt = pyplot()
    figure, panels = plt.subplots(1, 2, figsize=(12.0, 4.4))
    titles = {"mass_ratio": "masses: rms error, as a share of CAD's", "affine_ratio": "whole links: affine distance"}
    for panel, (what, title) in zip(panels, titles.items(), strict=True):
        for place, columns in enumerate(by_kind.values()):
            for number, (name, scores) in enumerate(columns.items()):
                values = np.array(scores.get(label, {}).get(what, []), dtype=np.float64)
                shift = 0.17 * (number - 0.5 * (len(columns) - 1))
                x = np.linspace(place + shift - 0.05, place + shift + 0.05, len(values))
                colour = COLOURS.get(name, OTHER)
                panel.scatter(x, values, s=13, color=colour, label=name if place == 0 else None, linewidths=0, zorder=3)
                if len(values):
                    panel.hlines(np.median(values), place + shift - 0.075, place + shift + 0.075, color=colour, lw=2.2)
        panel.axhline(1.0, color="#222222", linewidth=1.0)
        panel.set_ylim(0.0, None)
        panel.set_xticks(range(len(by_kind)), list(by_kind), fontsize=9)
        panel.set_title(title, loc="left", fontsize=10)
        panel.grid(axis="y", color="#dddddd", linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].text(-0.45, 1.0, "as CAD", fontsize=8, va="bottom")
    panels[1].legend(frameon=False, fontsize=9, loc="lower left")
    figure.suptitle(f"{label}: a point for each true robot, a line for their median", x=0.01, ha="left", fontsize=10)
    figure.tight_layout()
    return save_picture(plt, figure, "truth_limits")
