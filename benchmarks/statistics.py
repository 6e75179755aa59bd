"""Whether estimates are as good as they say: ``python -m benchmarks.statistics [--part PART...]``.

Noiseless motions, how often intervals hold the truth, real robots, and time from a file to an estimate.

What was chosen, and how, because it bears on what the figures prove. The motion (seed 3 of five that were looked at) is
the one whose soles rattle least: what the physics does above half of the sensors' 500 readings a second is folded into
the data, and no least squares knows of it. The laboratory's physics is first order in its step of 0.5 ms, so that the
velocity of a state is that of a quarter of a millisecond before; that is 2 mN, and up to 1.9 standard errors when
wrench noise is all there is. `centred` gives the states their velocity of the instant, and the feet the difference.
Below which frequency instruments follow the measured motion (1 Hz) was chosen on this motion with other noise; a second
motion that nobody looked at before is measured beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.figures import RESULTS, Figure, Study
from benchmarks.real_robots import study_real
from steelyard import estimate_noise, gather_evidence, identify, load_model, read_recording, reconstruct_motion
from steelyard.kinematics import cross
from steelyard.laboratory import DEFAULT_SENSORS, Instrument, Sensors, simulate
from steelyard.laboratory.world import TIME_STEP
from steelyard.regression import gather_correlated, gather_with_instruments
from steelyard.regression.rows import base_wrench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from steelyard import BaseParameters, Evidence, Model
    from steelyard.arrays import FloatArray
    from steelyard.laboratory import Trial

ROBOTS = ("g1", "talos", "icub", "romeo")
MOTION_SEED = 3
OTHER_MOTION_SEED = 8
FIRST_NOISE = 20_000
WRENCH_TRIALS = 1000
COUNTING_TRIALS = 60
REGRESSOR_TRIALS = 240
OTHER_TRIALS = 80
DURATION = 60.0
CUTOFF = 10.0
"""Hz. For encoder noise it is too high (the automatic choice is about 3 Hz), which the instruments must be able to
stand; at lower ones the filter distorts products of channels by more than the wrench noise."""

LEVEL = 0.95


def _white(instrument: Instrument, *, resolution: bool) -> Instrument:
    return Instrument(noise=instrument.noise, resolution=instrument.resolution if resolution else 0.0)


WRENCH_NOISE = Sensors(
    force=_white(DEFAULT_SENSORS.force, resolution=False), moment=_white(DEFAULT_SENSORS.moment, resolution=False)
)
"""The default noise of wrenches, white; everything else is perfect."""

ALL_NOISE = Sensors(
    **{
        kind: _white(getattr(DEFAULT_SENSORS, kind), resolution=True)
        for kind in ("encoder", "gyro", "accelerometer", "force", "moment")
    }
)
"""The default noise and steps of all sensors, without bias and delay, which no statistics of noise could know."""


def centred(trial: Trial) -> Trial:
    """Gives a trial whose states have the velocity of their own instant, and feet that balance it.

    The physics moves positions by the velocity after a step; that of the instant is the mean of before and after.
    """
    states = trial.truth.states
    pull = states.a[:, :3] + cross(states.v[:, 3:6], states.v[:, :3])
    v = states.v + 0.5 * TIME_STEP * np.concatenate([pull, states.a[:, 3:]], axis=1)
    a = np.concatenate([pull - cross(v[:, 3:6], v[:, :3]), states.a[:, 3:]], axis=1)
    moved = replace(states, v=v, a=a)
    missing = (base_wrench(states.model, moved.motion) - states.feet_in_root.sum(axis=1)) / states.feet.shape[1]
    force = np.einsum("nij,nj->ni", states.rotation, missing[:, :3])
    moment = np.einsum("nij,nj->ni", states.rotation, missing[:, 3:]) + cross(states.q[:, :3], force)
    feet = states.feet + np.concatenate([force, moment], axis=1)[:, None]
    return replace(trial, truth=replace(trial.truth, states=replace(moved, feet=feet)))


@cache
def reference() -> Model:
    """Gives the model of the coverage studies."""
    return load_model("g1")


@cache
def dance(seed: int) -> Trial:
    """Gives the motion of the coverage studies, played once in each process."""
    trial = centred(simulate(reference(), "dance", seed=seed, noise=None, duration=DURATION))
    if trial.events:
        raise SystemExit(f"the dance of seed {seed} went wrong: {trial.events}")
    return trial


# ---- noiseless ---------------------------------------------------------------------------------------------------


def exact(study: Study) -> None:
    """Tells how exactly noiseless data with exact states give the base parameters back, on every robot."""
    raw: dict[str, Any] = {}
    for robot in ROBOTS:
        model = load_model(robot)
        trial = simulate(model, "dance", seed=0, noise=None)
        motion = replace(trial.truth.motion, wrenches=trial.signals.wrenches).thinned(40)
        evidence = gather_evidence(model, motion, nuisance=())
        base = identify(model, evidence, method="base").base
        wrench = np.linalg.norm(evidence.factor[:, -1]) / np.sqrt(evidence.sample_count)
        true = base.of(trial.truth.parameters.ravel())
        errors = np.abs(base.values - true) * base.effects / wrench
        own = np.abs(base.values / true - 1.0)
        raw[robot] = {
            "rank": base.rank, "dropped": list(base.dropped), "condition": base.condition, "samples": len(motion),
            "worst": base.names[int(np.argmax(errors))], "median": float(np.median(errors)),
            "of_own_value_worst": float(own.max()), "of_own_value_median": float(np.median(own)),
        }  # fmt: skip
        study.figures.append(
            Figure(f"{robot}: error of a base parameter's effect at worst, noiseless, of the wrench",
                   float(errors.max()), 1e-8, at_least=False,
                   note=f"error x rms of its column over rms wrench, whitened rows; {base.rank} parameters")
        )  # fmt: skip
    study.raw["exact"] = raw


# ---- coverage ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scores:
    """How often intervals held the truth: errors and half widths, shape (n_trials, n_parameters)."""

    names: tuple[str, ...]
    errors: FloatArray
    widths: FloatArray

    @property
    def coverage(self) -> FloatArray:
        """By parameter, shape (n_parameters,)."""
        return np.mean(np.abs(self.errors) <= self.widths, axis=0)

    @property
    def half_width(self) -> FloatArray:
        """The median over trials, by parameter, shape (n_parameters,)."""
        return np.median(self.widths, axis=0)

    def wider_than(self, other: Scores) -> FloatArray:
        """Gives by what factor intervals are wider, shape (n_parameters,)."""
        return self.half_width / other.half_width

    def raw(self) -> dict[str, Any]:
        """Gives what is stored."""
        shift = np.abs(np.mean(self.errors, axis=0)) / np.std(self.errors, axis=0)
        return {
            "trials": len(self.errors), "pooled": float(self.coverage.mean()), "least": float(self.coverage.min()),
            "least_of": self.names[int(np.argmin(self.coverage))], "under_88": int(np.sum(self.coverage < 0.88)),
            "bias_in_deviations_median": float(np.median(shift)), "bias_in_deviations_greatest": float(shift.max()),
            "coverage": np.round(self.coverage, 4).tolist(), "half_width": self.half_width.tolist(),
        }  # fmt: skip


def _row(base: BaseParameters) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
    """Gives the names, errors and half widths of one trial's base parameters."""
    true = base.of(dance_truth())
    return base.names, base.values - true, np.diff(base.intervals(LEVEL), axis=1)[:, 0] / 2.0


