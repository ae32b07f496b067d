"""One attention, as it happened once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from torch import Tensor

from attnscope.calls.evidence import NAMES, Evidence
from attnscope.calls.numbers import HeadNumbers, head_numbers
from attnscope.calls.recipe import Recipe
from attnscope.calls.shapes import ShapeSheet
from attnscope.calls.source import Source
from attnscope.errors import InputError

TensorName = Literal["q", "k", "v", "scores", "weights", "context"]


@dataclass(eq=False)
class Call:
    """One attention call: tensors, recipe, place, proof.

    index: position in its trace; module: dotted path of the innermost module that made the call;
    kind: how it was computed ("eager", "sdpa", "mha", "flex", "flash_attn", "xformers", …);
    step: which forward pass of the model (decoding step) it belongs to, from 0;
    recomputed: made again in the backward pass by gradient checkpointing.
    """

    index: int
    module: str
    source: Source
    kind: str
    evidence: Evidence = field(repr=False)
    step: int = 0
    recomputed: bool = False

    @property
    def batch(self) -> int:
        """Number of independent samples (windows and chunks included)."""
        return self.evidence.sizes.batch

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return self.evidence.sizes.heads

    @property
    def kv_heads(self) -> int:
        """Number of key and value heads."""
        return self.evidence.sizes.kv_heads

    @property
    def queries(self) -> int:
        """Number of queries."""
        return self.evidence.sizes.queries

    @property
    def keys(self) -> int:
        """Number of keys."""
        return self.evidence.sizes.keys

    @property
    def head_dim(self) -> int:
        """Width of q and k."""
        return self.evidence.sizes.head_dim

    @property
    def value_dim(self) -> int:
        """Width of v."""
        return self.evidence.sizes.value_dim

    @property
    def recipe(self) -> Recipe:
        """How scores came from `q·k` and weights from scores, read from what was recorded."""
        return self.evidence.recipe

    @property
    def q(self) -> Tensor:
        """Queries (batch, heads, queries, head_dim), as they enter: rotated, normalised."""
        return self.evidence.value("q")

    @property
    def k(self) -> Tensor:
        """Keys (batch, kv_heads, keys, head_dim), kv heads not expanded."""
        return self.evidence.value("k")

    @property
    def v(self) -> Tensor:
        """Values (batch, kv_heads, keys, value_dim), kv heads not expanded."""
        return self.evidence.value("v")

    def scores(self) -> Tensor:
        """Return what enters the softmax (batch, heads, queries, keys)."""
        return self.evidence.value("scores")

    def weights(self) -> Tensor:
        """Return what leaves the softmax (batch, heads, queries, keys), before dropout."""
        return self.evidence.value("weights")

    def context(self) -> Tensor:
        """Return weights @ v per head (batch, heads, queries, value_dim)."""
        return self.evidence.value("context")

    def grad(self, name: TensorName) -> Tensor:
        """Return the gradient of one tensor of the call, after a backward inside `record`.

        Derived from the recorded gradient of the context; equal to what autograd gives for this
        call's own part of the computation. A q or k that is used again elsewhere (as for relative
        positions) has more gradient than that; one that all samples share has the sum over them.

        Raises:
            InputError: `name` is none of a call's tensors.
            ReplayError: no backward reached the call, or its kernel has no gradient.
        """
        if name not in NAMES:
            raise InputError(
                doing="reading a gradient",
                found=f"the name {name!r}",
                todo=f"use one of {', '.join(NAMES)}",
            )
        return self.evidence.gradient(name)

    @cached_property
    def replay_error(self) -> float | None:
        """Largest |replayed - actual| of the output, relative; 0.0: same bits; None: no values."""
        return self.evidence.replay_error()

    def numbers(self) -> HeadNumbers:
        """Return per-head entropy, largest weight and visible keys."""
        return self._numbers

    @cached_property
    def _numbers(self) -> HeadNumbers:
        kept = self.evidence.kept_numbers()
        return kept if kept is not None else head_numbers(self.evidence.weight_blocks())

    def shapes(self) -> ShapeSheet:
        """Return the live shape sheet: one row a step."""
        return ShapeSheet(self.index, self.module, self.evidence.shapes())

    def __repr__(self) -> str:
        """Return one line with the place and the sizes."""
        return (
            f"Call({self.index}, {self.module!r}, {self.kind!r}, batch={self.batch}, "
            f"heads={self.heads}, queries={self.queries}, keys={self.keys})"
        )
