"""The Python of the page on validation runs."""

from tests.page_runs import run_python


def test_python_of_the_page_runs(tmp_path):
    # All of the page's ```python runs.
    printed = run_python("validation.md", tmp_path, ("duration=10.0", "duration=8.0"))
    assert "Validation of g1_29dof_rev_1_0: cross" in printed
    assert "verdict=" in printed
