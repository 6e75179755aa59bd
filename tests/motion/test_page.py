"""The Python on the page on motions runs."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "motion.md"


def test_python_of_the_page_runs(tmp_path):
    (source,) = re.findall(r"(?s)```python\n(.*?)```", PAGE.read_text(encoding="utf-8"))
    result = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("all channels pass a zero-phase Butterworth filter of order 4")
    assert "downsampled from 500 to" in lines[1]
    assert lines[-1].endswith("True")
