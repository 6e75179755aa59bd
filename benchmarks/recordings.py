"""What the door for recordings can do: ``python -m benchmarks.recordings``.

Round trips through every format; a 1 GB CSV and a 1 GB MCAP through `inspect` and through gathering, with the memory
that it takes; delays and their intervals; fourteen mounting and unit faults (`benchmarks.faults.FAULTS`) on
twenty true robots; recordings without a fault; real recordings, where they are; odd files by the ten thousand.

The longest parts can be left out: ``--without memory fuzzing``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.faults import FAULTS
from benchmarks.figures import RESULTS, Figure, Study
from steelyard import Recording, estimate_delays, inspect_recording, load_model, read_recording
from steelyard.laboratory import DEFAULT_SENSORS, simulate
from steelyard.motion import stream_motion
from steelyard.recording import join_recordings
from steelyard.regression import gather_evidence

PARTS = ("round_trips", "peers", "real", "delays", "faults", "memory", "fuzzing")
SEEDS = range(20)
ROBOTS = ("talos", "icub", "romeo")
MOTIONS = ("dance", "sway", "reach", "postures", "limp")
LAG = 0.012
SIZE = 1_000_000_000
BUDGET = 400.0
DATA = Path(os.environ.get("STEELYARD_DATA", Path(__file__).parents[2] / "shared" / "data"))
FORMATS = ("csv", "csv.gz", "parquet", "npz", "h5", "mcap", "bag", "ros2_mcap", "ros2_sqlite3")


def round_trips(study: Study) -> None:
    """Sends a noisy trial through every format and back."""
    model = load_model("g1")
    recording = simulate(model, "dance", seed=0, duration=10.0).recording
    worst_time = worst_value = 0.0
    raw = {}
    for ending in FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / (ending if ending.startswith("ros2") else f"trial.{ending}")
            start = time.perf_counter()
            _write(recording, path, ending)
            written = time.perf_counter()
            again = read_recording(path, model)
            read = time.perf_counter()
        if set(again.columns) != set(recording.columns) or len(again) != len(recording):
            raise SystemExit(f"{ending} lost columns or rows")
        late = float(np.max(np.abs(again.time - recording.time)))
        off = 0.0
        for name in recording.columns:
            one, two = recording.column(name), again.column(name)
            if not np.array_equal(np.isfinite(one), np.isfinite(two)):
                raise SystemExit(f"{ending} changed what is missing in {name}")
            off = max(off, float(np.nanmax(np.abs(one - two))))
        raw[ending] = {"time": late, "values": off, "write_s": written - start, "read_s": read - written}
        worst_time, worst_value = max(worst_time, late), max(worst_value, off)
    study.raw["round_trips"] = raw
    study.figures += [
        Figure("round trips: largest change of a value", worst_value, 0.0, at_least=False, note=", ".join(FORMATS)),
        Figure("round trips: largest change of a time (s)", worst_time, 1e-9, at_least=False, note="bags: nanoseconds"),
    ]


def _write(recording: Recording, path: Path, ending: str) -> None:
    if ending.startswith("ros2"):
        from steelyard.recording.bags.bag_file import write_ros2  # noqa: PLC0415 (an extra)

        write_ros2(recording, path, storage="mcap" if ending.endswith("mcap") else "sqlite3")
    else:
        recording.write(path)


def peers(study: Study) -> None:
    """Reads one ROS 2 bag into columns, beside a loop over rosbags' own messages."""
    from rosbags.highlevel import AnyReader  # noqa: PLC0415 (an extra)

    model = load_model("g1")
    recording = simulate(model, "dance", seed=0, duration=30.0).recording
    with tempfile.TemporaryDirectory() as folder:
        bag = Path(folder) / "bag"
        _write(recording, bag, "ros2_mcap")

        def ours() -> None:
            read_recording(bag, model)

        def theirs() -> None:
            rows: dict[str, list[Any]] = {}
            with AnyReader([bag]) as reader:
                for connection, stamp, raw in reader.messages():
                    message = reader.deserialize(raw, connection.msgtype)
                    rows.setdefault(connection.topic, []).append((stamp, _numbers(message)))
            {topic: np.array([numbers for _, numbers in pairs]) for topic, pairs in rows.items()}

        times = {reading.__name__: min(_seconds(reading) for _ in range(3)) for reading in (ours, theirs)}
    study.raw["peers"] = times
    study.figures.append(
        Figure(
            "ROS 2 bag to columns, times faster than a loop over rosbags",
            times["theirs"] / times["ours"],
            1.0,
            note=f"{len(recording)} rows, six topics",
        )
    )


