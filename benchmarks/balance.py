"""What an identified model is worth: ``python -m benchmarks.balance [--seeds COUNT]``.

The demo's story, lived through by as many virtual G1s as there are seeds: each differs from its CAD by 20 %, carries a
battery and a gripper that the CAD does not know, and has encoders that are off by up to 2.5°. One minute limp, one of
dance; then one balance controller does one task on it with the CAD and encoders as they are, with the CAD, with the
identified model and with the true one, all three calibrated.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.figures import Figure, Study
from steelyard import load_model
from steelyard.cli.demo_run import AS_THEY_ARE, CAD, IDENTIFIED, ROBOT, TRUTH, DemoResult, run_demo

SEEDS = 20


def main() -> int:
    """Lives through the story with each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many true robots")
    count = parser.parse_args().seeds
    study = Study("balance" if count == SEEDS else "balance_some", {"first": 0, "count": count})
    model = load_model(ROBOT)
    rows = []
    for seed in range(count):
        rows.append(_numbers(run_demo(model, seed=seed)))
        print(seed, rows[-1]["com_mm"], file=sys.stderr, flush=True)
    study.raw["robots"] = rows
    _judge(study, rows)
    return study.finish()


def _numbers(story: DemoResult) -> dict[str, Any]:
    told = story.to_dict()
    runs = told["balance"]

    def each(what: str, which: str) -> dict[str, float | None]:
        return {name: None if run[what] is None else round(run[what][which], 3) for name, run in runs.items()}

    return {
        "com_mm": each("com", "rms_mm"),
        "zmp_mm": each("zmp", "rms_mm"),
        "com_moving_mm": each("com", "moving_mm"),
        "fell_at": {name: run["fell_at"] for name, run in runs.items()},
        "offsets_deg": [told["calibration"][f"{when}_rms_deg"] for when in ("before", "after")],
        "masses_kg": [told["masses"]["groups"][-1][who] for who in ("cad", "identified")],
        "distance": [told["distance"][who] for who in ("cad", "identified")],
        "whole_com_mm": [told["com_mm"][who] for who in ("cad", "identified")],
        "in_intervals": told["masses"]["in_intervals"],
    }


def _judge(study: Study, rows: list[dict[str, Any]]) -> None:
    count, figures = len(rows), study.figures
    fallen = {name: sum(row["fell_at"][name] is not None for row in rows) for name in rows[0]["fell_at"]}
    for name in (CAD, IDENTIFIED, TRUTH):
        figures.append(Figure(f"falls with {name}, of {count}", fallen[name], 0.0, at_least=False))
    figures.append(Figure(f"falls with {AS_THEY_ARE}, of {count}", fallen[AS_THEY_ARE]))
    standing = [row for row in rows if not any(row["fell_at"][name] is not None for name in (CAD, IDENTIFIED, TRUTH))]
    for what, words in (("com_mm", "centre of mass"), ("zmp_mm", "zero-moment point")):
        found = {name: np.array([row[what][name] for row in standing]) for name in (CAD, IDENTIFIED, TRUTH)}
        for name, values in found.items():
            note = f"least {values.min():.1f}, greatest {values.max():.1f}"
            figures.append(Figure(f"{words}, {name}: rms mm, median", float(np.median(values)), note=note))
        ratio = found[IDENTIFIED] / found[CAD]
        figures.append(
            Figure(
                f"{words}: identified over CAD, median",
                float(np.median(ratio)), 0.6, at_least=False, note=f"worst {ratio.max():.2f}",
            )
        )  # fmt: skip
        better = int(np.count_nonzero(ratio < 1.0))
        figures.append(Figure(f"{words}: robots better with the identified model, of {len(ratio)}", better))
    moving = {name: np.array([row["com_moving_mm"][name] for row in standing]) for name in (CAD, IDENTIFIED, TRUTH)}
    for name, values in moving.items():
        figures.append(Figure(f"centre of mass, {name}: what does not last, rms mm, median", float(np.median(values))))
    for key, words in (
        ("offsets_deg", "encoders: error after calibration over before, median"),
        ("masses_kg", "masses: identified over CAD, median"),
        ("whole_com_mm", "centre of mass of the whole robot: identified over CAD, median"),
        ("distance", "distance of a link to the true one: identified over CAD, median"),
    ):
        ratio = np.array([row[key][1] / row[key][0] for row in rows])
        figures.append(Figure(words, float(np.median(ratio)), 1.0, at_least=False, note=f"worst {ratio.max():.2f}"))
    held = float(np.mean([row["in_intervals"] for row in rows]) / 30.0)
    figures.append(Figure("true masses in their 95 % intervals", held))


if __name__ == "__main__":
    sys.exit(main())
