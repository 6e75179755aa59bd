"""The Python on the page on motions runs."""

from tests.page_runs import run_python


def test_python_of_the_page_runs(tmp_path):
    # All of the page's ```python runs.
    lines = run_python("motion.md", tmp_path, ("duration=20.0", "duration=8.0")).splitlines()
    assert lines[0].startswith("all channels pass a zero-phase Butterworth filter of order 4")
    assert "downsampled from 500 to" in lines[1]
    assert lines[-1].endswith("True")
