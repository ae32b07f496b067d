"""The smallest tensor that broadcasts to given values, so that nothing is kept twice."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["collapse", "repeat_kv", "rows_of"]

AXES = (1, 0, 2, 3)
"""In which order axes are tried: heads repeat most often, keys least."""


def collapse(
    values: Tensor,
    known: Tensor | None = None,
    *,
    slack: Tensor | None = None,
    axes: tuple[int, ...] = AXES,
) -> Tensor:
    """Return `values` with size 1 along each axis where all known entries are the same.

    Args:
        values: (batch, heads, queries, keys), any type.
        known: the same shape, True where the entry counts; None: everywhere. Of entries that
            don't count, zero is returned where no entry that counts stands beside them.
        slack: the same shape: how far an entry may be from the true one, for values that were
            rounded; the entry with the least slack stands for the axis. None: equal means equal.
        axes: which axes may become 1, in this order.
    """
    if known is not None and known.shape != values.shape:
        known = known.expand(values.shape)
    for axis in axes:
        if values.shape[axis] == 1:
            continue
        if known is None and slack is None and values.stride(axis) == 0:
            values = values.narrow(axis, 0, 1)
            continue
        values, known, slack = _collapse_axis(values, known, slack, axis)
    return values if known is None else torch.where(known, values, torch.zeros_like(values))


def _collapse_axis(
    values: Tensor, known: Tensor | None, slack: Tensor | None, axis: int
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return the three with size 1 along `axis`, or as they are where entries differ."""
    if known is None and slack is None:
        first = values.narrow(axis, 0, 1)
        return (first if bool((values == first).all()) else values), None, None
    if known is None:
        known = torch.ones_like(values, dtype=torch.bool)
    if slack is None:
        chosen = values.gather(axis, known.to(torch.uint8).argmax(axis, keepdim=True))
        margin, alike = None, values == chosen
    else:
        best = slack.masked_fill(~known, float("inf")).argmin(axis, keepdim=True)
        chosen, margin = values.gather(axis, best), slack.gather(axis, best)
        alike = (values - chosen).abs() <= slack + margin
    if not bool((alike | ~known).all()):
        return values, known, slack
    return chosen, known.any(axis, keepdim=True), margin


def repeat_kv(x: Tensor, heads: int) -> Tensor:
    """Return x (batch, kv_heads, …) as (batch, heads, …); one kv head is left to broadcasting."""
    kv_heads = x.shape[1]
    return x if kv_heads in (1, heads) else x.repeat_interleave(heads // kv_heads, 1)


def rows_of(tensor: Tensor, start: int, stop: int) -> Tensor:
    """Return query rows `start` to `stop` of what broadcasts to (batch, heads, queries, keys)."""
    if tensor.dim() < 2 or tensor.shape[-2] == 1:
        return tensor
    return tensor[..., start:stop, :]
