"""Runs attnscope over every Hugging Face architecture that can be built tiny; writes the coverage.

python benchmarks/sweep.py [--only NAME ...] [--resume] [--jobs 2]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main() -> int:
    """Run what was asked for and write docs/coverage.md and docs/coverage.json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these architectures alone")
    parser.add_argument("--resume", action="store_true", help="keep the rows that are there")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default 1)")
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="time limit of an architecture"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder to write to")
    chosen = parser.parse_args()

    from benchmarks.sweeping.sweep import sweep

    return sweep(
        chosen.only, chosen.out, resume=chosen.resume, jobs=chosen.jobs, seconds=chosen.seconds
    )


if __name__ == "__main__":
    sys.exit(main())
