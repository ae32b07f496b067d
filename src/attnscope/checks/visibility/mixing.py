"""The operation outside attention that carries later tokens to earlier positions."""

from __future__ import annotations

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.course import course_of
from attnscope.checks.influence import Allowed, first_mixing, moved
from attnscope.checks.masking.additive import additive_of
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import other_tokens
from attnscope.checks.visibility.making import maker_of
from attnscope.checks.visibility.tokens import made_of_inputs, value_in
from attnscope.errors import AttnscopeError

__all__ = ["line_of_mixing"]

_TURNS = frozenset({"flip", "fliplr", "flipud"})


def line_of_mixing(subject: Subject, stream: Stream, cut: int) -> Source | None:
    """Return the line of the first operation that mixes tokens from the cut on with those before.

    None: it can't be told; or the sequence is turned round, to be read backwards, where nobody
    declared that it is read forwards.
    """
    start = value_in(subject.base, subject.given, stream.name)
    length = stream.length(subject.given)
    late = torch.arange(length) >= max(cut, 1)
    if start is None or not subject.base.is_faithful:
        return None
    try:
        changed = other_tokens(subject, stream, late.expand(stream.batch(subject.given), length))
        entries = moved(subject.base.tape, {start: changed.values[stream.name]})
    except (AttnscopeError, RuntimeError, Skipped):
        return None
    operation = first_mixing(subject.base.tape, _readable(entries, length), Allowed(late))
    if operation is None or (operation.name in _TURNS and not _is_declared(subject)):
        return None
    own = next((each for each in additive_of(subject) if each.softmax is operation), None)
    return own.line_by_query if own is not None else _mask_of(subject, operation)


def _is_declared(subject: Subject) -> bool:
    return subject.causal is not None and subject.causal.declared


def _mask_of(subject: Subject, operation: Operation) -> Source | None:
    """Return where the mask is made that an operation of a call applies or follows, else its own.

    What comes before the mask (a scale over all tokens) is no fault of it.
    """
    of_inputs = made_of_inputs(subject, subject.base)
    for call in subject.calls:
        course = course_of(subject, call)
        if course is None or operation not in course.main or not course.hiding:
            continue
        if course.main.index(operation) < course.main.index(course.hiding[-1]):
            continue
        made = maker_of(course, of_inputs)
        if made is not None:
            return course.line(made, operation)
    return operation.source


def _readable(entries: dict[int, Tensor], length: int) -> dict[int, Tensor]:
    """Return the values in which an axis holds the tokens, by itself or joined with another."""
    return {
        value: tensor
        for value, tensor in entries.items()
        if any(size and size % length == 0 for size in tensor.shape)
    }
