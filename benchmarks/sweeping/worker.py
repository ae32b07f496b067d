"""Runs architectures, each in a process of its own: a crash or a hang is a row, not the end."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
import transformers

from attnscope.errors import TargetError
from benchmarks.sweeping.measure import Source, measure
from benchmarks.sweeping.row import EAGER, SETTINGS, Row, Setting, Status

_FORK = multiprocessing.get_context("fork")
_TURN = 0.5


@dataclass(frozen=True, slots=True)
class Limits:
    """What one architecture may take, all settings together: seconds, and bytes above the start."""

    seconds: float = 120.0
    memory: int = 6 << 30


@dataclass(slots=True)
class _Job:
    name: str
    process: BaseProcess
    results: Connection
    deadline: float
    rows: list[Row]


def run_all(
    names: Sequence[str], jobs: int, limits: Limits, settings: Sequence[Setting] = SETTINGS
) -> Iterator[list[Row]]:
    """Run every architecture in every setting; yield its rows as soon as it is done."""
    _load()
    waiting = list(reversed(names))
    running: list[_Job] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_start(waiting.pop(), limits, settings))
            wait([job.results for job in running], timeout=_TURN)
            for job in list(running):
                ended = _collect(job)
                late = time.monotonic() > job.deadline
                if ended or late:
                    running.remove(job)
                    yield _finish(job, settings, late=late and not ended)
    finally:
        for job in running:
            job.process.kill()


def _load() -> None:
    """Import what every architecture needs, so that the forked processes share it."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    warnings.simplefilter("ignore")
    measure("bert", EAGER)


def _start(name: str, limits: Limits, settings: Sequence[Setting]) -> _Job:
    here, there = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_measure_all, args=(name, there, limits, settings), daemon=True)
    process.start()
    there.close()
    return _Job(name, process, here, time.monotonic() + limits.seconds, [])


def _measure_all(
    name: str, results: Connection, limits: Limits, settings: Sequence[Setting]
) -> None:
    """Measure one architecture; the process that this runs in is made for it."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
    used = int(pages) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + limits.memory, used + limits.memory))
    sources: dict[str | None, Source] = {}
    for setting in settings:
        if setting.attention not in sources:
            try:
                sources[setting.attention] = Source(name, setting.attention)
            except TargetError:
                results.send(measure(name, setting))
                continue
        results.send(measure(name, setting, sources[setting.attention]))
    results.close()


def _collect(job: _Job) -> bool:
    """Take what a job has sent; return whether it has ended."""
    try:
        while job.results.poll():
            job.rows.append(job.results.recv())
    except EOFError:
        return True
    return False


def _finish(job: _Job, settings: Sequence[Setting], *, late: bool) -> list[Row]:
    """Return the rows of a job, with one for each setting that it never came to."""
    if late:
        job.process.kill()
    job.process.join()
    code = job.process.exitcode or 0
    status: Status = "timed out" if late else "crashed"
    reason = "time limit" if late else _cause(code)
    for setting in settings[len(job.rows) :]:
        job.rows.append(Row(job.name, setting.name, status, reason))
    return job.rows


def _cause(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
