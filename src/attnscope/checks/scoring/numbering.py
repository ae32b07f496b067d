"""The number that each head has where it is made: the place of its features in a projection."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.capture.tape import Tape
from attnscope.checks.influence import differs
from attnscope.checks.operations import CONTRACTIONS
from attnscope.checks.scoring.reading import path_back
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE
from attnscope.differ.sides.located import Located

__all__ = ["heads_by_features", "kv_heads_met"]


def heads_by_features(
    subject: Subject, call: Call, side: Literal["q", "k"]
) -> tuple[int, ...] | None:
    """Return the head of the call that each block of head_dim features becomes, in their order.

    Blocks of a packed projection that are no part of this side are left out. None: features of one
    block go to several heads, or there is no single projection with its features last.
    """
    located = subject.located(call)
    if located is None or len(located.spots.get(side, [])) != 1:
        return None
    projection = _projection(located, subject, side)
    if projection is None:
        return None
    try:
        found = _landings(subject.base.tape, located, side, projection.defines[0])
    except UNREADABLE:
        return None
    heads = call.heads if side == "q" else call.kv_heads
    return found if found is not None and sorted(found) == list(range(heads)) else None


def kv_heads_met(subject: Subject, call: Call) -> tuple[int, ...] | None:
    """Return the kv head whose change moves the context of each query head; None: not one each."""
    located = subject.located(call)
    if located is None or not all(located.spots.get(side) for side in ("k", "context")):
        return None
    try:
        moved = _moved_by_kv_head(subject.base.tape, located)
    except UNREADABLE:
        return None
    if not bool((moved.sum(0) == 1).all()):
        return None
    return tuple(moved.to(torch.int8).argmax(0).tolist())


def _moved_by_kv_head(tape: Tape, located: Located) -> Tensor:
    """Return (kv_heads, heads): whether a change of a kv head's keys moves a head's context."""
    ends = [value for side in ("k", "context") for value, _ in located.spots[side]]
    contexts = [value for value, _ in located.spots["context"]]
    before = tape.run(ends, wide=True)
    plain, rows = located.read("context", before), []
    for head in range(located.call.kv_heads):
        changed = located.read("k", before).clone()
        changed[:, head] = changed[:, head].flip(-2) * 1.7 + changed[:, head].flip(-1)
        after = tape.run(contexts, located.write("k", changed), wide=True)
        entries = differs(plain, located.read("context", after))
        rows.append(entries.transpose(0, 1).flatten(1).any(-1))
    return torch.stack(rows)


def _projection(located: Located, subject: Subject, side: str) -> Operation | None:
    last: Operation | None = None
    for operation in path_back(subject, located.spots[side][0][0], located.weights):
        last = operation
    return last if last is not None and last.name in CONTRACTIONS else None


def _landings(tape: Tape, located: Located, side: str, made: int) -> tuple[int, ...] | None:
    value = located.spots[side][0][0]
    before = tape.run([made, value], wide=True)
    plain, size = located.read(side, before), located.call.head_dim
    width = before[made].shape[-1]
    found = []
    for start in range(0, width - width % size, size):
        changed = before[made].clone()
        block = changed[..., start : start + size]
        block.add_(1.0 + block.abs().max())
        after = located.read(side, tape.run([value], {made: changed}, wide=True))
        moved = differs(plain, after).transpose(0, 1).flatten(1).any(-1).nonzero().flatten()
        if moved.numel() > 1 or width % size:
            return None
        found += moved.tolist()
    return tuple(found)
