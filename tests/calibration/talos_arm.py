"""The real arm of TALOS: its setup, with the names of its columns, and its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.recording.real_data import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

TALOS_ARM = """
[model]
file = "package://example-robot-data/robots/talos_data/robots/talos_reduced.urdf"
base = "fixed"

[[marker]]
name  = "hand"
frame = "arm_left_7_link"

[recording]
time      = "t"
time_unit = "s"

[recording.columns]
"q.*_joint"     = "*_joint"
"marker.hand.*" = "*1"
"""


def talos_left_arm() -> Path:
    """Return the recording; the test is skipped where it is missing."""
    files = sorted((FOLDER / "talos_left_arm").glob("*.csv"))
    if not files:
        pytest.skip("the real recording talos_left_arm is not there; set STEELYARD_DATA to the folder that holds it")
    return files[0]
