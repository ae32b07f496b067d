"""Scales that are plain numbers in each run and other numbers when other samples are given.

`scores / scores.std().item()` leaves no trail on the tape: the number is a constant there. The
model is run again, with another last sample, then with other last tokens, and the numbers that the
scores are multiplied by are compared, where q and k are what they were.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.course import course_of
from attnscope.checks.rule import Skipped
from attnscope.checks.scoring.factors import factors_of
from attnscope.checks.scoring.naming import is_known_scale
from attnscope.checks.scoring.reading import is_of_a_library
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import other_tokens, with_other_sample
from attnscope.checks.unreadable import UNREADABLE
from attnscope.differ.sides.side import Side

__all__ = ["Steered", "steered"]

_SAME = 1e-5
"""Relative difference up to which two scales, or two tensors, are one, in float32."""


@dataclass(frozen=True, slots=True, eq=False)
class Steered:
    """A scale that another sample, or a later token, changes.

    what: what was changed; before, after: the scales; largest: how far scores of
    others move; scores: the largest of them before.
    """

    what: str
    before: float
    after: float
    largest: float
    scores: float
    source: Source


def steered(subject: Subject, call: Call) -> Steered | None:
    """Return that the scale of a call follows what others are given; None: it stays."""
    scale = call.recipe.scale
    if not isinstance(scale, int | float) or is_of_a_library(subject, call):
        return None
    if is_known_scale(float(scale), call.head_dim, call.heads):
        return None
    for what, side in _other_runs(subject):
        found = _compared(subject, call, side, what)
        if found is not None:
            return found
    return None


def _other_runs(subject: Subject) -> Iterator[tuple[str, Side]]:
    for what, given in _others(subject):
        side = subject.once(("steered", what), partial(subject.watched, given))
        if side.error is None:
            yield what, side


def _others(subject: Subject) -> Iterator[tuple[str, Given]]:
    stream = subject.roles.main
    if stream is None:
        return
    batch, length = stream.batch(subject.given), stream.length(subject.given)
    try:
        if stream.batch_axis is not None and batch > 1:
            yield "another sample", with_other_sample(subject, batch - 1)
        if length > 1:
            last = (torch.arange(length) == length - 1).expand(batch, length)
            yield "a later token", other_tokens(subject, stream, last)
    except (Skipped, RuntimeError, LookupError, ValueError):
        return


def _compared(subject: Subject, call: Call, side: Side, what: str) -> Steered | None:
    calls = [each for each in side.trace if not each.recomputed]
    at = subject.calls.index(call)
    other = calls[at] if len(calls) == len(subject.calls) else None
    scale = call.recipe.scale
    if other is None or not isinstance(scale, int | float):
        return None
    theirs = other.recipe.scale
    if not isinstance(theirs, int | float) or math.isclose(scale, theirs, rel_tol=_SAME):
        return None
    causal = any(kind.startswith("causal") for kind in call.recipe.mask.kinds)
    if what == "a later token" and not (causal and call.queries == call.keys):
        return None
    kept = [_kept(each, what) for each in (call.q, call.k, other.q, other.k)]
    if any(not _is_same(kept[n], kept[n + 2]) for n in (0, 1)):
        return None  # q and k have been mixed before
    try:
        raw = call.recipe.raw_scores(kept[0].double(), kept[1].double())
    except UNREADABLE:
        return None
    largest = float(raw.abs().max()) if raw.numel() else 0.0
    moved, scores = largest * abs(theirs - scale), largest * abs(scale)
    return Steered(what, scale, theirs, moved, scores, _line(subject, call, side))


def _kept(tensor: Tensor, what: str) -> Tensor:
    """Return the part of q or k that must not move."""
    given = tensor.detach()
    return given[:-1] if what == "another sample" else given[:, :, :-1]


def _is_same(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or not a.numel():
        return False
    return float((a - b).abs().max()) <= _SAME * max(float(a.abs().max()), 1e-12)


def _line(subject: Subject, call: Call, side: Side) -> Source:
    """Return the line of the first factor of the scores whose number is another one."""
    course = course_of(subject, call)
    ours, theirs = subject.base.tape.operations, side.tape.operations
    if course is None or len(ours) != len(theirs):
        return call.source
    other = {id(mine): their for mine, their in zip(ours, theirs, strict=True)}
    operations = [factor.operation for factor in factors_of(subject, call)]
    odd = [op for op in operations if _numbers(op) != _numbers(other[id(op)])]
    return course.line(*odd, course.product)


def _numbers(operation: Operation) -> list[Any]:
    return [each for each in operation.args if isinstance(each, int | float)]
