"""Commands as a user runs them, in this process: through the same manners as in a shell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from typer.testing import CliRunner

import steelyard as sy
from steelyard.cli import app
from tests.laboratory.trials import robot, short_trial

if TYPE_CHECKING:
    from steelyard.laboratory import Trial


@dataclass(frozen=True)
class Ran:
    """What came of a command: exit code, standard output, standard error."""

    code: int
    printed: str
    told: str


def run(*arguments: object, columns: int = 80) -> Ran:
    """Runs a command; a bug is raised as it is."""
    result = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": str(columns)})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.output
    return Ran(result.exit_code, result.stdout, result.stderr)


@cache
def short_estimate() -> sy.Estimate:
    """Gives an estimate from a short dance of G1."""
    model = robot("g1")
    motion = sy.reconstruct_motion(model, short_trial("g1", "dance", noise="default").recording)
    return sy.identify(model, sy.gather_evidence(model, motion, nuisance=["wrench_offset"]))


@cache
def long_dance(mass: float = 0.0) -> Trial:
    """Gives a dance of a true G1, long enough to hear its sensors' noise; another one with a load in its left hand."""
    plan = sy.plan_motion(robot("g1"), "dance", seed=2 if mass else 1, duration=20.0)
    return sy.simulate(robot("g1"), plan, seed=0, payloads={"left_rubber_hand": mass})
