"""A piece of a recorded run, in float64, that can be run again with operations changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.program import Operation, Program

__all__ = ["Part"]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Part:
    """What makes one stage from the stages before it.

    program: the whole run in float64; wanted: the value that is the stage; given: values that are
    not computed but taken, such as the stages before; read: from the model's own layout to the
    canonical one. parameters: dotted names of the model's parameters and buffers, by value.
    origin: the value that a projection of this stage received, where there is one.
    """

    program: Program
    wanted: int
    given: Mapping[int, Tensor]
    read: Callable[[Tensor], Tensor]
    parameters: Mapping[int, str]
    origin: int | None = None

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations that make the stage, in order."""
        return self.program.needed((self.wanted,), self.given)

    def run(
        self,
        edits: Mapping[int, Operation] | None = None,
        given: Mapping[int, Tensor] | None = None,
    ) -> Tensor:
        """Return the stage, canonical, float64.

        edits: operations to run instead, by the first value that the old one defines; a new one
        must define the same values. given: further values to take instead of computing them, or
        instead of the parameters that they are.
        """
        return self.read(self.values([self.wanted], edits, given)[self.wanted])

    def values(
        self,
        wanted: Iterable[int],
        edits: Mapping[int, Operation] | None = None,
        given: Mapping[int, Tensor] | None = None,
    ) -> dict[int, Tensor]:
        """Return any values of the run, in the model's own layout; arguments as for `run`."""
        program = self.program
        if edits:
            operations = tuple(edits.get(op.defines[0], op) for op in program.operations)
            program = Program(program.inputs, operations)
        with torch.no_grad():
            return program.run(wanted, {**self.given, **(given or {})})
