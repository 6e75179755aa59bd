"""Reports: an estimate, its validation and its recordings as one self-contained HTML file."""

from steelyard.report.page import REPORT_PARTS, check_report_parts, render_report, write_report
from steelyard.report.report import Report
from steelyard.report.sections.balance import show_balance
from steelyard.report.sections.findings import sum_up
from steelyard.report.sections.section import Figure, Section
from steelyard.report.traces import Purpose, Trace, trace_motions

__all__ = [
    "REPORT_PARTS",
    "Figure",
    "Purpose",
    "Report",
    "Section",
    "Trace",
    "check_report_parts",
    "render_report",
    "show_balance",
    "sum_up",
    "trace_motions",
    "write_report",
]
