"""Loads and their rivals: sensors that drift, are zeroed or lose their calibration between two recordings.

A true robot dances twice; the second dance is measured without a load and with 2 kg on a hand, the torso, and the head
or a forearm, taken to be followed as exactly (see `benchmarks.truth.payload_trials`). The second recording is altered,
written to a file, and given to the road that ``steelyard payload`` takes with its defaults. Without a load, every load
that is reported ("found" or "ambiguous") is a false alarm.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import steelyard as sy
from benchmarks.figures import Figure
from benchmarks.truth.payload_trials import add_loads
from benchmarks.truth.robots import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.figures import Study
    from steelyard import Model, Recording, Trial
    from steelyard.payload import PayloadFinding

SEED = 1400
"""First seed of the robots; those from 900 on served to develop."""

SECONDS, MASS = 20.0, 2.0

PLACES: dict[str, dict[str, str]] = {
    "g1": {"hand": "{}_wrist_yaw_link", "torso": "torso_link", "forearm": "{}_elbow_link"},
    "talos": {"hand": "arm_{}_7_link", "torso": "torso_2_link", "head": "head_2_link"},
    "icub": {"hand": "{0[0]}_hand", "torso": "chest", "forearm": "{0[0]}_forearm"},
    "romeo": {"hand": "{0[0]}_wrist", "torso": "torso", "head": "HeadRollLink"},
}
"""By robot and place, the link that carries the load, with ``left`` or ``right`` to be filled in."""

TRUE_ROBOTS = 3
"""True robots of each kind: 4 x 3 robots in 5 alterations, and with loads on 3 places."""

ALARMS, RIGHT = 0.05, 0.99
"""What is asked: the greatest share of false alarms, and the least share of right links."""

NUISANCE = ("auto", "wrench_gain", "wrench_drift", "encoder_offset")
"""What ``steelyard payload`` estimates beside the parameters."""

_WANDER = 0.03
"""Standard deviation (m, by axis) of where a load is around the centre of its link."""

_DANCES = 24
"""Dances from which the two of a true robot are taken; in some, TALOS' shoulders lack torque."""


def drift(recording: Recording, generator: np.random.Generator) -> Recording:
    """Return a recording whose wrench sensors drift by 4 N and 0.4 N m in 20 s, each channel to either side."""
    share = (recording.time - recording.time[0]) / 20.0
    return _with_wrenches(
        recording, lambda values, size: values + generator.choice([-1.0, 1.0]) * size * share, (4.0, 0.4)
    )


def drift_of_one(recording: Recording, generator: np.random.Generator) -> Recording:
    """Return a recording in which the vertical force of one foot drifts by 4 N in 20 s."""
    name = str(generator.choice([name for name in recording.columns if name.endswith(".fz")]))
    share = (recording.time - recording.time[0]) / 20.0
    return _with_columns(recording, {name: recording.column(name) + generator.choice([-4.0, 4.0]) * share})


def zero_slightly(recording: Recording, generator: np.random.Generator) -> Recording:
    """Return a recording whose wrench sensors were zeroed before it, by as much as taring leaves."""
    return _with_wrenches(recording, lambda values, size: values + size * generator.normal(), (1.2, 0.04))


def zero_anew(recording: Recording, generator: np.random.Generator) -> Recording:
    """Return a recording whose wrench sensors were zeroed before it, by as much as the prior allows."""
    return _with_wrenches(recording, lambda values, size: values + size * generator.normal(), (5.0, 0.5))


def gain(recording: Recording, generator: np.random.Generator) -> Recording:
    """Return a recording whose wrench channels have gains that are 1 % wrong."""
    return _with_wrenches(recording, lambda values, size: values * (1.0 + size * generator.normal()), (0.01, 0.01))


def encoders(recording: Recording, generator: np.random.Generator) -> Recording:
    """Return a recording whose encoders are off by up to 0.3 degrees."""
    off = np.radians(0.3)
    names = [name for name in recording.columns if name.startswith("q.")]
    return _with_columns(recording, {name: recording.column(name) + generator.uniform(-off, off) for name in names})


ALTERATIONS: dict[str, Callable[[Recording, np.random.Generator], Recording]] = {
    "drift": drift,
    "zeroed 1.2 N": zero_slightly,
    "zeroed 5 N": zero_anew,
    "gain 1 %": gain,
    "encoders 0.3 deg": encoders,
}


