"""Which kv head a query head meets: tiled instead of repeated, the first, in v not that of k."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from attnscope.errors import AttnscopeError
from attnscope.explain.kinds.inside.course import Course
from attnscope.explain.kinds.inside.evaluating import Edit, Inside, Key

__all__ = ["edits", "listed", "named_maps"]

Side = Literal["k and v", "k", "v"]

_MOST_KV_HEADS = 16
"""Up to as many kv heads, every query head is tried with every kv head."""


def edits(inside: Inside) -> Iterator[Edit]:
    """Iterate over other maps from query heads to kv heads, of k and v together or of one."""
    sizes = inside.sizes
    own = inside.recipe.kv_head_of(sizes.heads, sizes.kv_heads)
    if sizes.heads == 1 or len(own) != sizes.heads:
        return
    stage = inside.scene.stage
    sides: tuple[Side, ...] = ("k and v", "k", "v")
    if stage in {"raw_scores", "scores", "weights"}:
        sides = ("k",)
    elif sizes.kv_heads == sizes.heads:
        sides = ("k and v",)
    for side in sides:
        maps = named_maps(sizes.heads, sizes.kv_heads)
        read = _read(inside, side) if side == sides[0] else None
        if read is not None:
            maps = [*maps, ("kv-heads", "", read)]
        done = {own}
        for key, how, other in maps:
            if other not in done:
                done.add(other)
                said = f" in {side} alone" if side != "k and v" and len(sides) > 1 else ""
                text = (
                    f"the query heads meet the kv heads {listed(other)}{said}{how}, where in the "
                    f"reference they meet {listed(own)}"
                )
                moved = torch.tensor([a != b for a, b in zip(own, other, strict=True)])
                yield Edit(key, text, _Map(other, side), moved[None, :, None])


def named_maps(heads: int, kv_heads: int) -> list[tuple[Key, str, tuple[int, ...]]]:
    """Return the maps that have a name."""
    if kv_heads in {1, heads}:
        return []
    group = max(heads // kv_heads, 1)
    grouped = tuple(min(head // group, kv_heads - 1) for head in range(heads))
    tiled = tuple(head % kv_heads for head in range(heads))
    maps: list[tuple[Key, str, tuple[int, ...]]] = [
        ("kv-heads-tiled", " (tiled: repeat instead of repeat_interleave)", tiled),
        ("kv-heads-tiled", " (in groups: repeat_interleave instead of repeat)", grouped),
        ("kv-heads-first", " (the first kv head for all)", (0,) * heads),
        ("kv-heads", " (the last one for those beyond)", tuple(range(kv_heads))),
    ]
    clipped = tuple(min(head, kv_heads - 1) for head in range(heads))
    return [(key, how, clipped if len(m) < heads else m) for key, how, m in maps]


def listed(heads: tuple[int, ...]) -> str:
    """Return the kv head of each query head, sixteen of them at most."""
    shown = ", ".join(str(head) for head in heads[:16])
    return f"[{shown}{', …' if len(heads) > 16 else ''}]"


class _Map:
    """Lets query heads meet other kv heads."""

    def __init__(self, heads: tuple[int, ...], side: Side) -> None:
        self._heads, self._side = heads, side

    def __call__(self, course: Course) -> Course:
        k = course.k_heads if self._side == "v" else self._heads
        v = course.v_heads if self._side == "k" else self._heads
        return replace(course, k_heads=k, v_heads=v)


def _read(inside: Inside, side: Side) -> tuple[int, ...] | None:
    """Find for each query head the kv head with which it gives the candidate's stage."""
    scene, sizes = inside.scene, inside.sizes
    actual = scene.actual
    by_head = actual.dim() == len("bhqk") and actual.shape[1] == sizes.heads
    if not inside.fits or not by_head or sizes.kv_heads > _MOST_KV_HEADS:
        return None
    if inside.scene.stage not in {"raw_scores", "scores", "weights", "context"}:
        return None
    fits = []
    for head in range(sizes.kv_heads):
        try:
            value = inside.at(_Map((head,) * sizes.heads, side)(inside.course))
        except AttnscopeError:
            return None
        fits.append(_agrees_by_head(value, actual, scene.limit))
    agree = torch.stack(fits)  # (kv_heads, heads)
    if not bool(agree.any(0).all()):
        return None
    own = inside.recipe.kv_head_of(sizes.heads, sizes.kv_heads)
    first = agree.to(torch.uint8).argmax(0).tolist()
    kept = zip(own, first, range(sizes.heads), strict=True)
    return tuple(o if bool(agree[o, head]) else f for o, f, head in kept)


def _agrees_by_head(value: Tensor, actual: Tensor, limit: Tensor) -> Tensor:
    same = (value == actual) | (value.isnan() & actual.isnan())
    near = ((value - actual).abs() <= limit) | same
    return near.transpose(0, 1).flatten(1).all(-1)
