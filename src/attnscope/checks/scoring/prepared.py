"""Whether q or k of a token depend on other samples, or on later tokens, by a statistic.

A norm, a largest entry or a standard deviation that is taken between the projection and q·k, over
more than the features of one token, scales each token by what else there is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.course import STATISTICS
from attnscope.checks.influence import Allowed, differs, first_mixing, moved
from attnscope.checks.operations import DIVIDES, MULTIPLIES
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE
from attnscope.differ.sides.located import Located

__all__ = ["Prepared", "prepared"]

_AVERAGES = frozenset("mean sum nansum median logsumexp".split())
_USUAL = 3
"""Axes of (batch, tokens, features)."""


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """q or k of others that move where one sample, or the last token, is another one.

    what: what was changed; by: the operation that lets it in; largest: how far they move; before:
    the largest entry before.
    """

    side: Literal["q", "k"]
    what: Literal["another sample", "a later token"]
    by: str
    largest: float
    before: float
    source: Source


def prepared(subject: Subject, call: Call) -> Prepared | None:
    """Return the statistic on the way to q or k that couples them; None: there is none.

    Later tokens count in a call that is causal.
    """
    located = subject.located(call)
    if located is None:
        return None
    sides: tuple[Literal["q", "k"], ...] = ("q", "k")
    for side in sides:
        try:
            found = _coupled(subject, located, side)
        except UNREADABLE:
            continue
        if found is not None:
            return found
    return None


def _coupled(subject: Subject, located: Located, side: Literal["q", "k"]) -> Prepared | None:
    call, received = located.call, located.received.get(side)
    if received is None or not located.spots.get(side):
        return None
    tensor = subject.base.tape.tensors[received]
    length = call.queries if side == "q" else call.keys
    if tensor.dim() != _USUAL or sorted(tensor.shape[:2]) != sorted((call.batch, length)):
        return None
    samples = int(tensor.shape[0] != call.batch)
    causal = any(kind.startswith("causal") for kind in call.recipe.mask.kinds)
    return _by_last(subject, located, side, samples) or (
        _by_last(subject, located, side, 1 - samples, later=True) if causal else None
    )


def _by_last(
    subject: Subject,
    located: Located,
    side: Literal["q", "k"],
    axis: int,
    *,
    later: bool = False,
) -> Prepared | None:
    """Change the last index of an axis of what the projection receives."""
    tape, received = subject.base.tape, located.received[side]
    size = tape.tensors[received].shape[axis]
    if size < 2:
        return None
    before = tape.run([received, *_values(located, side)], wide=True)
    changed = {received: _with_other_last(before[received], axis)}
    after = tape.run(_values(located, side), changed, wide=True)
    plain, other = (located.read(side, each) for each in (before, after))
    kept = (slice(None), slice(None), slice(-1)) if later else (slice(-1),)
    if not bool(differs(plain[kept], other[kept]).any()):
        return None
    inside = tuple(tape.program.needed(tuple(_values(located, side)), {received: before[received]}))
    among = [value for operation in inside for value in operation.defines]
    entries = moved(tape, changed, among)
    operation = first_mixing(tape, entries, Allowed(torch.arange(size) == size - 1))
    if operation is None or operation.name not in STATISTICS or operation.source is None:
        return None
    if operation.name in _AVERAGES and not _scales(inside, entries, operation):
        return None
    return Prepared(
        side,
        "a later token" if later else "another sample",
        operation.name,
        float((plain[kept] - other[kept]).abs().max()),
        float(plain[kept].abs().max()),
        operation.source,
    )


def _scales(inside: Sequence[Operation], entries: Collection[int], average: Operation) -> bool:
    """Return whether an average, or what comes of it, multiplies or divides: one added is no scale.

    The other factor has to move, too: a table of cosines does not.
    """
    after = set(average.defines)
    for operation in inside:
        values = list(operation.values())
        if after.isdisjoint(values):
            continue
        factors = [value for value in values if value in entries]
        if operation.name in MULTIPLIES | DIVIDES and len(factors) > 1:
            return True
        after.update(operation.defines)
    return False


def _values(located: Located, side: str) -> list[int]:
    return [value for value, _ in located.spots[side]]


def _with_other_last(tensor: Tensor, axis: int) -> Tensor:
    changed = tensor.clone()
    last = changed.select(axis, -1)
    last.copy_(last.flip(-1) * 1.7 + 0.3 * (1.0 + last.abs().mean()))
    return changed
