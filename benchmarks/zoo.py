"""Runs `attnscope check` over the zoo: faulty and sound programs with the truth in their comments.

    python benchmarks/zoo.py                     all programs of tests/zoo/programs
    python benchmarks/zoo.py FOLDER_OR_FILE …    some of them
    python benchmarks/zoo.py --select AS2        with some rules alone

A program is a file as a user would write it. `# fault: AS201` ends each line that is a right place
to point at; `AS201|AS205` where both names are right. `# also: AS203` names codes that may rightly
appear besides, `# note: AS501` findings of severity note that are right. A program without a
`# fault:` is sound: no error and no warning may appear. The exit status is 0 where recall is at
least 0.95, right lines are at least 0.90, and no sound program is called faulty.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

# Some installed packages leave a top-level package `tests` behind, which would be found instead.
tests = ModuleType("tests")
tests.__path__ = [str(ROOT / "tests")]
sys.modules["tests"] = tests

from tests.zoo.judging import Verdict, judge, reached, summary  # noqa: E402  needs the above

PROGRAMS = ROOT / "tests" / "zoo" / "programs"


def main() -> int:
    """Judge the programs and print a line each, then the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", nargs="*", type=Path, default=[PROGRAMS])
    parser.add_argument("--select", action="append", default=[], help="rules to run, as of check")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--failed", action="store_true", help="list only what is not as it should be"
    )
    parser.add_argument("--json", type=Path, help="write the verdicts into a file")
    asked = parser.parse_args()
    files = sorted(file for place in asked.places for file in _files(place))
    verdicts = list(_judged(files, tuple(asked.select), asked.jobs, failed=asked.failed))
    for line in summary(verdicts):
        print(line)
    if asked.json is not None:
        asked.json.write_text(json.dumps([v.to_json() for v in verdicts], indent=1) + "\n")
    return 0 if reached(verdicts) else 1


def _files(place: Path) -> list[Path]:
    return (
        [place] if place.is_file() else [f for f in place.rglob("*.py") if f.name != "__init__.py"]
    )


def _judged(
    files: list[Path], select: tuple[str, ...], jobs: int, *, failed: bool
) -> list[Verdict]:
    verdicts = []
    with ProcessPoolExecutor(jobs) as pool:
        for verdict in pool.map(judge, files, [select] * len(files)):
            verdicts.append(verdict)
            if not (failed and verdict.right):
                print(verdict.line(), flush=True)
    return verdicts


if __name__ == "__main__":
    sys.exit(main())
