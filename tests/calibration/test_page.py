"""The Python on the page on calibration runs."""

import re

from tests.page_runs import run_python


def test_python_of_the_page_runs(tmp_path):
    # All of the page's ```python runs.
    printed = run_python("calibration.md", tmp_path, ("duration=60.0", "duration=25.0"))
    assert "joint offsets" in printed
    assert float(re.findall(r"off by ([\d.]+) rad", printed)[0]) < 0.05
    assert {path.name for path in tmp_path.iterdir()} == {"offsets.json", "offsets.csv", "g1_calibrated.urdf"}
