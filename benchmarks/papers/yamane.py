"""[yamane2011] section III on a virtual TALOS: Table I, its three observations, Figure 5, and partial force sensing.

The paper's robot measures joint angles, an inertial sensor at the trunk, the ground's wrench at both feet, and the
torque of all joints but the arms'. So does this one, with the default noise of the laboratory. It is built as the
paper's is: left and right are images of each other, and neither is what its CAD says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure, Study
from steelyard import estimate_noise, gather_evidence, identify, load_model, plan_motion, reconstruct_motion, simulate
from steelyard.laboratory import Hose
from steelyard.laboratory.true_robot import draw_parameters
from steelyard.model import project_to_interior
from steelyard.model.mirror import find_pairs
from steelyard.model.setup import WrenchSensor
from steelyard.regression.rows import base_wrench

if TYPE_CHECKING:
    from steelyard import Estimate, Evidence, Model, Motion
    from steelyard.arrays import FloatArray
    from steelyard.laboratory import Trial

SEEDS = {"robot": 0, "motions": 0, "noise": 0, "sensors": 100}
SENSORS = 6
"""How many sets of sensors measure the motion in the study of partial sensing."""

DURATION = 30.0
MOTIONS = ("direct", "cross 1", "cross 2")
LIMITS = (1e6, 1e3, 1e2)
METHODS = {"least square": "truncated", "gradient": "bounded"}
MEASURED = ["leg_*", "torso_*", "head_*"]
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"

HOSE = Hose(force=(-25.0, 5.0, 10.0), wander=8.0)
"""Pulls backwards and a little up, as a bundle of hydraulic hoses does, and not always alike."""


def paper_robot() -> Model:
    """Gives TALOS with the paper's sensors: the ground's wrench at both soles, and every joint's torque."""
    model = load_model("talos")
    sensors = tuple(WrenchSensor(f"{side}_foot", f"{side}_sole_link", at="ground") for side in ("left", "right"))
    setup = replace(model.setup, wrench_sensors=sensors, torques_measured=("*",))
    model = load_model(model.description.file.path, setup=setup)
    return model.with_parameters(project_to_interior(model.parameters))


def true_parameters(model: Model, *, symmetric: bool) -> FloatArray:
    """Gives what the robot really is; with symmetric sides, each right link is the image of its left one."""
    true = draw_parameters(model, 0.2, np.random.default_rng(SEEDS["robot"]))
    if symmetric:
        for pair in find_pairs(model):
            true[pair.right] = pair.image(true[pair.left])
    return true


def record(model: Model, true: FloatArray, *, hose: Hose | None = None) -> list[Trial]:
    """Plays three dances on the true robot."""
    return [
        simulate(
            model.with_parameters(true),
            plan_motion(model, "dance", seed=SEEDS["motions"] + number, duration=DURATION),
            seed=SEEDS["noise"],
            spread=0.0,
            hose=hose,
        ).with_noise(SEEDS["noise"] + number)
        for number in range(len(MOTIONS))
    ]


def paper_motion(model: Model, trial: Trial) -> Motion:
    """Gives a trial's motion as the paper makes it: local cubics over 125 points on each side, every 100 ms."""
    motion = reconstruct_motion(model, trial.recording, smoothing="cubic", window=0.25, decimate=False)
    return motion.thinned(round(0.1 * motion.sample_rate))


@dataclass(frozen=True)
class Cell:
    """One column of Table I for one method."""

    parameters: str
    c_max: float
    method: str
    estimate: Estimate
    costs: tuple[float, ...]

    @property
    def possible(self) -> bool:
        """Whether no mass is negative: the only failure that the paper can see."""
        return bool(np.all(self.estimate.solution[:, 0] >= 0.0))


def table_one(model: Model, evidence: list[Evidence]) -> list[Cell]:
    """Gives the cells of Table I: plain sums, no scaling of columns, the paper's own numbers."""
    cells = []
    for parameters in ("L", "LS"):
        for label, method in METHODS.items():
            for c_max in LIMITS:
                estimate = identify(model, evidence[0], method=method, parameters=parameters, c_max=c_max, scale="none")
                costs = tuple(each.cost(estimate.solution) for each in evidence)
                cells.append(Cell(parameters, c_max, label, estimate, costs))
    return cells


