"""What a plain function does to the context behind its attention: a factor, an order of heads.

A function that only lays out what attention gives has no stage between the context and its result;
what happens there shows in the result alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor

from attnscope.explain.change import Change
from attnscope.explain.kinds.inside.naming import number, numbers, single
from attnscope.explain.part import Part
from attnscope.explain.scene import Scene

__all__ = ["behind"]

_CONTRACTIONS = frozenset(
    "scaled_dot_product_attention matmul rmatmul bmm baddbmm einsum flex_attention".split()
)
_LAYOUT = frozenset(
    "transpose permute movedim swapaxes swapdims reshape view flatten unflatten contiguous squeeze "
    "unsqueeze mT T type_as to float double".split()
)
_MOST_HEADS = 128
_SAME = 1e-5
"""Share of the largest entry up to which a part of the context is another, rounded in float32."""


@dataclass(frozen=True, slots=True, eq=False)
class _Laid:
    """The context of a function, and where each entry of its result comes from.

    context: as the last product makes it; places: for each entry of the result its place in the
    flattened context.
    """

    context: Tensor
    places: Tensor

    @classmethod
    def of(cls, part: Part) -> Self | None:
        """Return both; None: more than the layout changes behind the attention."""
        operations = part.operations
        made = [at for at, op in enumerate(operations) if op.name in _CONTRACTIONS]
        if part.parameters or not made:
            return None
        if any(op.name not in _LAYOUT for op in operations[made[-1] + 1 :]):
            return None
        value = operations[made[-1]].defines[0]
        context = part.values([value])[value].double()
        marked = torch.arange(context.numel(), dtype=torch.float64).view(context.shape)
        places = part.run(given={value: marked}).long()
        return cls(context, places) if places.numel() == context.numel() else None

    def laid(self, context: Tensor) -> Tensor:
        """Return the result of another context."""
        return context.reshape(-1)[self.places]

    def read(self, result: Tensor) -> Tensor:
        """Return the context that gives a result."""
        flat = torch.empty(self.context.numel(), dtype=torch.float64)
        flat[self.places.flatten()] = result.double().flatten()
        return flat.view(self.context.shape)


def behind(scene: Scene) -> Iterator[Change]:
    """Iterate over factors and orders of a function's context."""
    part = scene.reference.parts.get("model")
    if scene.stage != "model" or part is None or scene.actual.shape != scene.expected.shape:
        return
    found = _Laid.of(part)
    if found is None or not bool(found.context.isfinite().all()):
        return
    actual = found.read(scene.actual)
    yield from _factors(found, actual)
    yield from _orders(found, actual)
    told = (
        f"the context {tuple(found.context.shape)} is reshaped to {tuple(scene.actual.shape)} "
        "without moving its heads behind the queries first: heads and positions are mixed"
    )
    seen = found.context.reshape(scene.actual.shape)
    yield Change("merge-by-view", told, lambda: seen)


def _factors(laid: _Laid, actual: Tensor) -> Iterator[Change]:
    """Fit a number, then one for each entry of the second axis, the heads."""
    context = laid.context
    axes = [tuple(range(context.dim()))]
    if context.dim() == len("bhqd") and context.shape[1] > 1:
        axes.append((0, 2, 3))
    for over in axes:
        square = context.square().sum(over, keepdim=True).clamp_min(1e-300)
        factor = (context * actual).sum(over, keepdim=True) / square
        if factor.numel() > 1 and single(factor) is not None:
            continue
        said = number(float(factor)) if factor.numel() == 1 else f"{numbers(factor)}, by head,"
        text = (
            f"the weights, or the context behind them, are multiplied by {said} where the "
            "reference leaves them as they are"
        )
        yield Change("weights-factor", text, partial(laid.laid, context * factor))


def _orders(laid: _Laid, actual: Tensor) -> Iterator[Change]:
    """Read in which order the heads of the context are, the axis before queries and features."""
    context = laid.context
    order = _order(context, actual, context.dim() - 3) if context.dim() > len("qd") else None
    if order is not None:
        text = (
            f"the heads of the context are in the order ({', '.join(map(str, order))}) where the "
            "reference has them as they come"
        )
        yield Change("heads-permuted", text, lambda: laid.laid(context[..., order, :, :]))


def _order(context: Tensor, actual: Tensor, axis: int) -> list[int] | None:
    """Return for each part of `actual` the part of `context` that it is."""
    count = context.shape[axis]
    if not 1 < count <= _MOST_HEADS:
        return None
    ours, theirs = (x.movedim(axis, 0).flatten(1) for x in (actual, context))
    slack = _SAME * float(theirs.abs().max())
    same = (ours[:, None] - theirs[None]).abs().amax(-1) <= slack
    if not bool(same.any(-1).all()):
        return None
    return same.to(torch.uint8).argmax(-1).tolist()
