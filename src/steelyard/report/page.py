"""The report as one HTML file: rendered templates, packed numbers and plotly.js, so that nothing is fetched."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard import __version__
from steelyard.exceptions import SteelyardError
from steelyard.report.packing import as_json, compress_text
from steelyard.report.sections.base_parameters import list_base_parameters
from steelyard.report.sections.calibration import show_offsets
from steelyard.report.sections.excitation import show_excitation
from steelyard.report.sections.findings import describe_findings
from steelyard.report.sections.links import list_links
from steelyard.report.sections.notes import list_notes, show_provenance
from steelyard.report.sections.prediction import show_validation
from steelyard.report.sections.recordings import show_contacts, show_residuals, show_wrenches
from steelyard.report.sections.robot import show_robot
from steelyard.report.sections.truth import show_truth
from steelyard.report.traces import thin_traces
from steelyard.whole_file import draft_of

if TYPE_CHECKING:
    from jinja2 import Environment

    from steelyard.report.report import Report
    from steelyard.report.sections.section import Section

REPORT_PARTS = ("jinja2", "plotly", "fast_simplification")
"""Packages of the extra `report`."""

_MOST_NUMBERS = 180_000
"""Largest count of numbers in all traces together: keeps a page below four megabytes, which a test checks."""

_FILES = resources.files("steelyard.report") / "templates"


def write_report(report: Report, path: str | Path) -> None:
    """Write a report as one HTML file that opens without a network.

    Args:
        report: The report.
        path: The file; an existing one is replaced, completely or not at all.

    Raises:
        SteelyardError: The file cannot be written, or the extra `report` is not installed.
    """
    page = render_report(report)
    target = Path(path)
    try:
        with draft_of(target) as draft:
            draft.write_text(page, encoding="utf-8")
    except OSError as error:
        raise SteelyardError(
            f"{target}: the report cannot be written ({error.strerror or error}); name another file, or free disk space"
        ) from error


def render_report(report: Report) -> str:
    """Render the page as text.

    Raises:
        SteelyardError: The extra `report` is not installed.
    """
    environment = _environment()
    report = replace(report, traces=tuple(thin_traces(report.traces, _MOST_NUMBERS)))
    robot, drawn = show_robot(report)
    found: list[Section | None] = [
        describe_findings(report),
        robot,
        list_links(report),
        show_validation(report),
        *report.further,
        show_truth(report),
        show_offsets(report),
        *([show_wrenches(report), show_residuals(report), show_contacts(report)] if report.traces else []),
        show_excitation(report),
        list_base_parameters(report),
        list_notes(report),
        show_provenance(report),
    ]
    sections = [section for section in found if section is not None]
    figures: dict[str, Any] = {}
    rendered = []
    for section in sections:
        figures |= {key: {"data": each.data, "layout": each.layout} for key, each in section.figures.items()}
        body = environment.get_template(section.template).render(
            section.context, figures=section.figures, section=section
        )
        rendered.append({"key": section.key, "title": section.title, "body": body})
    return environment.get_template("page.html").render(
        title=f"{report.estimate.model.name}, identified",
        version=__version__,
        sections=rendered,
        style=_text("page.css"),
        script=_text("page.js").replace("  // robot.js\n", _text("robot.js")),
        library=_library(),
        numbers=compress_text(as_json({"figures": figures, "scene": drawn})),
    )


def _text(name: str) -> str:
    return (_FILES / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Return the environment of the templates, which escape everything that they show."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise _missing("jinja2") from error
    environment = Environment(
        loader=PackageLoader("steelyard.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = _figure_number
    return environment


def _figure_number(value: float | None, digits: int = 3) -> str:
    """Format a number to significant digits with a true minus sign; a dash for None."""
    if value is None:
        return "\N{EN DASH}"
    text = f"{value:.{digits}g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = f"{mantissa}e{int(exponent)}"
    return text.replace("-", "\N{MINUS SIGN}")


@lru_cache(maxsize=1)
def _library() -> str:
    """Return plotly.js, compressed."""
    try:
        from plotly.offline import get_plotlyjs  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise _missing("plotly") from error
    return compress_text(get_plotlyjs())


def check_report_parts() -> None:
    """Check, before any work is done, that everything that a report needs is installed.

    Raises:
        SteelyardError: The extra `report` is not installed.
    """
    for package in REPORT_PARTS:
        if find_spec(package) is None:
            raise _missing(package)


def _missing(package: str) -> SteelyardError:
    return SteelyardError(
        f'a report needs {package}, which is not installed: pip install "steelyard[report]", or leave the report out'
    )