def show_table(cells: list[Cell], title: str, truth: list[float], reference: list[float]) -> None:
    """Prints Table I."""
    table = Table(title=title, title_justify="left", box=None)
    table.add_column("")
    table.add_column("")
    for parameters in ("L", "LS"):
        for c_max in LIMITS:
            table.add_column(f"{parameters} {c_max:.0e}", justify="right")
    for method in METHODS:
        for number, motion in enumerate(MOTIONS):
            row = [method if number == 0 else "", motion]
            for parameters in ("L", "LS"):
                for c_max in LIMITS:
                    cell = _cell(cells, parameters, method, c_max)
                    row.append(f"{cell.costs[number]:.3g}" if cell.possible else "n/a")
            table.add_row(*row)
    for label, costs in (("true parameters", truth), ("CAD", reference)):
        for number, motion in enumerate(MOTIONS):
            table.add_row(label if number == 0 else "", motion, f"{costs[number]:.3g}")
    Console(width=150).print(table)


def _cell(cells: list[Cell], parameters: str, method: str, c_max: float) -> Cell:
    return next(cell for cell in cells if (cell.parameters, cell.method, cell.c_max) == (parameters, method, c_max))


def observations(cells: list[Cell]) -> dict[str, bool]:
    """Tells which of the paper's three observations hold here."""
    gradient = [cell for cell in cells if cell.method == "gradient"]
    square = [cell for cell in cells if cell.method == "least square"]
    steady = all(
        max(costs) <= 1.1 * min(costs)
        for parameters in ("L", "LS")
        for number in range(len(MOTIONS))
        if (costs := [cell.costs[number] for cell in gradient if cell.parameters == parameters])
    )
    all_kept = not any(cell.possible for cell in square if cell.c_max == max(LIMITS))
    some_dropped = all(cell.possible for cell in square if cell.c_max == min(LIMITS))
    pairs = [
        (_cell(cells, "L", method, c_max), _cell(cells, "LS", method, c_max)) for method in METHODS for c_max in LIMITS
    ]
    both = [(free, tied) for free, tied in pairs if free.possible and tied.possible]
    better = [tied.costs[n] < free.costs[n] for free, tied in both for n in (1, 2)]
    slightly_worse = [1.0 <= tied.costs[0] / free.costs[0] <= 1.5 for free, tied in both]
    rivals = [
        (_cell(cells, parameters, "least square", c_max), _cell(cells, parameters, "gradient", c_max))
        for parameters in ("L", "LS")
        for c_max in LIMITS
    ]
    rivals = [(one, other) for one, other in rivals if one.possible and other.possible]
    clearly = [other.costs[n] < 0.95 * one.costs[n] for one, other in rivals for n in (1, 2)]
    alike = [abs(other.costs[0] / one.costs[0] - 1.0) < 0.1 for one, other in rivals]
    return {
        "1: the pseudo-inverse needs small singular values omitted, the gradient method does not care": bool(
            all_kept and some_dropped and steady and all(cell.possible for cell in gradient)
        ),
        "2: symmetry gives better cross-validation at a slightly worse direct one": bool(
            both and np.mean(better) > 0.5 and np.mean(slightly_worse) > 0.5
        ),
        "3: where both give possible masses, the gradient method is clearly better (5 %) in cross-validation": bool(
            rivals and np.mean(clearly) > 0.5 and np.mean(alike) > 0.5
        ),
    }


def draw_figure_five(model: Model, motions: list[Motion], estimate: Estimate, path: Path) -> None:
    """Draws root vertical and front-aft force and knee torque: measured, identified, CAD; direct above, cross below."""
    import matplotlib  # noqa: PLC0415  (an extra)

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    knee = "leg_left_4_joint"
    figure, axes = plt.subplots(2, 3, figsize=(12.0, 5.6), sharex="row")
    for row, motion in enumerate(motions[:2]):
        curves = _curves(model, motion, estimate, knee)
        for column, title in enumerate(("root vertical force, N", "root front-aft force, N", "left knee torque, N m")):
            panel = axes[row, column]
            for (label, colour), values in zip(
                (("measured", "#222222"), ("identified", "#c0392b"), ("CAD", "#2e86c1")), curves[column], strict=True
            ):
                panel.plot(
                    motion.time, values, label=label, color=colour, linewidth=1.4 if label == "measured" else 1.0
                )
            panel.set_title(f"{title} ({'direct' if row == 0 else 'cross 1'})", fontsize=10)
            panel.spines[["top", "right"]].set_visible(False)
            panel.set_xlabel("s" if row else "")
    axes[0, 0].legend(frameon=False, fontsize=9)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _curves(model: Model, motion: Motion, estimate: Estimate, knee: str) -> list[list[FloatArray]]:
    """Gives measured, identified and CAD curves of the figure's three quantities."""
    from steelyard.regression.gathering import residuals  # noqa: PLC0415

    turn = _upright(motion)
    quantities: list[list[FloatArray]] = [[], [], []]
    for number, parameters in enumerate((estimate.parameters, model.parameters)):
        left = residuals(model, motion, parameters, weights=None, torques=[knee])
        needed = base_wrench(model, motion, parameters)
        measured = np.einsum("nij,nj->ni", turn, needed[:, :3] - left[:, :3])
        predicted = np.einsum("nij,nj->ni", turn, needed[:, :3])
        felt = np.asarray(motion.torques[knee])
        asked = felt + left[:, 6]
        for place, (one, other) in enumerate(
            ((measured[:, 2], predicted[:, 2]), (measured[:, 0], predicted[:, 0]), (felt, asked))
        ):
            if number == 0:
                quantities[place].append(one)
            quantities[place].append(other)
    return quantities


