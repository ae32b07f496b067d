"""Runs `attnscope check` over what is known to be sound: no error and no warning may appear.

    python benchmarks/quiet.py                     every Hugging Face architecture that can be built
    python benchmarks/quiet.py --only bert gpt2    some of them
    python benchmarks/quiet.py --jobs 2 --seconds 120 --json FILE

What can't be built here is counted, and not judged; what takes longer than allowed has failed.
Proven faults of an architecture itself (`upstream.py`) are expected, and nothing else of it: where
one is no longer told, that is said. The exit status is 0 where all is as it has to be.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.upstream import PROVEN  # noqa: E402  needs the above

_AS_IT_HAS_TO_BE = frozenset({"quiet", "not built", "proven"})
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True)
class Row:
    """One architecture: how the check ended, what was found, seconds.

    state: "quiet", "not built"; "proven": what is told are faults of its own; "told": there is
    more; "not told": one of those is missing; "raised", "died", "timeout".
    """

    name: str
    state: str
    told: tuple[str, ...] = ()
    seconds: float = 0.0

    def line(self) -> str:
        """Return one line about it."""
        return f"{self.state:<10}{self.seconds:7.1f} s  {self.name}  {' | '.join(self.told)}"


def main() -> int:
    """Check what was asked for, print what is not quiet, and count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these architectures alone")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=180.0, help="limit of an architecture")
    parser.add_argument("--json", type=Path, help="write the rows into a file")
    asked = parser.parse_args()
    _load()

    from attnscope.targets.architectures import architectures

    rows = []
    for row in _all(asked.only or list(architectures()), asked.jobs, asked.seconds):
        rows.append(row)
        if row.state not in {"quiet", "not built"}:
            print(row.line(), flush=True)
            for fault in PROVEN.get(row.name, ()):
                print(f"{'':<10}{fault.code}: {fault.proof}", flush=True)
    print(", ".join(f"{count} {state}" for state, count in Counter(r.state for r in rows).items()))
    times = sorted(row.seconds for row in rows if row.state != "not built")
    if times:
        print(f"seconds: median {times[len(times) // 2]:.1f}, largest {times[-1]:.1f}")
    if asked.json is not None:
        asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0 if all(row.state in _AS_IT_HAS_TO_BE for row in rows) else 1


def _load() -> None:
    """Import what every architecture needs, so that the forked processes share it."""
    import warnings

    import torch
    import transformers

    import attnscope.checks.entry  # noqa: F401  loaded for the processes to come

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    warnings.simplefilter("ignore")


def _all(names: Sequence[str], jobs: int, seconds: float) -> Iterator[Row]:
    """Check each architecture in a process of its own: a crash or a hang is a row."""
    waiting = list(reversed(names))
    running: list[tuple[str, BaseProcess, Connection, float]] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop()
            here, there = _FORK.Pipe(duplex=False)
            process: BaseProcess = _FORK.Process(target=_work, args=(name, there), daemon=True)
            process.start()
            there.close()
            running.append((name, process, here, time.monotonic()))
        wait([job[2] for job in running], timeout=0.5)
        for job in list(running):
            name, started, results, began = job
            spent = time.monotonic() - began
            row: Row | None = None
            if results.poll():
                try:
                    row = results.recv()
                except EOFError:
                    row = Row(name, "died", (f"exit code {started.exitcode}",), spent)
            elif spent > seconds:
                row = Row(name, "timeout", (), spent)
            if row is not None:
                started.kill()
                started.join()
                running.remove(job)
                yield row


def _work(name: str, there: Connection) -> None:
    there.send(check_one(name))
    there.close()


def check_one(name: str) -> Row:
    """Check one architecture at default settings."""
    from attnscope.checks.entry import check
    from attnscope.targets.architectures import build

    try:
        built = build(name)
    except Exception as error:  # noqa: BLE001  what can't be built is counted, not judged
        return Row(name, "not built", (str(error)[:120],))
    began = time.monotonic()
    try:
        report = check(built.model, built.inputs, name=name)
    except Exception as error:  # noqa: BLE001  whatever it is, it is the row
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return Row(name, "raised", (text,), time.monotonic() - began)
    counted = [each for each in report.findings if each.counts]
    told = [f"{f.severity[0].upper()} {f.code} {f.module} {f.message[:160]}" for f in counted]
    failed = [f"{each.code} {each.reason[:160]}" for each in report.rules_skipped if each.failed]
    state = "told" if failed else judged(name, {each.code for each in counted})
    return Row(name, state, (*told, *failed), time.monotonic() - began)


def judged(name: str, codes: set[str]) -> str:
    """Return how the codes of an architecture are to be judged."""
    proven = {fault.code for fault in PROVEN.get(name, ())}
    if codes - proven:
        return "told"
    if proven - codes:
        return "not told"
    return "proven" if proven else "quiet"


if __name__ == "__main__":
    sys.exit(main())
