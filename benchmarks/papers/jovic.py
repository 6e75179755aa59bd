"""What [jovic2015] and [jovic2016] share: virtual robots for HRP-2 and HRP-4, tables, and distances to the truth.

Sensors have the laboratory's default errors, among them offsets of the feet's sensors and of the inertial sensor, which
are the same in all recordings of a robot. They are unknowns, with what the data sheets say as a prior; predictions do
without them, so that the true parameters leave them too. Motions are those of the laboratory's library.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from steelyard import (
    ComInside,
    LeastMass,
    MatterWithin,
    PositiveInertia,
    estimate_noise,
    gather_evidence,
    load_model,
    plan_motion,
    project_to_interior,
    reconstruct_motion,
    simulate,
    validate,
)
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.laboratory import DEFAULT_SENSORS
from steelyard.model.parameters import to_mass_com_inertia
from steelyard.model.setup import WrenchSensor
from steelyard.regression.rows import base_wrench

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steelyard import Estimate, Evidence, Model, Motion, Validation
    from steelyard.arrays import FloatArray
    from steelyard.laboratory import Payload, Trial
    from steelyard.model.constraints import Constraint

NUISANCE = ("wrench_offset", "accelerometer_bias", "imu_mounting")
PRIORS = {
    **{
        f"{side}_foot.{kind}{axis}.offset": sensor.bias
        for side in ("left", "right")
        for kind, sensor in (("f", DEFAULT_SENSORS.force), ("n", DEFAULT_SENSORS.moment))
        for axis in "xyz"
    },
    "accelerometer_bias": DEFAULT_SENSORS.accelerometer.bias,
    "imu_mounting": DEFAULT_SENSORS.mounting.bias,
}
"""What the data sheets say that offsets are, N, N m, m/s² and rad."""

TRAINING = (("dance", 30.0), ("sway", 20.0), ("reach", 30.0))
UNSEEN = ("dance", 30.0)
SCALE_STEP = 0.005
"""kg: steps of the scale that weighs the whole robot, a platform scale of 150 kg."""

SENSORS = 4
"""How many sets of sensors measure the motions."""

BARS = {"direct": 1.1, "cross": 1.25}
"""Root mean square errors, beside the true parameters', that are asked for on every axis."""

AXES = ("fx", "fy", "fz", "nx", "ny", "nz")
CANDIDATES = ("estimate", "reference", "corrected", "truth")
HEADINGS = {"estimate": "identified", "reference": "CAD", "corrected": "CAD, mass corrected", "truth": "true"}


def paper_model(name: str) -> Model:
    """Gives a robot's CAD, with the papers' sensors: an inertial one in the trunk, the ground's wrench at both feet.

    TALOS has its own inside its ankles, which do not feel the feet.
    """
    model = load_model(name)
    if name == "talos":
        sensors = tuple(WrenchSensor(f"{side}_foot", f"{side}_sole_link", at="ground") for side in ("left", "right"))
        model = load_model(model.description.file.path, setup=replace(model.setup, wrench_sensors=sensors))
    return model.with_parameters(project_to_interior(model.parameters))


@dataclass(frozen=True, eq=False)
class Played:
    """A true robot that moved, and what was measured.

    Attributes:
        name: What it is called in tables.
        model: What its CAD says.
        truth: What it is, shape (n_links, 10).
        modified: Links that carry what the CAD does not know.
        expected: Their masses as the weight of the new parts tells: the CAD's and the parts', kg.
        training: Motions that teach.
        unseen: The motion that does not.
        events: How many things went wrong on the way.
        robot: Name of its setup.
        again: The same robot and motions, measured by other sensors of the same make.
    """

    name: str
    model: Model
    truth: FloatArray
    modified: tuple[str, ...]
    expected: Mapping[str, float]
    training: tuple[Motion, ...]
    unseen: Motion
    events: int
    robot: str
    again: tuple[Played, ...] = ()

    @property
    def on_the_scale(self) -> float:
        """What a scale says that the robot weighs, kg."""
        return float(SCALE_STEP * np.round(self.truth[:, 0].sum() / SCALE_STEP))

    @cached_property
    def weights(self) -> Mapping[str, Any]:
        """The sensors' noise, from the first motion."""
        return estimate_noise(self.model, self.training[0], nuisance=NUISANCE, priors=PRIORS).weights

    @cached_property
    def evidence(self) -> list[Evidence]:
        """The Evidence of each motion that teaches: whitened, the sensors' offsets among the unknowns."""
        return [
            gather_evidence(self.model, motion, weights=self.weights, nuisance=NUISANCE, priors=PRIORS)
            for motion in self.training
        ]

    @cached_property
    def plain_evidence(self) -> list[Evidence]:
        """The same as the papers have it: plain sums of squares, sensors taken at their word."""
        return [gather_evidence(self.model, motion, weights=None, nuisance=()) for motion in self.training]

    def validations(self, estimate: Estimate) -> dict[str, Validation]:
        """Holds an estimate against the motions that taught it, and against the one that did not."""
        return {
            "direct": validate(estimate, self.training, truth=self.truth),
            "cross": validate(estimate, self.unseen, truth=self.truth),
        }


