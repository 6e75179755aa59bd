"""How near to the truth each method comes: ``python -m benchmarks.truth [--part PART...] [--robots ...] ...``.

Parts that are not run keep their stored results. True robots are made once, and kept; see `benchmarks.truth.robots`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks.figures import RESULTS, Figure, Study, commit
from benchmarks.truth.calibration import TRIALS, study_calibration
from benchmarks.truth.limits import study_limits
from benchmarks.truth.methods import WHOLE, study_methods
from benchmarks.truth.payloads import SEEDS as PAYLOAD_SEEDS
from benchmarks.truth.payloads import study_payloads
from benchmarks.truth.peers import study_peers
from benchmarks.truth.robots import ROBOTS, SEEDS, SPREAD

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = ("methods", "limits", "payloads", "peers", "calibration")


def main() -> int:
    """Runs all parts, or some and keeps the stored results of the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="+", choices=PARTS, help="run these alone, and keep what is stored of others")
    parser.add_argument("--robots", nargs="+", choices=ROBOTS, default=list(ROBOTS), help="of methods and limits")
    parser.add_argument(
        "--seeds", type=int, default=SEEDS, help="how many true robots of each; ten (twenty with payloads) is all"
    )
    parser.add_argument("--trials", type=int, default=TRIALS, help="of calibration; a quarter of them of other laws")
    given = parser.parse_args()
    whole = (given.seeds, given.trials) == (SEEDS, TRIALS) and set(given.robots) == set(ROBOTS)
    work: dict[str, Callable[[Study], None]] = {
        "methods": lambda study: study_methods(study, given.robots, given.seeds),
        "limits": lambda study: study_limits(study, given.robots, given.seeds),
        "payloads": lambda study: study_payloads(study, PAYLOAD_SEEDS if whole else given.seeds),
        "peers": lambda study: study_peers(study, given.seeds),
        "calibration": lambda study: study_calibration(study, given.trials, given.trials // 4),
    }
    study = Study(WHOLE if whole else f"{WHOLE}_some", {"robots": 0, "true robots of each": given.seeds})
    stored = _stored(study.name) if given.part else {}
    parts: dict[str, Any] = {}
    for part in PARTS:
        before = len(study.figures)
        if given.part is None or part in given.part:
            begin = time.perf_counter()
            work[part](study)
            spent = time.perf_counter() - begin
            print(f"{part}: {spent:.0f} s", file=sys.stderr, flush=True)
            parts[part] = {"seconds": round(spent), "commit": commit()}
        elif part in stored.get("raw", {}).get("parts", {}):
            kept = stored["raw"]["parts"][part]
            known = [each for each in stored["figures"] if each["what"] in kept["figures"]]
            study.figures += [Figure(**{key: each[key] for key in each if key != "met"}) for each in known]
            study.raw[part] = stored["raw"].get(part)
            parts[part] = kept
        else:
            continue
        parts[part]["figures"] = [figure.what for figure in study.figures[before:]]
    study.raw |= {"parts": parts, "spread": SPREAD, "robots": given.robots}
    return study.finish()


def _stored(name: str) -> dict[str, Any]:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


if __name__ == "__main__":
    sys.exit(main())
