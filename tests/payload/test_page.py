"""The page on loads runs, and finds what it fastened."""

from tests.page_runs import run_python


def test_python_of_the_page_runs(tmp_path):
    # All of the page's ```python runs.
    *_, found, alone = run_python("payload.md", tmp_path).strip().splitlines()
    status, mass, *_, link = found.split()
    assert (status, link) == ("found", "left_wrist_yaw_link")
    assert abs(float(mass) - 1.0) < 0.05
    assert alone == "cannot tell"
