"""The page on loads runs, and finds what it fastened."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "payload.md").read_text(encoding="utf-8")


def test_python_of_the_page_runs(tmp_path):
    (source,) = re.findall(r"(?s)```python\n(.*?)```", PAGE)
    result = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    *_, found, alone = result.stdout.strip().splitlines()
    status, mass, *_, link = found.split()
    assert (status, link) == ("found", "left_wrist_yaw_link")
    assert abs(float(mass) - 1.0) < 0.05
    assert alone == "cannot tell"
