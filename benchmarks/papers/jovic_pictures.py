"""Figures 4 and 5 of [jovic2015], 5 to 7 of [jovic2016]: forces over time, and masses link by link."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.kinematics import quaternion_rotations
from steelyard.regression.gathering import residuals
from steelyard.regression.rows import base_wrench

if TYPE_CHECKING:
    from steelyard.arrays import FloatArray

    from .jovic import Played

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
MEASURED, IDENTIFIED, CAD, TRUE = "#222222", "#c0392b", "#2e86c1", "#1e8449"


def draw_forces(played: Played, parameters: FloatArray, name: str) -> Path:
    """Draws the ground's reaction force and moment of the unseen motion: measured, identified, CAD."""
    plt = pyplot()
    motion = played.unseen
    turn = quaternion_rotations(motion.orientation)
    curves: list[tuple[str, str, FloatArray]] = []
    for label, colour, candidate in (("CAD", CAD, played.model.parameters), ("identified", IDENTIFIED, parameters)):
        needed = base_wrench(played.model, motion, candidate)
        if not curves:
            felt = needed - residuals(played.model, motion, candidate)
            curves.append(("measured", MEASURED, _world(turn, felt)))
        curves.append((label, colour, _world(turn, needed)))
    figure, axes = plt.subplots(3, 2, figsize=(12.0, 7.2), sharex=True)
    for row, axis in enumerate("xyz"):
        for column, what in enumerate(("GRF", "GRFM")):
            panel = axes[row, column]
            for label, colour, values in curves:
                style: dict[str, Any] = {"linewidth": 2.2, "alpha": 0.55} if label == "measured" else {"linewidth": 1.0}
                panel.plot(motion.time, values[:, 3 * column + row], label=label, color=colour, **style)
            panel.set_ylabel(f"{what} {axis}, {'N' if column == 0 else 'N m'}", fontsize=9)
            panel.spines[["top", "right"]].set_visible(False)
            panel.tick_params(labelsize=8)
    for panel in axes[-1]:
        panel.set_xlabel("s", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=3, frameon=False, fontsize=10)
    figure.suptitle(f"{played.name}, unseen motion", x=0.01, ha="left", fontsize=10)
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 0.98))
    return save_picture(plt, figure, name)


def draw_masses(played: Played, parameters: FloatArray, name: str, *, percent: bool = False) -> Path:
    """Draws the mass of each link: identified and CAD as bars, the true one as a line, the expected one dotted.

    Args:
        played: The robot.
        parameters: The identified ones.
        name: Of the picture.
        percent: Whether the identified masses are written above the bars, in per cent of the CAD's.
    """
    plt = pyplot()
    links = played.model.links
    places = np.arange(len(links))
    cad, found, true = played.model.parameters[:, 0], parameters[:, 0], played.truth[:, 0]
    figure, panel = plt.subplots(figsize=(12.0, 4.6))
    panel.bar(places - 0.2, cad, 0.4, color=CAD, label="CAD")
    panel.bar(places + 0.2, found, 0.4, color=IDENTIFIED, label="identified")
    panel.hlines(true, places - 0.42, places + 0.42, color=MEASURED, linewidth=1.6, label="true")
    for number, (link, mass) in enumerate(played.expected.items()):
        place = links.index(link)
        panel.hlines(
            mass, place - 0.55, place + 0.55, color=TRUE, linestyle=":", linewidth=2.0,
            label="expected" if number == 0 else None,
        )  # fmt: skip
    if percent:
        for place, share in enumerate(100.0 * found / cad):
            top = max(found[place], cad[place], true[place])
            panel.text(place, top + 0.012 * cad.max(), f"{share:.0f}", ha="center", fontsize=7)
    panel.set_xticks(places, [_short(link) for link in links], rotation=60, ha="right", fontsize=7)
    panel.set_ylabel("mass, kg", fontsize=9)
    panel.set_xlim(-0.8, len(links) - 0.2)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=9)
    panel.set_title(
        f"{played.name}{'; above the bars: identified, % of CAD' if percent else ''}", loc="left", fontsize=10
    )
    figure.tight_layout()
    return save_picture(plt, figure, name)


def _world(turn: FloatArray, wrench: FloatArray) -> FloatArray:
    return np.einsum("nij,nhj->nhi", turn, wrench.reshape(len(wrench), 2, 3)).reshape(len(wrench), 6)


def _short(link: str) -> str:
    return link.removesuffix("_link").replace("_", " ")


def pyplot() -> Any:
    """Gives matplotlib's plotting, without a screen."""
    import matplotlib  # noqa: PLC0415  (an extra)

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    return plt


def save_picture(plt: Any, figure: Any, name: str) -> Path:
    """Writes a figure to the documentation's pictures."""
    PICTURES.mkdir(exist_ok=True)
    path = PICTURES / f"{name}.png"
    figure.savefig(path, dpi=90)
    plt.close(figure)
    return path
