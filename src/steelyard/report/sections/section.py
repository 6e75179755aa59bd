"""A section of the report: the context of its template, and its figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A figure for plotly.js; the page colours it by theme and by the role of each trace.

    Attributes:
        data: Traces of plotly, with packed arrays; `meta.role` is the role that a trace is coloured by.
        layout: Layout of plotly.
        alt: Description for screen readers.
        height: Height, pixels.
    """

    data: list[dict[str, Any]]
    layout: dict[str, Any]
    alt: str
    height: int = 420


@dataclass(frozen=True)
class Section:
    """A section of the report.

    Attributes:
        key: Its anchor in the page.
        title: Its heading.
        template: The file name of its template.
        context: Plain numbers and texts for the template, which escapes them.
        figures: Its figures, by the key that the template places them by.
    """

    key: str
    title: str
    template: str
    context: dict[str, Any]
    figures: dict[str, Figure] = field(default_factory=dict)
