"""The section on balance says what the runs say, falls included."""

from __future__ import annotations

import numpy as np

from steelyard.laboratory.balance import BalanceRun
from steelyard.laboratory.events import Event
from steelyard.report import Report, render_report
from steelyard.report.sections.balance import show_balance
from tests.report.reports import NASTY, estimate
from tests.report.test_page import Page


def run(off: float, events: tuple[Event, ...] = ()) -> BalanceRun:
    time = np.arange(50) * 0.01
    still = np.zeros((50, 2))
    away = still + np.array([off, 0.0])
    square = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    return BalanceRun(time, away, still, 2.0 * away, still, still, square, events)


def test_errors_and_falls_are_told_and_names_are_escaped():
    fall = Event("fall", "the robot", 0.31, 0.5, 1.0, "it lay down")
    section = show_balance({NASTY: run(0.02), "identified": run(0.001), "nothing": run(1.0, (fall,))})
    assert [round(row["com"], 6) for row in section.context["rows"][:2]] == [20.0, 1.0]
    assert section.context["rows"][0]["zmp"] == 2.0 * section.context["rows"][0]["com"]
    text = Page(render_report(Report(estimate(), further=(section,)))).text
    assert NASTY in text
    assert "fell after 0.31 s" in text
    assert not any("<img" in line["name"] for line in section.figures["balance"].data)
