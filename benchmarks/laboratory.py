"""What the virtual laboratory can do: ``python -m benchmarks.laboratory``.

Every robot through every motion with five true robots each, 20 % off: whether it stands, how flat its soles stay, and
how much it moves; speed on one core; what each sensor does to the residual of the true parameters; contact sheets.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.contact_sheet import draw_contact_sheet
from benchmarks.figures import RESULTS, Figure, Study
from steelyard import SteelyardError, load_model
from steelyard.laboratory import DEFAULT_SENSORS, MOTIONS, plan_motion, simulate
from steelyard.laboratory.true_robot import draw_offsets
from steelyard.motion import reconstruct_motion
from steelyard.regression.gathering import residuals
from steelyard.regression.rows import base_wrench, static_rows
from steelyard.stance.collision import joint_ranges

if TYPE_CHECKING:
    from steelyard import Model
    from steelyard.laboratory import Trial

ROBOTS = ("g1", "talos", "icub", "romeo")
SEEDS = range(5)
PICTURES = RESULTS / "pictures"
AXES = ("fx", "fy", "fz", "nx", "ny", "nz")


@dataclass
class Row:
    """One trial in numbers: angles in degrees, lengths in metres."""

    robot: str
    motion: str
    seed: int
    refusal: str = ""
    falls: int = 0
    self_contacts: int = 0
    limits: int = 0
    torque_limits: int = 0
    tilt: float = 0.0
    lift: float = 0.0
    slip: float = 0.0
    sway: float = 0.0
    coverage: float = 1.0
    least_covered: str = ""
    holds: int = 0
    seconds: float = 0.0
    base_equation: float = 0.0


def try_one(robot: str, motion: str, seed: int) -> dict[str, Any]:
    """Plays one trial and says what came of it."""
    row = Row(robot, motion, seed)
    begin = time.perf_counter()
    try:
        trial = simulate(load_model(robot), motion, seed=seed)
    except SteelyardError as error:
        row.refusal = str(error)
        return asdict(row)
    kinds = [event.kind for event in trial.events]
    row.falls, row.self_contacts = kinds.count("fall"), kinds.count("self-contact")
    row.limits, row.torque_limits = kinds.count("joint limit"), kinds.count("torque limit")
    if not trial.fell:
        measure_motion(trial, row)
        if seed == 0:
            draw_contact_sheet(trial, PICTURES / f"{robot}_{motion}.png")
    row.seconds = time.perf_counter() - begin
    return asdict(row)


def measure_motion(trial: Trial, row: Row) -> None:
    """Measures how flat the soles stayed, and how much the robot moved."""
    states, footing = trial.truth.states, trial.truth.footing
    for foot in footing.feet:
        rotation, position = states.sole_placements(foot)
        heights = position[:, 2:] + np.einsum("ni,ki->nk", rotation[:, 2], foot.corners)
        slid = np.linalg.norm(position[:, :2] - position[0, :2], axis=1)
        row.tilt = max(row.tilt, float(np.rad2deg(np.arccos(np.min(np.clip(rotation[:, 2, 2], -1.0, 1.0))))))
        row.lift = max(row.lift, float(np.max(np.abs(heights))))
        row.slip = max(row.slip, float(np.max(slid)))
    model = trial.truth.model
    every = slice(None, None, 40)
    moments = static_rows(model, states.q[every, 7:]) @ model.parameters.ravel() / model.total_mass
    com = states.q[every, :3] + np.einsum("nij,nj->ni", states.rotation[every], moments)
    row.sway = float(np.ptp(com[:, :2] @ footing.lateral))
    lower, upper = joint_ranges(model)
    share = (np.ptp(states.q[:, 7:], axis=0) / (upper - lower))[footing.upper_columns]
    row.coverage = float(np.min(share))
    row.least_covered = footing.upper_joints[int(np.argmin(share))]
    row.holds = len(trial.trajectory.holds)
    wrench = trial.truth.ground_wrench
    error = base_wrench(model, trial.truth.motion) - wrench
    row.base_equation = float(np.max(np.abs(error).max(axis=1) / np.linalg.norm(wrench, axis=1)))


def play_trials(jobs: list[tuple[str, str, int]]) -> list[Row]:
    """Plays trials on all cores."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for number, answer in enumerate(pool.map(try_one, *zip(*jobs, strict=True)), start=1):
            rows.append(Row(**answer))
            if sys.stderr.isatty():
                print(f"\r{number} of {len(jobs)} trials", end="", file=sys.stderr)
    return rows