def _upright(motion: Motion) -> FloatArray:
    """Gives the rotation from the base link's axes to upright ones that look ahead with it, shape (n, 3, 3)."""
    up = motion.proper_acceleration / np.linalg.norm(motion.proper_acceleration, axis=1, keepdims=True)
    ahead = np.tile([1.0, 0.0, 0.0], (len(up), 1))
    ahead = ahead - np.einsum("ni,ni->n", ahead, up)[:, None] * up
    ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
    return np.stack([ahead, np.cross(up, ahead), up], axis=1)


NUISANCE = ["wrench_offset", "accelerometer_bias", "imu_mounting"]

SENSING: dict[str, dict[str, Any]] = {
    "everything measured": {"torques": ["*"]},
    "horizontal foot forces withheld": {"torques": ["*"], "withhold": ["*_foot.fx", "*_foot.fy"]},
    "arms' torques withheld": {"torques": MEASURED},
    "both of these": {"torques": MEASURED, "withhold": ["*_foot.fx", "*_foot.fy"]},
    "left foot's sensor withheld": {"torques": ["*"], "withhold": ["left_foot"]},
    "no torques": {"torques": []},
}


def partial_sensing(model: Model, true: FloatArray, trials: list[Trial]) -> dict[str, dict[str, float]]:
    """Gives, for each choice of sensors, how far the prediction is from the truth's own, on an unseen motion.

    Sensors with other offsets, biases and noise measure the same motion again and again: one draw of them would say
    more about luck than about what is measured.
    """
    unseen = reconstruct_motion(model, trials[1].recording)
    pulled = simulate(model.with_parameters(true), trials[0].trajectory, seed=SEEDS["noise"], spread=0.0, hose=HOSE)
    everything = {"torques": ["*"]}
    hose = {
        "hose, projected out": {**everything, "unknown_wrenches": [model.bodies[0].name]},
        "hose, ignored": everything,
    }
    draws: dict[str, list[dict[str, float]]] = {}
    for seed in range(SEEDS["sensors"], SEEDS["sensors"] + SENSORS):
        for trial, choices in ((trials[0], SENSING), (pulled, hose)):
            learned = reconstruct_motion(model, replace(trial, seed=seed).with_noise(seed).recording)
            for name, options in choices.items():
                draws.setdefault(name, []).append(_distance(model, true, unseen, learned, options))
    results = {
        name: {what: float(np.sqrt(np.mean([each[what] ** 2 for each in found]))) for what in found[0]}
        for name, found in draws.items()
    }
    results["CAD"] = _apart(model, true, unseen, model.parameters)
    return results


def _distance(
    model: Model, true: FloatArray, unseen: Motion, learned: Motion, options: dict[str, Any]
) -> dict[str, float]:
    # A torque sensor is zeroed to about a newton metre.
    beside: dict[str, Any] = {"nuisance": NUISANCE}
    if options["torques"]:
        beside = {"nuisance": [*NUISANCE, "torque_offset"], "priors": {"torque_offset": 1.0}}
    noise = estimate_noise(model, learned, **beside, **options)
    evidence = gather_evidence(model, learned, weights=noise.weights, **beside, **options)
    estimate = identify(model, evidence, method="truncated")
    errors = np.median(estimate.base.standard_errors * estimate.base.effects)
    return {
        **_apart(model, true, unseen, estimate.parameters),
        "stated kg": estimate.total_mass_error,
        "rank": evidence.rank,
        "median doubt": float(errors),
    }


