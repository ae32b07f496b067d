"""Sides that can't be looked into: functions in NumPy, compiled code, attention of another kind.

Such a side gives q, k, v in and a context out. Where the definition, with the arguments that it was
given, reproduces the context, its stages are those of the definition, and labelled as derived;
else its context is all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.evidence import Spot
from attnscope.calls.mask import Mask
from attnscope.calls.recipe import Recipe
from attnscope.differ.walk.judging import Tolerance, compare
from attnscope.errors import ReplayError
from attnscope.explain import Attention

__all__ = ["Derived", "derive"]

_COARSE = Tolerance(1e-6)
"""The definition is told from others by far more than this."""

_GOLDEN = (3 - sqrt(5)) / 2
"""Share of an interval that a golden section cuts off."""

_SECTIONS = 80
"""Golden sections of a step of the grid, after which float64 has no numbers in between."""


@dataclass(eq=False)
class Derived:
    """One attention of which q, k, v and the context are known, in float64.

    It has the face of `Located`, with nothing on a tape. definition: what reproduces the context;
    None: nothing that was tried.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    context: Tensor
    definition: Attention | None

    @property
    def calls(self) -> tuple[Call, ...]:
        """No call was recorded."""
        return ()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Sizes of batch, heads, queries and keys."""
        batch, heads, queries, _ = self.q.shape
        return batch, heads, queries, self.k.shape[2]

    @property
    def spots(self) -> dict[str, list[tuple[int, Spot]]]:
        """No stage is on a tape."""
        return {}

    @property
    def received(self) -> dict[str, int]:
        """No projection was seen."""
        return {}

    @property
    def inputs(self) -> dict[str, int]:
        """No projection was seen."""
        return {}

    @property
    def output(self) -> None:
        """No output projection was seen."""
        return

    def read(self, name: str, values: Mapping[int, Tensor]) -> Tensor:
        """Return q, k, v or the context; nothing of them is on a tape."""
        del values
        return self.value(name)

    def write(self, name: str, canonical: Tensor) -> dict[int, Tensor]:
        """Return nothing to put on a tape."""
        del name, canonical
        return {}

    def join(self, name: str, parts: Sequence[Tensor]) -> Tensor:
        """Return the one tensor that there is."""
        del name
        return parts[0]

    def value(self, name: str) -> Tensor:
        """Return q, k, v or the context."""
        return {"q": self.q, "k": self.k, "v": self.v, "context": self.context}[name]

    def rerun(self, stage: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return a stage of the definition; of no definition the context that was there."""
        if self.definition is not None:
            return replace(self.definition, q=q, k=k, v=v).stage(stage)
        if stage == "context":
            return self.context
        raise ReplayError(
            f"deriving the {stage} of a function",
            "it can't be looked into, and the definition does not give what it returns",
            "compare its context",
        )

    def attention(self, q: Tensor, k: Tensor, v: Tensor) -> Attention | None:
        """Return other q, k and v with the recipe of the definition."""
        if self.definition is None:
            return None
        return replace(self.definition, q=q, k=k, v=v)

    def kv_head_of(self, kv_heads: int) -> tuple[int, ...]:
        """Return for each query head the kv head that it meets in grouped-query attention."""
        return Recipe(None).kv_head_of(self.shape[1], kv_heads)


def derive(
    q: Tensor, k: Tensor, v: Tensor, output: Tensor, arguments: Mapping[str, Any]
) -> Derived | None:
    """Return what is known of a function of (q, k, v, …); None: its output is no context.

    arguments: the further arguments that it was given, by name.
    """
    q, k, v = (_four(tensor.detach().double()) for tensor in (q, k, v))
    context = _four(output.detach().double())
    wanted = (*q.shape[:3], v.shape[3])
    if tuple(context.shape) != wanted:
        swapped = context.transpose(1, 2) if context.dim() == 4 else context
        if tuple(swapped.shape) != wanted:
            return None
        context = swapped
    for recipe in _definitions(q, k, arguments):
        attention = Attention(q, k, v, recipe)
        try:
            made = attention.stage("context")
        except (ReplayError, RuntimeError):
            continue
        if compare(made, context, _COARSE).equal:
            return Derived(q, k, v, context, attention)
    return Derived(q, k, v, context, _fitted(q, k, v, context, arguments))