def judge_trials(study: Study, rows: list[Row]) -> None:
    """Puts the trials of all robots, motions and seeds into figures."""
    study.raw["trials"] = [asdict(row) for row in rows]
    show_trials(rows)
    for row in rows:
        if row.refusal:
            print(f"refused: {row.robot} {row.motion} {row.seed}: {row.refusal}")
    stood = [row for row in rows if not row.refusal and not row.falls]
    dances = [row for row in stood if row.motion == "dance"]
    if not dances:
        study.figures.append(Figure("dances that were danced", 0, 1))
        return
    note = f"{len(ROBOTS)} robots x {len(MOTIONS)} motions x {len(SEEDS)} true robots, 20 % off"
    study.figures += [
        Figure("refusals", sum(bool(row.refusal) for row in rows), 0, at_least=False, note=note),
        Figure("falls", sum(row.falls for row in rows), 0, at_least=False, note=note),
        Figure("self-contacts", sum(row.self_contacts for row in rows), 0, at_least=False, note=note),
        Figure("tilt of a sole at worst, degrees", max(row.tilt for row in stood), 0.5, at_least=False),
        Figure("distance of a sole's corner from the floor at worst, mm", 1e3 * max(row.lift for row in stood), 2.0,
               at_least=False),
        Figure("slip of a sole at worst, mm", 1e3 * max(row.slip for row in stood), 2.0, at_least=False),
        Figure("dance: lateral way of the centre of mass at least, cm", 1e2 * min(row.sway for row in dances), 5.0),
        Figure("dance: share of its range that an upper joint covers at least, %",
               1e2 * min(row.coverage for row in dances), 40.0,
               note=min(dances, key=lambda row: row.coverage).least_covered),
        Figure("error of the base equation at worst", max(row.base_equation for row in stood), 1e-10, at_least=False,
               note="true parameters, states of one instant, relative to the wrench"),
        Figure("joint limits reached", sum(row.limits for row in stood)),
        Figure("torque limits reached", sum(row.torque_limits for row in stood)),
    ]  # fmt: skip
    sheets = sorted(PICTURES.glob("*.png"))
    study.figures.append(
        Figure("contact sheets", len(sheets), len(ROBOTS) * len(MOTIONS), note=f"in {PICTURES.relative_to(Path.cwd())}")
    )


def show_trials(rows: list[Row]) -> None:
    """Prints one line for each robot and motion, the worst of its seeds."""
    table = Table(title="worst of five true robots", title_justify="left", box=None)
    for heading in ("robot", "motion", "tilt °", "lift mm", "slip mm", "CoM way cm", "least coverage %", "events", "s"):
        table.add_column(heading, justify="left" if heading in ("robot", "motion", "events") else "right")
    for robot in ROBOTS:
        for motion in MOTIONS:
            group = [row for row in rows if (row.robot, row.motion) == (robot, motion) and not row.refusal]
            if not group:
                continue
            events = {
                "falls": sum(row.falls for row in group),
                "self-contacts": sum(row.self_contacts for row in group),
                "joint limits": sum(row.limits for row in group),
                "torque limits": sum(row.torque_limits for row in group),
            }
            table.add_row(
                robot, motion, f"{max(row.tilt for row in group):.3f}", f"{1e3 * max(row.lift for row in group):.2f}",
                f"{1e3 * max(row.slip for row in group):.2f}", f"{1e2 * min(row.sway for row in group):.1f}",
                f"{1e2 * min(row.coverage for row in group):.0f}",
                ", ".join(f"{count} {name}" for name, count in events.items() if count) or "none",
                f"{np.mean([row.seconds for row in group]):.0f}",
            )  # fmt: skip
    Console(width=150).print(table)


def with_all_torques(name: str) -> Model:
    """Gives a robot whose joint torques are all measured."""
    model = load_model(name)
    return load_model(model.description.file.path, setup=replace(model.setup, torques_measured=("*",)))


