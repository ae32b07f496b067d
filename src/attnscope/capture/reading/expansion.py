"""How kv heads were expanded to meet the query heads."""

from __future__ import annotations

from itertools import product

from attnscope.calls.arrangement import Arrangement
from attnscope.calls.evidence import Sizes
from attnscope.capture.reading.factors import is_tiled
from attnscope.capture.trail import Trail

__all__ = ["expansion_of", "meet_otherwise", "mixed_map"]


def meet_otherwise(k: Arrangement, v: Arrangement) -> bool:
    """Return whether copies of k meet other query heads than those of v: one map can't say both."""
    return k.shape[1] != v.shape[1] or is_tiled(k) != is_tiled(v)


def expansion_of(trail: Trail | None, sizes: Sizes, k: Arrangement) -> str:
    """Return by what the heads of k were expanded, as `Recipe.expansion` says it."""
    if sizes.kv_heads == sizes.heads:
        return "none"
    while trail is not None and trail.args:
        name = trail.name
        if name in {"repeat_interleave", "expand", "repeat", "expand_as", "tile"}:
            name = {"expand_as": "expand", "tile": "repeat"}.get(name, name)
            if is_tiled(k):
                return "repeat"
            return "repeat_interleave" if name == "repeat" and k.copies else name
        if name in {"index_select", "gather"}:
            return "index"
        before = trail.args[0]
        trail = before if isinstance(before, Trail) else None
    return "expand" if k.copies else "broadcast"


def mixed_map(sizes: Sizes, k: Arrangement) -> tuple[int, ...] | None:
    """Return the kv head of each query head, where copies lie both around all heads and in between.

    So they do where grouped heads are copied, and then whole samples are (beams, folded into the
    heads). None: they lie one way, which a word says.
    """
    own, copies = k.groups[1], k.copies
    if not own or not copies or not min(copies) < min(own) < max(copies):
        return None
    kept = sorted((*own, *copies))
    found = []
    for place in product(*(range(k.factors[factor]) for factor in kept)):
        at, head = dict(zip(kept, place, strict=True)), 0
        for factor in own:
            head = head * k.factors[factor] + at[factor]
        found.append(head)
    return tuple(found) if len(found) == sizes.heads else None
