"""Plots of a calibration: corner heights before and after, and the robot's poses [yamane2011, Figs. 3 and 4]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.calibration.frame_chains import chains_to
from steelyard.exceptions import RecordingError

if TYPE_CHECKING:
    from pathlib import Path

    from steelyard.arrays import FloatArray
    from steelyard.calibration.offsets import Offsets

BEFORE, AFTER, FAINT = "#0072b2", "#d55e00", "#8a8a8a"
_SHOWN = 4
"""Poses in a picture: as many as a page's width holds."""


def draw_heights(offsets: Offsets, path: Path) -> None:
    """Plot the height of every corner over the mean of its plane, pose by pose, before and after [yamane2011, Fig. 4].

    Raises:
        RecordingError: matplotlib is missing, nothing lay flat, or the file cannot be written.
    """
    figure_class = _figure_class()
    if not offsets.fit.problem.contacts:
        raise RecordingError("these poses have no flat contact, so there are no heights to plot")
    figure = figure_class(figsize=(10.0, 4.2), layout="constrained")
    axis = figure.subplots()
    poses = np.arange(len(offsets.poses))
    for heights, colour, style, label in (
        (offsets.heights_before, BEFORE, (0, (4, 2)), "before"),
        (offsets.heights_after, AFTER, "solid", "after"),
    ):
        lines = axis.plot(poses, 1e3 * heights, color=colour, linestyle=style, linewidth=0.8, alpha=0.8)
        lines[0].set_label(f"{label}: {1e3 * np.sqrt(np.nanmean(heights**2)):.2f} mm rms")
    named = np.flatnonzero(np.isin(offsets.picked, [suspect.pose for suspect in offsets.suspect_poses]))
    if len(named):
        axis.plot(
            named, np.zeros(len(named)), "x", color="black", markersize=6, label="set aside", linestyle="none", zorder=5
        )
    axis.set_xlabel("pose")
    axis.set_ylabel("height over the plane's mean (mm)")
    axis.set_title(f"{_plain(offsets.model.name)}: corners of what lies flat", loc="left", fontsize=11)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    _save(figure, path)


def draw_poses(offsets: Offsets, path: Path) -> None:
    """Plot a few poses before and after, from the side and from the front [yamane2011, Fig. 3].

    As in the paper the root is fixed: its position is not observable. The poses are those that changed most.

    Raises:
        RecordingError: matplotlib is missing, or the file cannot be written.
    """
    figure_class = _figure_class()
    problem, state = offsets.fit.problem, offsets.fit.solved.state
    moved = np.nanmax(np.abs(offsets.heights_before), axis=1, initial=0.0)
    order = np.argsort(-moved)
    # Evenly spaced among the half that changed most, not four of a kind.
    chosen = np.sort(order[np.linspace(0, max(len(order) // 2 - 1, 0), min(_SHOWN, len(order))).astype(np.int64)])
    figure = figure_class(figsize=(1.7 * 2 * len(chosen), 6.4), layout="constrained")
    axes = np.atleast_2d(figure.subplots(2, 2 * len(chosen)))
    none = np.zeros_like(state.offsets)
    stages = (("before", BEFORE, none, offsets.roots_before), ("after", AFTER, state.offsets, state.root))
    for row, (label, colour, shift, root) in enumerate(stages):
        positions = np.array(problem.poses.positions)[chosen]
        positions[:, problem.chains.columns] += shift
        sticks, patches = _outline(offsets, positions, root[chosen])
        for column, pose in enumerate(chosen):
            # Heights as the front view shows them: the lower foot is where the line is.
            ground = np.mean([patch[column][:, 2].mean() for patch in patches]) if patches else 0.0
            for view, across in enumerate((0, 1)):
                axis = axes[row, 2 * column + view]
                for stick in sticks:
                    axis.plot(stick[column][:, across], stick[column][:, 2], color=FAINT, linewidth=2.0)
                for patch in patches:
                    closed = np.concatenate([patch[column], patch[column][:1]])
                    axis.plot(closed[:, across], closed[:, 2], color=colour, linewidth=2.2)
                axis.axhline(ground, color="black", linewidth=0.6, linestyle=":")
                axis.set_aspect("equal")
                axis.set_axis_off()
                if row == 0:
                    axis.set_title(f"pose {pose}, {'side' if across == 0 else 'front'}", fontsize=9)
        axes[row, 0].text(-0.02, 0.5, label, transform=axes[row, 0].transAxes, rotation=90, va="center", ha="right")
    _save(figure, path)


def _outline(offsets: Offsets, positions: FloatArray, root: FloatArray) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return lines from joint to joint and outlines of contacts in world axes, each of shape (n_poses, n_points, 3)."""
    model = offsets.model
    names = [body.name for body in model.bodies]
    places = chains_to(model, names).place(positions)
    spots = np.einsum("nij,fnj->fni", root, places.positions)
    sticks = [
        np.stack([spots[body.parent], spots[index]], axis=1)
        for index, body in enumerate(model.bodies)
        if body.parent >= 0
    ]
    contacts = offsets.fit.problem.contacts
    if not contacts:
        return sticks, []
    chains = chains_to(model, [contact.frame for contact in contacts])
    there = chains.place(positions)
    patches = []
    for contact in contacts:
        frame = chains.frames.index(contact.frame)
        inside = there.positions[frame][:, None] + np.einsum("nij,cj->nci", there.rotations[frame], contact.vertices)
        patches.append(np.einsum("nij,ncj->nci", root, inside))
    return sticks, patches


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError as error:
        raise RecordingError('pictures need matplotlib; install it with: pip install "steelyard[plot]"') from error
    return Figure


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=110, format="png")
    except OSError as error:
        raise RecordingError(f"{path} cannot be written ({error.strerror}); check the folder") from error


def _plain(text: str) -> str:
    """Escape a name, so that matplotlib does not typeset it as mathematics, and put it on one line."""
    return " ".join(text.split()).replace("$", r"\$")
