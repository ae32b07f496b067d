"""The first operation of a cached step whose result is not what the full pass has at these tokens.

Both runs are the same code but for branches: operations are paired by their lines, in order. The
first pair that differs is at fault, or what feeds it and has no partner: the joining of old and new
keys, and what was kept of the steps before.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.trail import LAYOUT
from attnscope.checks.decoding.keeping import condition_of, line_of_keeping
from attnscope.checks.decoding.matching import Stretch, same_but_for_rounding
from attnscope.differ.sides.located import Located
from attnscope.differ.sides.side import Side
from attnscope.errors import AttnscopeError

__all__ = ["Parting", "first_parting"]

_DEEPEST = 40
"""Operations without a partner that are followed back."""

_JOINS = frozenset(
    "cat setitem index_copy index_copy_ copy_ scatter scatter_ index_put index_put_ "
    "slice_scatter".split()
)


_HANDS_ON = LAYOUT | frozenset("clone detach to type_as contiguous".split())


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a step parts from the full pass: line, operation, and what is wrong there in words.

    made: the operation, one of the step or (in_full) of the full pass. handed: the joining of what
    a caller handed to the wrong layer. kept: what a caller handed on though it is too little.
    """

    line: Source | None
    operation: str
    what: str
    made: Operation | None = None
    in_full: bool = False
    handed: bool = False
    kept: Tensor | None = None


def first_parting(full: Side, step: Side, stretch: Stretch) -> tuple[Parting | None, set[int]]:
    """Return where a step parts from the full pass, and the numbers of operations that don't."""
    walk = _Walk(full, step, stretch)
    found = walk.lost() or walk.grown() or walk.first()
    return found, walk.right() if found is not None and found.made is not None else set()


