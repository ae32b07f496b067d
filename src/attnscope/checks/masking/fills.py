"""Fills that don't hide: too weak, of the wrong sign, past the range of their type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.lines import line_of
from attnscope.checks.masking.biases import DEEP, is_zero_one
from attnscope.checks.masking.hides import Hide
from attnscope.checks.masking.lines import behind
from attnscope.checks.masking.seen import NOTHING, Seen
from attnscope.checks.subject.subject import Subject

__all__ = ["Overflow", "Weak", "overflow_in_crash", "spoilt", "weak_fills"]

_OVERFLOW = re.compile(r"cannot be converted to type .* without overflow")
_FAR = 40.0
"""A score so far below another one gets no weight: e^-40 is 4e-18."""
_MAKERS = frozenset("mul add add_ sub rsub mul_ sub_ minimum maximum".split())


@dataclass(frozen=True, slots=True, eq=False)
class Weak:
    """A fill that leaves weight on what it was to hide.

    kind: "positive" (it wins), "zero-one" (a mask of 0 and 1 is added), "times" (it multiplies the
    scores), "weak". weight: the largest that a hidden key got, NaN where there is none; pairs: how
    many of all hidden ones (`of`) got more than 1e-6.
    """

    hide: Hide
    kind: Literal["positive", "zero-one", "times", "weak"]
    weight: float
    pairs: int
    of: int
    source: Source | None


@dataclass(frozen=True, slots=True, eq=False)
class Overflow:
    """An operation that made NaN or infinity of finite fills; line: where."""

    source: Source | None
    text: str
    dtype: str


def weak_fills(seen: Seen) -> Iterator[Weak]:
    """Iterate over operations that were to hide keys, and leave them weight."""
    weights, union = seen.weights, seen.hidden
    if weights is None or union is None or weights.shape != union.shape or not seen.over_keys:
        return
    some_left = ~union.all(-1, keepdim=True)
    for hide in seen.hides:
        try:
            hidden = seen.part(hide)
        except (RuntimeError, ValueError):
            continue
        if hide.raises and bool(hidden.any()) and not bool(weights.isfinite().all()):
            count, source = int(hidden.sum()), hide.operation.source
            yield Weak(hide, "positive", float("nan"), count, count, source)
            return
        kept = torch.where(hidden & some_left, weights, torch.zeros_like(weights)).nan_to_num(0.0)
        count = int((kept > NOTHING).sum())
        if not count:
            continue
        kind, line = _kind(seen, hide), _weakened(seen, hide)
        if kind == "weak" and line is None and _is_low_enough(seen, hide):
            continue  # other scores, which it never met, gave them weight
        made = _made(seen, hide) if kind == "weak" else None
        source = line or made or hide.operation.source
        yield Weak(hide, kind, float(kept.max()), count, int(hidden.sum()), source)
        return


def _made(seen: Seen, hide: Hide) -> Source | None:
    """Return the line at which an added mask that is made of others gets its numbers."""
    if hide.kind != "bias" or hide.value is None:
        return None
    tensors = seen.subject.base.tape.tensors
    final = tensors[hide.value].detach().squeeze()
    for operation in behind(seen, hide):
        made = tensors[operation.defines[0]].detach().squeeze()
        if made.shape == final.shape and torch.equal(made, final):
            return operation.source
    return None


def _is_low_enough(seen: Seen, hide: Hide) -> bool:
    """Return whether a fill is far below the scores that it meets, all of them."""
    made = seen.subject.base.tape.tensors[hide.operation.defines[0]].detach().double()
    scores = made[made.isfinite() & (made > DEEP)]
    if hide.fill > DEEP or not scores.numel():
        return False
    return hide.fill + float(scores.max()) < float(scores.min()) - _FAR


def _weakened(seen: Seen, hide: Hide) -> Source | None:
    """Return the line after a mask that was low enough where scores stop being so low."""
    course = seen.course
    if course is None or hide.raises or hide.operation not in course.main:
        return None
    low = False
    tensors = seen.subject.base.tape.tensors
    for operation in course.main[course.main.index(hide.operation) :]:
        if operation is course.softmax:
            return None
        made = tensors[operation.defines[0]].detach()
        is_low = bool((made <= DEEP).any())
        if low and not is_low:
            return operation.source
        low = low or is_low
    return None


def _kind(seen: Seen, hide: Hide) -> Literal["positive", "zero-one", "times", "weak"]:
    if hide.raises:
        return "positive"
    if hide.kind == "times":
        return "times"
    if hide.kind == "bias" and hide.value is not None:
        bias = seen.joined[hide.value] * hide.factor
        return "zero-one" if is_zero_one(bias) else "weak"
    return "weak"


def spoilt(seen: Seen) -> Overflow | None:
    """Return what first made NaN of what is added to the scores: 0 times inf, inf - inf."""
    course = seen.course
    if course is None:
        return None
    tensors = seen.subject.base.tape.tensors
    for operation in (*course.aside, *course.hiding):
        if operation.name not in _MAKERS:
            continue
        made = tensors[operation.defines[0]].detach()
        given = [tensors[v].detach() for v in operation.values()]
        if not made.is_floating_point() or any(bool(g.isnan().any()) for g in given):
            continue
        if bool(made.isnan().any()):
            return Overflow(operation.source, _how(operation), str(made.dtype))
    return None


def _how(operation: Operation) -> str:
    return "0 times infinity" if "mul" in operation.name else "infinity minus infinity"


def overflow_in_crash(subject: Subject) -> Overflow | None:
    """Return a fill that its type can't hold, where the forward raised because of it."""
    error = subject.crash
    if error is None or not _OVERFLOW.search(str(error)):
        return None
    kind = re.search(r"type (\S+) without", str(error))
    name = kind.group(1).rpartition("::")[2] if kind is not None else "its type"
    return Overflow(line_of(error), " ".join(str(error).split())[:120], name)