def _numbers(message: Any) -> Any:
    """Gives the numbers of a message that a recording keeps."""
    if hasattr(message, "position"):
        return message.position
    if hasattr(message, "wrench"):
        force, moment = message.wrench.force, message.wrench.torque
        return (force.x, force.y, force.z, moment.x, moment.y, moment.z)
    vectors = (message.angular_velocity, message.linear_acceleration, message.orientation)
    return [getattr(vector, axis) for vector in vectors for axis in "xyzw" if hasattr(vector, axis)]


def _seconds(function: Any) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def real(study: Study) -> None:
    """Reads the iCub's and the KUKA's recordings through column maps."""
    if not (DATA / "icub_sway").is_dir():
        print(f"SKIPPED: real recordings are not in {DATA}; set STEELYARD_DATA", file=sys.stderr)
        return
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.recording.real_data import ICUB, KUKA, load_real  # noqa: PLC0415 (tests are not installed)

    model, recording = load_real(ICUB, "icub_sway/com-sinusoid.mat")
    inspection = inspect_recording(recording, model)
    force = inspection.vertical_force
    said = [finding.words for finding in inspection.findings if finding.code == "weight"]
    arm, run = load_real(KUKA, "kuka_lwr4/measurements_1.npz")
    study.raw["real"] = {
        "icub": [finding.words for finding in inspection.findings],
        "kuka": [finding.words for finding in inspect_recording(run, arm).findings],
    }
    study.figures += [
        Figure("iCub: vertical force over CAD weight, %", 100.0 * (force["force"] / force["weight"] - 1.0), 2.0),
        Figure("iCub: remarks about it", float(len(said)), 1.0),
        Figure("KUKA: rows read", float(len(run)), 5027.0),
    ]


def _delay(seed: int) -> dict[str, Any]:
    late = {
        name: replace(getattr(DEFAULT_SENSORS, name), delay=LAG if name in ("force", "moment") else 0.002)
        for name in ("force", "moment")
    }
    model = load_model("g1")
    with threadpool_limits(1):
        recording = simulate(model, "dance", seed=seed, noise=replace(DEFAULT_SENSORS, **late)).recording
        delays = estimate_delays(model, recording)
    return {name: [delay.value, delay.low, delay.high] for name, delay in delays.by_sensor.items()}


def delays(study: Study) -> None:
    """Finds a lag of 12 ms of both wrench sensors, and that of 2 ms which the inertial sensor has anyhow."""
    found = _in_parallel(_delay, list(SEEDS))
    true = {"left_foot": LAG, "right_foot": LAG, "pelvis": DEFAULT_SENSORS.gyro.delay}
    errors = {name: [abs(each[name][0] - lag) for each in found] for name, lag in true.items()}
    held = [each[name][1] <= lag <= each[name][2] for each in found for name, lag in true.items()]
    study.raw["delays"] = found
    study.figures += [
        Figure(
            "12 ms lag: worst error (ms)",
            1e3 * max(*errors["left_foot"], *errors["right_foot"]),
            1.0,
            at_least=False,
            note=f"{len(SEEDS)} true robots, two feet each, G1 dance, 60 s",
        ),
        Figure("2 ms lag of the inertial sensor: worst error (ms)", 1e3 * max(errors["pelvis"]), 1.0, at_least=False),
        Figure("delays: 95 % intervals that hold the truth, %", 100.0 * float(np.mean(held)), note=f"of {len(held)}"),
    ]


