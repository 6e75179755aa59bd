"""figaroh's physically consistent fit beside ours, on the same motions: ``python -m benchmarks.peers.consistent``.

Both see the same joint angles, velocities and accelerations, the same motion of the base link and the same measured
wrenches. figaroh writes its equations at the model's root: motion and wrench are carried there from the link of the
inertial sensor, which changes no equation but the point about which moments are taken. Its prior is the same CAD.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pinocchio as pin
from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure, Study
from benchmarks.peers.environment import peer_python
from steelyard import TotalMass, gather_evidence, identify
from steelyard.motion.motion import GRAVITY
from steelyard.regression.gathering import residuals
from steelyard.regression.rows import base_wrench

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard import Estimate, Model, Motion
    from steelyard.arrays import FloatArray

AXES = ("fx", "fy", "fz", "nx", "ny", "nz")
MASSES_WITHIN = 0.35
"""Share of the CAD's mass that figaroh's bounded fit may move a mass by: as `MassWithin` does by default."""

TIME_LIMIT = 1800.0


def root_state(model: Model, motion: Motion) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Gives a motion and its measured wrench at the model's root, as Pinocchio's generalised coordinates.

    The root stands upright at the origin of the world in every sample, and the base link's origin is at rest: the
    equations know only angular velocity and what accelerometers feel.

    Returns:
        q, v and a, shapes (n, position_size) and (n, velocity_size); the wrench that the environment exerts, about the
        root's origin and in its axes, shape (n, 6).
    """
    built, data = model.pinocchio, model.pinocchio.createData()
    joint = built.frames[built.getFrameId(motion.base)].parentJoint
    measured = base_wrench(model, motion) - residuals(model, motion, weights=None)[:, :6]
    q = np.zeros((len(motion), built.nq))
    q[:, 6], q[:, 7:] = 1.0, motion.q
    v, a = np.zeros((2, len(motion), built.nv))
    v[:, 6:], a[:, 6:] = motion.v, motion.a
    wrenches = np.empty((len(motion), 6))
    for i in range(len(motion)):
        pin.forwardKinematics(built, data, q[i], v[i], a[i])
        place = data.oMi[joint]
        rate = pin.Motion(np.zeros(3), motion.angular_velocity[i])
        v[i, :6] = place.act(rate - data.v[joint]).vector
        pin.forwardKinematics(built, data, q[i], v[i], a[i])
        # The origin of the base link is at rest, so that its spatial acceleration is that of the point.
        felt = motion.proper_acceleration[i] - place.rotation.T @ [0.0, 0.0, GRAVITY]
        wanted = pin.Motion(felt, motion.angular_acceleration[i])
        a[i, :6] = place.act(wanted - data.a[joint]).vector
        wrenches[i] = place.act(pin.Force(measured[i])).vector
    return q, v, a, wrenches


