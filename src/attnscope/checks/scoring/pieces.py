"""Pieces of the keys that have a softmax of their own each, for the same queries.

Blocks of keys may be gone through one by one, where what a block adds is weighed by the sum of its
own exponentials. Where it is not, keys compete inside of their block alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.course import course_of
from attnscope.checks.influence import differs
from attnscope.checks.scoring.axis import line_of_softmax
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE
from attnscope.differ.sides.located import Located

__all__ = ["Apart", "softmax_of_pieces"]

_STEP = 0.5
"""What is added to the keys of a piece, as a share of their largest entry."""


@dataclass(frozen=True, slots=True)
class Apart:
    """Calls that are pieces of one attention.

    sizes: keys of each; shift: by how much all scores of one were moved without moving the output.
    """

    call: Call
    sizes: tuple[int, ...]
    shift: float
    source: Source


def softmax_of_pieces(subject: Subject) -> Iterator[Apart]:
    """Iterate over attentions whose blocks of keys are normalised one by one."""
    for group in _groups(subject):
        sizes = tuple(each.call.keys for each in group)
        if len(set(sizes[:-1])) > 1 or sizes[-1] > sizes[0]:
            continue
        try:
            shift = _free_shift(subject, group)
        except UNREADABLE:
            continue
        if shift is not None:
            call = group[0].call
            yield Apart(
                call, sizes, shift, line_of_softmax(subject, call, course_of(subject, call))
            )


def _groups(subject: Subject) -> list[list[Located]]:
    """Return calls of one line with the same queries, and with keys that one projection made."""
    groups: dict[object, list[Located]] = {}
    for each in subject.base.located:
        spots = each.spots
        if each.output is None or not all(spots.get(side) for side in ("q", "k", "context")):
            continue
        if len(spots["q"]) == len(spots["k"]) == 1 and "k" in each.received:
            ends = (each.output, each.received.get("q"), each.received["k"])
            key = (each.call.module, str(each.call.source), ends, each.call.queries)
            groups.setdefault(key, []).append(each)
    return [part for group in groups.values() if len(group) > 1 for part in _by_queries(group)]


def _by_queries(group: list[Located]) -> list[list[Located]]:
    """Take calls with other queries apart, and leave out those that share keys."""
    parts: list[list[Located]] = []
    for each in group:
        q = each.value("q")
        part = next((p for p in parts if torch.equal(p[0].value("q"), q)), None)
        if part is None:
            parts.append([each])
        else:
            part.append(each)
    return [part for part in parts if len(part) > 1 and _is_partition(part)]


def _is_partition(part: list[Located]) -> bool:
    """Return whether all keys together are no more than the tokens that were projected."""
    first = part[0]
    tokens = first.tape.tensors[first.received["k"]].shape[:-1]
    values = {each.spots["k"][0][0] for each in part}
    return len(values) == len(part) and sum(each.call.keys for each in part) in tokens


def _free_shift(subject: Subject, group: list[Located]) -> float | None:
    """Return by how much the scores of the first piece can be moved; None: the output follows.

    The same vector is added to all its keys, which adds one number to all scores of a query.
    """
    tape, located = subject.base.tape, group[0]
    output = located.output
    if output is None:
        return None
    (k, _), (q, _) = located.spots["k"][0], located.spots["q"][0]
    plain = tape.run([output, k, q], wide=True)
    keys, queries = located.read("k", plain), located.read("q", plain)
    generator = torch.Generator().manual_seed(subject.seed)
    size = _STEP * float(keys.abs().max())
    step = torch.randn(keys.shape[-1], generator=generator, dtype=keys.dtype) * size
    others = torch.randn(keys.shape, generator=generator, dtype=keys.dtype) * size

    def moves(changed: Tensor) -> bool:
        made = tape.run([output], located.write("k", changed), wide=True)[output]
        return bool(differs(plain[output], made).any())

    if moves(keys + step) or not moves(keys + others):
        return None
    return float((queries @ step).abs().max())