def loads(study: Study) -> None:
    """Look for loads where none is and where one is, with and without alterations, and add figures to a study."""
    seed = study.seeds.get("loads", SEED)
    empty: list[dict[str, Any]] = []
    loaded: list[dict[str, Any]] = []
    names = list(ALTERATIONS)
    for robot, places in PLACES.items():
        for number in range(TRUE_ROBOTS):
            empty += [_run(robot, seed + number, "", name) for name in ("", *ALTERATIONS)]
            loaded += [_run(robot, seed + number, place, "") for place in places]
            # With a load, two alterations of each robot, in turn.
            turn = TRUE_ROBOTS * list(PLACES).index(robot) + number
            for name in (names[turn % len(names)], names[(turn + 2) % len(names)]):
                loaded.append(_run(robot, seed + number, list(places)[number % len(places)], name))
            print(f"loads: {robot} {seed + number}", file=sys.stderr, flush=True)
    study.raw["loads"] = {"empty": empty, "loaded": loaded}
    altered, plain = [run for run in empty if run["altered"]], [run for run in loaded if not run["altered"]]
    alarms = Counter(run["altered"] for run in altered if run["alarm"])
    statuses = Counter(run["status"] for run in altered)
    errors = [abs(run["mass error"]) for run in plain if run["mass error"] is not None]
    study.figures += [
        Figure(
            "loads: false alarms, nothing added, second recording altered", _share(run["alarm"] for run in altered),
            ALARMS, at_least=False,
            note=f"{len(altered)} runs; "
            + ", ".join(f"{name} {alarms[name]} of {len(_of(altered, name))}" for name in ALTERATIONS)
            + f"; {statuses['nothing']} nothing, {statuses['cannot tell']} cannot tell",
        ),
        Figure(
            "loads: false alarms, nothing added, nothing altered",
            _share(run["alarm"] for run in _of(empty, "")), ALARMS, at_least=False,
            note=f"{len(_of(empty, ''))} runs",
        ),
        Figure(
            "loads: right link, 2 kg added", _share(run["right"] for run in plain), RIGHT,
            note=f"{len(plain)} runs; {sum(run['status'] == 'found' for run in plain)} found, "
            f"{sum(run['status'] == 'ambiguous' for run in plain)} ambiguous",
        ),
        Figure(
            "loads: median mass error, 2 kg added, kg", float(np.median(errors or [np.nan])),
            note=f"greatest {max(errors, default=np.nan):.3f}; truth within two standard errors in "
            f"{_share(run['held'] for run in plain):.2f}",
        ),
    ]  # fmt: skip
    for name in ALTERATIONS:
        mine = _of(loaded, name)
        errors = [abs(run["mass error"]) for run in mine if run["mass error"] is not None]
        study.figures.append(
            Figure(
                f"loads: right link, 2 kg added, {name}", _share(run["right"] for run in mine),
                note=f"{len(mine)} runs; reported in {sum(run['alarm'] for run in mine)}; median mass error "
                f"{np.median(errors or [np.nan]):.3f} kg; truth within two standard errors in "
                f"{sum(run['held'] for run in mine)}",
            )
        )  # fmt: skip


def _run(robot: str, seed: int, place: str, altered: str) -> dict[str, Any]:
    """Return what the road of ``steelyard payload`` finds in one altered recording, beside the truth."""
    model = sy.load_model(robot)
    baseline, second = recorded(robot, seed, ""), recorded(robot, seed, place, second=True)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        if altered:
            generator = np.random.default_rng([seed, list(PLACES).index(robot), list(ALTERATIONS).index(altered)])
            recording = ALTERATIONS[altered](sy.read_recording(second, model), generator)
            second = Path(name) / "altered.parquet"
            recording.write(second)
        finding = find(model, baseline, second)
    return {"robot": robot, "seed": seed, "place": place, "altered": altered} | _judge(
        finding, load_of(model, robot, seed, place) if place else None
    ) | {"seconds": round(time.perf_counter() - begun, 2)}  # fmt: skip


def find(model: Model, baseline: Path, second: Path) -> PayloadFinding:
    """Return what ``steelyard payload SETUP SECOND --baseline BASELINE`` finds."""
    prepared = sy.prepare(model, [baseline, second], delays="all", shared_offsets=True, nuisance=NUISANCE)
    return sy.find_payload(model, prepared.gather(second), prepared.gather(baseline))


