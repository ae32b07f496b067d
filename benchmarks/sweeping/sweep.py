"""Chooses what to run, keeps the results safe while running, and has the report written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from attnscope.targets.architectures import architectures
from benchmarks.sweeping.report import write_report
from benchmarks.sweeping.row import Row
from benchmarks.sweeping.store import read_rows, write_rows
from benchmarks.sweeping.worker import Limits, run_all

_SAVE_EVERY = 10


def sweep(
    only: Sequence[str] | None, folder: Path, *, resume: bool, jobs: int, seconds: float
) -> int:
    """Run the architectures and write `coverage.json` and `coverage.md`; return the exit status.

    only: names to run, merged into what is there; resume: leave out those that are there already.
    """
    stored = folder / "coverage.json"
    known = read_rows(stored) if resume or only else {}
    names = list(only or architectures())
    if resume:
        names = [name for name in names if name not in known]
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    with Progress(console=console, auto_refresh=False) as progress:
        task = progress.add_task("architectures", total=len(names))
        for count, rows in enumerate(run_all(names, jobs, Limits(seconds)), start=1):
            known[rows[0].architecture] = rows
            for line in _complaints(rows):
                progress.console.print(line, highlight=False, markup=False)
            progress.update(task, advance=1, refresh=console.is_terminal)
            if count % _SAVE_EVERY == 0:
                write_rows(stored, known)
    write_rows(stored, known)
    write_report(folder / "coverage.md", known)
    faulty = [row for rows in known.values() for row in rows if row.faults]
    print(f"{len(known)} architectures, {len(faulty)} rows with a fault: {folder / 'coverage.md'}")
    return 1 if faulty else 0


def _complaints(rows: list[Row]) -> list[str]:
    return [
        f"{row.architecture} ({row.setting}): {', '.join(row.faults) or row.status} {row.error}"
        for row in rows
        if row.faults or row.status not in {"measured", "not built"}
    ]
