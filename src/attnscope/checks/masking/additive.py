"""Attention whose scores are no product of q and k, found by its softmax.

v·tanh(W q + U k), a·[W h ‖ W h]: scores of one feature each, or sums of one number a query and one
a key. No call is recorded of them; what rules ask is asked of the softmax itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.trail import LAYOUT
from attnscope.checks.course import HIDING
from attnscope.checks.dropouts import dropped
from attnscope.checks.masking.biases import DEEP
from attnscope.checks.operations import CONTRACTIONS
from attnscope.checks.softmaxes import axis_of_softmax, softmaxes_outside
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Additive", "additive_of"]

_LONGEST = 60
_PASSED = LAYOUT | {"dropout", "nan_to_num", "float", "to"}


@dataclass(frozen=True, slots=True, eq=False)
class Additive:
    """A softmax over additive scores, and how its weights are used.

    axis: that it runs over; weights: what it makes, in float64. hiding: the operation before it
    that hides keys; after: the first one behind it that changes weights by a mask. sums: of the
    weights that meet the values, over the axis that they are summed over; nothing is dropped.
    """

    softmax: Operation
    axis: int
    weights: Tensor
    hiding: Operation | None
    after: Operation | None
    sums: Tensor

    @property
    def line(self) -> Source | None:
        """Where keys are hidden, or the softmax where none are."""
        return self.hiding.source if self.hiding is not None else self.softmax.source

    @property
    def line_by_query(self) -> Source | None:
        """Where other keys are hidden from other queries, or the softmax where none are."""
        shown = self.weights.movedim(self.axis, -1) > 0
        rows = shown.flatten(1, -2) if shown.dim() > 2 else shown[:, None]
        return self.softmax.source if bool((rows == rows[:, :1]).all()) else self.line


def additive_of(subject: Subject) -> tuple[Additive, ...]:
    """Return the additive attentions of the base run, in order."""
    return subject.once("additive", partial(_all, subject))


def _all(subject: Subject) -> tuple[Additive, ...]:
    return tuple(
        found
        for operation in softmaxes_outside(subject)
        if _is_scored(subject, operation) and (found := _read(subject, operation)) is not None
    )


def _is_scored(subject: Subject, softmax: Operation) -> bool:
    """Return whether scores have one feature each, or are a sum of one part a query, one a key."""
    tape, weights = subject.base.tape, subject.base.weights
    waiting, seen = [next(softmax.values())], set[int]()
    while waiting and len(seen) < _LONGEST:
        value = waiting.pop(0)
        operation = tape.maker.get(value)
        if value in seen or operation is None or not tape.tensors[value].is_floating_point():
            continue
        seen.add(value)
        operands = [tape.tensors[each] for each in operation.values()]
        made = tape.tensors[operation.defines[0]]
        if operation.name in CONTRACTIONS or operation.name.startswith("conv"):
            projected = any(each in weights for each in operation.values())
            if projected and made.dim() and made.shape[-1] == 1 < made.numel():
                return True
            continue
        if len(operands) == 2 and all(_is_spread(each, made) for each in operands):
            return True
        waiting += [each for each in operation.values() if each not in weights]
    return False


def _is_spread(operand: Tensor, made: Tensor) -> bool:
    """Return whether an operand lies alike along an axis, and differs along another one."""
    return operand.is_floating_point() and 1 < operand.numel() < made.numel()


def _read(subject: Subject, softmax: Operation) -> Additive | None:
    axis = axis_of_softmax(subject, softmax)
    met = next(_weighings(subject, softmax.defines[0]), None)
    if axis is None or met is None:
        return None
    value, other, result, after = met
    tape, made = subject.base.tape, softmax.defines[0]
    try:
        weights = tape.run([made], wide=True)[made]
        kept = _undropped(subject, made, weights, value)
        met_by = tape.run([value], kept, wide=True)[value]
        ones = torch.ones_like(tape.tensors[other])
        sums = tape.run([result], {value: met_by, other: ones}, wide=True)[result]
    except UNREADABLE:
        return None
    return Additive(softmax, axis, weights, _hiding(subject, softmax), after, sums)


def _undropped(subject: Subject, made: int, weights: Tensor, met: int) -> dict[int, Tensor]:
    """Return weights, and what dropouts on their way make of them, as if nothing were dropped."""
    tape, kept = subject.base.tape, {made: weights}
    between = {op.defines[0] for op in tape.program.needed((met,), kept)}
    for each in dropped(tape):
        (first, *_), after = each.operation.values(), each.operation.defines[0]
        if not each.by_hand and after in between:
            kept[after] = tape.run([first], kept, wide=True)[first]
    return kept


def _weighings(
    subject: Subject, value: int, after: Operation | None = None, depth: int = 8
) -> Iterator[tuple[int, int, int, Operation | None]]:
    """Iterate over (weights, values, result, mask behind the softmax) of products with values."""
    tape, parameters = subject.base.tape, subject.base.weights
    for user in tape.users.get(value, []) if depth else []:
        others = [each for each in user.values() if each != value and each not in parameters]
        made = user.defines[0]
        if user.name in CONTRACTIONS and len(others) == 1:
            yield value, others[0], made, after
        elif user.name == "mul" and others:
            total = next((each for each in tape.users.get(made, []) if each.name == "sum"), None)
            if total is not None and tape.tensors[others[0]].dim() >= tape.tensors[value].dim():
                yield value, others[0], total.defines[0], after
            elif total is None:
                yield from _weighings(subject, made, after or user, depth - 1)
        elif user.name in HIDING and others:
            yield from _weighings(subject, made, after or user, depth - 1)
        elif user.name in _PASSED and not others:
            yield from _weighings(subject, made, after, depth - 1)


def _hiding(subject: Subject, softmax: Operation) -> Operation | None:
    """Return the last operation before a softmax that hides keys."""
    tape, weights = subject.base.tape, subject.base.weights
    value = next(softmax.values())
    for _ in range(_LONGEST):
        operation = tape.maker.get(value)
        if operation is None or operation.name in CONTRACTIONS:
            return None
        made, before = tape.tensors[value], list(operation.values())
        if operation.name in HIDING and len(before) > 1 and _is_low(made):
            kept = [each for each in before if not _is_low(tape.tensors[each])]
            return operation if kept and len(kept) == len(before) else _last_low(subject, operation)
        rest = [each for each in before if each not in weights]
        if not rest:
            return None
        value = rest[0]
    return None


def _last_low(subject: Subject, operation: Operation) -> Operation:
    """Return what made the fills that an operation joins to scores: a bias, where there is one."""
    tape = subject.base.tape
    for value in operation.values():
        maker = tape.maker.get(value)
        if _is_low(tape.tensors[value]) and maker is not None:
            return maker
    return operation


def _is_low(tensor: Tensor) -> bool:
    return (
        tensor.is_floating_point() and bool(tensor.numel()) and float(tensor.detach().min()) <= DEEP
    )