def recorded(robot: str, seed: int, place: str, *, second: bool = False) -> Path:
    """Return the file of a recording of a true robot, simulated where it is not kept.

    Args:
        robot: Name of the robot.
        seed: Of the true robot, its sensors and its dances.
        place: Where the load is; empty for none.
        second: Whether it is the second dance.
    """
    model, folder = sy.load_model(robot), cache_folder() / "loads"
    path = folder / f"{robot}_{seed}_{int(second)}_{place or 'empty'}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        trial = _dance(model, seed, second=second)
        for number, each in enumerate(("", *PLACES[robot]) if second else ("",)):
            loads = {}
            if each:
                link, position = load_of(model, robot, seed, each)
                loads = {link: sy.Payload(MASS, position.tolist())}
            measured = add_loads(trial, loads).with_noise(seed=10 * seed + number + int(second))
            partial = folder / "partial.parquet"
            measured.recording.write(partial)
            partial.rename(folder / f"{robot}_{seed}_{int(second)}_{each or 'empty'}.parquet")
    return path


def _dance(model: Model, seed: int, *, second: bool) -> Trial:
    """Return a dance of a true robot: the first of a few in which it has the torque, and does not fall."""
    for attempt in range(_DANCES // 2):
        number = (2 * (seed + attempt) + second) % _DANCES
        try:
            dance = sy.plan_motion(model, "dance", seed=number, duration=SECONDS)
        except sy.SteelyardError:
            continue
        trial = sy.simulate(model, dance, seed=seed)
        if not trial.fell:
            return trial
    raise SystemExit(f"{model.name} of seed {seed} falls in every dance that was tried")


def load_of(model: Model, robot: str, seed: int, place: str) -> tuple[str, np.ndarray]:
    """Return the link that carries a load, and where on it (m, in its joint frame)."""
    link = PLACES[robot][place].format(("left", "right")[seed % 2])
    mass, *moment = model.parameters[model.link_index(link), :4]
    generator = np.random.default_rng([seed, list(PLACES[robot]).index(place)])
    return link, np.array(moment) / mass + _WANDER * generator.standard_normal(3)


def _judge(finding: PayloadFinding, load: tuple[str, np.ndarray] | None) -> dict[str, Any]:
    """Return a finding held against the truth."""
    first = finding.payloads[0] if finding.payloads else None
    error = first.mass - MASS if first and load else None
    return {
        "status": finding.status,
        "alarm": finding.status in ("found", "ambiguous"),
        "loads": len(finding.payloads),
        "link": load[0] if load else None,
        "found": first.link if first else None,
        "links": list(first.links) if first else [],
        "right": bool(first and load and first.link == load[0]),
        "named": bool(first and load and load[0] in first.links),
        "mass": first.mass if first else None,
        "mass error": error,
        "standard error": first.mass_error if first else None,
        "held": bool(first and error is not None and abs(error) <= 2.0 * first.mass_error),
        "nothing": finding.nothing,
        "p": finding.p_value,
        "misfit": finding.misfit,
        "changes": dict(finding.changes),
        "notes": list(finding.notes),
    }


def _share(values: Iterable[bool]) -> float:
    return float(np.mean([float(value) for value in values] or [np.nan]))


def _of(runs: Sequence[dict[str, Any]], altered: str) -> list[dict[str, Any]]:
    return [run for run in runs if run["altered"] == altered]


def _with_wrenches(
    recording: Recording, change: Callable[[np.ndarray, float], np.ndarray], sizes: tuple[float, float]
) -> Recording:
    """Return a recording with every channel of its wrench sensors changed, by the sizes for forces and moments."""
    axes = {f".{axis}": sizes[axis.startswith("n")] for axis in ("fx", "fy", "fz", "nx", "ny", "nz")}
    return _with_columns(
        recording,
        {name: change(recording.column(name), axes[name[-3:]]) for name in recording.columns if name[-3:] in axes},
    )


def _with_columns(recording: Recording, columns: dict[str, np.ndarray]) -> Recording:
    values = {name: recording.column(name) for name in recording.columns} | columns
    return sy.Recording(recording.time, values, recording.name)
