"""Reports: one HTML file that a person can look at, made from an estimate and what belongs to it."""

from steelyard.report.page import render_report, write_report
from steelyard.report.report import Report
from steelyard.report.sections.balance import show_balance
from steelyard.report.sections.section import Figure, Section
from steelyard.report.traces import Trace, trace_motions

__all__ = ["Figure", "Report", "Section", "Trace", "render_report", "show_balance", "trace_motions", "write_report"]
