"""The pages on identification and statistics run, and say what they print."""

import re

from tests.page_runs import run_python


def test_python_of_the_page_runs(tmp_path):
    # All of the page's ```python runs, as on the other pages.
    printed = run_python("identification.md", tmp_path, ("duration=20.0", "duration=8.0"))
    *_, last = printed.strip().splitlines()
    found, error, true = (float(number) for number in re.findall(r"[\d.]+", last))
    assert abs(found - true) < 3.0 * error
    assert (tmp_path / "g1.json").is_file()
    assert (tmp_path / "g1_identified.urdf").is_file()


def test_python_of_the_page_on_statistics_runs(tmp_path):
    printed = run_python("statistics.md", tmp_path, ("duration=30.0", "duration=12.0"))
    assert "settled after" in printed
    assert "count less than fully" in printed
