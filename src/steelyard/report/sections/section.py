"""A section of the report: what its template needs, and the figures that it draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A figure for plotly.js; the page gives it colours by theme and by each trace's role.

    Attributes:
        data: Traces as plotly takes them, arrays packed; `meta.role` names whose they are.
        layout: As plotly takes it.
        alt: What it shows, for those who do not see it.
        height: Pixels.
    """

    data: list[dict[str, Any]]
    layout: dict[str, Any]
    alt: str
    height: int = 420


@dataclass(frozen=True)
class Section:
    """A section.

    Attributes:
        key: Its place in the page's address.
        title: Its heading.
        template: Name of its template.
        context: What the template shows: plain numbers and texts, which it escapes.
        figures: By key; the template says where each goes.
    """

    key: str
    title: str
    template: str
    context: dict[str, Any]
    figures: dict[str, Figure] = field(default_factory=dict)
