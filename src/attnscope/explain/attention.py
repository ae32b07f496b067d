"""One attention as data, in float64: what the changes of this room start from and return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.axes import Key, Query, Value
from attnscope.calls.broadcasting import repeat_kv
from attnscope.calls.recipe import Recipe

__all__ = ["INSIDE", "Attention"]

INSIDE = ("q", "k", "v", "raw_scores", "scores", "weights", "context")
"""The stages that follow from q, k, v and the recipe."""


@dataclass(frozen=True, slots=True, eq=False)
class Attention:
    """q, k, v and a recipe, from which every stage inside the attention follows.

    after: what is done to the weights before they meet v, where a recipe can't say it; None: what
    the recipe says.
    """

    q: Query
    k: Key
    v: Value
    recipe: Recipe
    after: Callable[[Tensor], Tensor] | None = None

    def stage(self, name: str) -> Tensor:
        """Return one of `INSIDE`, float64.

        Raises:
            ReplayError: the recipe has an unknown part that the stage needs.
        """
        if name in {"q", "k", "v"}:
            return {"q": self.q, "k": self.k, "v": self.v}[name].double()
        if name == "raw_scores":
            return self.recipe.raw_scores(self.q.double(), self.k.double())
        if name == "scores":
            return self.recipe.scores(self.q, self.k, torch.float64)
        weights = self.recipe.weights(self.q, self.k, torch.float64)
        if self.after is not None:
            weights = self.after(weights)
        return weights if name == "weights" else self.weigh(weights)

    def weigh(self, weights: Tensor) -> Tensor:
        """Return weights @ v, each query head with its kv head."""
        v = self.v.double()
        if v.shape[1] in {1, weights.shape[1]}:
            return weights @ repeat_kv(v, weights.shape[1])
        return self.recipe.weigh(weights, v)