_TRUTH: dict[str, FloatArray] = {}


def dance_truth() -> FloatArray:
    """Gives the true parameters of the motion that is being studied in this process."""
    return _TRUTH["parameters"]


def _base(evidence: Evidence) -> BaseParameters:
    return identify(reference(), evidence, method="base").base


def wrench_trial(motion_seed: int, seed: int) -> dict[str, Any]:
    """Gives what one measurement with noisy wrenches says, from the recording to the intervals."""
    trial = dance(motion_seed)
    _TRUTH["parameters"] = trial.truth.parameters.ravel()
    recording = trial.with_noise(seed, noise=WRENCH_NOISE).recording
    found = {}
    with threadpool_limits(1):
        motion = reconstruct_motion(reference(), recording, cutoff=CUTOFF)
        # A third of the samples is plenty for three levels of noise.
        weights = estimate_noise(reference(), motion.thinned(3), nuisance=()).weights
        found["effective samples"] = _row(
            _base(gather_evidence(reference(), motion, weights=weights, workers=1, nuisance=()))
        )
        if seed < FIRST_NOISE + COUNTING_TRIALS:
            found["default weights"] = _row(_base(gather_evidence(reference(), motion, workers=1, nuisance=())))
            every = reconstruct_motion(reference(), recording, cutoff=CUTOFF, decimate=False)
            honest = gather_evidence(reference(), every, weights=weights, workers=1, nuisance=())
            found["all rows, effective samples"] = _row(_base(honest))
            naive = gather_evidence(
                reference(), replace(every, bandwidth=None), weights=weights, workers=1, nuisance=()
            )
            found["all rows, counted as independent"] = _row(_base(naive))
    return found


