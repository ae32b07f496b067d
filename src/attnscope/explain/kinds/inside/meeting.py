"""Faults inside the attention that show as another q, k or v already.

Which kv head a query head meets shows in k where one side hands over fewer kv heads than the other;
and weights that are transposed before they meet v make, seen from v, q of k.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from attnscope.explain.change import Change
from attnscope.explain.kinds.inside.kvheads import listed, named_maps
from attnscope.explain.scene import Scene

__all__ = ["other_kv_heads", "permuted_heads", "transposed_weights"]

_MOST_HEADS = 128


def other_kv_heads(scene: Scene) -> Iterator[Change]:
    """Read from k or v, one head for each query head, which kv head each query head meets."""
    attention = scene.reference.attention
    actual, expected = scene.actual, scene.expected
    if scene.stage not in {"k", "v"} or attention is None or actual.shape != expected.shape:
        return
    heads = expected.shape[1]
    kv_heads = (attention.k if scene.stage == "k" else attention.v).shape[1]
    if kv_heads == heads or heads > _MOST_HEADS:
        return
    own = attention.recipe.kv_head_of(heads, kv_heads)
    order = _order(scene)
    if order is None:
        return
    met = tuple(own[head] for head in order)
    named = [(key, how) for key, how, other in named_maps(heads, kv_heads) if other == met]
    key, how = named[0] if named else ("kv-heads", "")
    text = (
        f"the query heads meet the kv heads {listed(met)} in {scene.stage}{how}, where in the "
        f"reference they meet {listed(own)}"
    )
    yield Change(key, text, lambda: expected[:, order])


def transposed_weights(scene: Scene) -> Iterator[Change]:
    """Recognise k in the place of q, under a softmax over the queries: transposed weights."""
    call = scene.candidate.call
    k = scene.reference.stages.get("k")
    if scene.stage != "q" or call is None or k is None:
        return
    if call.recipe.normaliser_axis == "queries":
        text = (
            "the weights are transposed before they meet v: key j gathers what queries gave it, "
            "where in the reference query i gathers from the keys (seen from v, q and k are "
            "exchanged and the softmax runs over the queries)"
        )
        yield Change("weights-transposed", text, lambda: k)


def permuted_heads(scene: Scene) -> Iterator[Change]:
    """Read from the context in which order its heads are."""
    actual, expected = scene.actual, scene.expected
    fits = actual.shape == expected.shape and 1 < expected.shape[1] <= _MOST_HEADS
    order = _order(scene) if scene.stage == "context" and fits else None
    if order is not None:
        text = (
            f"the heads of the context are in the order ({', '.join(map(str, order))}) where the "
            "reference has them as they come"
        )
        yield Change("heads-permuted", text, lambda: expected[:, order])


def _order(scene: Scene) -> list[int] | None:
    """Return for each head which of the reference's it is; None: some is none, or each its own."""
    actual, expected = scene.actual, scene.expected
    gap = (actual[:, :, None] - expected[:, None]).abs() <= scene.limit[:, None]
    same = gap.movedim(0, 2).flatten(2).all(-1)  # (heads, heads)
    if not bool(same.any(-1).all()) or bool(same.diagonal().all()):
        return None
    return same.to(torch.uint8).argmax(-1).tolist()