def play(
    name: str,
    seeds: Mapping[str, int],
    *,
    spread: float,
    parts: Mapping[str, float | Payload] | None = None,
    wiring: float = 0.0,
    label: str | None = None,
    sensors: int = 1,
) -> Played:
    """Builds a robot that is not what its CAD says, lets it move, and reconstructs what its sensors tell.

    Args:
        name: The robot.
        seeds: Of "robot", "motions", "noise" and, for more than one set of sensors, "sensors".
        spread: How far its links are off the CAD; see `simulate`.
        parts: New parts that the CAD does not know, by link or frame.
        wiring: What cables add to each link without new parts, as a share of the CAD's mass.
        label: What it is called; by default its name.
        sensors: How many sets of sensors measure the same motions, each with offsets of its own.
    """
    model = paper_model(name)
    added: dict[str, float] = {}
    for place, part in (parts or {}).items():
        link = model.bodies[model.frame(place).body].name
        added[link] = added.get(link, 0.0) + float(getattr(part, "mass", part))
    cables = {link: wiring * mass for link, mass in model.masses.items() if wiring and link not in added}
    trials = []
    for number, (motion, duration) in enumerate((*TRAINING, UNSEEN)):
        course = plan_motion(model, motion, seed=seeds["motions"] + number, duration=duration)
        trial = simulate(model, course, seed=seeds["robot"], spread=spread, payloads={**cables, **(parts or {})})
        trials.append(trial.with_noise(seeds["noise"] + number))
    sets = [trials]
    for number in range(1, sensors):
        seed = seeds["sensors"] + number
        sets.append([_with_other_sensors(trial, seed) for trial in trials])
    played = [
        Played(
            label or name,
            model,
            np.array(trials[0].truth.parameters),
            tuple(added),
            {link: model.masses[link] + mass for link, mass in added.items()},
            tuple(motions[:-1]),
            motions[-1],
            sum(len(trial.events) for trial in trials),
            name,
        )
        for motions in ([reconstruct_motion(model, trial.recording) for trial in each] for each in sets)
    ]
    return replace(played[0], again=tuple(played[1:]))


def _with_other_sensors(trial: Trial, seed: int) -> Trial:
    """Gives the same trial, measured by sensors with other offsets and other noise."""
    other = replace(trial, seed=seed)
    # The physics is the same, and so is what perfect sensors make of it.
    other.__dict__["signals"] = trial.signals
    return other.with_noise(seed * len(TRAINING) + trial.noise_seed)


# ---- distances to the truth ----------------------------------------------------------------------------------------


def distances(played: Played, parameters: FloatArray) -> dict[str, float]:
    """Gives how far parameters are from the truth: over all links, and in what they predict of the unseen motion.

    Masses (kg, rms over links; of the modified links alone), centres of mass (mm, rms, weighed by mass), inertias about
    the centre of mass (per cent, the median link); forces (N) and moments (N m) beside those of the true parameters,
    free of the sensors' errors.
    """
    found, true = to_mass_com_inertia(parameters), to_mass_com_inertia(played.truth)
    rows = [played.model.link_index(link) for link in played.modified]
    size = np.linalg.norm(true[2], axis=(1, 2))
    apart = base_wrench(played.model, played.unseen, parameters) - base_wrench(
        played.model, played.unseen, played.truth
    )
    wrench = np.sqrt(np.mean(np.square(apart), axis=0))
    return {
        "mass kg": _rms(found[0] - true[0]),
        "modified kg": _rms((found[0] - true[0])[rows]) if rows else float("nan"),
        "com mm": 1e3 * float(np.sqrt(np.average(np.sum(np.square(found[1] - true[1]), axis=1), weights=true[0]))),
        "inertia %": 100.0 * float(np.median(np.linalg.norm(found[2] - true[2], axis=(1, 2)) / size)),
        "force N": float(np.linalg.norm(wrench[:3])),
        "moment N m": float(np.linalg.norm(wrench[3:])),
    }


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def ratios(validation: Validation, *, centred: bool = False) -> FloatArray:
    """Gives the root mean square error over that of the true parameters, axis by axis, shape (6,).

    Args:
        validation: The validation.
        centred: Whether constant errors are left out: most of what the truth leaves are the sensors' offsets.
    """
    what = "std" if centred else "rmse"
    world = validation.world
    return np.asarray(getattr(world.estimate, what) / getattr(world.truth, what))


