"""A cached step beside the full pass: which operation is which, and whether their values agree."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.trail import LAYOUT
from attnscope.checks.decoding.matching import Stretch
from attnscope.differ.sides.side import Side

__all__ = ["HANDS_ON", "Pairs", "Parting", "place_of"]

HANDS_ON = LAYOUT | frozenset("clone detach to type_as contiguous".split())


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


@dataclass(eq=False)
class Pairs:
    """The operations of a step, and those of the full pass that they are: paired by their lines."""

    full: Side
    step: Side
    stretch: Stretch

    @cached_property
    def partners(self) -> dict[int, Operation]:
        """The operation of the full pass that each operation of the step is, by its number."""
        ours, theirs = self.step.tape.operations, self.full.tape.operations
        matcher = difflib.SequenceMatcher(
            None, [place_of(op) for op in ours], [place_of(op) for op in theirs], autojunk=False
        )
        return {
            block.a + at: theirs[block.b + at]
            for block in matcher.get_matching_blocks()
            for at in range(block.size)
        }

    def partner_of(self, operation: Operation) -> Operation | None:
        """Return the operation of the full pass that an operation of the step is."""
        numbered = enumerate(self.step.tape.operations)
        return self.partners.get(next(n for n, each in numbered if each is operation))

    def ours(self, value: int) -> Tensor:
        """Return a value of the step."""
        return self.step.tape.tensors[value].detach()

    def theirs(self, value: int) -> Tensor:
        """Return a value of the full pass."""
        return self.full.tape.tensors[value].detach()

    def kept(self, join: Operation) -> Iterator[int]:
        """Iterate over the values that come from outside the step, and join new ones."""
        yield from (
            v for v in join.values() if v in self.step.tape.inputs and v not in self.step.weights
        )

    @property
    def past(self) -> Stretch:
        """The tokens before the step."""
        return Stretch(0, self.stretch.start, self.stretch.length, self.stretch.batch)

    def is_past(self, operation: Operation) -> bool:
        """Return whether an operation hands on what was kept, before new tokens join it."""
        return operation.name in HANDS_ON and any(
            self.step.tape.tensors[value].is_floating_point() for value in self.kept(operation)
        )

    def agree(self, theirs: tuple[int, ...], ours: tuple[int, ...]) -> bool | None:
        """Return whether values of both runs are the same where both have tokens; None: nowhere."""
        answers = [
            self.stretch.agree(self.theirs(a), self.ours(b))
            for a, b in zip(theirs, ours, strict=False)
        ]
        if False in answers:
            return False
        return True if True in answers else None

    def apart(self, ours: int, theirs: int) -> bool:
        """Return whether an operand has a size that no part of the full pass's has."""
        step, full = self.ours(ours), self.theirs(theirs)
        return self.stretch.sizes_apart(full, step)

    def right(self) -> set[int]:
        """Return the numbers of the operations whose results are those of the full pass."""
        operations = self.step.tape.operations
        return {
            number
            for number, partner in self.partners.items()
            if self.agree(partner.defines, operations[number].defines) is True
        }


def place_of(operation: Operation) -> tuple[str, int, str]:
    """Return file, line and name of an operation, by which it is paired."""
    source = operation.source
    return (
        (source.file, source.line, operation.name)
        if source is not None
        else ("", 0, operation.name)
    )