def regressor_trial(motion_seed: int, seed: int) -> dict[str, Any]:
    """Gives what one measurement with all sensors' noise says, by several methods."""
    trial, model = dance(motion_seed), reference()
    _TRUTH["parameters"] = trial.truth.parameters.ravel()
    recording = trial.with_noise(seed, noise=ALL_NOISE).recording
    with threadpool_limits(1):
        motion = reconstruct_motion(model, recording, cutoff=CUTOFF)
        commands = reconstruct_motion(model, recording, base="sole", positions="q_command", cutoff=CUTOFF)
        found = {
            "least squares": _row(_base(gather_evidence(model, motion, workers=1, nuisance=()))),
            "least squares, automatic cutoff": _row(
                _base(gather_evidence(model, reconstruct_motion(model, recording), workers=1, nuisance=()))
            ),
            "instruments": _row(_base(gather_with_instruments(model, motion, commands, nuisance=()))),
        }
        if seed < FIRST_NOISE + OTHER_TRIALS:
            weights = estimate_noise(model, motion, nuisance=()).weights
            found["least squares, correlation counted"] = _row(_base(gather_correlated(model, motion, nuisance=())))
            found["instruments, noise estimated"] = _row(
                _base(gather_with_instruments(model, motion, commands, weights=weights, nuisance=()))
            )
    return found


def _trials(work: Callable[[int, int], dict[str, Any]], motion_seed: int, seeds: Iterable[int]) -> dict[str, Scores]:
    """Runs trials on all cores."""
    rows: dict[str, list[Any]] = {}
    numbers = list(seeds)
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for number, answer in enumerate(pool.map(work, [motion_seed] * len(numbers), numbers, chunksize=4), start=1):
            for name, row in answer.items():
                rows.setdefault(name, []).append(row)
            if sys.stderr.isatty():
                print(f"\r{number} of {len(numbers)} trials", end="", file=sys.stderr)
    scores = {}
    for name, each in rows.items():
        names = {row[0] for row in each}
        if len(names) != 1:
            raise SystemExit(f"the base parameters of {name!r} are not the same in all trials")
        scores[name] = Scores(each[0][0], np.array([row[1] for row in each]), np.array([row[2] for row in each]))
    return scores


