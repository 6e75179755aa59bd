"""Speed and memory of the way from motion to Evidence: ``python -m benchmarks.core``.

All in one run, one BLAS thread, G1 and TALOS, 20 000 samples: base rows against a loop over Pinocchio and against
figaroh; motion to Evidence against stacking everything and one QR, and against figaroh's own; memory at 20 000 and
500 000 samples; and how near the factorisation comes to a plain matrix product of the same size.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pinocchio as pin
from threadpoolctl import threadpool_limits

from benchmarks.figures import Figure, Study
from benchmarks.peers.environment import peer_python
from steelyard import gather_evidence, load_model, motion_from_generalized
from steelyard.model.setup import Setup, WrenchSensor
from steelyard.regression.factor import Factor
from steelyard.regression.independence import independent_columns
from steelyard.regression.rows import base_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steelyard import Model, Motion

SAMPLES = 20_000
MANY_SAMPLES = 500_000
REPEATS = 3
SEED = 0
SENSOR_ERRORS = ("wrench_offset", "accelerometer_bias", "imu_mounting")
FEET = {"g1": ("left_ankle_roll_link", "right_ankle_roll_link"), "talos": ("left_sole_link", "right_sole_link")}


def robot(name: str) -> Model:
    """Gives a robot with a six-axis sensor at the ground under each foot: the base link's six rows, and no others."""
    path = load_model(name).description.file.path
    sensors = tuple(WrenchSensor(f"foot_{number}", frame) for number, frame in enumerate(FEET[name]))
    return load_model(path, setup=Setup(wrench_sensors=sensors))


def random_samples(model: Model, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Motion]:
    """Gives random configurations, velocities and accelerations, and the Motion that they are."""
    generator = np.random.default_rng(seed)
    q = generator.normal(size=(count, model.position_size))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    v, a = generator.normal(size=(2, count, model.velocity_size))
    motion = motion_from_generalized(model, np.arange(count) / 200.0, q, v, a)
    wrenches = {sensor.name: 100.0 * generator.normal(size=(count, 6)) for sensor in model.setup.wrench_sensors}
    return q, v, a, replace(motion, wrenches=wrenches)


