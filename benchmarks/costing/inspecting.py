"""Looks at each variant in a process of its own: memory, and whether it saw the right patterns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.costing import memory
from benchmarks.costing.case import CASES, Setting
from benchmarks.costing.process import Failure, Process
from benchmarks.costing.row import Inspection
from benchmarks.costing.variant import Prepared, Variant
from benchmarks.costing.variants import VARIANTS


def inspect_all(
    case: str, variants: Sequence[Variant], threads: int, tell: Callable[[str], None]
) -> dict[str, Inspection]:
    """Return what was found of each variant, by its name."""
    found: dict[str, Inspection] = {}
    for variant in variants:
        tell(f"memory of {variant.tool}, {variant.name}")
        with Process(serve, (case, threads), memory.ALLOCATOR) as process:
            try:
                found[variant.name] = process.ask(variant.name)
            except Failure as failure:
                tell(str(failure))
                found[variant.name] = Inspection(error=str(failure))
    return found


def serve(argument: tuple[str, int]) -> Callable[[str], Inspection]:
    """Return what inspects a variant of a case, in the process that this runs in."""
    name, threads = argument
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    case = next(one for one in CASES if one.name == name)

    def inspect(variant: str) -> Inspection:
        chosen = next(one for one in VARIANTS if one.name == variant)
        prepared = chosen.prepare(Setting(case))
        result = prepared.run()
        largest = _largest(result) if chosen.keep else None
        patterns, difference = _compare(prepared, result, Setting(case))
        del result
        return Inspection(memory.measure(prepared.run), patterns, difference, largest)

    return inspect


def _largest(trace: Any) -> int:
    """Return the elements of the largest tensor that the trace holds beside the model's output."""
    found = memory.tensors_in(trace.calls, trace.others, trace.unseen, trace.notes)
    return max((tensor.numel() for tensor in found), default=0)


def _compare(prepared: Prepared, result: Any, setting: Setting) -> tuple[int | None, float | None]:
    """Return how many patterns there are, and their largest distance from the reference's."""
    if prepared.patterns is None:
        return None, None
    found = prepared.patterns(result)
    model, _ = setting.new_model("eager")
    expected = model(**setting.inputs, output_attentions=True).attentions
    pairs = zip(found, expected, strict=True)
    return len(found), max(float((one - other).abs().max()) for one, other in pairs)