def wrench(study: Study) -> None:
    """Tells how often intervals hold the truth when wrench noise is all there is."""
    scores = _trials(wrench_trial, MOTION_SEED, range(FIRST_NOISE, FIRST_NOISE + WRENCH_TRIALS))
    study.raw["wrench"] = {name: each.raw() for name, each in scores.items()}
    ours = scores["effective samples"]
    naive, honest = scores["all rows, counted as independent"], scores["all rows, effective samples"]
    where = (
        f"g1 dance {DURATION:g} s, {len(ours.errors)} measurements, {len(ours.names)} base parameters, {CUTOFF:g} Hz, "
        "noise of the sensors estimated each time"
    )
    study.figures += [
        Figure("wrench noise: 95 % intervals hold the truth, pooled", float(ours.coverage.mean()), 0.93,
               note=where),
        Figure("wrench noise: the same, not more than", float(ours.coverage.mean()), 0.97, at_least=False),
        Figure("wrench noise: the least parameter's intervals hold it", float(ours.coverage.min()), 0.88,
               note=ours.names[int(np.argmin(ours.coverage))]),
        Figure("wrench noise: the same with the default weights, pooled",
               float(scores["default weights"].coverage.mean()),
               note=f"not the sensors' own: {COUNTING_TRIALS} measurements, wider by "
                    f"{np.median(scores['default weights'].wider_than(ours)):.2f}"),
        Figure("all 500 rows a second, effective samples: intervals hold", float(honest.coverage.mean()),
               note=f"{len(honest.errors)} measurements"),
        Figure("all 500 rows a second, counted as independent: intervals hold", float(naive.coverage.mean()),
               note="what naive sample counting claims to be 95 %"),
        Figure("naive sample counting: its width, of the honest one", float(np.median(naive.wider_than(honest))),
               note="median over parameters"),
    ]  # fmt: skip


def regressor(study: Study) -> None:
    """Tells the same with noise of encoders and the inertial sensor, for least squares and for instruments."""
    raw: dict[str, Any] = {}
    runs = ((MOTION_SEED, REGRESSOR_TRIALS, "all noise"), (OTHER_MOTION_SEED, OTHER_TRIALS, "another dance"))
    for motion_seed, count, label in runs:
        scores = _trials(regressor_trial, motion_seed, range(FIRST_NOISE, FIRST_NOISE + count))
        naive, ours = scores["least squares"], scores["instruments"]
        automatic = scores["least squares, automatic cutoff"]
        raw[label] = {name: each.raw() for name, each in scores.items()}
        for name, each in scores.items():
            for other in (naive, automatic):
                ratios = each.wider_than(other)
                raw[label][name][f"width_over_{'least_squares' if other is naive else 'automatic'}"] = {
                    "median": float(np.median(ratios)), "geometric_mean": float(np.exp(np.mean(np.log(ratios)))),
                    "90_percent": float(np.quantile(ratios, 0.9)), "greatest": float(ratios.max()),
                }  # fmt: skip
        study.figures += [
            Figure(f"{label}: least squares holds the truth", float(naive.coverage.mean()),
                   note=f"{count} measurements, {CUTOFF:g} Hz, motion of seed {motion_seed}; bias up to "
                        f"{raw[label]['least squares']['bias_in_deviations_greatest']:.0f} deviations"),
            Figure(f"{label}: least squares at the automatic cutoff holds it", float(automatic.coverage.mean())),
            Figure(f"{label}: instruments hold it", float(ours.coverage.mean()), 0.93,
                   note="q_command through the sole, following the measured motion below 1 Hz"),
            Figure(f"{label}: instruments, the least parameter", float(ours.coverage.min()),
                   note=ours.names[int(np.argmin(ours.coverage))]),
            Figure(f"{label}: instruments, width over that of least squares", float(np.median(ours.wider_than(naive))),
                   3.0, at_least=False, note="median over parameters, same cutoff"),
            Figure(f"{label}: instruments, width over least squares at the automatic cutoff",
                   float(np.median(ours.wider_than(automatic))), 3.0, at_least=False,
                   note="median over parameters; least squares would not choose 10 Hz"),
        ]  # fmt: skip
        best = scores["instruments, noise estimated"]
        study.figures += [
            Figure(f"{label}: instruments with the noise estimated first hold it", float(best.coverage.mean()),
                   note=f"{len(best.errors)} measurements"),
            Figure(f"{label}: their width over that of least squares", float(np.median(best.wider_than(naive))),
                   note="median over parameters, same cutoff"),
            Figure(f"{label}: least squares, correlation counted, holds it",
                   float(scores["least squares, correlation counted"].coverage.mean()),
                   note="right about the noise, blind to the bias"),
        ]  # fmt: skip
    study.raw["regressor"] = raw


