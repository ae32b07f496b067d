"""Traces made by hand, so that what is drawn doesn't depend on how calls are seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from attnscope.calls import Call, Mask, Recipe, Source, Trace
from attnscope.calls.evidence import Evidence, Sizes
from attnscope.calls.shapes import ShapeRow


@dataclass
class StandIn(Evidence):
    """Evidence that follows from q, k, v and a recipe alone."""

    q: Tensor
    k: Tensor
    v: Tensor
    made: Recipe
    error: float | None = 0.0

    @property
    def recipe(self) -> Recipe:
        return self.made

    @property
    def sizes(self) -> Sizes:
        batch, heads, queries, head_dim = self.q.shape
        _, kv_heads, keys, value_dim = self.v.shape
        return Sizes(batch, heads, kv_heads, queries, keys, head_dim, value_dim)

    def value(self, name: str) -> Tensor:
        if name in {"q", "k", "v"}:
            made: Tensor = getattr(self, name)
            return made
        if name == "scores":
            return self.recipe.scores(self.q, self.k)
        if name == "weights":
            return self.recipe.weights(self.q, self.k)
        return self.recipe.context(self.q, self.k, self.v)

    def gradient(self, name: str) -> Tensor:
        return torch.zeros_like(self.value(name))

    def weight_blocks(self) -> Iterator[Tensor]:
        return self.recipe.weight_blocks(self.q, self.k)

    def replay_error(self) -> float | None:
        return self.error

    def shapes(self) -> tuple[ShapeRow, ...]:
        source = Source("/somewhere/model.py", 12, "forward", "q = self.to_q(x)")
        batch, heads, queries, head_dim = self.q.shape
        axes = ("batch", "heads", "queries", "head_dim")
        return (
            ShapeRow("linear", "", (batch, queries, heads * head_dim), ("batch", "queries", "?"),
                     ("to_q.weight", "to_q.bias"), source),
            ShapeRow("transpose", "q", (batch, heads, queries, head_dim), axes, (), source),
        )  # fmt: skip


CallMaker = Callable[..., Call]


@pytest.fixture
def make_call() -> CallMaker:
    """Return a maker of calls: random q, k, v and a recipe of the given parts."""

    def make(index: int = 0, module: str = "layer.0.attention", **given: Any) -> Call:
        generator = torch.Generator().manual_seed(index)
        heads, kv_heads = given.pop("heads", 4), given.pop("kv_heads", None)
        queries, keys, width = given.pop("queries", 6), given.pop("keys", None), 8
        keys, kv_heads = keys or queries, kv_heads or heads
        q = torch.randn(2, heads, queries, width, generator=generator)
        k = torch.randn(2, kv_heads, keys, width, generator=generator)
        v = torch.randn(2, kv_heads, keys, width, generator=generator)
        error, kind, step = given.pop("error", 0.0), given.pop("kind", "sdpa"), given.pop("step", 0)
        line = given.pop("line", 40)
        if given.pop("causal", False):
            given["mask"] = Mask.causal_mask("top-left", queries, keys)
        recipe = Recipe(**{"scale": 8**-0.5, "group": heads // kv_heads, **given})
        source = Source("/somewhere/site-packages/pack/model.py", line, "forward", "x = f(q, k, v)")
        return Call(index, module, source, kind, StandIn(q, k, v, recipe, error), step)

    return make


@pytest.fixture
def layers(make_call: CallMaker) -> Trace:
    """Return a trace of six equal causal layers."""
    return Trace([make_call(n, f"encoder.layer.{n}.attention.self", causal=True) for n in range(6)])
