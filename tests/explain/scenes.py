"""Scenes from tensors: an attention spelled out step by step, with any step done otherwise.

Nothing here knows the changes that are tested: what a faulty candidate computes is written with
plain operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from attnscope.calls.held import Held
from attnscope.calls.mask import Mask
from attnscope.calls.program import Operation, Program, Value
from attnscope.calls.recipe import Recipe
from attnscope.explain import Attention, Part, Scene, Sight
from attnscope.explain.attention import INSIDE

Mode = Literal["read", "unread", "opaque", "output"]
MODES: tuple[Mode, ...] = ("read", "unread", "opaque", "output")


@dataclass(frozen=True)
class Sizes:
    batch: int = 2
    heads: int = 4
    kv_heads: int = 2
    queries: int = 6
    keys: int = 6
    head_dim: int = 8
    value_dim: int = 5


SIZES = (
    Sizes(),
    Sizes(3, 6, 3, 9, 9, 4, 7),
    Sizes(2, 8, 8, 7, 7, 16, 16),
)


UNEVEN = (Sizes(2, 4, 2, 5, 8), Sizes(3, 4, 4, 3, 11, 4, 3), Sizes(2, 6, 2, 7, 9, 16, 8))
"""Sizes with more keys than queries."""


@dataclass(frozen=True)
class Steps:
    """An attention, step by step; every field is what a port could get wrong."""

    q: Tensor
    k: Tensor
    v: Tensor
    scale: Any
    seen: Tensor | None = None
    bias: Tensor | None = None
    cap: float | None = None
    sinks: Tensor | None = None
    k_met: list[int] = field(default_factory=list)
    v_met: list[int] = field(default_factory=list)
    score: Callable[[Steps, Tensor], Tensor] | None = None
    weigh: Callable[[Steps, Tensor], Tensor] | None = None
    finish: Callable[[Tensor], Tensor] = lambda weights: weights
    empty_row: str = "nan"

    def scores(self, raw: Tensor) -> Tensor:
        scores = raw * self.scale
        if self.cap is not None:
            scores = self.cap * torch.tanh(scores / self.cap)
        if self.bias is not None:
            scores = scores + self.bias
        return self.hide(scores)

    def hide(self, scores: Tensor, fill: float = float("-inf")) -> Tensor:
        return scores if self.seen is None else scores.masked_fill(~self.seen, fill)

    def weights(self, scores: Tensor) -> Tensor:
        if self.sinks is None:
            weights = scores.softmax(-1)
        else:
            columns = self.sinks.expand(*scores.shape[:-1], self.sinks.shape[-1])
            weights = torch.cat([scores, columns], -1).softmax(-1)[..., : scores.shape[-1]]
        if self.empty_row == "zero":
            return weights.masked_fill(scores.isneginf().all(-1, keepdim=True), 0.0)
        return weights

    def stages(self) -> dict[str, Tensor]:
        raw = self.q @ self.k[:, self.k_met].mT
        scores = self.scores(raw) if self.score is None else self.score(self, raw)
        weights = self.weights(scores) if self.weigh is None else self.weigh(self, scores)
        weights = self.finish(weights)
        context = weights @ self.v[:, self.v_met]
        made = {"raw_scores": raw, "scores": scores, "weights": weights, "context": context}
        return {"q": self.q, "k": self.k, "v": self.v, **made}

    def recipe(self) -> Recipe:
        """What a perfect reading of the steps is, where a recipe can say them."""
        queries, keys = self.q.shape[-2], self.k.shape[-2]
        heads, kv_heads = self.q.shape[1], self.k.shape[1]
        mask = Mask.nothing() if self.seen is None else Mask.from_tensor(self.seen, queries, keys)
        return Recipe(
            self.scale,
            mask,
            self.bias,
            self.cap,
            self.sinks,
            group=heads // kv_heads,
            expansion="none" if heads == kv_heads else "index",
            empty_row=self.empty_row,  # type: ignore[arg-type]
            kv_map=None if heads == kv_heads else tuple(self.k_met),
        )


def steps(sizes: Sizes, seed: int = 0, **changes: Any) -> Steps:
    """Return random q, k, v and the plain attention over them, with `changes`."""
    s = sizes
    random = torch.Generator().manual_seed(seed)

    def tensor(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    met = [head // (s.heads // s.kv_heads) for head in range(s.heads)]
    plain = Steps(
        tensor(s.batch, s.heads, s.queries, s.head_dim),
        tensor(s.batch, s.kv_heads, s.keys, s.head_dim),
        tensor(s.batch, s.kv_heads, s.keys, s.value_dim),
        s.head_dim**-0.5,
        k_met=met,
        v_met=met,
    )
    return replace(plain, **changes)


def causal(queries: int, keys: int, shift: int = 0) -> Tensor:
    return torch.ones(1, 1, queries, keys, dtype=torch.bool).tril(shift)


def padding(lengths: list[int], keys: int) -> Tensor:
    return (torch.arange(keys) < torch.tensor(lengths)[:, None])[:, None, None]


def scene(
    reference: Steps,
    candidate: Steps,
    mode: Mode = "read",
    *,
    width: int | None = None,
    readable: bool = True,
) -> Scene:
    """Return the scene of the first stage that differs; opaque sides have only their context."""
    ours, theirs = candidate.stages(), reference.stages()
    attention = Attention(reference.q, reference.k, reference.v, reference.recipe())
    own: Attention | None = None
    if mode == "read" and readable:
        own = Attention(candidate.q, candidate.k, candidate.v, candidate.recipe())
    stage = "context"
    if mode in {"read", "unread"}:
        differs = (name for name in INSIDE if not _same(ours[name], theirs[name]))
        stage = next(differs, "context")
    parts: dict[str, Part] = {}
    if mode == "output":
        stage = "output"
        part = _projection(theirs["context"])
        parts["output"] = part
        theirs["output"] = part.run()
        heads_last = ours["context"].transpose(1, 2).flatten(2)
        ours["output"] = part.run(given={0: heads_last})
    return Scene(
        stage,
        Sight(ours, own),
        Sight(theirs, attention, parts, width),
        limit(theirs[stage]),
    )


def limit(expected: Tensor) -> Tensor:
    """Return what float64 may be off, per row."""
    return torch.full_like(expected[..., :1], 1e-9)


def _same(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape:
        return False
    alike = (a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= 1e-9)
    return bool(alike.all())


def _projection(context: Tensor) -> Part:
    """Return an output projection with bias, from (batch, queries, heads · value_dim)."""
    given = context.transpose(1, 2).flatten(2)
    random = torch.Generator().manual_seed(7)
    width = given.shape[-1]
    weight = torch.randn(width + 3, width, generator=random, dtype=torch.float64)
    bias = torch.randn(width + 3, generator=random, dtype=torch.float64)
    inputs = {1: Held(weight), 2: Held(bias)}
    linear = torch.nn.functional.linear
    args = (Value(0), Value(1), Value(2))
    operation = Operation("linear", linear, args, {}, defines=(3,), needs=(0, 1, 2))
    program = Program(inputs, (operation,))
    return Part(program, 3, {0: given}, lambda value: value, {1: "out.weight", 2: "out.bias"})
