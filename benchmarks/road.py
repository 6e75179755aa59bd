"""One road from files to an estimate: ``python -m benchmarks.road``.

Parity: the README's Python, ``steelyard identify``, and gathering in separate processes with one saved Preparation,
for one file, three files in any order, and a fixed arm. Sensors that were zeroed between recordings: each recording's
own offsets against one that all share, and against known ones. Time and memory of ``steelyard identify`` against
another checkout (``--against DIR``). Memory on a recording of 1 GB. ``--part PART...`` runs some parts only, ``--seed``
other robots.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pinocchio as pin

import steelyard as sy
from benchmarks.figures import Figure, Study

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard import Model, Recording

SEED = 1200
"""First seed of the robots; no other study uses these, and nothing was tuned on them."""

ROBOTS = ("g1", "talos")
MOTIONS = ("dance", "sway", "reach")
ZEROINGS = {"1.2 N and 0.04 N m": (1.2, 0.04), "5 N and 0.5 N m": (5.0, 0.5)}
TRUE_ROBOTS = 2
SECONDS = {"g1": 30.0, "talos": 40.0}
AXES = ("fx", "fy", "fz", "nx", "ny", "nz")


def write_trials(folder: Path, name: str, seed: int) -> list[Path]:
    """Writes the recordings of one true robot in three motions."""
    model = sy.load_model(name)
    paths = []
    for motion in MOTIONS:
        paths.append(folder / f"{motion}.csv")
        sy.simulate(model, motion, seed=seed, duration=SECONDS[name]).recording.write(paths[-1])
    return paths


def write_arm(folder: Path, seed: int) -> tuple[Path, list[Path]]:
    """Writes a setup of a fixed arm, and recordings of its angles and noisy torques, computed with Pinocchio."""
    setup = folder / "arm.toml"
    setup.write_text(
        '[model]\nfile = "package://example-robot-data/robots/ur_description/urdf/ur5_robot.urdf"\nbase = "fixed"\n'
        '[torque]\nmeasured = "all"\n'
    )
    model = sy.load_model(setup)
    built = model.pinocchio
    paths = []
    for number in range(3):
        generator = np.random.default_rng([seed, number])
        times = np.arange(4000) / 200.0
        phases = generator.uniform(0.0, 2.0 * np.pi, size=(5, 1, len(model.joints)))
        rates = (0.3 + 0.5 * np.arange(5))[:, None, None]
        sizes = 0.5 / (1.0 + np.arange(5))[:, None, None]
        turns = rates * times[None, :, None] + phases
        q = (sizes * np.sin(turns)).sum(axis=0)
        v = (sizes * rates * np.cos(turns)).sum(axis=0)
        a = (-sizes * rates**2 * np.sin(turns)).sum(axis=0)
        torques = np.array([pin.rnea(built, built.createData(), *each) for each in zip(q, v, a, strict=True)])
        torques += 0.2 * generator.normal(size=torques.shape)
        columns = {f"q.{joint}": q[:, k] for k, joint in enumerate(model.joints)}
        columns |= {f"tau.{joint}": torques[:, k] for k, joint in enumerate(model.joints)}
        paths.append(folder / f"arm_{number}.csv")
        sy.Recording(times, columns).write(paths[-1])
    return setup, paths


def run(*arguments: object, source: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process of its own; with another checkout's source where one is named."""
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = str(source / "src")
    return subprocess.run(
        [sys.executable, *map(str, arguments)], check=True, capture_output=True, text=True, env=environment
    )


def from_shell(setup: object, paths: Sequence[Path], folder: Path) -> np.ndarray:
    """Gives the parameters that ``steelyard identify`` writes."""
    run("-m", "steelyard", "identify", setup, *paths, "-o", folder, "--no-report", "--quiet")
    return np.asarray(sy.load_estimate(folder / "estimate.json").parameters)


def from_python(setup: object, paths: Sequence[Path]) -> np.ndarray:
    """Gives the parameters of the README's lines."""
    model = sy.load_model(setup)
    return np.asarray(sy.identify(model, sy.prepare(model, paths).gather()).parameters)


def from_processes(setup: object, paths: Sequence[Path], folder: Path) -> np.ndarray:
    """Gives the parameters of Evidence that was gathered file by file, each in a process of its own."""
    model = sy.load_model(setup)
    sy.prepare(model, paths).save(folder / "preparation.json")
    script = (
        "import sys, steelyard as sy; setup, preparation, path, out = sys.argv[1:]; "
        "sy.load_preparation(preparation, sy.load_model(setup)).gather(path).save(out)"
    )
    parts = []
    for number, path in enumerate(paths):
        out = folder / f"part_{number}.npz"
        run("-c", script, setup, folder / "preparation.json", path, out)
        parts.append(sy.load_evidence(out))
    return np.asarray(sy.identify(model, sum(parts)).parameters)


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """Gives the greatest difference, each kind of parameter relative to its own size."""
    return float(np.max(np.abs(one - other) / np.linalg.norm(other, axis=0)))


