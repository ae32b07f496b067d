"""Where the tokens of a tensor lie: its axes of samples and of tokens, read off their sizes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.side import Side

__all__ = ["Tokens", "tokens_of", "value_in"]


@dataclass(frozen=True, slots=True)
class Tokens:
    """How a tensor becomes (batch, tokens, …).

    batch_axis: None where there is one sample without such an axis; -1 where samples and tokens are
    one axis (the first), the samples outside if `outside`. middle: axes of tokens, joined.
    """

    batch: int
    count: int
    batch_axis: int | None
    middle: tuple[int, ...]
    outside: bool = True

    def read(self, tensor: Tensor) -> Tensor:
        """Return (batch, tokens, rest)."""
        if self.batch_axis == -1:
            sizes = (self.batch, self.count) if self.outside else (self.count, self.batch)
            apart: Tensor = tensor.unflatten(0, sizes)
            return (apart if self.outside else apart.transpose(0, 1)).flatten(2)
        if self.batch_axis is None:
            return tensor.movedim(self.middle[0], 0).reshape(1, self.count, -1)
        return tensor.permute(self._order(tensor.dim())).reshape(self.batch, self.count, -1)

    def write(self, canonical: Tensor, like: Tensor) -> Tensor:
        """Return a tensor of the shape of `like` from (batch, tokens, rest)."""
        if self.batch_axis == -1:
            whole = canonical if self.outside else canonical.transpose(0, 1)
            return whole.reshape(like.shape)
        if self.batch_axis is None:
            moved = like.movedim(self.middle[0], 0)
            return canonical.reshape(moved.shape).movedim(0, self.middle[0])
        order = self._order(like.dim())
        whole = canonical.reshape([like.shape[axis] for axis in order])
        return whole.permute([order.index(axis) for axis in range(like.dim())])

    def by_token(self, entries: Tensor) -> Tensor:
        """Return (batch, tokens): whether any entry there is True."""
        return self.read(entries).any(-1)

    def _order(self, axes: int) -> list[int]:
        first = [self.batch_axis or 0, *self.middle]
        return first + [axis for axis in range(axes) if axis not in first]


def tokens_of(subject: Subject, shape: tuple[int, ...], stream: Stream) -> Tokens | None:
    """Return where the tokens of a tensor lie that carries a stream; None: can't be told.

    There may be more tokens than the stream has (one for the class, a memory before them).
    """
    batch, length = stream.batch(subject.given), stream.length(subject.given)
    if stream.batch_axis is None:
        at = 0 if len(shape) < 3 or shape[0] != 1 else 1
        if at == 1:
            return Tokens(1, shape[1], 0, (1,))
        return Tokens(1, shape[0], None, (0,)) if len(shape) > 1 else None
    if len(shape) == 2 and length and shape[0] == batch * length:
        outside = stream.batch_axis < (stream.sequence_axis or 0)
        return Tokens(batch, length, -1, (0,), outside)
    if len(shape) < 3:
        return None
    first, second = shape[:2]
    usual = 0 if stream.kind == "heads" else stream.batch_axis
    if len(shape) > 3:
        return (
            Tokens(batch, _product(shape[1:-1]), 0, tuple(range(1, len(shape) - 1)))
            if first == batch
            else None
        )
    options = [axis for axis in (usual, 0, 1) if axis < 2 and shape[axis] == batch]
    if first == second == batch:
        options = [usual]
    elif length and length != batch:
        exact = [axis for axis in options if shape[1 - axis] == length]
        options = exact or options
    return Tokens(batch, shape[1 - options[0]], options[0], (1 - options[0],)) if options else None


def value_in(side: Side, given: Given, name: str) -> int | None:
    """Return the value on the tape of a run with some inputs that an input is; None: not read."""
    tensor = given.values[name]
    args, _ = given.arguments()
    at = next((str(n) for n, each in enumerate(args) if each is tensor), name)
    leaf = next((side.leaves[n] for n in (at, *given.same_as(name)) if n in side.leaves), tensor)
    return side.tape.value_of(leaf)


def _product(sizes: tuple[int, ...]) -> int:
    return int(torch.Size(sizes).numel())