def drawn_too_small(model: Model) -> tuple[ComInside, ...]:
    """Gives what to say of links whose CAD has its centre of mass outside its own shapes: they prove nothing.

    TALOS' fifth leg links are such: their shapes leave out the motors.
    """
    rows = resolve_constraints(model, [ComInside()]).rows
    outside = [name for name, far in zip(rows.names, rows.violation(model.parameters), strict=True) if far > 0.0]
    links = tuple(link for link in model.links if any(name.startswith(f"{link} ") for name in outside))
    return (ComInside(None, links),) if links else ()


USUAL = (LeastMass(), ComInside(), PositiveInertia(), MatterWithin())
PHYSICS = ("least_mass", "total_mass", "com", "inertia", "matter", "frozen")


def worst_violation(
    estimate: Estimate, constraints: Sequence[Constraint], kinds: Sequence[str] | None = None
) -> tuple[float, str]:
    """Gives the greatest violation of the usual constraints and of others, SI units, and what it is of.

    Args:
        estimate: The estimate.
        constraints: What it was asked for besides the usual ones.
        kinds: Which kinds are looked at; None for all.
    """
    system = resolve_constraints(estimate.model, [*USUAL, *constraints])
    return (system if kinds is None else system.of(kinds)).worst(estimate.parameters)


def pooled_ratios(validations: Sequence[Validation], *, centred: bool = False) -> FloatArray:
    """Gives the same over several sets of sensors, mean squares added before the roots are taken, shape (6,).

    One set's offsets are luck: where they happen to be small, nothing comes near to what the true parameters leave.
    """
    what = "std" if centred else "rmse"
    sums = [
        np.sum([np.square(getattr(getattr(each.world, whose), what)) for each in validations], axis=0)
        for whose in ("estimate", "truth")
    ]
    return np.asarray(np.sqrt(sums[0] / sums[1]))


def pool_validations(
    played: Played, first: Mapping[str, Validation], again: Sequence[Estimate]
) -> dict[str, list[Validation]]:
    """Gives the validations over all sets of sensors, from those of the first set and the estimates of the others."""
    others = [other.validations(estimate) for other, estimate in zip(played.again, again, strict=True)]
    return {kind: [validation, *(each[kind] for each in others)] for kind, validation in first.items()}


def in_words_by_axis(values: FloatArray) -> str:
    """Writes one number for each axis."""
    return f"{' '.join(AXES)}: {' '.join(f'{value:.2f}' for value in values)}"


# ---- tables ----------------------------------------------------------------------------------------------------------


def show(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], *, width: int = 150) -> None:
    """Prints a table; the first column is of words."""
    table = Table(box=None)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console = Console(width=width)
    console.print(f"\n{title}", style="italic", highlight=False)
    console.print(table)


def show_fits(title: str, validations: Mapping[str, Validation]) -> None:
    """Prints root mean square errors and correlations of the ground's reaction force and moment, as the papers do."""
    rows = []
    for kind, validation in validations.items():
        world = validation.world
        for axis in range(3):
            errors, correlations = [], []
            for first in (0, 3):
                for name in CANDIDATES:
                    fit = getattr(world, name)
                    errors.append(f"{fit.rmse[first + axis]:.3g}")
                    correlations.append(f"{fit.correlation[first + axis]:.3f}")
            rows.append([f"{kind if axis == 0 else ''}", f"{'xyz'[axis]} RMSE", *errors])
            rows.append(["", "CC", *correlations])
    names = [HEADINGS[name] for name in CANDIDATES]
    show(f"{title}: GRF (N), then GRFM (N m)", ["", "", *names, *names], rows)


def show_distances(title: str, played: Played, estimates: Mapping[str, Estimate | FloatArray]) -> dict[str, Any]:
    """Prints how far each candidate is from the truth, and gives the numbers."""
    scale = played.truth[:, 0].sum() / played.model.parameters[:, 0].sum()
    candidates = {"CAD": played.model.parameters, "CAD, mass corrected": scale * played.model.parameters}
    candidates |= {name: np.asarray(getattr(each, "parameters", each)) for name, each in estimates.items()}
    found = {name: distances(played, parameters) for name, parameters in candidates.items()}
    columns = list(next(iter(found.values())))
    rows = [[name, *(f"{values[column]:.3g}" for column in columns)] for name, values in found.items()]
    show(title, ["distance to the truth", *columns], rows)
    return found


def raw_fits(validations: Mapping[str, Validation]) -> dict[str, Any]:
    """Gives the numbers behind `show_fits`, for storing."""
    stored = {}
    for kind, validation in validations.items():
        plain = validation.to_dict()
        stored[kind] = {
            "kind": plain["kind"],
            "samples": plain["sample_count"],
            "axes": list(AXES),
            **{
                name: {what: plain["world"][name][what] for what in ("rmse", "std", "correlation")}
                for name in CANDIDATES
            },
        }
    return stored
