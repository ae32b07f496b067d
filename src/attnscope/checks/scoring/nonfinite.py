"""Where a number that is none comes from: walked back from an output to the first operation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.capture.tape import Tape
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along

__all__ = ["NotFinite", "first_not_finite"]


@dataclass(frozen=True, slots=True, eq=False)
class NotFinite:
    """The first operation that makes NaN or infinity of finite operands, and what comes out.

    count: how many of its entries; reached: how many entries of the output, of how many.
    hidden: rows of nothing but -inf that it was given (rows of a softmax).
    """

    operation: Operation
    what: str
    count: int
    reached: int
    size: int
    hidden: int
    largest: float


def first_not_finite(subject: Subject, *, padded: bool = False) -> NotFinite | None:
    """Return what makes an output of the base run not finite; None: nothing does.

    padded: at padded positions, too, which nobody reads.
    """
    tape = subject.base.tape
    stale = {op.target for op in tape.operations if op.target is not None}
    for name, output in subject.base.outputs.items():
        bad = ~output.detach().isfinite()
        if not padded and name == next(iter(subject.base.outputs)):
            bad = _at_real_tokens(subject, bad)
        value = tape.value_of(output)
        if value is None or not bool(bad.any()):
            continue
        operation = _origin(tape, value, stale)
        if operation is None:
            continue
        made = [tape.tensors[v] for v in operation.defines if _is_bad(tape, v, frozenset())]
        if not made:
            continue
        nan = bool(made[0].isnan().any())
        return NotFinite(
            operation,
            "NaN" if nan else "infinity",
            int((~made[0].isfinite()).sum()),
            int(bad.sum()),
            bad.numel(),
            _hidden_rows(tape, operation),
            _largest(tape, operation),
        )
    return None


def _origin(tape: Tape, value: int, stale: set[int]) -> Operation | None:
    """Walk back along operands that are not finite, NaN first."""
    for _ in range(len(tape.operations) + 1):
        operation = tape.maker.get(value)
        if operation is None:
            return None
        before = [v for v in operation.values() if v not in stale]
        worse = [v for v in before if _holds_nan(tape.tensors[v])]
        worse += [v for v in before if _is_bad(tape, v, frozenset())]
        changed = [v for v in operation.needs if v in tape.maker and v not in stale]
        worse += [
            v for v in changed if v not in before and operation.name == "written" and v != value
        ]
        if not worse:
            return operation
        value = worse[0]
    return None


def _holds_nan(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and bool(tensor.detach().isnan().any())


def _is_bad(tape: Tape, value: int, stale: frozenset[int]) -> bool:
    """Return whether a value holds NaN or plus infinity; minus infinity hides, and is no fault."""
    tensor = tape.tensors[value]
    if value in stale or not tensor.is_floating_point():
        return False
    given = tensor.detach()
    return bool((given.isnan() | given.isposinf()).any())


def _at_real_tokens(subject: Subject, bad: Tensor) -> Tensor:
    """Leave out what lies at padded positions of the main output: nobody reads that."""
    padding = subject.roles.padding_of(subject.roles.main)
    if padding is None:
        return bad
    try:
        samples, tokens = along(subject, bad)
        real = padding.real(subject.given)
    except (RuntimeError, IndexError, ValueError):
        return bad
    if samples is None or tokens is None:
        return bad
    shape = [1] * bad.dim()
    shape[samples], shape[tokens] = bad.shape[samples], bad.shape[tokens]
    ordered = real if samples < tokens else real.mT
    if ordered.numel() != shape[samples] * shape[tokens]:
        return bad
    return bad & ordered.to(bad.device).reshape(shape)


def _hidden_rows(tape: Tape, operation: Operation) -> int:
    if "softmax" not in operation.name:
        return 0
    first = next(operation.values(), None)
    tensor = tape.tensors[first].detach() if first is not None else torch.zeros(1)
    return int(tensor.isneginf().all(-1).sum()) if tensor.is_floating_point() else 0


def _largest(tape: Tape, operation: Operation) -> float:
    found = 0.0
    for value in operation.values():
        tensor = tape.tensors[value].detach()
        if tensor.is_floating_point() and tensor.numel():
            finite = tensor[tensor.isfinite()].abs()
            found = max(found, float(finite.max()) if finite.numel() else 0.0)
    return found
