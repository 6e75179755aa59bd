"""A report that several tests look at, made once: a G1 of the laboratory, from one motion, validated on another."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import steelyard as sy
from steelyard.report import Report, Trace, trace_motions
from tests.laboratory.trials import robot, short_trial

SENSORS = ("wrench_offset", "accelerometer_bias", "imu_mounting")
NASTY = "<img src=x onerror=document.title='hit'>&\"'"
COMMAND = "steelyard identify g1 dance.csv --validate reach.csv -o results"


@cache
def motion(name: str, *, dense: bool = False) -> sy.Motion:
    trial = short_trial("g1", name, noise="default")
    return sy.reconstruct_motion(robot("g1"), trial.recording, decimate=not dense)


@cache
def evidence() -> sy.Evidence:
    return sy.gather_evidence(robot("g1"), motion("dance"), nuisance=SENSORS)


@cache
def estimate() -> sy.Estimate:
    return sy.identify(robot("g1"), evidence())


@cache
def trace(name: str) -> Trace:
    purpose = "training" if name == "dance" else "unseen"
    truth = short_trial("g1", name, noise="default").truth
    return trace_motions(
        estimate(), [motion(name, dense=True)], name=f"{name}.csv", purpose=purpose, truth=truth, nuisance=SENSORS
    )


@cache
def report() -> Report:
    trial = short_trial("g1", "dance", noise="default")
    return Report(
        estimate(),
        evidence=evidence(),
        validation=sy.validate(estimate(), motion("reach"), truth=trial.truth, nuisance=SENSORS),
        traces=(trace("dance"), trace("reach")),
        truth=trial.truth,
        offsets={"left_knee_joint": 0.01},
        true_offsets={"left_knee_joint": 0.012},
        remarks=("dance.csv: all is well",),
        command=COMMAND,
    )


@cache
def nasty_report() -> Report:
    """Gives the same with a name that would be a script wherever it were not escaped."""
    urdf = robot("g1").description.file.path.read_text(encoding="utf-8")
    written = NASTY.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    text = urdf.replace('"torso_link"', f'"{written}"').replace('"left_knee_joint"', f'"{written} joint"')
    text = text.replace('<robot name="g1', f'<robot name="{written} g1')
    folder = robot("g1").description.file.path.parent
    model = _load(text, folder)
    base = report()
    changed = replace(
        base.estimate,
        model=model,
        base=replace(
            base.estimate.base, names=tuple(name.replace("torso_link", NASTY) for name in base.estimate.base.names)
        ),
        notes=(*base.estimate.notes, f"A note on {NASTY}."),
        key=replace(base.estimate.key, links=model.links),
    )
    return replace(
        base,
        estimate=changed,
        evidence=replace(base.evidence, key=replace(base.evidence.key, links=model.links), travel={}),
        traces=tuple(
            replace(
                each,
                name=f"{NASTY}.csv",
                base=NASTY,
                contacts={NASTY: each.contacts["left"]},
                loads={NASTY: each.loads["left"]},
            )
            for each in base.traces
        ),
        offsets={f"{NASTY} joint": 0.01},
        true_offsets={},
        remarks=(NASTY,),
        command=f"steelyard identify '{NASTY}'",
    )


@cache
def _load(text: str, folder) -> sy.Model:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "nasty.urdf"
        path.write_text(text.replace("package://example-robot-data/robots", str(folder.parents[1])), encoding="utf-8")
        model = sy.load_model(path)
        # Read while the file is there; meshes lie elsewhere.
        _ = model.parameters
    return model
