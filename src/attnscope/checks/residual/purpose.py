"""Which cuts of the way back are a design: stand-ins, targets, choices, frozen stages."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch

from attnscope.calls.program import Operation
from attnscope.capture.tape import Tape
from attnscope.checks.masking.biases import HIGH
from attnscope.checks.operations import ADDS, COMPARES, MULTIPLIES, SUBTRACTS
from attnscope.checks.residual.graph import behind, output_values, reached
from attnscope.checks.subject.subject import Subject

__all__ = ["SUMS", "is_meant", "joins", "stands_in"]

SUMS = ADDS | SUBTRACTS
_FILLS = frozenset("where masked_fill masked_fill_".split())
_COPIES = frozenset("detach detach_ data clone".split())
_MEASURES = ("loss", "kl_div", "cosine_similarity", "cross_entropy", "pairwise_distance")


def is_meant(subject: Subject, cut: Operation) -> bool:
    """Return whether a cut is a design.

    A straight-through estimator; a target, which meets nothing that learns before it is returned or
    is measured against; an index or a comparison of scores, which chooses (a gate is no choice: a
    number is compared with a constant, and the result is a factor).
    """
    tape = subject.base.tape
    if stands_in(tape, cut):
        return True
    joined = list(joins(tape, cut))
    if _takes_index(tape, cut) or _makes_index(tape, cut, joined):
        return True
    if not tape.tensors[cut.defines[0]].is_floating_point():
        return not _is_gate(tape, cut, joined)
    shown = {v for v in output_values(subject) if tape.tensors[v].dim()}
    needed = {v for op in behind(tape, shown) for v in op.defines}
    return not any(
        not needed.isdisjoint(operation.defines)
        and not any(word in operation.name for word in _MEASURES)
        for operation, _ in joined
    )


def stands_in(tape: Tape, cut: Operation) -> bool:
    """Return whether a cut is of a difference to the very value that its result is added to."""
    for operation, other in joins(tape, cut):
        if operation.name not in SUMS:
            continue
        whole = _origin(tape, other)
        way = behind(tape, [v for v in operation.values() if v != other])
        if any(
            op.name in SUMS and any(_origin(tape, v) == whole for v in op.values()) for op in way
        ):
            return True
    return False


def joins(tape: Tape, cut: Operation) -> Iterator[tuple[Operation, int]]:
    """Iterate over operations in which a cut's result first meets what learns, and that value."""
    still = set(cut.defines)
    for operation in tape.operations:
        if operation is cut or still.isdisjoint(operation.values()):
            continue
        learning = [
            v for v in operation.values() if v not in still and tape.tensors[v].requires_grad
        ]
        if learning and any(tape.tensors[v].requires_grad for v in operation.defines):
            yield operation, learning[0]
        else:
            still.update(operation.defines)


def _origin(tape: Tape, value: int) -> int:
    """Return what a value is a copy of."""
    while (operation := tape.maker.get(value)) is not None and operation.name in _COPIES:
        value = next(operation.values())
    return value


def _takes_index(tape: Tape, cut: Operation) -> bool:
    """Return whether a cut is handed an index that was chosen among values that learn."""
    return any(
        _is_index(tape, v)
        and (operation := tape.maker.get(v)) is not None
        and any(tape.tensors[each].requires_grad for each in operation.values())
        for v in cut.values()
    )


def _makes_index(tape: Tape, cut: Operation, joined: Collection[tuple[Operation, int]]) -> bool:
    """Return whether what a cut makes becomes an index before it meets what learns."""
    ways = (behind(tape, [v for v in op.values() if v != other], []) for op, other in joined)
    after = reached(tape, cut.defines)
    return any(
        _is_index(tape, v)
        for way in ways
        for operation in way
        for v in operation.defines
        if v in after
    )


def _is_index(tape: Tape, value: int) -> bool:
    tensor = tape.tensors[value]
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _is_gate(tape: Tape, cut: Operation, joined: Collection[tuple[Operation, int]]) -> bool:
    """Return whether a cut compares with a constant and lets values through or zeroes them."""
    if cut.name not in COMPARES or len(set(cut.values())) > 1 or not joined:
        return False
    for operation, _ in joined:
        made = tape.tensors[operation.defines[0]].detach()
        hides = bool((made <= -HIGH).any())  # a mask of scores is a choice
        if hides or operation.name not in MULTIPLIES | _FILLS:
            return False
    return True