def parity(study: Study, seed: int) -> None:
    """Compares the roads."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arm_setup, arm_files = write_arm(folder, seed)
        files = write_trials(folder, "g1", seed)
        cases: dict[str, tuple[object, list[Path]]] = {
            "one file": ("g1", files[:1]), "three files": ("g1", files), "fixed arm": (arm_setup, arm_files)
        }  # fmt: skip
        for case, (setup, paths) in cases.items():
            wanted = from_python(setup, paths)
            orders = list(itertools.permutations(paths))[1:3] if len(paths) > 1 else []
            found = {
                "steelyard identify": from_shell(setup, paths, folder / f"{case} shell"),
                "separate processes": from_processes(setup, paths, folder),
                **{f"order {k + 2}": from_python(setup, order) for k, order in enumerate(orders)},
            }
            for road, parameters in found.items():
                study.figures.append(
                    Figure(f"{case}: {road} against the README's Python", difference(parameters, wanted), 1e-9,
                           at_least=False, note="greatest difference of a parameter, relative")
                )  # fmt: skip


def zero_anew(recording: Recording, model: Model, sizes: tuple[float, float], generator: Any) -> Recording:
    """Gives a recording whose wrench sensors have other offsets."""
    moved = {
        f"{sensor.name}.{axis}": recording.column(f"{sensor.name}.{axis}")
        + sizes[0 if axis.startswith("f") else 1] * generator.normal()
        for sensor in model.setup.wrench_sensors
        for axis in AXES
    }
    values = {name: moved.get(name, recording.column(name)) for name in recording.columns}
    return sy.Recording(recording.time, values, recording.name)


def zeroing(study: Study, seed: int) -> None:
    """Identifies from recordings between which sensors were zeroed."""
    rows: list[dict[str, Any]] = []
    for name, number in itertools.product(ROBOTS, range(TRUE_ROBOTS)):
        model = sy.load_model(name)
        trials = [sy.simulate(model, motion, seed=seed + 10 + number, duration=SECONDS[name]) for motion in MOTIONS]
        truth = trials[0].truth
        quiet = replace(trials[0].sensors, force=replace(trials[0].sensors.force, bias=0.0),
                        moment=replace(trials[0].sensors.moment, bias=0.0))  # fmt: skip
        clean = [trial.with_noise(noise=quiet, seed=seed + 10 + number).recording for trial in trials]
        for level, sizes in ZEROINGS.items():
            generator = np.random.default_rng([seed, number, round(10 * sizes[0])])
            moved = [zero_anew(each, model, sizes, generator) for each in clean]
            prepared = sy.prepare(model, moved)
            shared = replace(prepared, shared_offsets=True)
            errors = tuple(group for group in prepared.nuisance if group != "wrench_offset")
            known = sy.prepare(model, clean, nuisance=errors, delays=dict(prepared.delays))
            first = sy.prepare(model, moved[:1], delays=dict(prepared.delays))
            ways = {"own": prepared, "shared": shared, "known": known, "first alone": first}
            row: dict[str, Any] = {"robot": name, "seed": seed + 10 + number, "zeroing": level}
            for way, each in ways.items():
                estimate = sy.identify(model, each.gather())
                off = estimate.parameters[:, 0] - truth.parameters[:, 0]
                row[way] = {"masses": float(np.sqrt(np.mean(off**2))), "total": float(off.sum())}
            cad = model.parameters[:, 0] - truth.parameters[:, 0]
            row["cad"] = {"masses": float(np.sqrt(np.mean(cad**2))), "total": float(cad.sum())}
            rows.append(row)
            print(json.dumps(row), file=sys.stderr)
    study.raw["zeroing"] = rows
    for level in ZEROINGS:
        chosen = [row for row in rows if row["zeroing"] == level]
        for way in ("own", "shared", "first alone"):
            ratio = float(np.median([row[way]["masses"] / row["known"]["masses"] for row in chosen]))
            study.figures.append(
                Figure(f"zeroed anew, {level}: error of link masses, {way} over known offsets", ratio,
                       1.1 if way == "own" else None, at_least=False, note=f"median of {len(chosen)} robots")
            )  # fmt: skip
        for way in ("own", "shared", "known", "first alone", "cad"):
            rms = float(np.sqrt(np.mean([row[way]["total"] ** 2 for row in chosen])))
            study.figures.append(Figure(f"zeroed anew, {level}: error of the total mass, {way}", rms, note="kg rms"))


_MEASURE = """
import sys
from steelyard.cli import main
import steelyard.cli.identify

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

