"""Features of a projection that no head takes: a width that the heads don't divide."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.trail import LAYOUT
from attnscope.checks.influence import differs
from attnscope.checks.operations import CONTRACTIONS, CONVOLUTIONS
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Leftover", "left_over"]

_MOST_ENTRIES = 1 << 22
"""Entries of a projection that are followed: numbers of entries are exact in float64 far beyond."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A projection of which some features reach neither a head nor an output."""

    call: Call
    width: int
    unused: tuple[int, ...]
    source: Source


def left_over(subject: Subject) -> Iterator[Leftover]:
    """Iterate over the projections of q, k, v with features that are dropped."""
    for projected, (call, taken) in _taken(subject).items():
        tensor = subject.base.tape.tensors[projected]
        if tensor.dim() < 2 or tensor.numel() > _MOST_ENTRIES:
            continue
        if not _ends_in_features(subject, projected):
            continue
        try:
            unused = _unused(subject, projected, [value for value, _ in taken])
        except UNREADABLE:
            continue
        slicing = next((op for _, ops in taken for op in ops if op.name in _SLICES), None)
        if unused and slicing is not None:
            source = slicing.source or call.source
            yield Leftover(call, tensor.shape[-1], unused, source)


_JOINS = frozenset("cat stack".split())
_SLICES = frozenset("getitem narrow split split_with_sizes chunk tensor_split".split())


def _taken(
    subject: Subject,
) -> dict[int, tuple[Call, list[tuple[int, list[Operation]]]]]:
    """Return for each projection what heads take from it by rearranging alone."""
    found: dict[int, list[tuple[int, list[Operation]]]] = defaultdict(list)
    calls: dict[int, Call] = {}
    barred: set[int] = set()
    maker = subject.base.tape.maker
    for located in subject.base.located:
        for side in ("q", "k", "v"):
            for value, _ in located.spots.get(side, []):
                for at, operations in _rearranged(maker, value):
                    found[at].append((value, operations))
                    calls.setdefault(at, located.call)
                    if maker.get(at) is None:
                        barred.add(at)
    return {at: (calls[at], taken) for at, taken in found.items() if at not in barred}


def _rearranged(
    maker: Mapping[int, Operation], value: int
) -> Iterator[tuple[int, list[Operation]]]:
    """Iterate over what a value is a rearrangement of: several tensors, where they were joined."""
    operation = maker.get(value)
    if operation is None or operation.name not in LAYOUT | _JOINS:
        yield value, []
        return
    before = list(dict.fromkeys(operation.values()))
    for each in before if operation.name in _JOINS else before[:1]:
        for at, operations in _rearranged(maker, each):
            yield at, [operation, *operations]


def _ends_in_features(subject: Subject, value: int) -> bool:
    """Return whether the last axis are features: of a convolution, and of its windows, they aren't.

    What has its shape, such as a norm or an activation, leaves the axes as they are.
    """
    tape, shape = subject.base.tape, subject.base.tape.tensors[value].shape
    operation = tape.maker.get(value)
    while operation is not None and operation.name not in CONVOLUTIONS | _WINDOWS:
        alike = (v for v in operation.values() if tape.tensors[v].shape == shape)
        before = None if operation.name in CONTRACTIONS else next(alike, None)
        operation = tape.maker.get(before) if before is not None else None
    return operation is None


_WINDOWS = frozenset({"unfold"})


def _stages(subject: Subject) -> list[int]:
    """Return q, k, v and context of all calls."""
    spots = [each.spots for each in subject.base.located]
    return [v for each in spots for n in ("q", "k", "v", "context") for v, _ in each.get(n, [])]


def _unused(subject: Subject, projected: int, values: list[int]) -> tuple[int, ...]:
    tape = subject.base.tape
    tensor = tape.tensors[projected]
    width = tensor.shape[-1]
    first = width * (_MOST_ENTRIES // width + 1)  # above what else may be joined with it
    numbers = torch.arange(first, first + tensor.numel(), dtype=torch.float64).view(tensor.shape)
    landed = tape.run(values, {projected: numbers}, wide=True)
    used = torch.zeros(width, dtype=torch.bool)
    for value in values:
        own = landed[value].flatten()
        used[own[own >= first].long() % width] = True
    if bool(used.all()) or not bool(used.any()):
        return ()
    outputs = [tape.value_of(each) for each in subject.base.outputs.values()]
    wanted = [value for value in outputs if value is not None]
    wanted += _stages(subject)  # what attention makes may go no further
    before = tape.run([projected, *wanted], wide=True)
    changed = before[projected].clone()
    generator = torch.Generator().manual_seed(
        subject.seed
    )  # a constant would cancel in the softmax
    drawn = torch.randn(changed.shape, generator=generator, dtype=torch.float64)
    changed[..., ~used] += (drawn * (1.0 + changed.abs().max()))[..., ~used]
    after = tape.run(wanted, {projected: changed}, wide=True)
    if not wanted or any(bool(differs(before[v], after[v]).any()) for v in wanted):
        return ()
    return tuple(int(at) for at in (~used).nonzero().flatten())
