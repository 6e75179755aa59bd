"""The pages on identification and statistics run, and say what they print."""

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "identification.md").read_text(encoding="utf-8")


def test_python_of_the_page_runs(tmp_path):
    (source,) = re.findall(r"(?s)```python\n(.*?)```", PAGE)
    result = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    *_, last = result.stdout.strip().splitlines()
    found, error, true = (float(number) for number in re.findall(r"[\d.]+", last))
    assert abs(found - true) < 3.0 * error
    assert (tmp_path / "g1.json").is_file()
    assert (tmp_path / "g1_identified.urdf").is_file()


def test_python_of_the_page_on_statistics_runs(tmp_path):
    page = (DOCS / "statistics.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"(?s)```python\n(.*?)```", page)
    result = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "settled after" in result.stdout
    assert "count less than fully" in result.stdout