@dataclass(eq=False)
class _Walk:
    full: Side
    step: Side
    stretch: Stretch

    @cached_property
    def partners(self) -> dict[int, Operation]:
        """The operation of the full pass that each operation of the step is, by its number."""
        ours, theirs = self.step.tape.operations, self.full.tape.operations
        matcher = difflib.SequenceMatcher(
            None, [_place(op) for op in ours], [_place(op) for op in theirs], autojunk=False
        )
        return {
            block.a + at: theirs[block.b + at]
            for block in matcher.get_matching_blocks()
            for at in range(block.size)
        }

    def first(self) -> Parting | None:
        for number, operation in enumerate(self.step.tape.operations):
            partner = self.partners.get(number)
            if partner is None or self._is_past(operation):
                continue
            if self._agree(partner.defines, operation.defines) is False:
                return self._cause(operation, partner)
        return None

    def _is_past(self, operation: Operation) -> bool:
        """Return whether an operation hands on what was kept, before new tokens join it."""
        return operation.name in _HANDS_ON and any(
            self.step.tape.tensors[value].is_floating_point() for value in self._kept(operation)
        )

    def lost(self) -> Parting | None:
        """Return where new keys join what was kept of fewer tokens than there were."""
        for operation in self.step.tape.operations:
            if operation.name != "cat":
                continue
            axis = operation.kwargs.get("dim", operation.args[1] if len(operation.args) > 1 else 0)
            kept = {self._value(self.step, value).shape[axis] for value in self._kept(operation)}
            sizes = {self._value(self.step, value).shape[axis] for value in operation.values()}
            if len(kept) != 1 or not sizes - kept <= {self.stretch.count}:
                continue
            (count,) = kept
            if 0 < count < self.stretch.start and self._seen_in_full(operation, count):
                line = line_of_keeping(operation.source) or operation.source
                what = (
                    f"joins what was kept of {count} tokens, where {self.stretch.start} came "
                    "before and the full pass sees them"
                )
                return Parting(line, operation.name, what)
        return None

    def grown(self) -> Parting | None:
        """Return where more is joined to what was kept and is whole already: memory, say."""
        for operation in self.step.tape.operations:
            if operation.name != "cat":
                continue
            for expected in self._expected(operation.defines[0]):
                kept = [self._value(self.step, value) for value in self._kept(operation)]
                if any(same_but_for_rounding(self._value(self.full, expected), k) for k in kept):
                    what = "joins more to what was kept, which is all of it already"
                    return Parting(operation.source, operation.name, what, operation)
        return None

    def _expected(self, value: int) -> Iterator[int]:
        """Iterate over the values of the full pass that a value of the step stands for."""
        operations = self.step.tape.operations
        for user in self.step.tape.users.get(value, []):
            partner = self.partners.get(next(n for n, op in enumerate(operations) if op is user))
            if partner is not None:
                pairs = zip(user.values(), partner.values(), strict=False)
                yield from (theirs for ours, theirs in pairs if ours == value)

    def _seen_in_full(self, join: Operation, count: int) -> bool:
        """Return whether the full pass looks further back than to the last `count` tokens."""
        calls = self.step.located
        fed = [at for at, call in enumerate(calls) if join in _behind(self.step, call)]
        if not fed or len(calls) != len(self.full.located):
            return True
        try:
            weights = self.full.located[fed[0]].call.weights()
        except (AttnscopeError, RuntimeError):
            return True
        if tuple(weights.shape[-2:]) != (self.stretch.length, self.stretch.length):
            return True
        return bool(weights[..., self.stretch.start, : self.stretch.start - count].any())

    def _agree(self, theirs: tuple[int, ...], ours: tuple[int, ...]) -> bool | None:
        answers = [
            self.stretch.agree(self._value(self.full, a), self._value(self.step, b))
            for a, b in zip(theirs, ours, strict=False)
        ]
        if False in answers:
            return False
        return True if True in answers else None

    def _cause(self, operation: Operation, partner: Operation) -> Parting:
        """Return what makes an operation differ: an operand of it, or itself."""
        for ours, theirs in zip(operation.values(), partner.values(), strict=False):
            if self._agree((theirs,), (ours,)) is False:
                found = self._of_value(ours, theirs)
                if found is not None:
                    return found
        for ours, theirs in zip(operation.values(), partner.values(), strict=False):
            if self._apart(ours, theirs):
                found = self._of_value(ours, theirs)
                if found is not None:
                    return found
        return _other_result(operation)

    def _apart(self, ours: int, theirs: int) -> bool:
        """Return whether an operand has a size that no part of the full pass's has."""
        step, full = self._value(self.step, ours), self._value(self.full, theirs)
        return self.stretch.sizes_apart(full, step)

    def right(self) -> set[int]:
        """Return the numbers of the operations whose results are those of the full pass."""
        operations = self.step.tape.operations
        return {
            number
            for number, partner in self.partners.items()
            if self._agree(partner.defines, operations[number].defines) is True
        }

    def _of_value(self, ours: int, theirs: int) -> Parting | None:
        """Return what made a value of the step wrong that should be `theirs` of the full pass."""
        tape, expected = self.step.tape, self._value(self.full, theirs)
        value = ours
        for _ in range(_DEEPEST):
            maker = tape.maker.get(value)
            if maker is None:  # from outside: positions, or what was kept
                return None
            if maker.name in _JOINS:
                return self._of_join(maker, theirs)
            if self._is_past(maker) and self._past.agree(expected, self._value(self.step, value)):
                what = "is given what was kept alone, without the tokens of the step"
                return Parting(
                    maker.source,
                    maker.name,
                    what,
                    maker,
                    kept=self._value(self.step, next(self._kept(maker))),
                )
            before = [v for v in maker.values() if v not in self.step.weights]
            wrong = [v for v in before if self._wrong(v, expected)]
            if not wrong:
                return self._left_out(maker, theirs) or _other_result(maker)
            value = wrong[0]
        return None

    @property
    def _past(self) -> Stretch:
        """The tokens before the step."""
        return Stretch(0, self.stretch.start, self.stretch.length, self.stretch.batch)

    def _left_out(self, maker: Operation, theirs: int) -> Parting | None:
        """Return what the full pass does to a value that the step hands on as it is."""
        number = next(n for n, each in enumerate(self.step.tape.operations) if each is maker)
        partner, last = self.partners.get(number), self.full.tape.maker.get(theirs)
        if partner is None or last is None or last is partner:
            return None
        if self._agree(partner.defines, maker.defines) is not True:
            return None
        return Parting(
            last.source, last.name, "is done in the full pass, not in this step", last, in_full=True
        )

    def _wrong(self, value: int, expected: Tensor) -> bool:
        """Return whether a value has the shape of what is wrong, and so hands it on."""
        tensor = self._value(self.step, value)
        return (
            tensor.dim() == expected.dim()
            and tensor.numel() > 1
            and self.stretch.agree(expected, tensor) is False
        )

    def _of_join(self, join: Operation, theirs: int) -> Parting:
        """Return whether the joining is at fault, or what was kept of the tokens before."""
        expected = self._value(self.full, theirs)
        kept = [v for v in self._kept(join) if self._value(self.step, v).dim() == expected.dim()]
        past = self._past
        for value in kept:
            if past.agree(expected, self._value(self.step, value)) is not True:
                again = self._made_again(join, theirs, past, value)
                if again is not None:
                    return again
                if len([op for op in self.step.tape.users[value] if op.name in _JOINS]) > 1:
                    what = "joins what another layer kept"
                    return Parting(join.source, join.name, what, join, handed=True)
                line = line_of_keeping(join.source)
                return Parting(
                    line or join.source,
                    join.name,
                    f"joins what was kept of {past.stop} tokens, and the full pass has others",
                )
        return self._moved(join, expected, past) or Parting(
            join.source,
            join.name,
            "puts old and new tokens together otherwise than in the full pass",
            join,
        )

    def _moved(self, join: Operation, expected: Tensor, past: Stretch) -> Parting | None:
        """Return what makes the tokens that were kept wrong before new ones join them."""
        tape, after = self.step.tape, None
        value = next(join.values(), None)
        while value is not None and (maker := tape.maker.get(value)) is not None:
            if maker.name not in _JOINS and past.agree(expected, self._value(self.step, value)):
                break
            after = after if maker.name in _HANDS_ON | _JOINS else maker
            value = next(maker.values(), None)
        if value is None or after is None:
            return None
        if past.agree(expected, self._value(self.step, value)) is not True:
            return None
        line = condition_of(after.source) or after.source
        return Parting(line, after.name, "moves tokens that were kept where they belong", after)

    def _made_again(self, join: Operation, theirs: int, past: Stretch, kept: int) -> Parting | None:
        """Return what makes the kept tokens of the joined ones, and so is applied to them twice."""
        reached, tape = {theirs}, self.full.tape
        for operation in tape.operations:
            if reached.isdisjoint(operation.values()):
                continue
            reached.update(operation.defines)
            for value in operation.defines:
                if past.agree(self._value(self.full, value), self._value(self.step, kept)) is True:
                    what = "is applied again to tokens that were kept with it applied"
                    ours = self._behind_join(join, operation)
                    made = ours or operation
                    return Parting(made.source, made.name, what, made, in_full=ours is None)
            if len(reached) > _DEEPEST:
                break
        return None

    def _behind_join(self, join: Operation, wanted: Operation) -> Operation | None:
        """Return what does in the step, to the joined tokens, what an operation does in full."""
        joined = set(join.defines)
        for operation in self.step.tape.operations:
            if joined.isdisjoint(operation.values()):
                continue
            joined.update(operation.defines)
            if _place(operation) == _place(wanted):
                return operation
        return None

    def _kept(self, join: Operation) -> Iterator[int]:
        """Iterate over the values that come from outside the step, and join new ones."""
        yield from (
            v for v in join.values() if v in self.step.tape.inputs and v not in self.step.weights
        )

    def _value(self, side: Side, value: int) -> Tensor:
        return side.tape.tensors[value].detach()


def _behind(side: Side, located: Located) -> Collection[Operation]:
    """Return the operations that make the keys and values of a call."""
    ends = tuple(value for name in ("k", "v") for value, _ in located.spots.get(name, []))
    return side.tape.program.needed(ends, {})


def _other_result(operation: Operation) -> Parting:
    what = "gives another result than in the full pass"
    return Parting(operation.source, operation.name, what, operation)


def _place(operation: Operation) -> tuple[str, int, str]:
    source = operation.source
    return (
        (source.file, source.line, operation.name)
        if source is not None
        else ("", 0, operation.name)
    )
