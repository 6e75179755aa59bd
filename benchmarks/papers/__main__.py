"""Makes papers' tables again: ``python -m benchmarks.papers yamane jovic2015 jovic2016``."""

from __future__ import annotations

import argparse
import sys

from benchmarks.papers import jovic2015, jovic2016, yamane, yamane_kinematic

STUDIES = {
    "yamane": yamane.study,
    "yamane-kinematic": yamane_kinematic.study,
    "jovic2015": jovic2015.study,
    "jovic2016": jovic2016.study,
}


def main() -> int:
    """Runs the studies that were asked for, and gives the exit code."""
    parser = argparse.ArgumentParser(description="Makes papers' tables and figures again in the laboratory.")
    parser.add_argument("papers", nargs="+", choices=STUDIES, metavar="PAPER", help=f"one of: {', '.join(STUDIES)}")
    chosen = parser.parse_args().papers
    return max([STUDIES[paper]() for paper in chosen])


if __name__ == "__main__":
    sys.exit(main())
