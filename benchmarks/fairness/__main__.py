"""Runs the study: ``python -m benchmarks.fairness``."""

from __future__ import annotations

import argparse
import json
import sys

from benchmarks.fairness.glitches import glitches
from benchmarks.fairness.loads import loads
from benchmarks.fairness.verdicts import confusion, null
from benchmarks.figures import RESULTS, Figure, Study, commit

PARTS = {"null": null, "verdicts": confusion, "glitches": glitches, "loads": loads}

SEEDS = {"clean": 1500, "null": 1600, "glitches": 1300, "loads": 1400, "robots": 25}
"""First seeds of the parts, on which nothing was tuned, and the number of true robots of each model."""


def main() -> int:
    """Runs the parts asked for; the others keep their stored figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness")
    parser.add_argument("--part", nargs="*", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--seed", type=int, help="first seed of all parts instead, to develop on; stored apart")
    parser.add_argument("--robots", type=int, default=SEEDS["robots"], help="true robots of each model")
    options = parser.parse_args()
    seeds = {**SEEDS, "robots": options.robots}
    if options.seed is not None:
        seeds |= dict.fromkeys(("clean", "null", "glitches", "loads"), options.seed)
    name = "fairness" if options.seed is None else f"fairness_{options.seed}"
    done = {}
    for part in options.part:
        one = Study(name, seeds)
        PARTS[part](one)
        done[part] = {"commit": commit(), "figures": [vars(figure) for figure in one.figures], "raw": one.raw}
    # Parts may run side by side: those that others finished meanwhile are kept.
    stored = RESULTS / f"{name}.json"
    before = json.loads(stored.read_text(encoding="utf-8"))["raw"]["parts"] if stored.exists() else {}
    parts = {**before, **done}
    study = Study(name, seeds, raw={"parts": {part: parts[part] for part in PARTS if part in parts}})
    for part in study.raw["parts"].values():
        study.figures += [Figure(**figure) for figure in part["figures"]]
    return study.finish()


if __name__ == "__main__":
    sys.exit(main())
