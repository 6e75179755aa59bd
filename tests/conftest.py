"""Settings that every test shares."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Tests share the cores among processes already: a second thread of BLAS in each waits for the first, at full load.
# Read when numpy is imported first, here and in the processes that run the tests.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile(
    "steelyard", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steelyard")


def pytest_terminal_summary(terminalreporter) -> None:
    """Says how many tests were skipped even when none was; pytest's -rs says why."""
    skipped = len(terminalreporter.stats.get("skipped", []))
    terminalreporter.write_line(f"{skipped} tests were skipped" + (", for the reasons above" if skipped else ""))
