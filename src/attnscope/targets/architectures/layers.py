"""Choosing the few layers that still show every kind of layer of an architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_LAYERS = 6


def chosen_layers(lists: Mapping[str, list[Any]], least: int) -> list[int]:
    """Return the indices of the layers to keep, in order.

    `lists` holds one entry a layer under each field's name. The first layer of every distinct
    combination of entries is kept, at most `MOST_LAYERS`, and at least `least` layers.
    """
    count = min((len(values) for values in lists.values()), default=0)
    seen: dict[str, int] = {}
    for layer in range(count):
        seen.setdefault(repr([values[layer] for values in lists.values()]), layer)
    kept = sorted(seen.values())[:MOST_LAYERS]
    for layer in range(count):
        if len(kept) >= least:
            break
        if layer not in kept:
            kept.append(layer)
    return sorted(kept)