def _faults(seed: int) -> dict[str, Any]:
    model = load_model("g1")
    with threadpool_limits(1):
        recording = simulate(model, MOTIONS[seed % len(MOTIONS)], seed=seed, duration=30.0).recording
        clean = inspect_recording(recording, model)
        result: dict[str, Any] = {
            "clean": [finding.words for finding in clean.findings if finding.severity != "remark"],
            "wrong": {},
        }
        for name, fault in FAULTS.items():
            spoilt = fault.spoil(model, recording)
            found = inspect_recording(spoilt, model)
            if found.codes("fault") != fault.expected(model):
                result["wrong"][name] = [finding.words for finding in found.faults] or ["nothing"]
            elif fault.code != "offset" and not _is_mended(spoilt, recording, found.corrections):
                result["wrong"][name] = ["named, but the fix does not give the readings back"]
    return result


def _is_mended(spoilt: Recording, true: Recording, corrections: Any) -> bool:
    """Tells whether the corrections that are offered give back what was measured."""
    for column in (name for name in true.columns if not name.startswith("q_command")):
        source, scale, offset = corrections.get(column, (column, 1.0, 0.0))
        mended = scale * spoilt.column(source) + offset
        if not np.allclose(mended, true.column(column), rtol=1e-9, atol=1e-9, equal_nan=True):
            return False
    return True


def _clean(case: tuple[str, str, int]) -> list[str]:
    robot, motion, seed = case
    model = load_model(robot)
    with threadpool_limits(1):
        inspection = inspect_recording(simulate(model, motion, seed=seed, duration=30.0).recording, model)
    return [finding.words for finding in inspection.findings if finding.severity != "remark"]


def faults(study: Study) -> None:
    """Makes every fault on twenty true robots, and none on twenty more of other makes."""
    found = _in_parallel(_faults, list(SEEDS))
    wrong = {name: [seed for seed, each in zip(SEEDS, found, strict=True) if name in each["wrong"]] for name in FAULTS}
    named = min(len(SEEDS) - len(seeds) for seeds in wrong.values())
    others = [(robot, motion, seed) for robot in ROBOTS for motion in ("sway", "reach", "limp") for seed in (0, 1)]
    elsewhere = _in_parallel(_clean, others)
    study.raw["faults"] = {
        "list": {name: fault.description for name, fault in FAULTS.items()},
        "by_seed": found,
        "clean_elsewhere": {" ".join(map(str, case)): words for case, words in zip(others, elsewhere, strict=True)},
    }
    study.figures += [
        Figure(
            "faults: seeds named correctly, worst fault",
            float(named),
            float(len(SEEDS)),
            note=f"{len(FAULTS)} faults, {len(SEEDS)} seeds, motions {', '.join(MOTIONS)}",
        ),
        Figure("faults: kinds", float(len(FAULTS)), 12.0),
        Figure(
            "clean G1 recordings with a fault or warning",
            float(sum(bool(each["clean"]) for each in found)),
            0.0,
            at_least=False,
            note=f"of {len(found)}",
        ),
        Figure(
            "clean recordings of other robots with one",
            float(sum(bool(words) for words in elsewhere)),
            0.0,
            at_least=False,
            note=f"of {len(others)}: TALOS, iCub, Romeo",
        ),
    ]


def memory(study: Study) -> None:
    """Sends 1 GB of CSV and of MCAP through `inspect` and through gathering, each in a process of its own."""
    raw: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("csv", "mcap"):
            path = Path(folder) / f"long.{ending}"
            size, rows = _write_large(path)
            raw[ending] = {"bytes": size, "rows": rows}
            for task in ("inspect", "gather"):
                measured = _measured(task, path)
                raw[ending][task] = measured
                study.figures.append(
                    Figure(
                        f"{size / 1e9:.2f} GB {ending}, {task}: MB above imports",
                        measured["peak_mb"],
                        BUDGET,
                        at_least=False,
                        note=f"{rows} rows in {measured['seconds']:.0f} s; {measured['said']}",
                    )
                )
            path.unlink()
    study.raw["memory"] = raw


