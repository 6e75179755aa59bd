"""Loads that robots carry: which link is found, how heavy, and what cannot be told.

Beside a recording without the load, 2 kg on hand, torso, foot and head of G1 and TALOS; without one, beside a CAD that
is 20 % wrong, what is possible with 0.5, 2 and 5 kg; and recordings without any load, for false alarms.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.figures import Figure
from benchmarks.papers.jovic import show
from benchmarks.truth.payload_trials import PLACES, RIVALS, SPREAD, payload_model, recorded
from steelyard.payload.load_search import find_payload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.figures import Study
    from benchmarks.truth.payload_trials import Recorded
    from steelyard import Evidence
    from steelyard.payload.finding import PayloadFinding

SEEDS, FEW = 20, 10
MASS, MASSES = 2.0, (0.5, 2.0, 5.0)
RIGHT, MASS_ERROR, ALARMS, WRONG = 0.95, 0.1, 0.025, 0.05
"""What is asked: the share of right links, the median mass error (kg), shares of false alarms and of wrong links."""


def study_payloads(study: Study, seeds: int = SEEDS) -> None:
    """Runs all of it, and adds figures and raw numbers to a study.

    Args:
        study: The study.
        seeds: True robots of each kind.
    """
    few = min(FEW, seeds)
    beside = list(_runs(range(seeds), [MASS], baseline=True))
    played = list(_runs(range(1), [MASS], baseline=True, played=True))
    zeroed = list(_runs(range(few), [MASS], baseline=True, same_sensors=False))
    alone = list(_runs(range(few), MASSES, baseline=False))
    empty = [
        _empty(robot, seed, baseline=baseline)
        for baseline in (True, False)
        for robot in PLACES
        for seed in range(seeds)
    ]
    _show_beside(beside)
    _show_alone(alone)
    study.raw["payloads"] = {"beside": beside, "played": played, "zeroed": zeroed, "alone": alone, "empty": empty}

    errors = [abs(run["mass error"]) for run in beside if run["mass error"] is not None]
    study.figures += [
        Figure(
            "payload: right link, baseline",
            _share(run["right"] for run in beside),
            RIGHT,
            note=f"{len(beside)} runs; " + "; ".join(
                f"{robot} {place} {_share(run['right'] for run in _of(beside, robot, place)):.2f}"
                for robot in PLACES
                for place in PLACES[robot]
            ),
        ),
        Figure("payload: the links named hold the right one", _share(run["named"] for run in beside), RIGHT),
        Figure(
            "payload: median mass error, baseline, kg", float(np.median(errors)), MASS_ERROR, at_least=False,
            note=f"greatest {max(errors):.3f}; sensors zeroed in between: {_median(zeroed):.3f}",
        ),
        Figure(
            "payload: one load and no more", _share(run["loads"] == 1 for run in beside), RIGHT, note="2 kg, baseline"
        ),
        Figure(
            "payload: right link where the load was played too", _share(run["right"] for run in played),
            note=f"{len(played)} runs in full physics; median mass error {_median(played):.3f} kg",
        ),
        Figure(
            "payload: right link, sensors zeroed in between", _share(run["right"] for run in zeroed),
            note=f"{len(zeroed)} runs, offsets moved by their priors, same_sensors=False",
        ),
        Figure(
            "payload: false alarms, baseline", _share(run["loads"] > 0 for run in empty if run["baseline"]), ALARMS,
            at_least=False, note=f"{seeds * len(PLACES)} recordings without a load, level 0.01",
        ),
        Figure(
            "payload: false alarms, CAD 20 % wrong",
            _share(run["loads"] > 0 for run in empty if not run["baseline"]), ALARMS, at_least=False,
        ),
        Figure(
            "payload: wrong links named, CAD 20 % wrong",
            _share(run["loads"] > 0 and not run["named"] for run in alone), WRONG, at_least=False,
            note="; ".join(
                f"{mass:g} kg: {_share(run['right'] for run in alone if run['mass'] == mass):.2f} right, "
                f"{_share(run['loads'] == 0 for run in alone if run['mass'] == mass):.2f} refused"
                for mass in MASSES
            ),
        ),
    ]  # fmt: skip


def _runs(
    seeds: Iterable[int], masses: Iterable[float], *, baseline: bool, same_sensors: bool = True, played: bool = False
) -> Iterable[dict[str, Any]]:
    for seed in seeds:
        for robot, places in PLACES.items():
            for place in places:
                for mass in masses:
                    run = recorded(robot, seed, place, mass, played=played)
                    begin = time.perf_counter()
                    finding = find_payload(
                        payload_model(robot),
                        run.evidence if same_sensors else _zeroed(run),
                        recorded(robot, seed, "baseline").evidence if baseline else None,
                        cad_spread=None if baseline else SPREAD,
                        same_sensors=same_sensors,
                    )
                    yield _judge(run, finding) | {"seconds": round(time.perf_counter() - begin, 2)}
        print(f"payloads: seed {seed}", file=sys.stderr, flush=True)


def _zeroed(run: Recorded) -> Evidence:
    """Gives the evidence as sensors would have made it whose errors moved by as much as their priors say."""
    evidence = run.evidence
    moved = np.array(evidence.key.priors) * np.random.default_rng([run.seed, 7]).normal(size=len(evidence.key.priors))
    # Zeroing changes neither gains nor encoders, and is no drift.
    moved *= [not any(name.endswith(f".{group}") for group in RIVALS) for name in evidence.key.nuisance]
    factor = evidence.factor.copy()
    factor[:, -1] += factor[:, len(evidence.independent) : -1] @ moved
    return replace(evidence, factor=factor)


def _judge(run: Recorded, finding: PayloadFinding) -> dict[str, Any]:
    """Holds a finding against the truth."""
    loads = finding.payloads
    first = loads[0] if loads else None
    return {
        "robot": run.robot,
        "seed": run.seed,
        "place": run.place,
        "mass": run.mass,
        "link": run.link,
        "status": finding.status,
        "loads": len(loads),
        "found": first.link if first else None,
        "links": list(first.links) if first else [],
        "right": bool(first and first.link == run.link),
        "named": bool(first and run.link in first.links),
        "mass error": first.mass - run.mass if first else None,
        "standard error": first.mass_error if first else None,
        "distance": float(np.linalg.norm(first.position - run.position)) if first and first.link == run.link else None,
        "rigid": bool(first and first.rigid is not None),
        "p": finding.p_value,
        "misfit": finding.misfit,
        "limit": finding.limits.get(run.link or "", float("nan")),
    }


def _empty(robot: str, seed: int, *, baseline: bool) -> dict[str, Any]:
    run = recorded(robot, seed, "nothing")
    other = recorded(robot, seed, "baseline").evidence if baseline else None
    finding = find_payload(payload_model(robot), run.evidence, other, cad_spread=None if baseline else SPREAD)
    limits = sorted(finding.limits.values())
    return {
        "robot": robot, "seed": seed, "baseline": baseline, "status": finding.status, "loads": len(finding.payloads),
        "p": finding.p_value, "misfit": finding.misfit, "limits": [limits[0], limits[len(limits) // 2], limits[-1]],
    }  # fmt: skip


def _share(values: Iterable[bool]) -> float:
    return float(np.mean([float(value) for value in values] or [np.nan]))


def _median(runs: Iterable[dict[str, Any]]) -> float:
    return float(np.median([abs(run["mass error"]) for run in runs if run["mass error"] is not None] or [np.nan]))


def _of(runs: Iterable[dict[str, Any]], robot: str, place: str) -> list[dict[str, Any]]:
    return [run for run in runs if run["robot"] == robot and run["place"] == place]


def _show_beside(runs: list[dict[str, Any]]) -> None:
    rows = []
    for robot, places in PLACES.items():
        for place in places:
            mine = _of(runs, robot, place)
            apart = [run["distance"] for run in mine if run["distance"] is not None]
            scores = [run["mass error"] / run["standard error"] for run in mine if run["standard error"]]
            rows.append([
                f"{robot} {place}", f"{_share(run['right'] for run in mine):.2f}",
                f"{_share(run['named'] for run in mine):.2f}",
                f"{_share(run['status'] == 'ambiguous' for run in mine):.2f}", f"{_median(mine):.3f}",
                f"{np.sqrt(np.mean(np.square(scores))):.2f}", f"{1e3 * np.median(apart or [np.nan]):.0f}",
                f"{np.median([run['limit'] for run in mine]):.2f}", f"{np.median([run['misfit'] for run in mine]):.2f}",
            ])  # fmt: skip
    headings = ["2 kg, baseline", "right", "named", "ambiguous", "|kg|", "errors / std", "off mm", "limit kg", "misfit"]
    show("Loads beside a recording without them", headings, rows)


def _show_alone(runs: list[dict[str, Any]]) -> None:
    rows = []
    for robot, places in PLACES.items():
        for place in places:
            row = [f"{robot} {place}"]
            for mass in MASSES:
                mine = [run for run in _of(runs, robot, place) if run["mass"] == mass]
                counts = Counter(
                    "refused" if not run["loads"] else "right" if run["right"] else "named" if run["named"] else "wrong"
                    for run in mine
                )
                row.append(" ".join(f"{counts[what]}" for what in ("right", "named", "wrong", "refused")))
            row.append(f"{np.median([run['limit'] for run in _of(runs, robot, place)]):.1f}")
            rows.append(row)
    headings = ["CAD 20 % wrong: right, named, wrong, refused", *(f"{mass:g} kg" for mass in MASSES), "limit kg"]
    show("Loads beside a CAD that is 20 % wrong", headings, rows)
