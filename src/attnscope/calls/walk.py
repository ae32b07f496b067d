"""One query of one head, step by step, with real numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.errors import InputError


@dataclass(frozen=True, slots=True)
class WalkRow:
    """What happened to one key: dot product, scaled, soft-capped and biased, masked, normalised."""

    key: int
    dot: float
    scaled: float
    bias: float
    visible: bool
    score: float
    weight: float


@dataclass(frozen=True, slots=True)
class Walk:
    """One query of one head from dot products to the weighted sum.

    scale: what the dot products were multiplied by (None: unknown); logsumexp: the logarithm of the
    softmax's denominator; total: sum of the weights; context: weights @ v, value_dim numbers.
    """

    call: int
    module: str
    head: int
    query: int
    batch: int
    rows: tuple[WalkRow, ...]
    query_vector: tuple[float, ...]
    scale: float | None
    normaliser: str
    logsumexp: float
    total: float
    entropy: float
    context: tuple[float, ...]


def walk(call: Call, head: int, query: int, *, batch: int = 0) -> Walk:
    """Compute the numbers of one row of `call` from its recorded tensors."""
    head = _position("head", head, call.heads)
    query = _position("query", query, call.queries)
    batch = _position("batch", batch, call.batch)
    recipe = call.recipe
    kv_head = recipe.kv_head_of(call.heads, call.kv_heads)[head]
    q = call.q[batch, head, query].double()  # head_dim
    k = call.k[batch, kv_head].double()  # keys head_dim
    dots = k @ q
    scores = call.scores()[batch, head, query].double()
    weights = call.weights()[batch, head, query].double()
    scale = _number(recipe.scale, batch, head, query)
    scaled = dots * scale if scale is not None else torch.full_like(dots, torch.nan)
    visible = recipe.mask.rows(query, query + 1, call.queries, call.keys, device=q.device)
    visible = visible.expand(call.batch, call.heads, 1, call.keys)[batch, head, 0]
    bias = torch.zeros_like(dots)
    if recipe.bias is not None:
        full = recipe.bias.expand(call.batch, call.heads, call.queries, call.keys)
        bias = full[batch, head, query].double()
    rows = tuple(
        WalkRow(key, *values)
        for key, values in enumerate(
            zip(
                dots.tolist(),
                scaled.tolist(),
                bias.tolist(),
                visible.tolist(),
                scores[: call.keys].tolist(),
                weights.tolist(),
                strict=True,
            )
        )
    )
    return Walk(
        call=call.index,
        module=call.module,
        head=head,
        query=query,
        batch=batch,
        rows=rows,
        query_vector=tuple(q.tolist()),
        scale=scale,
        normaliser=recipe.normaliser,
        logsumexp=float(torch.logsumexp(scores, 0)),
        total=float(weights.sum()),
        entropy=float(torch.special.entr(weights.clamp_min(0)).sum()),
        context=tuple(call.context()[batch, head, query].double().tolist()),
    )


def _position(name: str, position: int, size: int) -> int:
    if not isinstance(position, int):
        raise InputError(
            doing=f"walking through a {name}",
            found=f"{position!r}, which is no whole number",
            todo=f"use a {name} from {-size} to {size - 1}",
        )
    if not -size <= position < size:
        raise InputError(
            doing=f"walking through {name} {position}",
            found=f"the call has {size} along that axis",
            todo=f"use a {name} from {-size} to {size - 1}",
        )
    return position % size


def _number(scale: float | Tensor | None, *place: int) -> float | None:
    if isinstance(scale, Tensor):
        full = scale
        while full.dim() < 4:
            full = full.unsqueeze(0)
        index = tuple(p if n > 1 else 0 for p, n in zip((*place, 0), full.shape, strict=True))
        return float(full[index])
    return scale
