"""The Python of the page on validation runs."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "validation.md").read_text(encoding="utf-8")


def test_python_of_the_page_runs(capsys):
    (block,) = re.findall(r"(?s)```python\n(.*?)```", PAGE)
    exec(compile(block.replace("duration=10.0", "duration=8.0"), "validation.md", "exec"), {})  # noqa: S102
    said = capsys.readouterr().out
    assert "Validation of g1_29dof_rev_1_0: cross" in said
    assert "verdict=" in said
