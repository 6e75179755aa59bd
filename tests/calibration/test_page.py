"""The Python on the page on calibration runs."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "calibration.md"


def test_python_of_the_page_runs(tmp_path):
    (source,) = re.findall(r"(?s)```python\n(.*?)```", PAGE.read_text(encoding="utf-8"))
    source = source.replace("duration=60.0", "duration=25.0")
    result = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "joint offsets" in result.stdout
    assert float(re.findall(r"off by ([\d.]+) rad", result.stdout)[0]) < 0.05
    assert {path.name for path in tmp_path.iterdir()} == {"offsets.json", "offsets.csv", "g1_calibrated.urdf"}
