"""Another batch runs first: what a module keeps of it may not change what comes out afterwards.

A mask, keys or values that the first forward made and an attribute keeps are right as long as they
depend on sizes alone. Tried is the model as its constructor leaves it: what it kept before the
check is put aside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.comparing import gap_of
from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.kept_attributes import Kept, kept_attributes
from attnscope.checks.subject.restoring import restored, seeded
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import other_tokens, rows_of
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Stale", "earlier_batch"]


@dataclass(frozen=True, slots=True, eq=False)
class Stale:
    """What an attention reads of an earlier batch.

    part: what of it; call: the first that does, of the base run; name: the attribute; source: where
    it is kept. moved: how far the outputs are off; noise: what they may be by rounding.
    """

    part: Literal["mask", "keys", "values"]
    call: Call
    name: str
    source: Source | None
    moved: float
    noise: float


@probe
def earlier_batch(subject: Subject) -> Stale | None:
    """Run other samples, then the given ones twice, and compare with the given ones alone.

    A model that gives something else where the given ones run twice has a memory, which is meant,
    and so has one that the first of both runs puts right: it keeps what came last.

    Raises:
        Skipped: the forward keeps nothing, or raises where what it kept is put aside.
    """
    attributes = list(kept_attributes(subject.model)) if subject.model is not None else []
    if not attributes or subject.model is None or subject.expect.get("cache") == "self":
        raise Skipped("the forward keeps nothing from one batch to the next")
    other = _other(subject)
    with _put_aside(subject, attributes):
        alone = subject.main_output()
    with _put_aside(subject, attributes):
        _run(subject, subject.given)
        if _gap(alone, subject.main_output()) > subject.noise:
            return None
    with _put_aside(subject, attributes):
        _run(subject, other)
        _run(subject, subject.given)
        moved = _gap(alone, subject.main_output())
        if moved <= subject.noise:
            return None
        culprit = next((each for each in attributes if _mends(subject, each, alone)), attributes[0])
        later = subject.watched(subject.given).trace
    with _put_aside(subject, attributes):
        first = subject.watched(subject.given).trace
    found = _first_parting(subject, list(first), list(later))
    if found is None:
        return None
    part, call = found
    return Stale(part, call, culprit.name, culprit.source, moved, subject.noise)


def _other(subject: Subject) -> Given:
    """Return the samples in another order; other tokens, where there is one sample alone."""
    main = subject.roles.main
    if main is None:
        raise Skipped("no input is a sequence: give inputs that are")
    if main.batch(subject.given) > 1 and main.batch_axis is not None:
        return rows_of(subject, lambda rows, axis: rows.roll(1, axis), subject.given)
    every = torch.ones(main.batch(subject.given), max(main.length(subject.given), 1)).bool()
    return other_tokens(subject, main, every)


@contextlib.contextmanager
def _put_aside(subject: Subject, attributes: Iterable[Kept]) -> Iterator[None]:
    """Give attributes what their constructor gives them, until the end."""
    with restored(subject.run, subject.given.values):
        if subject.model is not None:
            subject.model.eval()
        for each in attributes:
            each.reset()
        yield


def _run(subject: Subject, given: Given) -> None:
    """Run the model and leave what it keeps.

    Raises:
        Skipped: it raised.
    """
    seeded(subject.seed)
    try:
        with torch.no_grad():
            given.call(subject.run)
    except Exception as error:
        raise Skipped(f"with other samples the model raised {type(error).__name__}") from error


def _gap(one: Tensor, other: Tensor) -> float:
    return float(gap_of(one, other).max()) if one.numel() else 0.0


def _mends(subject: Subject, each: Kept, alone: Tensor) -> bool:
    """Return whether the outputs are right again once one attribute is put aside."""
    with restored(subject.run, subject.given.values):
        each.reset()
        try:
            return _gap(alone, subject.main_output()) <= subject.noise
        except Skipped:
            return False


def _first_parting(
    subject: Subject, first: list[Call], later: list[Call]
) -> tuple[Literal["mask", "keys", "values"], Call] | None:
    """Return the first call that parts, and what of it does; None where queries do as well."""
    own = subject.calls
    if len({len(first), len(later), len(own)}) > 1:
        return None
    for a, b, call in zip(first, later, own, strict=True):
        parts = _parting(a, b)
        if "queries" in parts:
            return None
        if parts:
            return parts[0], call
    return None


def _parting(a: Call, b: Call) -> list[Any]:
    sizes = [(each.batch, each.queries, each.keys) for each in (a, b)]
    if sizes[0] != sizes[1]:
        return ["queries"]
    try:
        masks = [each.recipe.mask.dense(each.queries, each.keys) for each in (a, b)]
        pairs = {
            "queries": (a.q, b.q),
            "mask": tuple(torch.broadcast_tensors(*masks)),
            "keys": (a.k, b.k),
            "values": (a.v, b.v),
        }
    except UNREADABLE:
        return ["queries"]
    return [name for name, (x, y) in pairs.items() if not torch.equal(x, y)]
