"""The orders in which q, k and v are packed into one projection, and split from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import torch
from torch import Tensor

from attnscope.explain.reading.columns import Columns

__all__ = ["Split", "splits_like"]

_NAMES = ("q", "k", "v")


@dataclass(frozen=True, slots=True)
class Split:
    """How a fused projection is packed, and how it is split instead."""

    packed: str
    split: str


def splits_like(columns: Columns, stage: str, sizes: dict[str, tuple[int, int]]) -> Split | None:
    """Return the packing and the splitting that give these features as `stage`; None: no pair does.

    sizes: heads and head_dim of q, k and v.
    """
    begins, total = {}, 0
    for name in _NAMES:
        begins[name], total = total, total + sizes[name][0] * sizes[name][1]
    offsets = torch.tensor([begins[pool.name] for pool in columns.pools])
    widths = torch.tensor([pool.tensor.shape[3] for pool in columns.pools])
    wanted = offsets[columns.pool] + columns.head * widths[columns.pool] + columns.feature
    layouts = [(text, _packed(order, sizes)) for text, order in _orders(sizes)]
    for packed, source in layouts:
        for split, target in layouts:
            # `target[stage]` are the places that `stage` is read from; `source` says what is there.
            there = _inverse(source, total)
            if torch.equal(there[target[stage]], wanted):
                return Split(packed, split)
    return None


def _orders(sizes: dict[str, tuple[int, int]]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Iterate over ways of packing: the order of names, and what is outermost."""
    for names in permutations(_NAMES):
        order = "".join(names)
        yield f"[{' | '.join(names)}]", (order, "blocks")
    if len(set(sizes.values())) == 1:
        for names in permutations(_NAMES):
            order, listed = "".join(names), ", ".join(names)
            yield f"per head ({listed}), (heads, 3, head_dim)", (order, "heads")
            yield f"per feature ({listed}), (heads, head_dim, 3)", (order, "features")
            yield f"[{listed}] as (3, head_dim, heads)", (order, "turned")
    elif sizes["q"][0] % sizes["k"][0] == 0:
        yield "per kv head (its queries, k, v)", ("qkv", "groups")


def _packed(order: tuple[str, str], sizes: dict[str, tuple[int, int]]) -> dict[str, Tensor]:
    """Return the place of each feature of q, k and v, (heads, head_dim) each."""
    names, how = order
    heads, size = sizes["q"]
    where: dict[str, Tensor] = {}
    if how == "blocks":
        begin = 0
        for name in names:
            count = sizes[name][0] * sizes[name][1]
            where[name] = torch.arange(begin, begin + count).view(sizes[name])
            begin += count
        return where
    if how == "groups":
        kv, group = sizes["k"][0], heads // sizes["k"][0]
        places = torch.arange(kv * (group + 2) * size).view(kv, group + 2, size)
        return {
            "q": places[:, :group].reshape(heads, size),
            "k": places[:, group],
            "v": places[:, group + 1],
        }
    shapes = {"heads": (heads, 3, size), "features": (heads, size, 3), "turned": (3, size, heads)}
    places = torch.arange(3 * heads * size).view(shapes[how])
    axis = {"heads": 1, "features": 2, "turned": 0}[how]
    for at, name in enumerate(names):
        chosen = places.select(axis, at)
        where[name] = chosen.T if how == "turned" else chosen
    return where


def _inverse(source: dict[str, Tensor], total: int) -> Tensor:
    """Return which feature (numbered q, k, v) lies at each place."""
    there = torch.empty(total, dtype=torch.long)
    features = torch.cat([source[name].flatten() for name in _NAMES])
    there[features] = torch.arange(total)
    return there
