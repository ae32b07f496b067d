"""Runs `verify` over ports with one known fault each, and over sound ones; writes docs/verify.md.

python benchmarks/ports.py [--only NAME ...] [--out docs]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# Some installed packages leave a top-level package `tests` behind, which would be found instead.
tests = ModuleType("tests")
tests.__path__ = [str(ROOT / "tests")]
sys.modules["tests"] = tests


def main() -> int:
    """Run what was asked for, print a line each, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="ports whose names begin so")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder to write to")
    chosen = parser.parse_args()

    from benchmarks.porting.report import page, summary
    from benchmarks.porting.row import rows

    found = []
    for row in rows(tuple(chosen.only or ())):
        print(row.line(), flush=True)
        found.append(row)
    print(summary(found))
    if not chosen.only:
        (chosen.out / "verify.md").write_text(page(found), encoding="utf-8")
    return 0 if all(row.right for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
