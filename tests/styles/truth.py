"""What is true about one hand-written attention, said without the tool that is tested with it.

Sizes and words are those of the canonical layout: q ``(batch, heads, queries, head_dim)``, k and v
with ``kv_heads`` and ``keys``, weights ``(batch, heads, queries, keys)``. Axes that a style has
beside them (windows, frames, pixels of the other direction) are folded into ``batch``, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Inputs = tuple[Any, ...] | dict[str, Any]
ROOT = 8**-0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Canonical tensors of one call, computed by plain code next to the module.

    ``weights`` is what leaves the normaliser; ``applied`` is what multiplies ``v`` where something
    comes between them. ``bias`` and ``visible`` (True = may attend) broadcast over the scores.
    A None means that no single tensor says it.
    """

    q: Tensor | None
    k: Tensor | None
    v: Tensor | None
    weights: Tensor
    context: Tensor | None
    applied: Tensor | None = None
    scale: float | Tensor = 1.0
    bias: Tensor | None = None
    visible: Tensor | None = None

    @property
    def read(self) -> Tensor:
        """The context, where a single tensor says it."""
        assert self.context is not None
        return self.context

    @property
    def merged(self) -> Tensor:
        """The context with its heads side by side, ``(batch, queries, heads * value_dim)``."""
        return self.read.transpose(1, 2).flatten(2)


def project_out(module: Any, truth: Truth) -> Tensor:
    """Output of a module that merges its heads and ends in a layer named ``out``."""
    return module.out(truth.merged)


def self_tokens() -> Inputs:
    """One input ``(2, 5, 20)``: batch, tokens, width."""
    return (torch.randn(2, 5, 20, generator=torch.Generator().manual_seed(1)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """One hand-written attention and the facts about it; of several calls, about the last.

    name: kebab-case, says the style. kind: "eager", or the name of a fused function.
    build, inputs: make the module and what it is called with; the same at every call.
    calls: attention calls that happen. pieces: into how many parts each is cut along the keys, each
    part with contractions of its own (online softmax); a tool may report calls * pieces.
    scale: the product of all places, also where it is a constant tensor without axes; None where
    it is learned, depends on data, or differs between heads. scale_tensor: it came as a tensor.
    mask: words of none causal causal-bottom-right padding window documents prefix custom.
    visible: share of (query, key) pairs that may attend, over batch and heads.
    bias: a float is added to the scaled scores, whatever it was made from.
    sinks: a column of the scores that meets no value takes a share of each row.
    normaliser: one of softmax, softmax-off-by-one, sigmoid, relu, relu-squared, relu-normalised,
    sparsemax, entmax, exp (not normalised), unknown; normaliser_axis: keys, queries or heads.
    dropout: active probability on the weights. before, after: other operations between the first
    contraction and the normaliser, and between it and the second contraction.
    unknown: parts of the recipe that no reading of single numbers can say: a tool has to name them.
    expansion: how kv heads meet query heads, where that is not "neighbours share one".
    value_heads: heads of v and of the context, where two maps share them.
    exact: whether the recorded operations give the very bits again; an einsum of many operands in
    an unusual order is run again in steps, equal up to rounding.
    output: how the module's output follows from the truth; None where that is not said.
    tolerance: of that output; the rounding of the narrowest number on the way.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], Inputs] = self_tokens
    kind: str = "eager"
    calls: int = 1
    pieces: int = 1
    batch: int = 2
    heads: int = 3
    kv_heads: int = 3
    queries: int = 5
    keys: int = 5
    head_dim: int = 8
    value_dim: int = 8
    scale: float | None = ROOT
    scale_tensor: bool = False
    mask: frozenset[str] = frozenset({"none"})
    visible: float | None = 1.0
    bias: bool = False
    softcap: float | None = None
    sinks: bool = False
    normaliser: str = "softmax"
    normaliser_axis: str = "keys"
    dropout: float = 0.0
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    expansion: str | None = None
    value_heads: int | None = None
    exact: bool = True
    truth: Callable[[Any, Any], Truth] | None = None
    output: Callable[[Any, Truth], Tensor] | None = project_out
    tolerance: float = 1e-5
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAlike:
    """Code that resembles attention and is none.

    ``expect``: "nothing", or the kind of region that a careful tool names instead; "named": it is
    a kind of attention, so it has to be a call or named in some way, but not to pass unseen.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]
    why: str
    expect: str = "nothing"


def widen(k: Tensor, heads: int, *, tiled: bool = False) -> Tensor:
    """Give every query head its key/value head, neighbours sharing one; tiled: in turn."""
    group = heads // k.shape[1]
    return k.repeat(1, group, 1, 1) if tiled else k.repeat_interleave(group, dim=1)


def raw_scores(q: Tensor, k: Tensor, *, tiled: bool = False) -> Tensor:
    """Products of every query with every key, unscaled: ``(batch, heads, queries, keys)``."""
    return torch.einsum("bhqd,bhkd->bhqk", q, widen(k, q.shape[1], tiled=tiled))


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | Tensor = ROOT,
    *,
    bias: Tensor | None = None,
    visible: Tensor | None = None,
    softcap: float | None = None,
    tiled: bool = False,
    normalise: Callable[[Tensor], Tensor] = lambda scores: scores.softmax(-1),
    change: Callable[[Tensor], Tensor] | None = None,
) -> Truth:
    """Compute attention by its definition; ``change`` acts between normaliser and values."""
    scores = raw_scores(q, k, tiled=tiled) * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    weights = normalise(scores)
    applied = weights if change is None else change(weights)
    context = torch.einsum("bhqk,bhkv->bhqv", applied, widen(v, q.shape[1], tiled=tiled))
    return Truth(
        q=q,
        k=k,
        v=v,
        weights=weights,
        context=context,
        applied=None if change is None else applied,
        scale=scale,
        bias=bias,
        visible=visible,
    )
