"""Times variants in rounds, so that a machine that is slow for a while is slow for all of them.

Each tool has a process of its own, and one process works at a time. Within a process the order
changes from round to round, so that no variant always follows the same one.
"""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch

from benchmarks.costing.case import CASES, Setting
from benchmarks.costing.process import Failure, Process
from benchmarks.costing.variant import Prepared, Variant
from benchmarks.costing.variants import VARIANTS, process_of

_WARM_UPS = 2


@dataclass(slots=True)
class Times:
    """Seconds of each round by variant, and why variants could not be timed."""

    seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: dict[str, str] = field(default_factory=dict)


def time_all(
    case: str, variants: Sequence[Variant], rounds: int, threads: int, tell: Callable[[str], None]
) -> Times:
    """Time every variant once a round, after warming all of them up."""
    times = Times()
    with ExitStack() as stack:
        names = dict.fromkeys(map(process_of, variants))
        processes = {name: stack.enter_context(Process(serve, (case, threads))) for name in names}
        for number in range(-_WARM_UPS, rounds):
            tell("warming up" if number < 0 else f"round {number + 1} of {rounds}")
            for variant in _order(variants, number):
                if variant.name in times.errors:
                    continue
                try:
                    seconds = processes[process_of(variant)].ask(variant.name)
                except Failure as failure:
                    tell(f"{variant.tool}, {variant.name}: {failure}")
                    times.errors[variant.name] = str(failure)
                    times.seconds.pop(variant.name, None)
                    continue
                if number >= 0:
                    times.seconds[variant.name].append(seconds)
    return times


def _order(variants: Sequence[Variant], number: int) -> Iterator[Variant]:
    """Yield the variants process by process, turned by one each round, backwards every other."""
    for name in dict.fromkeys(map(process_of, variants)):
        group = [variant for variant in variants if process_of(variant) == name]
        turn = number % len(group)
        group = group[turn:] + group[:turn]
        yield from reversed(group) if number % 2 else group


def serve(argument: tuple[str, int]) -> Callable[[str], float]:
    """Return what times one run of a variant of a case, in the process that this runs in."""
    name, threads = argument
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    setting = Setting(next(case for case in CASES if case.name == name))
    prepared: dict[str, Prepared] = {}

    def run(variant: str) -> float:
        if variant not in prepared:
            chosen = next(one for one in VARIANTS if one.name == variant)
            prepared[variant] = chosen.prepare(setting)
        return _seconds(prepared[variant].run)

    return run


def _seconds(run: Callable[[], object]) -> float:
    """Return how long one run takes, letting go of its result included."""
    gc.collect()
    start = time.perf_counter()
    result = run()
    del result
    return time.perf_counter() - start
