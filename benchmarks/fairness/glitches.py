"""Glitches: files of clean and damaged recordings, prepared and identified with the defaults.

Fifteen trials of four robots, four damages each. A damage is one encoder off by 0.3 or 3 rad, or reading zero, for 2 to
40 ms at a random time; spikes of one to three readings in a wrench; or a ceiling of a vertical force at its 99 %
quantile. The estimate from the damaged file is compared with that from the clean one, in the clean one's standard
errors, and with that without masking.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import steelyard as sy
from benchmarks.figures import Figure
from steelyard.exceptions import LaboratoryError, SteelyardError

if TYPE_CHECKING:
    from benchmarks.figures import Study
    from steelyard import Model, Recording

ROBOTS = ("g1", "talos", "icub", "romeo")
MOTIONS = ("dance", "sway", "reach", "limp")
DAMAGES = ("off by 0.3 rad", "off by 3 rad", "reads zero", "wrench spike", "clipped fz")
TRIALS, DAMAGES_OF_A_TRIAL = 15, 4
SECONDS = 20.0
SHORTEST, LONGEST = 0.002, 0.04
CEILING = 0.99
MOVED = 0.3


def damage(model: Model, recording: Recording, kind: str, generator: np.random.Generator) -> tuple[Recording, str]:
    """Gives a damaged copy of a recording, and the column that is damaged."""
    sensor = model.setup.wrench_sensors[generator.integers(len(model.setup.wrench_sensors))]
    if kind == "clipped fz":
        column = f"{sensor.name}.fz"
        values = np.array(recording.column(column))
        ceiling = np.nanquantile(np.abs(values), CEILING)
        values = np.clip(values, -ceiling, ceiling)
    elif kind == "wrench spike":
        axis = sensor.axes[generator.integers(len(sensor.axes))]
        column = f"{sensor.name}.{axis}"
        values = np.array(recording.column(column))
        there = np.flatnonzero(np.isfinite(values))
        count = int(generator.integers(1, 4))
        first = int(generator.integers(len(there) - count))
        size = generator.uniform(100.0, 500.0) if axis.startswith("f") else generator.uniform(10.0, 50.0)
        values[there[first : first + count]] += size * generator.choice([-1.0, 1.0])
    else:
        column = f"q.{model.joints[generator.integers(len(model.joints))]}"
        values = np.array(recording.column(column))
        count = round(generator.uniform(SHORTEST, LONGEST) / float(np.median(np.diff(recording.time))))
        first = int(generator.integers(len(values) - count))
        wrong = slice(first, first + max(1, count))
        offset = {"off by 0.3 rad": 0.3, "off by 3 rad": 3.0}.get(kind)
        values[wrong] = 0.0 if offset is None else values[wrong] + offset * generator.choice([-1.0, 1.0])
    damaged = {name: recording.column(name) for name in recording.columns} | {column: values}
    return sy.Recording(recording.time, damaged, recording.name), column


def play(model: Model, seed: int, number: int) -> tuple[str, Recording]:
    """Gives a motion of the robot, and its recording: the first, from one on, that this robot can do."""
    for turn in range(len(MOTIONS)):
        motion = MOTIONS[(number + turn) % len(MOTIONS)]
        try:
            return motion, sy.simulate(model, motion, seed=seed, duration=SECONDS).recording
        except SteelyardError:
            continue
    raise LaboratoryError(f"{model.name} with seed {seed} can do none of the motions")


def weigh(model: Model, path: Path, *, mask: bool = True) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Gives the link masses that a file leads to, their standard errors, and what `prepare` remarks."""
    prepared = sy.prepare(model, path, mask=mask)
    estimate = sy.identify(model, prepared.gather())
    return estimate.parameters[:, 0], np.sqrt(np.diag(estimate.covariance))[::10], prepared.remarks


def glitches(study: Study) -> None:
    """Measures how far glitches move link masses, and whether they are named."""
    seed = study.seeds["glitches"]
    rows: list[dict[str, Any]] = []
    masked_clean = 0
    with tempfile.TemporaryDirectory() as name:
        clean, bad = Path(name) / "clean.parquet", Path(name) / "damaged.parquet"
        for number in range(TRIALS):
            robot = ROBOTS[number % 4]
            model = sy.load_model(robot)
            motion, recording = play(model, seed + number, number + number // 4)
            recording.write(clean)
            masses, errors, remarks = weigh(model, clean)
            masked_clean += sum(remark.endswith(": masked") for remark in remarks)
            for turn in range(DAMAGES_OF_A_TRIAL):
                kind = DAMAGES[(DAMAGES_OF_A_TRIAL * number + turn) % len(DAMAGES)]
                generator = np.random.default_rng([seed, number, turn])
                damaged, column = damage(model, recording, kind, generator)
                damaged.write(bad)
                found, _, remarks = weigh(model, bad)
                believed, _, _ = weigh(model, bad, mask=False)
                said = [remark for remark in remarks if remark.endswith(": masked")]
                row = {
                    "robot": robot, "motion": motion, "seed": seed + number, "damage": kind, "column": column,
                    "moved": float(np.max(np.abs(found - masses) / errors)),
                    "moved_unmasked": float(np.max(np.abs(believed - masses) / errors)),
                    "named": any(f" {column} " in remark for remark in said),
                    "others_named": sum(f" {column} " not in remark for remark in said),
                }  # fmt: skip
                rows.append(row)
                print(json.dumps(row), file=sys.stderr)
    study.raw["glitches"] = rows
    study.figures += [
        Figure(f"glitches: runs of {len(rows)} whose link masses move by less than {MOVED} standard errors",
               sum(row["moved"] < MOVED for row in rows), 58, note=f"greatest of all links, seeds from {seed}"),
        Figure("glitches: runs without masking that move less", sum(row["moved_unmasked"] < MOVED for row in rows)),
        Figure(f"glitches: runs of {len(rows)} in which the channel is named",
               sum(row["named"] for row in rows), 57, note="by a remark of prepare"),
        Figure(f"glitches: channels named in {TRIALS} clean recordings, or beside the damaged one", masked_clean
               + sum(row["others_named"] for row in rows), 0, at_least=False),
    ]  # fmt: skip
    for kind in DAMAGES:
        chosen = [row for row in rows if row["damage"] == kind]
        for what, label in (("moved", "masked"), ("moved_unmasked", "not masked")):
            worst, middle = (float(each([row[what] for row in chosen])) for each in (np.max, np.median))
            note = f"median {middle:.2g}, {len(chosen)} runs"
            study.figures.append(
                Figure(f"glitches, {kind}, {label}: greatest shift, standard errors", worst, note=note)
            )
