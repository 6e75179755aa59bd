"""Caches of kernels survive a change of the source, and what is compiled is found again."""

from __future__ import annotations

import subprocess
import sys

import pytest

KERNELS = """
from steelyard.kinematics.kernel_cache import compile_kernel

@compile_kernel()
def total(given):
    return given.values.sum()
"""

SHAPES = """
from typing import NamedTuple
import numpy as np

class {name}(NamedTuple):
    values: np.ndarray
"""

MAIN = """
import numpy as np, shapes, kernels
print(kernels.total(shapes.{name}(np.arange(4.0))), sum(kernels.total.stats.cache_hits.values()))
"""


@pytest.fixture
def run(tmp_path):
    def call(name: str) -> list[str]:
        (tmp_path / "kernels.py").exists() or (tmp_path / "kernels.py").write_text(KERNELS)
        (tmp_path / "shapes.py").write_text(SHAPES.format(name=name))
        ran = subprocess.run(
            [sys.executable, "-B", "-c", MAIN.format(name=name)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.split()

    return call


def test_an_argument_whose_class_was_renamed_does_not_break_the_cache(run, tmp_path):
    assert run("Before") == ["6.0", "0"]
    assert run("Before") == ["6.0", "1"]
    assert run("After") == ["6.0", "0"]
    assert run("After") == ["6.0", "1"]


def test_a_broken_index_is_rebuilt(run, tmp_path):
    run("Before")
    (index,) = (tmp_path / "__pycache__").glob("kernels.total*.nbi")
    index.write_bytes(index.read_bytes()[:-20])
    assert run("Before") == ["6.0", "0"]
    assert run("Before") == ["6.0", "1"]
