"""Words within figures: names as plotly shows them, and titles of small plots."""

from __future__ import annotations

from typing import Any


def as_label(name: str) -> str:
    """Gives a name without what plotly would take for markup."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def panel_title(words: str, suffix: str) -> dict[str, Any]:
    """Gives a title above one of several plots of a figure.

    Args:
        words: The title.
        suffix: Of the plot's axes: "" for the first, then "2", "3", ...
    """
    return {
        "text": words,
        "xref": f"x{suffix} domain",
        "yref": f"y{suffix} domain",
        "x": 0.0,
        "y": 1.0,
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 12},
    }