def fit_by_figaroh(model: Model, motions: Sequence[Motion]) -> dict[str, Any]:
    """Runs figaroh 1.0.2's fits of some motions together, in its own environment, one BLAS thread."""
    python = peer_python("figaroh", "figaroh==1.0.2")
    parts = [root_state(model, motion) for motion in motions]
    q, v, a, wrenches = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "samples.npz"
        bounds = np.array([1.0 - MASSES_WITHIN, 1.0 + MASSES_WITHIN])
        np.savez(file, q=q, v=v, a=a, wrenches=wrenches, prior=model.parameters.ravel(), ratio=bounds)
        script = Path(__file__).parent / "figaroh_consistent.py"
        answer = subprocess.run(
            [str(python), str(script), str(model.description.file.path), str(file)],
            capture_output=True, text=True, check=True, timeout=TIME_LIMIT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    found = json.loads(answer.stdout.strip().splitlines()[-1])
    joints = list(model.pinocchio.names)[1:]
    if found["joints"] != joints:
        raise RuntimeError("figaroh reads other joints from this model's file")
    needed = wrenches - np.concatenate([_prior_wrench(model, *part[:3]) for part in parts])
    mine = np.sqrt(np.mean(np.square(needed), axis=0))
    if not np.allclose(found["prior_rmse"], mine, rtol=1e-9, atol=1e-9):
        raise RuntimeError(f"figaroh's rows differ from ours: the CAD leaves {found['prior_rmse']}, not {mine}")
    return found


def _prior_wrench(model: Model, q: FloatArray, v: FloatArray, a: FloatArray) -> FloatArray:
    built, data = model.pinocchio, model.pinocchio.createData()
    return np.array([pin.rnea(built, data, *sample)[:6] for sample in zip(q, v, a, strict=True)])


def root_mean_squares(model: Model, motions: Sequence[Motion], parameters: FloatArray) -> FloatArray:
    """Gives what parameters leave of the measured wrench at the base link, axis by axis, N and N m, shape (6,)."""
    left = np.concatenate([residuals(model, motion, parameters, weights=None)[:, :6] for motion in motions])
    return np.asarray(np.sqrt(np.mean(np.square(left), axis=0)))


def _apart(model: Model, motions: Sequence[Motion], parameters: FloatArray, truth: FloatArray) -> FloatArray:
    """Gives how far what parameters predict is from what the truth does, axis by axis, free of sensors' errors."""
    apart = [base_wrench(model, motion, parameters) - base_wrench(model, motion, truth) for motion in motions]
    return np.asarray(np.sqrt(np.mean(np.square(np.concatenate(apart)), axis=0)))


def compare(
    model: Model,
    motion: Motion | Sequence[Motion],
    other_motion: Motion | Sequence[Motion],
    truth: FloatArray,
    estimates: Mapping[str, Estimate],
    *,
    seconds: Mapping[str, float] | None = None,
    label: str = "",
) -> tuple[list[Figure], dict[str, Any]]:
    """Measures figaroh's physically consistent fit beside ours.

    Args:
        model: The CAD: everybody's reference. Its wrench sensors measure the ground.
        motion: What taught the estimates, and teaches figaroh.
        other_motion: What taught nobody.
        truth: The robot's true parameters, shape (n_links, 10).
        estimates: Ours, by name.
        seconds: How long each took from its motions to the Estimate, by the same names.
        label: The robot's name.

    Returns:
        Figures, and the raw numbers: root mean squares of what is not explained at the base link (direct, cross; N and
        N m), distances of predictions (of the unseen motion, free of sensors' errors) and of masses to the truth, times
        (s), and how figaroh's solver ended.
    """
    taught = [motion] if not isinstance(motion, Sequence) else list(motion)
    unseen = [other_motion] if not isinstance(other_motion, Sequence) else list(other_motion)
    peer = fit_by_figaroh(model, taught)
    candidates: dict[str, FloatArray] = {
        "true": np.asarray(truth),
        "CAD": model.parameters,
        "CAD, mass corrected": model.parameters * (truth[:, 0].sum() / model.parameters[:, 0].sum()),
        **{name: estimate.parameters for name, estimate in estimates.items()},
    }
    times = dict(seconds or {})
    fits: dict[str, Any] = {}
    for name, fit in peer["fits"].items():
        parameters = fit.pop("parameters")
        fits[name] = fit
        times[f"figaroh, {name}"] = peer["regressor_s"] + fit["build_s"] + fit["solve_s"]
        if parameters is not None:
            candidates[f"figaroh, {name}"] = np.reshape(parameters, model.parameters.shape)
    measured = {
        name: {
            "direct": root_mean_squares(model, taught, parameters).tolist(),
            "cross": root_mean_squares(model, unseen, parameters).tolist(),
            "apart": _apart(model, unseen, parameters, truth).tolist(),
            "mass kg": float(np.sqrt(np.mean(np.square(parameters[:, 0] - truth[:, 0])))),
            "total mass kg": float(parameters[:, 0].sum() - truth[:, 0].sum()),
        }
        for name, parameters in candidates.items()
    }
    raw = {
        "samples": sum(len(each) for each in taught),
        "axes": list(AXES),
        "candidates": measured,
        "seconds": times,
        "figaroh": {"regressor_s": peer["regressor_s"], "fits": fits, "masses within": MASSES_WITHIN},
    }
    return _figures(label, list(estimates), measured, times, fits), raw


def _figures(
    label: str,
    ours: Sequence[str],
    measured: Mapping[str, Mapping[str, Any]],
    times: Mapping[str, float],
    fits: Mapping[str, Mapping[str, Any]],
) -> list[Figure]:
    """Gives the figures, each against that fit of figaroh's which is best in it.

    The RMSE counts offsets of the sensors, which are the same in all recordings: whoever takes them for masses is
    nearer to the measurements than the truth is. The distance to the truth's own predictions does not count them.
    """
    head = f"{label}: " if label else ""
    theirs = [name for name in measured if name.startswith("figaroh, ")]
    ends = "; ".join(
        f"{name}: {fit['status']}{'' if fit['accepted'] else ', not accepted'}" for name, fit in fits.items()
    )
    figures = [Figure(f"{head}figaroh's fits that ended well, of {len(fits)}", len(theirs), note=ends)]
    if not theirs:
        return figures

    def beside_truth(name: str) -> float:
        return float(np.mean(np.array(measured[name]["cross"]) / np.array(measured["true"]["cross"])))

    closest = min(theirs, key=beside_truth)
    nearest = min(_far(measured[name]) for name in theirs)
    least_wrong = min(measured[name]["mass kg"] for name in theirs)
    fastest = min(times[name] for name in theirs)
    for name in ours:
        if name in times:
            figures.append(
                Figure(f"{head}{name}, times faster than figaroh", fastest / times[name], 1.0,
                       note=f"{times[name]:.3f} s from motion to estimate against {fastest:.1f} s")
            )  # fmt: skip
        ratio = np.array(measured[name]["cross"]) / np.array(measured[closest]["cross"])
        figures += [
            Figure(f"{head}{name}, cross RMSE over figaroh's, mean of axes", float(np.mean(ratio)), at_least=False,
                   note=f"worst {AXES[int(np.argmax(ratio))]}, {np.max(ratio):.2f}; {closest}; over the truth's "
                   f"{beside_truth(name):.2f}, figaroh {beside_truth(closest):.2f}"),
            Figure(f"{head}{name}, prediction's distance to the truth's over figaroh's",
                   _far(measured[name]) / nearest, at_least=False,
                   note="unseen motion, free of sensors' errors; N and N m alike: "
                   f"{_far(measured[name]):.2f} against {nearest:.2f}, CAD {_far(measured['CAD']):.2f}"),
            Figure(f"{head}{name}, masses' distance to the truth over figaroh's",
                   measured[name]["mass kg"] / least_wrong, at_least=False,
                   note=f"{measured[name]['mass kg']:.3f} against {least_wrong:.3f} kg rms; "
                   f"CAD {measured['CAD']['mass kg']:.3f}"),
        ]  # fmt: skip
    return figures


def _far(values: Mapping[str, Any]) -> float:
    return float(np.linalg.norm(values["apart"]))


def show(label: str, raw: Mapping[str, Any]) -> None:
    """Prints all candidates, axis by axis."""
    table = Table(title=f"{label}: RMSE at the base link, N and N m", title_justify="left", box=None)
    for heading in ("", "motion", *AXES, "masses kg", "total kg", "s"):
        table.add_column(heading, justify="left" if heading in ("", "motion") else "right")
    for name, values in raw["candidates"].items():
        spent = raw["seconds"].get(name)
        ends = [f"{values['mass kg']:.3f}", f"{values['total mass kg']:+.3f}", "" if spent is None else f"{spent:.3g}"]
        table.add_row(name, "direct", *(f"{value:.3g}" for value in values["direct"]), *ends)
        table.add_row("", "cross", *(f"{value:.3g}" for value in values["cross"]))
        table.add_row("", "off the truth's", *(f"{value:.3g}" for value in values["apart"]))
    Console(width=150).print(table)


def _identified(
    model: Model,
    motions: Sequence[Motion],
    method: str,
    gathering: Mapping[str, Any],
    constraints: Sequence[Any] = (),
    repeats: int = 3,
) -> tuple[Estimate, float]:
    """Gives an Estimate, and how long it took from the motions on, at best of some times."""
    spent = []
    for _ in range(repeats):
        start = time.perf_counter()
        evidence = gather_evidence(model, motions[0], **gathering)
        for motion in motions[1:]:
            evidence += gather_evidence(model, motion, **gathering)
        estimate = identify(model, evidence, method=method, constraints=constraints)
        spent.append(time.perf_counter() - start)
    return estimate, min(spent)


def main() -> int:
    """Runs the comparison alone."""
    from benchmarks.papers.jovic import NUISANCE, SCALE_STEP, play  # noqa: PLC0415  (whose studies call this one)

    seeds = {"robot": 0, "motions": 0, "noise": 0}
    study = Study("peers_consistent", seeds)
    for name in sys.argv[1:] or ("g1", "talos"):
        played = play(name, seeds, spread=0.2)
        # Plain sums with sensors taken at their word are what figaroh minimises; the other way is ours.
        whole = TotalMass(played.on_the_scale, tolerance=SCALE_STEP)
        ways: dict[str, tuple[dict[str, Any], list[Any]]] = {
            "": ({"weights": None}, []),
            ", whitened, weighed": ({"weights": played.weights, "nuisance": NUISANCE}, [whole]),
        }
        estimates, seconds = {}, {}
        for way, (gathering, constraints) in ways.items():
            for method in ("quadratic", "hierarchical"):
                key = f"{method}{way}"
                estimates[key], seconds[key] = _identified(
                    played.model, played.training, method, gathering, constraints
                )
        figures, raw = compare(
            played.model, played.training, played.unseen, played.truth, estimates, seconds=seconds, label=name
        )
        show(name, raw)
        study.figures += figures
        study.raw[name] = raw
    return study.finish()


if __name__ == "__main__":
    sys.exit(main())