def _write_large(path: Path) -> tuple[int, int]:
    """Writes a recording of at least `SIZE` bytes: trials one after the other."""
    model = load_model("g1")
    trials = [simulate(model, motion, seed=seed).recording for seed, motion in enumerate(("dance", "sway", "reach"))]
    once = join_recordings(trials, gap=1.0)
    once.write(path)
    copies = int(SIZE / path.stat().st_size) + 1
    whole = join_recordings([once] * copies, gap=1.0)
    whole.write(path)
    return path.stat().st_size, len(whole)


def _measured(task: str, path: Path) -> dict[str, Any]:
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.recordings", "--measure", task, str(path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def _measure(task: str, path: Path) -> None:
    model = load_model("g1")
    # Five resets the high-water mark to what is held now (proc(5)); getrusage would count the parent's memory too.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _high_water()
    start = time.perf_counter()
    recording = read_recording(path, model)
    if task == "inspect":
        said = f"{len(inspect_recording(recording, model).findings)} findings"
    else:
        said = f"rank {gather_evidence(model, stream_motion(model, recording), nuisance=()).rank}"
    peak, took = _high_water(), time.perf_counter() - start
    print(json.dumps({"peak_mb": (peak - before) / 1e3, "imports_mb": before / 1e3, "seconds": took, "said": said}))


def _high_water() -> int:
    """Gives the most memory that this process has held, kB."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])


def _fuzz(kind: str) -> float:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.recording import fuzzing  # noqa: PLC0415 (tests are not installed)

    start = time.perf_counter()
    getattr(fuzzing, f"check_{kind}")(10_000)
    return time.perf_counter() - start


def fuzzing(study: Study) -> None:
    """Reads ten thousand odd files of each kind; anything but a RecordingError stops the benchmark."""
    kinds = ["csv", "npz", "mcap"]
    took = _in_parallel(_fuzz, kinds)
    study.raw["fuzzing"] = dict(zip(kinds, took, strict=True))
    study.figures.append(
        Figure("odd files of each kind, CSV, NPZ and MCAP", 1e4, 1e4, note="nothing but RecordingError came out")
    )


def _in_parallel(function: Any, cases: list[Any]) -> list[Any]:
    with ProcessPoolExecutor(max_workers=os.cpu_count(), mp_context=get_context("spawn")) as pool:
        return list(pool.map(function, cases))


def main() -> int:
    """Runs all parts that are not left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without", nargs="*", choices=PARTS, default=[])
    parser.add_argument("--again", nargs="*", choices=PARTS, default=[], help="run these parts anew, keep the others")
    parser.add_argument("--measure", nargs=2, metavar=("TASK", "PATH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        _measure(arguments.measure[0], Path(arguments.measure[1]))
        return 0
    study = Study("recordings", {"first": SEEDS[0], "last": SEEDS[-1]})
    stored = json.loads((RESULTS / "recordings.json").read_text(encoding="utf-8")) if arguments.again else None
    by_part: dict[str, list[str]] = stored["raw"]["parts"] if stored else {}
    for part in PARTS:
        if stored and part not in arguments.again:
            names = by_part[part]
            kept = [figure for figure in stored["figures"] if figure["what"] in names]
            study.figures += [Figure(**{key: each[key] for key in each if key != "met"}) for each in kept]
            study.raw[part] = stored["raw"].get(part)
        elif part not in arguments.without:
            start, before = time.perf_counter(), len(study.figures)
            globals()[part](study)
            by_part[part] = [figure.what for figure in study.figures[before:]]
            print(f"{part}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    study.raw |= {"parts": by_part, "left_out": arguments.without, "run_again": arguments.again}
    if stored:
        study.raw["first_run"] = stored["commit"]
    return study.finish()


if __name__ == "__main__":
    sys.exit(main())
