"""What the inputs of a subject are: sequences, padding, positions, documents, a cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from attnscope.checks.subject.given import Given

__all__ = ["Kind", "Padding", "Roles", "Stream"]

Kind: TypeAlias = Literal["ids", "features", "image", "heads"]
"""Token ids; (batch, length, width) in some order; pictures and such; q, k, v with a heads axis."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One sequence among the inputs.

    batch_axis, sequence_axis: its axes; None where it has none (a single sample; a picture, whose
    tokens the model cuts itself). memory: read by another sequence (cross-attention). certain:
    the axes were declared, or something in the code says so; why: what.
    """

    name: str
    kind: Kind
    batch_axis: int | None
    sequence_axis: int | None
    memory: bool = False
    certain: bool = False
    why: str = "assumed: batch first"

    def batch(self, given: Given) -> int:
        """Return the number of samples."""
        return 1 if self.batch_axis is None else int(given.values[self.name].shape[self.batch_axis])

    def length(self, given: Given) -> int:
        """Return the number of tokens; 0 where the stream has no axis of tokens."""
        axis = self.sequence_axis
        return 0 if axis is None else int(given.values[self.name].shape[axis])


@dataclass(frozen=True, slots=True)
class Padding:
    """How the inputs say which tokens are padding.

    name: the input; meaning: "keep" or "drop" (what True or 1 means), "lengths", or "pad" with
    `pad_id` where ids themselves say it. stream: the sequence it speaks of. declared: by `expect`;
    why: by what else it is known. given: the inputs have it; else the forward merely takes it.
    """

    name: str
    meaning: Literal["keep", "drop", "lengths", "pad"]
    stream: Stream
    pad_id: int | None = None
    declared: bool = False
    why: str = ""
    given: bool = True

    def real(self, given: Given) -> Tensor:
        """Return True = real token, (batch, length); all real where nothing is given."""
        batch, length = self.stream.batch(given), self.stream.length(given)
        value = given.values.get(self.name)
        if not isinstance(value, Tensor):
            return torch.ones(batch, length, dtype=torch.bool)
        if self.meaning == "lengths":
            return torch.arange(length)[None] < value.reshape(-1, 1).cpu()
        if self.meaning == "pad":
            return self._batch_first(value.ne(self._id()))
        shown = value.reshape(value.shape[0], value.shape[-1]) if value.dim() > 2 else value
        real = shown > -1 if shown.is_floating_point() and bool((shown < 0).any()) else shown != 0
        return self._batch_first(real if self.meaning == "keep" else ~real, own=batch)

    def written(self, given: Given, real: Tensor) -> Given:
        """Return inputs in which `real` (batch, length) says which tokens are real.

        Raises:
            ValueError: lengths can't say it, since the padding isn't at the end.
        """
        value = given.values.get(self.name)
        if self.meaning == "pad":
            pad, ids = self._id(), self._batch_first(given.values[self.name])
            ids = ids.masked_fill(ids == pad, _another_id(ids, pad)).masked_fill(~real, pad)
            return given.replaced(self.name, self._own_order(ids))
        if self.meaning == "lengths":
            lengths = real.sum(-1)
            if not torch.equal(real, torch.arange(real.shape[1])[None] < lengths[:, None]):
                raise ValueError("lengths can't say that the padding is on the left")
            like = value if isinstance(value, Tensor) else lengths
            return given.with_values(**{self.name: lengths.to(like.dtype).reshape(like.shape)})
        wanted = real if self.meaning == "keep" else ~real
        if not isinstance(value, Tensor):
            kind = torch.bool if self.meaning == "drop" else torch.long
            return given.with_values(**{self.name: wanted.to(kind)})
        wanted = self._own_order(wanted, value) if value.dim() == 2 else wanted
        return given.with_values(**{self.name: wanted.to(value.dtype).reshape(value.shape)})

    def _id(self) -> int:
        """Return the id of padding; -1, which no token has, where there is none."""
        return -1 if self.pad_id is None else self.pad_id

    def _batch_first(self, tensor: Tensor, own: int | None = None) -> Tensor:
        if self.meaning == "pad":
            return tensor.mT if self.stream.batch_axis == 1 else tensor
        flipped = own is not None and tensor.shape[0] != own and tensor.shape[-1] == own
        return tensor.mT if flipped else tensor

    def _own_order(self, tensor: Tensor, like: Tensor | None = None) -> Tensor:
        if like is not None:
            return tensor if tensor.shape == like.shape else tensor.mT
        return tensor.mT if self.stream.batch_axis == 1 else tensor


@dataclass(frozen=True, slots=True)
class Roles:
    """What each input is.

    streams: the sequences, the one that is asked for first; batch_axes: of every input that has
    one row a sample; length_axes: of every input, axis and the stream whose tokens run along it.
    padding: one for each stream that has one. positions, documents, cache: names of inputs (or of
    arguments that the forward takes). masks: inputs that are masks, padding or not.
    notes: what was assumed, and how to declare it.
    """

    streams: tuple[Stream, ...]
    batch_axes: Mapping[str, int] = field(default_factory=dict)
    length_axes: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    padding: tuple[Padding, ...] = ()
    positions: str | None = None
    documents: str | None = None
    cache: str | None = None
    masks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def main(self) -> Stream | None:
        """The sequence whose tokens the outputs belong to."""
        return next((s for s in self.streams if not s.memory), None)

    @property
    def memory(self) -> Stream | None:
        """The sequence that another one reads, where there is one."""
        return next((s for s in self.streams if s.memory), None)

    def stream(self, name: str) -> Stream | None:
        """Return the stream of an input's name."""
        return next((s for s in self.streams if s.name == name), None)

    def padding_of(self, stream: Stream | None) -> Padding | None:
        """Return how padding of a stream is told."""
        if stream is None:
            return None
        return next((p for p in self.padding if p.stream.name == stream.name), None)


def _another_id(ids: Tensor, pad_id: int) -> int:
    """Return the id of a real token."""
    real = ids[ids != pad_id]
    return int(real.flatten()[0]) if real.numel() else max(pad_id - 1, 1 - pad_id)