def _fitted(
    q: Tensor, k: Tensor, v: Tensor, context: Tensor, arguments: Mapping[str, Any]
) -> Attention | None:
    """Return the definition with the one scale or soft cap that reproduces the context."""
    plain = [recipe for recipe in _definitions(q, k, arguments) if recipe.empty_row == "nan"]
    for recipe in plain:
        for part in ("scale", "softcap"):
            if arguments.get(part) is not None:
                continue

            def make(number: float, recipe: Recipe = recipe, part: str = part) -> Attention:
                changed = {part: number}
                return Attention(q, k, v, replace(recipe, **changed))  # type: ignore[arg-type]

            number = _best(lambda value: _distance(make(value), context))
            found = make(number) if number is not None else None
            if found is not None and compare(found.stage("context"), context, _COARSE).equal:
                return found
    return None


def _distance(attention: Attention, context: Tensor) -> float:
    gap = (attention.stage("context") - context).square().mean()
    return float(gap) if bool(gap.isfinite()) else float("inf")


def _best(distance: Callable[[float], float]) -> float | None:
    """Return the number from 1e-3 to 1e3 where a distance is smallest: grid, golden sections."""
    grid = [10 ** (step / 8) for step in range(-24, 25)]
    values = [distance(number) for number in grid]
    at = min(range(len(grid)), key=values.__getitem__)
    if not 0 < at < len(grid) - 1:
        return None
    low, high = grid[at - 1], grid[at + 1]
    for _ in range(_SECTIONS):
        first, second = low + (high - low) * _GOLDEN, high - (high - low) * _GOLDEN
        low, high = (low, second) if distance(first) < distance(second) else (first, high)
    middle = (low + high) / 2
    rounded = float(f"{middle:.7g}")
    return rounded if distance(rounded) <= distance(middle) else middle


def _four(tensor: Tensor) -> Tensor:
    """Give a tensor (length, width) or (batch, length, width) axes of size 1 for what it lacks."""
    if tensor.dim() == 3:
        return tensor[:, None]
    return tensor[(None,) * (4 - tensor.dim())] if tensor.dim() < 4 else tensor


def _definitions(q: Tensor, k: Tensor, arguments: Mapping[str, Any]) -> list[Recipe]:
    """Return the recipes that arguments of these names can mean."""
    given = arguments.get("scale")
    scales = [1 / sqrt(q.shape[-1])] if given is None else [float(given)]
    if given is None:
        scales.append(1.0)
    queries, keys = q.shape[2], k.shape[2]
    masks = [_declared(arguments, queries, keys)]
    if queries == keys and "causal" not in arguments and "is_causal" not in arguments:
        masks.append(Mask.causal_mask("top-left", queries, keys))
    if queries != keys:
        masks.append(Mask.causal_mask("bottom-right", queries, keys))
        masks.append(Mask.causal_mask("top-left", queries, keys))
    group = max(q.shape[1] // max(k.shape[1], 1), 1)
    expansion = "none" if group == 1 else "repeat_interleave"
    return [
        Recipe(
            scale,
            mask,
            bias=_bias(arguments),
            softcap=arguments.get("softcap"),
            group=group,
            expansion=expansion,
            empty_row=empty_row,
        )
        for mask in masks
        for scale in scales
        for empty_row in ("nan", "zero", "uniform")
    ]


def _declared(arguments: Mapping[str, Any], queries: int, keys: int) -> Mask:
    """Return the mask that arguments name: a boolean True = may attend, or causal."""
    mask = Mask.nothing()
    for name in ("mask", "attn_mask"):
        value = arguments.get(name)
        if isinstance(value, Tensor) and value.dtype == torch.bool:
            mask = mask & Mask.from_tensor(value, queries, keys)
    if arguments.get("is_causal") or arguments.get("causal") is True:
        mask = mask & Mask.causal_mask("top-left", queries, keys)
    if arguments.get("causal") in {"top-left", "bottom-right"}:
        mask = mask & Mask.causal_mask(arguments["causal"], queries, keys)
    return mask


def _bias(arguments: Mapping[str, Any]) -> Tensor | None:
    for name in ("bias", "attn_bias", "attn_mask", "mask"):
        value = arguments.get(name)
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.double()
    return None