def best(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Gives the least time of some calls, s: what the machine's other work disturbed least."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def pinocchio_rows(model: Model, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Gives the stacked base rows by a Python loop over Pinocchio."""
    built, data = model.pinocchio, model.pinocchio.createData()
    out = np.empty((len(q), 6, 10 * len(model.links)))
    for i in range(len(q)):
        out[i] = pin.computeJointTorqueRegressor(built, data, q[i], v[i], a[i])[:6]
    return out


def stacked_factor(model: Model, motion: Motion) -> np.ndarray:
    """Gives the factor of all rows by stacking them and one QR decomposition, forces included."""
    rows = base_rows(model, motion).reshape(len(motion) * 6, -1)
    forces = np.zeros((len(rows), 1))
    return np.linalg.qr(np.concatenate([rows, forces], axis=1), mode="r")


def cold_gathering(model: Model, motion: Motion, **options: Any) -> None:
    """Gathers Evidence, the search for independent columns included, which is otherwise done once for a robot."""
    independent_columns.cache_clear()
    gather_evidence(model, motion, **options)


def figaroh(model: Model, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> dict[str, Any]:
    """Runs figaroh 1.0.2 on the same samples in its own environment, one BLAS thread."""
    python = peer_python("figaroh", "figaroh==1.0.2")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "samples.npz"
        np.savez(file, q=q, v=v, a=a)
        script = Path(__file__).parent / "peers" / "figaroh_base_regressor.py"
        answer = subprocess.run(
            [str(python), str(script), str(model.description.file.path), str(file), str(REPEATS)],
            capture_output=True, text=True, check=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    return json.loads(answer.stdout.strip().splitlines()[-1])


def equal_factors(model: Model, motion: Motion) -> float:
    """Gives the greatest relative difference between Evidence's factor and that of one QR of the same columns."""
    evidence = gather_evidence(model, motion, weights=None, nuisance=())
    rows = base_rows(model, motion).reshape(len(motion) * 6, -1)[:, evidence.independent]
    wanted = np.linalg.qr(rows, mode="r")
    wanted *= np.sign(np.diag(wanted))[:, None]
    count = len(evidence.independent)
    return float(np.max(np.abs(evidence.factor[:count, :count] - wanted)) / np.max(np.abs(wanted)))


def sensor_errors(name: str) -> tuple[float, float]:
    """Return the times of gathering with a robot's own setup, without and with the errors of its sensors, s."""
    model = load_model(name)
    motion = random_samples(model, SAMPLES, SEED)[3]
    for nuisance in ((), SENSOR_ERRORS):
        gather_evidence(model, motion.between(0, 600), nuisance=nuisance)
    known, unknown = (
        best(lambda nuisance=nuisance: gather_evidence(model, motion, nuisance=nuisance))
        for nuisance in ((), SENSOR_ERRORS)
    )
    return known, unknown


def compare_robot(study: Study, name: str) -> None:
    """Measures one robot against its peers."""
    model = robot(name)
    q, v, a, motion = random_samples(model, SAMPLES, SEED)
    base_rows(model, motion.between(0, 600))
    gather_evidence(model, motion.between(0, 600), nuisance=())
    ours = best(lambda: base_rows(model, motion))
    loop = best(lambda: pinocchio_rows(model, q, v, a))
    gathered = best(lambda: cold_gathering(model, motion, weights=None))
    whitened = best(lambda: cold_gathering(model, motion))
    stacked = best(lambda: stacked_factor(model, motion))
    evidence = gather_evidence(model, motion, weights=None, nuisance=())
    peer = figaroh(model, q, v, a)
    build, factor = min(peer["build"]), min(peer["factor"])
    difference = equal_factors(model, motion)
    known, unknown = sensor_errors(name)
    study.raw[name] = {
        "base_rows_s": ours, "pinocchio_loop_s": loop, "figaroh_build_s": build, "figaroh_factor_s": factor,
        "gather_plain_s": gathered, "gather_whitened_s": whitened, "stack_and_qr_s": stacked, "rank": evidence.rank,
        "figaroh_rank": peer["rank"], "factor_difference": difference, "samples": SAMPLES,
        "gather_sensors_known_s": known, "gather_sensor_errors_s": unknown,
    }  # fmt: skip
    micro = 1e6 / SAMPLES
    study.figures += [
        Figure(f"{name}: base rows, times faster than a loop over Pinocchio", loop / ours, 5, aim=10,
               note=f"{ours * micro:.2f} against {loop * micro:.1f} µs a sample, two cores"),
        Figure(f"{name}: base rows, times faster than figaroh", build / ours, 5, aim=10,
               note=f"{build * micro:.1f} µs a sample"),
        Figure(f"{name}: motion to Evidence, times faster than stacking and one QR", stacked / gathered, 3, aim=5,
               note=f"{gathered * micro:.1f} µs a sample on two cores, plain, against {stacked * micro:.1f} on one"),
        Figure(f"{name}: the same, whitened by the sensors' noise", stacked / whitened, 3,
               note=f"{whitened * micro:.1f} µs a sample"),
        Figure(f"{name}: motion to Evidence, times faster than figaroh", (build + factor) / gathered, 10,
               note=f"{(build + factor) * micro:.0f} µs a sample"),
        Figure(f"{name}: motion to Evidence, sensor errors as unknowns, over that without", unknown / known, 2.5,
               at_least=False, note=f"{unknown * micro:.1f} against {known * micro:.1f} µs a sample, its own setup"),
        Figure(f"{name}: difference of the factors", difference, 1e-9, at_least=False, note="relative, up to signs"),
        Figure(f"{name}: rank less figaroh's", abs(evidence.rank - peer["rank"]), 0, at_least=False,
               note=f"{evidence.rank}, gap {evidence.rank_gap:.1e}"),
    ]  # fmt: skip


def share_of_the_limit(study: Study, name: str) -> None:
    """Measures the factorisation against a matrix product of the same flops."""
    model = robot(name)
    motion = random_samples(model, SAMPLES, SEED)[3]
    independent = gather_evidence(model, motion.between(0, 600), weights=None, nuisance=()).independent
    rows = base_rows(model, motion).reshape(6 * SAMPLES, -1)[:, independent]
    count = rows.shape[1]
    size = 14_000
    other = np.random.default_rng(SEED).normal(size=(count, count))
    out = np.empty((size, count))
    ratios = []
    for _ in range(5):
        # A whole gathering, the first chunk's QR included, each chunk beside a product of its own size.
        factor = Factor(count)
        factored = multiplied = 0.0
        for start in range(0, len(rows) - size + 1, size):
            chunk = rows[start : start + size].copy()
            begin = time.perf_counter()
            factor.add(chunk)
            middle = time.perf_counter()
            np.matmul(rows[start : start + size], other, out=out)
            multiplied += time.perf_counter() - middle
            factored += middle - begin
        ratios.append(multiplied / factored)
    study.raw[f"{name}_share"] = ratios
    study.figures.append(
        Figure(f"{name}: flop rate of the factorisation over dgemm's", float(np.median(ratios)), 0.5,
               note=f"2 m n² each, {len(rows) // size} chunks of {size} x {count}, one thread; median of {len(ratios)}")
    )  # fmt: skip


def stream(count: int, pieces: list[Motion]) -> Iterator[Motion]:
    """Gives `count` samples as a stream of pieces, over and over."""
    done = 0
    while done < count:
        piece = pieces[(done // len(pieces[0])) % len(pieces)]
        yield piece
        done += len(piece)


def memory_and_flatness(study: Study) -> None:
    """Measures peak memory above the imports, and time per sample, of a short and a long stream, each on its own."""
    for name in FEET:
        answers = {}
        for count in (SAMPLES, MANY_SAMPLES):
            answer = subprocess.run(
                [sys.executable, "-m", "benchmarks.core", "--stream", name, str(count)],
                capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1],
            )  # fmt: skip
            answers[count] = json.loads(answer.stdout.strip().splitlines()[-1])
        study.raw[f"{name}_stream"] = {str(count): answer for count, answer in answers.items()}
        for count, answer in answers.items():
            study.figures.append(
                Figure(f"{name}: peak memory above the imports at {count} samples", answer["megabytes"], 200,
                       at_least=False, note="MB, streamed, whitened")
            )  # fmt: skip
        few = float(np.median(answers[MANY_SAMPLES]["short_microseconds"]))
        many = float(np.median(answers[MANY_SAMPLES]["long_microseconds"]))
        study.figures.append(
            Figure(f"{name}: cost of a sample at 500 000 over that at 20 000", many / few, 1.1, at_least=False,
                   note=f"{many:.1f} against {few:.1f} µs, by turns in one process")
        )  # fmt: skip


def run_stream(name: str, count: int) -> None:
    """Gathers a stream in this process, and prints its peak memory and its time per sample."""
    model = robot(name)
    pieces = [random_samples(model, 2000, seed)[3] for seed in range(3)]
    # A few samples first: compiled code is loaded like an import, and counts as one.
    gather_evidence(model, pieces[0].between(0, 64), nuisance=())
    before = resident_memory()
    with threadpool_limits(limits=1, user_api="blas"), PeakMemory() as peak:
        gather_evidence(model, stream(12_000, pieces), nuisance=())
        long, short = [], []
        if count == MANY_SAMPLES:
            # Short streams before and after each long one: both see the same machine.
            for _ in range(2):
                short += [timed(model, SAMPLES, pieces) for _ in range(5)]
                long.append(timed(model, count, pieces))
                short += [timed(model, SAMPLES, pieces) for _ in range(5)]
        else:
            short.append(timed(model, count, pieces))
    answer = {"megabytes": (peak.bytes - before) / 1e6, "short_microseconds": short, "long_microseconds": long}
    print(json.dumps(answer))


def timed(model: Model, count: int, pieces: list[Motion]) -> float:
    """Gives the time of a sample, microseconds, of a stream of `count`."""
    start = time.perf_counter()
    gather_evidence(model, stream(count, pieces), nuisance=())
    return 1e6 * (time.perf_counter() - start) / count


def resident_memory() -> int:
    """Gives the memory that this process holds now, bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class PeakMemory:
    """Watches the memory of this process from a thread, a thousand times a second; `bytes` is the most that it saw."""

    def __enter__(self) -> PeakMemory:
        self.bytes = resident_memory()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(1e-3):
            self.bytes = max(self.bytes, resident_memory())


def main() -> int:
    """Runs the study."""
    if sys.argv[1:2] == ["--stream"]:
        run_stream(sys.argv[2], int(sys.argv[3]))
        return 0
    study = Study("core", {"samples": SEED})
    with threadpool_limits(limits=1, user_api="blas"):
        for name in FEET:
            compare_robot(study, name)
            share_of_the_limit(study, name)
    memory_and_flatness(study)
    return study.finish()


if __name__ == "__main__":
    sys.exit(main())
