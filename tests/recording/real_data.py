"""Real recordings that do not come with the project: where they are, if they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("STEELYARD_DATA", Path(__file__).parents[3] / "shared" / "data"))


def real_file(name: str) -> Path:
    """Gives a file of real data, or skips the test."""
    if not (FOLDER / name).is_file():
        pytest.skip(f"the real recording {name} is not there; set STEELYARD_DATA to the folder that holds it")
    return FOLDER / name
