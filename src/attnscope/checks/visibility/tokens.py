"""Where the tokens of a tensor lie: its axes of samples and of tokens, read off their sizes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.checks.rule import Skipped
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along
from attnscope.differ.sides.side import Side

__all__ = [
    "Tokens",
    "by_token",
    "made_of_inputs",
    "real_tokens",
    "sequence_of",
    "tokens_of",
    "value_in",
]


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


def real_tokens(subject: Subject, stream: Stream) -> Tensor:
    """Return which tokens of a sequence are real, (batch, length); all where nothing is known."""
    padding = subject.roles.padding_of(stream)
    if padding is None:
        return torch.ones(
            stream.batch(subject.given), stream.length(subject.given), dtype=torch.bool
        )
    return padding.real(subject.given).cpu()


def sequence_of(subject: Subject) -> Stream | None:
    """Return the sequence whose order the outputs keep: the main one, unless they have another's.

    A model that is given several (patches and words) returns one item for each token of one.
    """
    main = subject.roles.main
    if main is None or len(subject.roles.streams) < 2:
        return main

    def found() -> Stream | None:
        others = [s for s in subject.roles.streams if s is not main and not s.memory]
        known = (s for s in (main, *others) if s.sequence_axis is not None)
        return next((s for s in known if along(subject, subject.output, s)[1] is not None), main)

    try:
        return subject.once("sequence", found)
    except Skipped:
        return main


def made_of_inputs(subject: Subject, side: Side) -> frozenset[int]:
    """Return the values of a run that depend on what its inputs hold, not on shapes alone."""

    def found() -> frozenset[int]:
        names = [name for name, _ in subject.given.tensors()]
        reached = {v for name in names if (v := value_in(side, subject.given, name)) is not None}
        for operation in side.tape.operations:
            shape_alone = operation.name.endswith("_like") or operation.name.startswith("new_")
            if not shape_alone and not reached.isdisjoint(operation.values()):
                reached.update(operation.defines)
        return frozenset(reached)

    return subject.once(("made of inputs", id(side)), found)


def by_token(gap: Tensor, batch_axis: int | None, token_axis: int) -> Tensor:
    """Return the largest difference of each token, (batch, length); one row without samples."""
    if batch_axis is None:
        rows = gap.movedim(token_axis, 0)[None]
    else:
        rows = gap.movedim((batch_axis, token_axis), (0, 1))
    return rows.reshape(*rows.shape[:2], -1).amax(-1)


def value_in(side: Side, given: Given, name: str) -> int | None:
    """Return the value on the tape of a run with some inputs that an input is; None: not read."""
    tensor = given.values[name]
    args, _ = given.arguments()
    at = next((str(n) for n, each in enumerate(args) if each is tensor), name)
    leaf = next((side.leaves[n] for n in (at, *given.same_as(name)) if n in side.leaves), tensor)
    return side.tape.value_of(leaf)


def _product(sizes: tuple[int, ...]) -> int:
    return int(torch.Size(sizes).numel())
