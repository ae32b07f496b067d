"""Measures what watching a model costs in time and memory, beside other programs that can do it.

python benchmarks/cost.py [--quick] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def main() -> int:
    """Measure what was asked for, write cost.md and cost.json, and say which targets were met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="3 rounds: a trial, not a result")
    parser.add_argument(
        "--only",
        nargs="+",
        default=(),
        metavar="NAME",
        help="models, tools or variants whose name holds NAME",
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch (default 1)")
    parser.add_argument(
        "--out", type=Path, help="folder to write to (default docs; out with --quick or --only)"
    )
    chosen = parser.parse_args()
    partial = chosen.quick or chosen.only
    folder: Path = chosen.out or ROOT / ("out" if partial else "docs")

    from benchmarks.costing.run import run

    return run(folder, chosen.only, quick=chosen.quick, threads=chosen.threads)


if __name__ == "__main__":
    sys.exit(main())
