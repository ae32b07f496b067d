"""Choices among equals: which of them is taken is nobody's word, and may change with the length."""

from __future__ import annotations

from attnscope.calls.program import Operation
from attnscope.differ.sides.side import Side

__all__ = ["chooses_among_equals"]

_FEW = frozenset("topk argmax argmin max min kthvalue".split())
_ORDERS = frozenset("sort argsort msort".split())


def chooses_among_equals(side: Side, operation: Operation) -> bool:
    """Return whether an operation takes some of several numbers, of which the last has an equal.

    (…, n) of which k are taken: the k-th largest (smallest) is the next one's equal in some row.
    """
    given = next(operation.values(), None)
    if operation.name not in _FEW | _ORDERS or given is None:
        return False
    numbers, made = (side.tape.tensors[v].detach() for v in (given, operation.defines[-1]))
    if not numbers.is_floating_point() or not numbers.numel():
        return False
    axis = next((at for at, size in enumerate(made.shape) if numbers.shape[at] != size), -1)
    ranked = numbers.sort(axis, descending=operation.name not in {"argmin", "min"}).values
    count = numbers.shape[axis]
    equal = ranked.narrow(axis, 1, count - 1) == ranked.narrow(axis, 0, count - 1)
    if operation.name in _ORDERS:
        return bool(equal.any())
    taken = made.shape[axis] if made.dim() == numbers.dim() else 1
    return taken < count and bool(equal.select(axis, taken - 1).any())
