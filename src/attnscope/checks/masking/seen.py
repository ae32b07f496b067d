"""What each query of a call really sees: weights in float64, and which keys were hidden from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.checks.course import Course, course_of
from attnscope.checks.masking.hides import Hide, hides_of, late_hides_of
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE
from attnscope.errors import AttnscopeError

__all__ = ["NOTHING", "Seen", "seen_by"]

NOTHING = 1e-6
"""Weight up to which a hidden key counts as hidden: below the roundoff of float32 times 8."""

_MOST = 1 << 25
"""Entries of a call's weights up to which they are looked at."""

_LONGEST = 300
"""Operations from q·k to the context up to which a call is looked into: not attention in blocks."""

_TURNS = frozenset({"transpose", "permute", "mT", "T", "t", "adjoint"})

_UNREAD = frozenset({"mask", "overwritten", "scores", "bias"})


@dataclass(eq=False)
class Seen:
    """One call: its weights, and what hides which of its keys. All (batch, heads, queries, keys).

    long: it is made of too many operations, or too large, to be looked into.
    """

    subject: Subject
    call: Call
    course: Course | None
    long: bool = False

    @cached_property
    def hides(self) -> list[Hide]:
        """The operations that hide keys; none where they can't be read."""
        if self.course is None:
            return []
        try:
            return hides_of(self.course, _mask_inputs(self.subject))
        except (RuntimeError, ValueError, TypeError, IndexError):
            return []

    @cached_property
    def late(self) -> list[Hide]:
        """The operations that take keys away after the softmax."""
        if self.course is None:
            return []
        try:
            return late_hides_of(self.course)
        except (RuntimeError, ValueError, TypeError, IndexError):
            return []

    @cached_property
    def joined(self) -> dict[int, Tensor]:
        """What joins the scores where keys are hidden, as the run in float64 has it."""
        if self.course is None:
            return {}
        return {
            hide.value: self._joined(hide.value)
            for hide in (*self.hides, *self.late)
            if hide.value is not None
        }

    def _joined(self, value: int) -> Tensor:
        tape = self.subject.base.tape

        def made() -> Tensor:
            if not self.subject.base.is_faithful:
                return tape.tensors[value].detach()
            return tape.run([value], wide=True)[value]

        return self.subject.once(("joins the scores", value), made)

    @cached_property
    def weights(self) -> Tensor | None:
        """What left the softmax, float64; None where it can't be had."""
        if self.long:
            return None
        try:
            return self._weights()
        except UNREADABLE:
            return None

    def _weights(self) -> Tensor:
        spots = self.course.located.spots if self.course is not None else {}
        if "weights" in spots and self.course is not None and self.subject.base.is_faithful:
            ((value, spot),) = spots["weights"]
            return spot.read(self.course.tape.run([value], wide=True)[value]).double()
        call = self.call
        if call.kind == "eager":
            return call.weights().double()
        return call.recipe.weights(call.q.double(), call.k.double(), torch.float64)

    @cached_property
    def over_keys(self) -> bool:
        """Whether the softmax runs over the keys: no row sums to more than 1."""
        if self.call.recipe.normaliser_axis != "keys" or self.weights is None:
            return False
        return not bool((self.weights.nan_to_num(0.0).sum(-1) > 1 + NOTHING).any())

    @cached_property
    def turned(self) -> bool:
        """Whether the weights are transposed on their way to v, so that keys and queries swap."""
        if self.course is None or self.course.softmax not in self.course.main:
            return False
        after = self.course.main[self.course.main.index(self.course.softmax) + 1 :]
        return any(operation.name in _TURNS for operation in after[:-1])

    @cached_property
    def hidden(self) -> Tensor | None:
        """True where the call's own masks hide a key, however well; None: it can't be read."""
        return self.hidden_with({})

    def hidden_with(self, values: Mapping[int, Tensor]) -> Tensor | None:
        """Return what is hidden, with other tensors for what joins the scores."""
        try:
            return self._hidden(values)
        except UNREADABLE:
            return None

    def _hidden(self, values: Mapping[int, Tensor]) -> Tensor | None:
        call = self.call
        size = (call.batch, call.heads, call.queries, call.keys)
        if self.long:
            return None
        recipe = call.recipe
        if not self.hides:
            if not _UNREAD.isdisjoint(recipe.unknown) or not recipe.mask.hides:
                return torch.zeros(size, dtype=torch.bool)
            shown = recipe.mask.rows(0, call.queries, call.queries, call.keys, call.q.device)
            return (~shown).expand(size)
        hidden = torch.zeros(size, dtype=torch.bool)
        for hide in self.hides:
            part = self.part(hide, values.get(hide.value) if hide.value is not None else None)
            hidden = hidden | (self._lost(part) if hide.raises else part)
        if call.kind != "eager" and recipe.mask.causal is not None:  # beside a mask of a kernel
            shown = recipe.mask.rows(0, call.queries, call.queries, call.keys, call.q.device)
            hidden = hidden | ~shown.expand(size)
        return hidden

    @staticmethod
    def _lost(winners: Tensor) -> Tensor:
        """Return what loses against keys that win whatever their score."""
        return ~winners & winners.any(-1, keepdim=True)

    def part(self, hide: Hide, joined: Tensor | None = None) -> Tensor:
        """Return what one operation means to hide, canonical."""
        course = self.course
        if course is None:
            raise ValueError("a call without its operations hides nothing that could be read")
        if joined is None and hide.value is not None:
            joined = self.joined[hide.value]
        return self.over_pairs(hide.operation, hide.hidden(joined)) != 0

    def over_pairs(self, operation: Operation, joined: Tensor) -> Tensor:
        """Return what joins the scores in an operation as (batch, heads, queries, keys)."""
        course = self.course
        if course is None:
            raise ValueError("a call without its operations has nothing that joins its scores")
        size = (self.call.batch, self.call.heads, self.call.queries, self.call.keys)
        if len(course.main) == 1:
            return self._of_kernel(joined, course).reshape(size)
        joined = joined.expand(operation.shapes[0])
        name = next((n for n in ("scores", "weights") if n in course.located.spots), None)
        if name is None:
            return joined.reshape(size)
        ((_, spot),) = course.located.spots[name]
        if tuple(joined.shape) != tuple(spot.held.shape):
            joined = joined.reshape(spot.held.shape)
        read: Tensor = spot.read(joined.double())
        return read.expand(size)

    @staticmethod
    def _of_kernel(marked: Tensor, course: Course) -> Tensor:
        q, k = (course.tape.tensors[v.index] for v in course.main[0].args[:2])
        return marked.expand(*q.shape[:-1], k.shape[-2])

    @cached_property
    def effective(self) -> Tensor | None:
        """True where a key is hidden so well that it gets no weight; None: it can't be read."""
        if self.hidden is None or self.weights is None:
            return self.hidden
        weights = self.weights
        if weights.shape != self.hidden.shape:
            return None
        hollow = weights.isnan().any(-1, keepdim=True) | self.hidden.all(-1, keepdim=True)
        return self.hidden & ((weights <= NOTHING) | hollow)


def _mask_inputs(subject: Subject) -> frozenset[int]:
    """Return the inputs that say which keys are to be hidden, as values of the tape."""
    roles, given = subject.roles, subject.given.values
    names = {*roles.masks, *(padding.name for padding in roles.padding)}
    known = (subject.input_value(name) for name in names if isinstance(given.get(name), Tensor))
    return frozenset(value for value in known if value is not None)


def seen_by(subject: Subject, call: Call) -> Seen:
    """Return what the queries of a call see."""

    def made() -> Seen:
        size = call.batch * call.heads * call.queries * call.keys
        try:
            course = course_of(subject, call) if size <= _MOST else None
        except (AttnscopeError, RuntimeError):
            course = None
        long = size > _MOST or (course is not None and len(course.main) > _LONGEST)
        return Seen(subject, call, None if long else course, long=long)

    return subject.once(("seen", call.index), made)