base = peak()
sys.argv = ["steelyard", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print(peak() - base, file=sys.stderr)
"""


def speed(study: Study, against: Path) -> None:
    """Times ``steelyard identify`` with a report against another checkout, by turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recording = sy.simulate(sy.load_model("g1"), "dance", seed=SEED, duration=60.0).recording
        for ending in ("csv", "mcap"):
            path = folder / f"dance.{ending}"
            recording.write(path)
            times: dict[str, list[float]] = {"here": [], "there": []}
            peaks: dict[str, list[float]] = {"here": [], "there": []}
            for turn in range(3):
                for which, source in (("there", against), ("here", Path(__file__).parents[1])):
                    out = folder / f"{ending}-{which}-{turn}"
                    begun = time.perf_counter()
                    done = run("-c", _MEASURE, "identify", "g1", path, "-o", out, "--quiet", source=source)
                    times[which].append(time.perf_counter() - begun)
                    peaks[which].append(float(done.stderr.split()[-1]) / 1024.0)
            study.raw[f"speed {ending}"] = {"seconds": times, "megabytes": peaks}
            best = {which: min(each) for which, each in times.items()}
            peak = {which: min(each) for which, each in peaks.items()}
            note = f"{best['here']:.1f} against {best['there']:.1f} s, best of 3 by turns"
            what = f"identify with report, 60 s of G1, {ending}"
            study.figures.append(Figure(f"{what}: times faster", best["there"] / best["here"], 1.5, note=note))
            note = f"{peak['here']:.0f} against {peak['there']:.0f} MB above the imports"
            study.figures.append(
                Figure(f"{what}: peak memory over the other's", peak["here"] / peak["there"], note=note)
            )


LARGE_BYTES = 1_000_000_000
PERIOD = 60


def repeat_messages(path: Path, out: Path, size: int) -> float:
    """Writes the messages of an MCAP file again and again, each time later, until the file is that large.

    Returns:
        Seconds of motion in the file.
    """
    from mcap.reader import make_reader  # noqa: PLC0415  (for this part alone)
    from mcap.writer import CompressionType, Writer  # noqa: PLC0415

    with path.open("rb") as file:
        messages = [
            (schema, channel, message.log_time, bytes(message.data))
            for schema, channel, message in make_reader(file).iter_messages()
        ]
    rounds = 0
    with out.open("wb") as file:
        # As robots log: in chunks that are not compressed.
        writer = Writer(file, compression=CompressionType.NONE)
        writer.start(profile="ros2")
        channels: dict[int, int] = {}
        while file.tell() < size:
            for schema, channel, time_ns, content in messages:
                if channel.id not in channels:
                    number = writer.register_schema(schema.name, schema.encoding, schema.data)
                    channels[channel.id] = writer.register_channel(
                        channel.topic, channel.message_encoding, number, dict(channel.metadata)
                    )
                later = bytearray(content)
                # Every message begins with its header: four bytes of encapsulation, then the stamp's seconds.
                seconds = int.from_bytes(later[4:8], "little") + PERIOD * rounds
                later[4:8] = seconds.to_bytes(4, "little")
                moved = time_ns + PERIOD * rounds * 1_000_000_000
                writer.add_message(channels[channel.id], moved, bytes(later), moved)
            rounds += 1
        writer.finish()
    return float(PERIOD * rounds)


def large(study: Study) -> None:
    """Measures the memory of ``steelyard identify`` with a report on a recording of 1 GB."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recording = sy.simulate(sy.load_model("g1"), "dance", seed=SEED, duration=float(PERIOD)).recording
        # The last sample of one round would stand at the first of the next.
        recording.between(0.0, PERIOD - 1e-3).write(folder / "minute.mcap")
        seconds = repeat_messages(folder / "minute.mcap", folder / "large.mcap", LARGE_BYTES)
        begun = time.perf_counter()
        done = run("-c", _MEASURE, "identify", "g1", folder / "large.mcap", "-o", folder / "out", "--quiet")
        spent = time.perf_counter() - begun
        peak = float(done.stderr.split()[-1]) / 1024.0
        if not (folder / "out" / "report.html").exists():
            raise RuntimeError(f"no report was written: {done.stderr}")
        size = (folder / "large.mcap").stat().st_size / 1e9
        note = f"MB above the imports; {size:.2f} GB, {seconds / 60.0:.0f} minutes of motion, {spent:.0f} s"
        study.figures.append(
            Figure("identify with report, 1 GB of MCAP: peak memory", peak, 600.0, at_least=False, note=note)
        )


def main() -> int:
    """Runs the study."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.road")
    parser.add_argument("--part", nargs="*", choices=["parity", "zeroing", "speed", "large"],
                        default=["parity", "zeroing", "large"])  # fmt: skip
    parser.add_argument("--seed", type=int, default=SEED, help="first seed of the robots")
    parser.add_argument("--against", type=Path, help="another checkout, for the part speed")
    options = parser.parse_args()
    study = Study(
        "road" if options.seed == SEED else f"road_{options.seed}", {"first": options.seed, "robots": TRUE_ROBOTS}
    )
    if "parity" in options.part:
        parity(study, options.seed)
    if "zeroing" in options.part:
        zeroing(study, options.seed)
    if "speed" in options.part or options.against is not None:
        if options.against is None:
            parser.error("the part speed needs --against DIR")
        speed(study, options.against.resolve())
    if "large" in options.part:
        large(study)
    return study.finish()


if __name__ == "__main__":
    sys.exit(main())