def measure_speed(study: Study) -> None:
    """Times a dance of G1 with all sensors, on one core."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(everywhere)})
    with threadpool_limits(1), ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, everywhere)
        model = with_all_torques("g1")
        simulate(model, "sway", duration=6.0).recording  # noqa: B018  (compiles, and reads the meshes)
        begin = time.perf_counter()
        trajectory = plan_motion(model, "dance", seed=1)
        planning = time.perf_counter() - begin
        playing, noising = [], []
        for seed in range(3):
            begin = time.perf_counter()
            trial = simulate(model, trajectory, seed=seed)
            columns = len(trial.recording.columns)
            playing.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            trial.with_noise(seed + 10).recording  # noqa: B018
            noising.append(time.perf_counter() - begin)
    play, again = float(np.median(playing)), float(np.median(noising))
    span = trajectory.duration
    study.raw["speed"] = {"duration_s": span, "plan_s": planning, "play_s": playing, "measure_again_s": noising}
    study.figures += [
        Figure("g1: playing a planned motion, times faster than real time, all sensors, one core", span / play, 5.0,
               note=f"{span:g} s of dance in {play:.1f} s, {columns} columns, median of 3"),
        Figure("g1: the same, planning the motion included", span / (play + planning),
               note=f"{planning:.1f} s for the plan"),
        Figure("g1: measuring again, times faster than playing again", play / again,
               note=f"with_noise takes {again:.2f} s"),
    ]  # fmt: skip


def noise_table(study: Study) -> None:
    """Tells what each sensor alone does to the residual of the true parameters, through a 10 Hz filter."""
    sources: dict[str, Any] = {"perfect laboratory": None}
    names = {
        "encoder": ("encoder",), "gyro": ("gyro",), "accelerometer": ("accelerometer",), "IMU mounting": ("mounting",),
        "wrench sensors": ("force", "moment"),
    }  # fmt: skip
    sources |= {name: DEFAULT_SENSORS.only(*kinds) for name, kinds in names.items()}
    sources["all of them"] = DEFAULT_SENSORS
    sources["encoder offsets up to 1°, else perfect"] = None
    found: dict[str, Any] = {}
    for motion in MOTIONS:
        squares = {name: np.zeros(6) for name in sources}
        for seed in SEEDS:
            trial = simulate(load_model("g1"), motion, seed=seed, noise=None)
            for name, sensors in sources.items():
                again = trial.with_noise(seed, noise=sensors)
                if name.startswith("encoder offsets"):
                    offsets = draw_offsets(trial.truth.model, np.deg2rad(1.0), np.random.default_rng(seed))
                    again = replace(again, truth=replace(again.truth, offsets=offsets))
                recording = again.recording
                motion_of_it = reconstruct_motion(trial.truth.model, recording, cutoff=10.0, decimate=False)
                left = residuals(trial.truth.model, motion_of_it, trial.truth.parameters, weights=None)
                squares[name] += np.mean(left**2, axis=0) / len(SEEDS)
        found[motion] = {name: np.sqrt(square).tolist() for name, square in squares.items()}
    study.raw["residual_rms"] = found
    for motion in MOTIONS:
        print(f"g1, {motion}: rms of the base wrench that the true parameters leave, 10 Hz, five true robots")
        table = Table(box=None)
        for heading in ("sensors with errors", *(f"{axis} {'N' if axis[0] == 'f' else 'N m'}" for axis in AXES)):
            table.add_column(heading, justify="left" if heading.startswith("sensors") else "right")
        for name, values in found[motion].items():
            table.add_row(name, *(f"{value:.4f}" for value in values))
        Console(width=150).print(table)
    perfect = np.array([found[motion]["perfect laboratory"] for motion in MOTIONS])
    study.figures += [
        Figure("g1: residual of forces in the perfect laboratory, N", float(perfect[:, :3].max()), 0.01, at_least=False,
               note="rms, worst axis and motion, 10 Hz"),
        Figure("g1: residual of moments in the perfect laboratory, N m", float(perfect[:, 3:].max()), 0.005,
               at_least=False, note="rms, worst axis and motion, 10 Hz"),
    ]  # fmt: skip


def play_again(study: Study, robot: str, motion: str) -> None:
    """Plays the trials of one robot and motion again and puts them in place of the stored ones."""
    stored = json.loads((RESULTS / "laboratory.json").read_text(encoding="utf-8"))
    rows = [Row(**row) for row in stored["raw"]["trials"] if (row["robot"], row["motion"]) != (robot, motion)]
    rows += play_trials([(robot, motion, seed) for seed in SEEDS])
    rows.sort(key=lambda row: (ROBOTS.index(row.robot), MOTIONS.index(row.motion), row.seed))
    study.raw.update(stored["raw"])
    study.raw["played_again"] = [*stored["raw"].get("played_again", []), [robot, motion, stored["commit"]]]
    fields = ("what", "value", "bar", "at_least", "aim", "note")
    study.figures += [
        Figure(**{name: figure[name] for name in fields})
        for figure in stored["figures"]
        if figure["what"].startswith("g1: ")
    ]
    judge_trials(study, rows)


def main() -> int:
    """Runs the study; ``--again ROBOT MOTION`` plays only those trials again and keeps the other stored results."""
    study = Study("laboratory", {"first true robot": min(SEEDS), "last true robot": max(SEEDS)})
    if sys.argv[1:2] == ["--again"]:
        play_again(study, *sys.argv[2:4])
        return study.finish()
    measure_speed(study)
    noise_table(study)
    shutil.rmtree(PICTURES, ignore_errors=True)
    judge_trials(
        study, play_trials([(robot, motion, seed) for robot in ROBOTS for motion in MOTIONS for seed in SEEDS])
    )
    return study.finish()


if __name__ == "__main__":
    sys.exit(main())
