"""An attention whose steps can be replaced one by one, where a recipe can't say what was done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import torch
from torch import Tensor

from attnscope.axes import Key, Query, Scores, Value
from attnscope.calls.recipe import Recipe
from attnscope.errors import ReplayError
from attnscope.explain.attention import Attention

__all__ = ["Course", "Scoring", "Step", "Weighing", "capped", "masked", "scaled", "scored"]

Step: TypeAlias = Callable[[Tensor, Recipe], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Course(Attention):
    """q, k, v and a recipe, and what is done otherwise than the recipe can say.

    scoring: makes scores of q·k and the recipe; weighing: makes weights of scores and the recipe;
    None: as the recipe does. k_heads, v_heads: for each query head the kv head that it meets in
    k and in v; None: what the recipe says.
    """

    scoring: Step | None = None
    weighing: Step | None = None
    k_heads: tuple[int, ...] | None = None
    v_heads: tuple[int, ...] | None = None

    @classmethod
    def of(cls, attention: Attention) -> Self:
        """Return `attention`, ready to be changed, in float64."""
        q, k, v = attention.q.double(), attention.k.double(), attention.v.double()
        return cls(q, k, v, attention.recipe, attention.after)

    def stage(self, name: str) -> Tensor:
        """Return one of `attnscope.explain.attention.INSIDE`, float64.

        Raises:
            ReplayError: the recipe has an unknown part that the stage needs.
        """
        if name in {"q", "k", "v"}:
            return {"q": self.q, "k": self.k, "v": self.v}[name]
        raw = self.q @ _met(self.k, self._heads_of(self.k, self.k_heads)).mT
        if name == "raw_scores":
            return raw
        scores = (self.scoring or scored)(raw, self.recipe)
        if name == "scores":
            return scores
        weights = (self.weighing or _normalised)(scores, self.recipe)
        if self.after is not None:
            weights = self.after(weights)
        if name == "weights":
            return weights
        return weights @ _met(self.v, self._heads_of(self.v, self.v_heads))

    def _heads_of(self, x: Key | Value, given: tuple[int, ...] | None) -> tuple[int, ...]:
        heads, kv_heads = self.q.shape[1], x.shape[1]
        if given is not None:
            return given
        if kv_heads in {1, heads} and self.recipe.kv_map is None:
            return tuple(range(kv_heads))
        return self.recipe.kv_head_of(heads, kv_heads)


@dataclass(frozen=True, slots=True, eq=False)
class Scoring:
    """Puts another way from q·k to the scores into a course."""

    step: Step

    def __call__(self, course: Course) -> Course:
        """Return the course with the step in it."""
        return replace(course, scoring=self.step)


@dataclass(frozen=True, slots=True, eq=False)
class Weighing:
    """Puts another way from the scores to the weights into a course."""

    step: Step

    def __call__(self, course: Course) -> Course:
        """Return the course with the step in it."""
        return replace(course, weighing=self.step)


def scored(raw: Scores, recipe: Recipe) -> Scores:
    """Return what enters the normaliser: scale, soft cap, bias and mask in the recipe's order.

    Raises:
        ReplayError: the scale or another part of the scores is unknown.
    """
    scores = capped(scaled(raw, recipe), recipe.softcap)
    if recipe.bias is not None:
        scores = scores + recipe.bias.to(scores)
    return masked(scores, recipe)


def scaled(raw: Scores, recipe: Recipe) -> Scores:
    """Return q·k times the recipe's scale.

    Raises:
        ReplayError: the scale or another part of the scores is unknown.
    """
    scale = recipe.scale
    if scale is None or {"scale", "scores", "softcap", "overwritten"} & set(recipe.unknown):
        raise ReplayError(
            "deriving scores from a recipe",
            f"{', '.join(recipe.unknown) or 'scale'} could not be read",
            "compare the call's own scores",
        )
    return raw * (scale.to(raw) if isinstance(scale, Tensor) else scale)


def capped(scores: Scores, softcap: float | None) -> Scores:
    """Return cap · tanh(scores / cap), or the scores as they are where there is no cap."""
    return scores if softcap is None else softcap * torch.tanh(scores / softcap)


def masked(scores: Scores, recipe: Recipe) -> Scores:
    """Return the scores with -inf where the recipe's mask hides."""
    if not recipe.mask.hides:
        return scores
    seen = recipe.mask.dense(scores.shape[-2], scores.shape[-1], scores.device)
    return scores.masked_fill(~seen, float("-inf"))


def _normalised(scores: Scores, recipe: Recipe) -> Tensor:
    return recipe.normalise(scores)


def _met(x: Query, heads: tuple[int, ...]) -> Tensor:
    """Return x (batch, kv_heads, …) with the kv head that each query head meets."""
    return x if heads == tuple(range(x.shape[1])) else x[:, list(heads)]