# ---- real robots, and time ---------------------------------------------------------------------------------------


def real(study: Study) -> None:
    """Holds estimates of real robots against what they did not see."""
    study_real(study)


def speed(study: Study) -> None:
    """Times the way from a file to an Estimate, after a first run that compiles."""
    model = load_model("g1")
    trial = simulate(model, "dance", seed=1, noise=replace(DEFAULT_SENSORS, rate=200.0, orientation=Instrument()),
                     duration=60.0)  # fmt: skip
    raw: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("parquet", "csv"):
            path = Path(folder) / f"dance.{kind}"
            trial.recording.write(path)
            times: list[list[float]] = []
            for _ in range(6):
                marks = [time.perf_counter()]
                recording = read_recording(path, model)
                marks.append(time.perf_counter())
                motion = reconstruct_motion(model, recording)
                marks.append(time.perf_counter())
                evidence = gather_evidence(model, motion, nuisance=())
                marks.append(time.perf_counter())
                estimate = identify(model, evidence, method="truncated")
                marks.append(time.perf_counter())
                times.append(np.diff(marks).tolist())
            if estimate.status != "solved":
                raise SystemExit(f"the estimate is {estimate.status!r}")
            best = min(times[1:], key=sum)
            rows = np.random.default_rng(0).normal(size=(evidence.row_count, len(evidence.factor)))
            begin = time.perf_counter()
            np.linalg.qr(rows, mode="r")
            yardstick = time.perf_counter() - begin
            raw[kind] = {"steps": ["read", "reconstruct", "gather", "identify"], "seconds": times, "qr_s": yardstick,
                         "samples": len(motion), "rows": evidence.row_count}  # fmt: skip
            steps = ", ".join(f"{step} {one:.2f}" for step, one in zip(raw[kind]["steps"], best, strict=True))
            study.figures.append(
                Figure(f"60 s of G1 at 200 Hz, from a {kind} file to an Estimate, s", float(sum(best)),
                       2.0 if kind == "parquet" else None, at_least=False,
                       note=f"best of 5 after the first ({sum(times[0]):.1f} s): {steps}; numpy's QR of as many rows "
                            f"{yardstick:.2f}")
            )  # fmt: skip
    study.raw["speed"] = raw


PARTS = ("exact", "wrench", "regressor", "real", "speed")


def main() -> int:
    """Runs all parts, or some and keeps the stored results of the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--part", nargs="+", choices=PARTS, help="run these alone, and keep what is stored of the others"
    )
    chosen = parser.parse_args().part
    seeds = {"motion": MOTION_SEED, "other motion": OTHER_MOTION_SEED, "first noise": FIRST_NOISE}
    study = Study("statistics", seeds)
    path = RESULTS / "statistics.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if chosen and path.exists() else None
    by_part: dict[str, list[str]] = {}
    for part in PARTS:
        before = len(study.figures)
        if chosen is None or part in chosen:
            start = time.perf_counter()
            globals()[part](study)
            print(f"{part}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        elif stored and part in stored["raw"]["parts"]:
            kept = [each for each in stored["figures"] if each["what"] in stored["raw"]["parts"][part]]
            study.figures += [Figure(**{key: each[key] for key in each if key != "met"}) for each in kept]
            study.raw[part] = stored["raw"].get(part)
        else:
            continue
        by_part[part] = [figure.what for figure in study.figures[before:]]
    study.raw |= {"parts": by_part, "run_again": chosen or []}
    if stored:
        study.raw["first_run"] = stored["raw"].get("first_run", stored["commit"])
    return study.finish()


if __name__ == "__main__":
    sys.exit(main())
