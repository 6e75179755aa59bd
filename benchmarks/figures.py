"""Figures that a benchmark is asked for: shown in one table, stored with everything needed to run it again."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy
import scipy
from rich.console import Console
from rich.table import Table

import steelyard

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One number with the bar that it has to clear.

    Attributes:
        what: What was measured.
        value: The number.
        bar: What it must reach; None where nothing is asked.
        at_least: Whether the bar is a floor; else a ceiling.
        aim: What was hoped for beyond the bar.
        note: How it came about.
    """

    what: str
    value: float
    bar: float | None = None
    at_least: bool = True
    aim: float | None = None
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the bar is cleared."""
        return self.bar is None or (self.value >= self.bar if self.at_least else self.value <= self.bar)


@dataclass
class Study:
    """A benchmark in the making.

    Attributes:
        name: Its name; results go to ``results/<name>.json``.
        seeds: Seeds that it used.
        figures: Its figures.
        raw: Raw numbers behind them.
    """

    name: str
    seeds: dict[str, int]
    figures: list[Figure] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)

    def finish(self) -> int:
        """Prints the table, stores the results, and gives the exit code."""
        table = Table(title=f"benchmarks.{self.name}", title_justify="left", box=None)
        for heading in ("figure", "value", "bar", "aim", "", "how"):
            table.add_column(heading, justify="right" if heading in ("value", "bar", "aim") else "left")
        for figure in self.figures:
            sign = "" if figure.bar is None else ("≥ " if figure.at_least else "≤ ")
            table.add_row(
                figure.what,
                f"{figure.value:.3g}",
                "" if figure.bar is None else f"{sign}{figure.bar:g}",
                "" if figure.aim is None else f"{figure.aim:g}",
                "" if figure.bar is None else ("met" if figure.met else "MISSED"),
                figure.note,
            )
        Console(width=150).print(table)
        RESULTS.mkdir(exist_ok=True)
        stored = {
            "benchmark": self.name,
            "version": steelyard.__version__,
            "commit": commit(),
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
            "machine": platform.machine(),
            "seeds": self.seeds,
            "figures": [{**asdict(figure), "met": figure.met} for figure in self.figures],
            "raw": self.raw,
        }
        (RESULTS / f"{self.name}.json").write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
        missed = [figure.what for figure in self.figures if not figure.met]
        if missed:
            print(f"missed: {', '.join(missed)}", file=sys.stderr)
        return 1 if missed else 0


def commit() -> str:
    """Gives the commit that is checked out, and whether files differ from it."""
    answer = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607
        capture_output=True, text=True, check=False, cwd=Path(__file__).parent,
    )  # fmt: skip
    return answer.stdout.strip()
