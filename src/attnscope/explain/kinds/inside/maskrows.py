"""Masks that meet other rows of the batch: tiled in another order, broadcast along another axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnscope.axes import Visible
from attnscope.explain.kinds.inside.maskparts import MaskParts

if TYPE_CHECKING:
    from attnscope.explain.kinds.inside.evaluating import Inside, Key

__all__ = ["other_rows"]


def other_rows(inside: Inside, parts: MaskParts) -> Iterator[tuple[Key, str, Visible]]:
    """Iterate over masks in which a sample or head has the mask of another."""
    sizes = inside.sizes
    whole = parts.whole.expand(sizes.batch, sizes.heads, -1, -1)
    if parts.whole.shape[0] == 1 and parts.whole.shape[1] == 1:
        return
    flat = whole.flatten(0, 1)
    place = torch.arange(len(flat), device=whole.device)
    if sizes.batch > 1:
        sample = place % sizes.batch
        picked = whole[sample, place % sizes.heads].view_as(whole)
        text = (
            f"row b·{sizes.heads} + h of the batch·heads has the mask of sample "
            f"(b·{sizes.heads} + h) % {sizes.batch}: repeated over the heads in the order of "
            "repeat instead of repeat_interleave"
        )
        yield "mask-rows", text, picked
        for shift in (1, -1):
            text = f"each sample has the mask of the sample {shift:+d}"
            yield "mask-rows", text, whole.roll(-shift, 0)
        text = "all samples have the mask of sample 0"
        yield "mask-rows", text, whole[:1].expand_as(whole)
        text = "the samples have each other's masks, in reverse order"
        yield "mask-rows", text, whole.flip(0)
    yield from _by_coincidence(inside, whole)
    yield from _as_read(inside, whole)


def _by_coincidence(inside: Inside, whole: Tensor) -> Iterator[tuple[Key, str, Visible]]:
    """Broadcast along an axis that happens to have the size of the batch."""
    sizes = inside.sizes
    if sizes.batch == sizes.heads > 1:
        text = f"head h has the mask of sample h: batch and heads are both {sizes.batch}"
        yield "mask-rows", text, whole[:, 0][None].expand_as(whole)
    if sizes.batch == sizes.queries > 1:
        seen = whole.any(-2)[:, 0]  # (batch, keys)
        text = f"query i has the padding of sample i: batch and queries are both {sizes.batch}"
        yield "mask-rows", text, seen[None, None].expand_as(whole)


def _as_read(inside: Inside, whole: Tensor) -> Iterator[tuple[Key, str, Visible]]:
    """Read from the candidate's mask which sample's mask each sample has."""
    if inside.hint is None:
        return
    theirs = inside.hint.mask.dense(*whole.shape[-2:]).expand_as(whole).flatten(0, 1)
    ours = whole.flatten(0, 1)
    if len(ours) > _MOST_ROWS:
        return
    same = (theirs[:, None] == ours[None]).flatten(2).all(-1)
    if not bool(same.any(-1).all()):
        return
    met = same.to(torch.uint8).argmax(-1)
    heads = inside.sizes.heads
    moved = (met != torch.arange(len(met), device=met.device)).nonzero()
    if not len(moved):
        return
    first = int(moved[0, 0])
    text = (
        f"rows have the mask of others: sample {first // heads}, head {first % heads} has that of "
        f"sample {int(met[first]) // heads}, head {int(met[first]) % heads}"
    )
    yield "mask-rows", text, ours[met].view_as(whole)


_MOST_ROWS = 256
"""Samples times heads up to which each is compared with each."""