def _apart(model: Model, true: FloatArray, unseen: Motion, parameters: FloatArray) -> dict[str, float]:
    apart = base_wrench(model, unseen, parameters) - base_wrench(model, unseen, true)
    rms = np.sqrt(np.mean(np.square(apart), axis=0))
    return {
        "force N": float(np.linalg.norm(rms[:3])),
        "moment N m": float(np.linalg.norm(rms[3:])),
        "mass kg": float(abs(np.sum(parameters[:, 0]) - np.sum(true[:, 0]))),
    }


def show_sensing(results: dict[str, dict[str, float]]) -> None:
    """Prints what partial sensing costs."""
    table = Table(
        title=f"Partial force sensing: distance to the truth on an unseen motion, rms over {SENSORS} sets of sensors",
        title_justify="left",
        box=None,
    )
    columns = ("force N", "moment N m", "mass kg", "stated kg", "rank", "median doubt")
    for heading in ("measured", *columns):
        table.add_column(heading, justify="left" if heading == "measured" else "right")
    for name, values in results.items():
        table.add_row(name, *(f"{values[column]:.3g}" if column in values else "" for column in columns))
    Console(width=150).print(table)


def study() -> int:
    """Runs the study and gives the exit code."""
    study = Study("papers_yamane", SEEDS)
    model = paper_robot()
    for symmetric in (True, False):
        true = true_parameters(model, symmetric=symmetric)
        trials = record(model, true)
        motions = [paper_motion(model, trial) for trial in trials]
        evidence = [gather_evidence(model, motion, weights=None, torques=MEASURED, nuisance=()) for motion in motions]
        cells = table_one(model, evidence)
        truth = [each.cost(true) for each in evidence]
        reference = [each.cost(model.parameters) for each in evidence]
        kind = "symmetric" if symmetric else "asymmetric"
        show_table(cells, f"Table I, {kind} robot: cost ‖Y φ - f‖², N² and (N m)²", truth, reference)
        held = observations(cells)
        for words, holds in held.items():
            print(f"  observation {words}: {'true' if holds else 'false'} here")
        study.raw[f"table_one_{kind}"] = {
            "true parameters": truth,
            "CAD": reference,
            "events": [len(trial.events) for trial in trials],
            "observations": held,
            "cells": [
                {
                    "parameters": cell.parameters,
                    "unknowns": len(cell.estimate.base.unknowns),
                    "condition": cell.estimate.base.condition,
                    "c_max": cell.c_max,
                    "method": cell.method,
                    "costs": cell.costs if cell.possible else "n/a",
                    "least mass": float(cell.estimate.solution[:, 0].min()),
                }
                for cell in cells
            ],
        }
        if not symmetric:
            continue
        valid = [cell for cell in cells if cell.possible]
        worst = np.max([np.array(cell.costs) / truth for cell in valid], axis=0)
        study.figures += [
            Figure("direct cost over the true parameters', worst cell", float(worst[0]), 1.2, at_least=False),
            Figure("cross cost over the true parameters', worst cell", float(max(worst[1:])), 1.5, at_least=False),
            Figure("direct cost over CAD's, worst cell", float(max(cell.costs[0] for cell in valid) / reference[0])),
            Figure("cells with possible masses, of twelve", len(valid), 6, note="n/a where a mass is negative"),
        ]
        study.figures += [
            Figure(f"observation {words.partition(':')[0]} of the paper", float(holds), note=words.partition(": ")[2])
            for words, holds in held.items()
        ]
        shown = _cell(cells, "L", "gradient", max(LIMITS)).estimate
        draw_figure_five(model, motions, shown, PICTURES / "yamane_figure5.png")
        sensing = partial_sensing(model, true, trials)
        show_sensing(sensing)
        study.raw["partial_sensing"] = sensing
        full = sensing["everything measured"]["moment N m"]
        study.figures += [
            Figure(
                f"moment error, {name}, over everything measured",
                values["moment N m"] / full,
                note=f"{values['moment N m']:.3g} N m; weight off by {9.81 * values['mass kg']:.2g} N"
                + (f", stated ±{9.81 * values['stated kg']:.2g}" if "stated kg" in values else ""),
            )
            for name, values in sensing.items()
            if name != "everything measured"
        ]
        ratio = sensing["hose, ignored"]["force N"] / sensing["hose, projected out"]["force N"]
        study.figures.append(Figure("ignoring the hose over projecting it out, force error", ratio, 1.0))
        turn = sensing["hose, ignored"]["moment N m"] / sensing["hose, projected out"]["moment N m"]
        study.figures.append(Figure("ignoring the hose over projecting it out, moment error", turn, 1.0))
    return study.finish()
