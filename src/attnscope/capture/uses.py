"""Follows what becomes of a softmax's output, and of sums that may be scores without a product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from attnscope.capture.functions import Kind
from attnscope.capture.provenance import Node
from attnscope.capture.registry import Registry
from attnscope.capture.softmaxes import Softmax, is_softmax
from attnscope.capture.step import Step, both_sides, flat
from attnscope.capture.trail import LAYOUT

__all__ = ["follow"]

_FOLLOWED = 8
"""Operations after a softmax that are looked at to tell what it is for."""

_SUMS = frozenset({"add", "sub"})
_KEEPS = LAYOUT | frozenset("mul div masked_fill where dropout nan_to_num pad".split())
"""Operations after which weights are still weights."""


@dataclass(slots=True)
class _Marks:
    """What is known of what an operation takes, and then of what it makes.

    softmax: whose output it comes from; weighs, added: as in `Entry`.
    """

    softmax: Softmax | None = None
    weighs: bool = False
    added: int | None = None


def follow(
    step: Step,
    registry: Registry,
    is_weight: Callable[[Tensor], bool],
    on_softmax: Callable[[str, Node | None, bool], Softmax],
) -> None:
    """Tell each softmax what became of its output, and note a new one."""
    marks = _taken(step, registry)
    name = step.name.removesuffix("_")
    if marks.added is not None:
        marks.added = _still_added(step, is_weight, marks.added)
    elif name in _SUMS:
        marks.added = _added(step, is_weight)
    marks.weighs = marks.weighs and name in _KEEPS
    if is_softmax(step.name):
        found = registry.find(flat(step.output)[0])
        node = found.node if found is not None else None
        softmax = on_softmax(step.name, node, marks.added is not None)
        marks = _Marks(softmax, node is None or node.pooled)
    elif marks.softmax is not None and len(marks.softmax.consumers) >= _FOLLOWED:
        marks.softmax = None
    if marks.softmax is None and marks.added is None and not marks.weighs:
        return
    for tensor in flat(step.output):
        if tensor.is_floating_point():
            entry = registry.entry(tensor)
            entry.softmax = marks.softmax or entry.softmax
            entry.weighs, entry.added = marks.weighs, marks.added


def _taken(step: Step, registry: Registry) -> _Marks:
    marks = _Marks()
    for tensor in step.tensors:
        entry = registry.find(tensor)
        if entry is None:
            continue
        if entry.softmax is not None:
            entry.softmax.consumers.append(step.name)
            marks.softmax = marks.softmax or entry.softmax
        marks.weighs = marks.weighs or entry.weighs
        marks.added = entry.added if marks.added is None else marks.added
    return marks


def _added(step: Step, is_weight: Callable[[Tensor], bool]) -> int | None:
    """Return 0 where two activations are added up, one of them spread over axes of the other."""
    pair = both_sides(step)
    if pair is None or pair[0].shape == pair[1].shape or any(map(is_weight, pair)):
        return None
    return 0 if all(side.dim() and side.numel() > 1 for side in pair) else None


def _still_added(step: Step, is_weight: Callable[[Tensor], bool], added: int) -> int | None:
    """Return how often a sum was multiplied with parameters; None: it is something else by now."""
    if step.kind is Kind.BOUNDARY:
        return None
    if step.kind is not Kind.CONTRACTION:
        return added
    projects = sum(not is_weight(tensor) for tensor in step.tensors) == 1
    return added + 1 if projects and not added else None
