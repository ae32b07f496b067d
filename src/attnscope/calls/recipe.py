"""How scores came from `q·k` and weights from scores, as data that evaluates itself.

The order is fixed, the field's own (FlexAttention, Gemma 2, T5):

    raw      = q · kᵀ                                   (kv heads repeated `group` times)
    scores   = softcap · tanh(scale · raw / softcap) + bias, -inf where the mask hides
    weights  = normaliser(scores [, sinks])  over the keys
    context  = weights · v

A part that could not be read is listed in `unknown`, and what needs it raises; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from attnscope.axes import Context, Key, Query, Scores, Value, Weights
from attnscope.calls.broadcasting import rows_of
from attnscope.calls.mask import Mask
from attnscope.calls.normalisers import AXES, NORMALISERS
from attnscope.errors import ReplayError

__all__ = ["EmptyRow", "Recipe"]

EmptyRow: TypeAlias = Literal["nan", "zero", "uniform"]

_BLOCK_ELEMENTS = 1 << 24
"""Entries of one block of weights: 64 MiB in float32."""

_AFTER_SCORES = frozenset({"normaliser", "sinks", "dropout", "after", "empty-row"})
_AFTER_WEIGHTS = frozenset({"dropout", "after"})
_HARMLESS = frozenset({"cast", "dropout"})


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """How scores follow from `q·k`: scale, soft cap, bias, mask, sinks, normaliser, dropout.

    scale: product of all places where it was applied (q, k, scores, kernel argument); a number, or
        a tensor broadcastable to (batch, heads, queries, keys) where it is learned; None: unknown.
    bias: added to the scores, broadcastable to (batch, heads, queries, keys), finite where visible.
    softcap: the cap of `cap · tanh(scores / cap)`, or None.
    sinks: logits of extra columns that take part in the softmax and are dropped after it,
        broadcastable to (batch, heads, queries, sinks). Softmax-off-by-one is one sink of logit 0.
    normaliser: a name of `NORMALISERS`, or "unknown"; normaliser_axis: the axis it ran over;
        normaliser_factor: what its result is multiplied by (1/keys in ReLU attention).
    dropout: probability with which weights were dropped in this very call (0.0 in eval mode).
    group: query heads per kv head; expansion: how kv heads met them ("none", "expand",
        "repeat_interleave", "repeat", "broadcast", "enable_gqa", "index", "unknown").
    after: kinds of operation between the normaliser and the product with v, in order.
    unknown: names of the parts that could not be read.
    empty_row: weights of a query that sees nothing: "nan" as softmax itself, "zero" as the fused
        kernels of torch, "uniform" over all keys as softmax with a finite fill.
    kv_map: the kv head that each query head met; None: as `expansion` says.
    """

    scale: float | Tensor | None
    mask: Mask = field(default_factory=Mask.nothing)
    bias: Tensor | None = None
    softcap: float | None = None
    sinks: Tensor | None = None
    normaliser: str = "softmax"
    normaliser_axis: str = "keys"
    dropout: float = 0.0
    group: int = 1
    expansion: str = "none"
    after: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    empty_row: EmptyRow = "nan"
    kv_map: tuple[int, ...] | None = None
    normaliser_factor: float = 1.0

    def scores(
        self, q: Query, k: Key, dtype: torch.dtype | None = None, rows: slice | None = None
    ) -> Scores:
        """Return what enters the normaliser, sinks not included.

        Args:
            q: (batch, heads, queries, head_dim).
            k: (batch, kv_heads, keys, head_dim), kv heads not expanded.
            dtype: type to compute in; None: that of `q`.
            rows: which queries, a slice with step 1; None: all of them.

        Raises:
            ReplayError: a part that scores need is unknown, or the heads don't fit `group`.
        """
        self._require("scores", _AFTER_SCORES)
        if self.scale is None:
            raise _unreadable("scores", "scale")
        dtype = dtype or q.dtype
        queries, keys = q.shape[-2], k.shape[-2]
        start, stop = _bounds(rows, queries)
        raw = self.raw_scores(q[..., start:stop, :].to(dtype), k.to(dtype))
        scale = self.scale
        if isinstance(scale, Tensor):
            scale = rows_of(scale, start, stop).to(raw)
        scores = raw * scale
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.bias is not None:
            scores = scores + rows_of(self.bias, start, stop).to(raw)
        if self.mask.hides:
            seen = self.mask.rows(start, stop, queries, keys, scores.device)
            scores = scores.masked_fill(~seen, float("-inf"))
        return scores

    def weights(
        self, q: Query, k: Key, dtype: torch.dtype | None = None, rows: slice | None = None
    ) -> Weights:
        """Return what leaves the normaliser, sinks and dropout not included.

        Args and errors are those of `scores`; the normaliser and its axis must be known, too.
        """
        self._require("weights", _AFTER_WEIGHTS)
        if self.normaliser_axis == "keys":
            start, _ = _bounds(rows, q.shape[-2])
            return self.normalise(self.scores(q, k, dtype, rows), start)
        whole = self.normalise(self.scores(q, k, dtype))
        return whole if rows is None else whole[..., rows, :]

    def normalise(self, scores: Scores, start: int = 0) -> Weights:
        """Return the weights that follow from scores whose first row is query `start`.

        Raises:
            ReplayError: the normaliser or its axis has no name in `NORMALISERS` and `AXES`.
        """
        function, axis = NORMALISERS.get(self.normaliser), AXES.get(self.normaliser_axis)
        if function is None or axis is None:
            raise _unreadable("weights", f"{self.normaliser} over {self.normaliser_axis}")
        keys = scores.shape[-1]
        if self.sinks is None:
            weights = function(scores, axis)
        else:
            sinks = rows_of(self.sinks, start, start + scores.shape[-2]).to(scores)
            sinks = sinks.expand(*scores.shape[:-1], sinks.shape[-1])
            weights = function(torch.cat([scores, sinks], -1), axis)[..., :keys]
        if self.normaliser_factor != 1.0:
            weights = weights * self.normaliser_factor
        if self.empty_row == "nan":
            return weights
        empty = scores.isneginf().all(-1, keepdim=True)
        if self.sinks is not None or axis != AXES["keys"] or not bool(empty.any()):
            return weights
        return weights.masked_fill(empty, 0.0 if self.empty_row == "zero" else 1 / keys)

    def context(self, q: Query, k: Key, v: Value, dtype: torch.dtype | None = None) -> Context:
        """Return `weights @ v`, by blocks of queries, so that no queries×keys matrix is kept.

        Raises:
            ReplayError: as `weights`; or weights were dropped or changed before they met `v`.
        """
        self._require("context", frozenset())
        if self.dropout:
            raise ReplayError(
                "deriving the context from a recipe",
                f"weights were dropped with probability {self.dropout}, which ones is not kept",
                "ask the call for its context, or set dropout=0.0 for the one without",
            )
        changed = [kind for kind in self.after if kind not in _HARMLESS]
        if changed:
            raise _unreadable("context", f"what {', '.join(changed)} did to the weights")
        values = v.to(dtype or q.dtype)
        return torch.cat(
            [self.weigh(block, values) for block in self.weight_blocks(q, k, dtype)], dim=-2
        )

    def weight_blocks(
        self, q: Query, k: Key, dtype: torch.dtype | None = None
    ) -> Iterator[Weights]:
        """Yield the weights in blocks of queries, in order; at most 2²⁴ entries a block."""
        queries = q.shape[-2]
        a_row = max(1, q.shape[0] * q.shape[1] * k.shape[-2])
        step = max(1, _BLOCK_ELEMENTS // a_row) if self.normaliser_axis == "keys" else queries
        for start in range(0, max(queries, 1), max(step, 1)):
            yield self.weights(q, k, dtype, slice(start, min(start + step, queries)))

    def to_json(self) -> dict[str, Any]:
        """Return the fields; of bias and sinks whether there are any, of a scale tensor a list."""
        scale = self.scale
        return {
            "scale": scale.flatten().tolist() if isinstance(scale, Tensor) else scale,
            "mask": self.mask.to_json(),
            "bias": self.bias is not None,
            "softcap": self.softcap,
            "sinks": self.sinks is not None,
            "normaliser": self.normaliser,
            "normaliser_axis": self.normaliser_axis,
            "normaliser_factor": self.normaliser_factor,
            "dropout": self.dropout,
            "group": self.group,
            "expansion": self.expansion,
            "after": list(self.after),
            "unknown": list(self.unknown),
            "empty_row": self.empty_row,
        }

    def kv_head_of(self, heads: int, kv_heads: int) -> tuple[int, ...]:
        """Return for each query head the kv head that it met.

        Raises:
            ReplayError: the heads are no multiple of the kv heads, or how they met is not known.
        """
        if self.kv_map is not None and len(self.kv_map) == heads:
            return self.kv_map
        if kv_heads == heads:
            return tuple(range(heads))
        if heads % max(kv_heads, 1):
            raise ReplayError(
                "matching query heads with kv heads",
                f"{heads} heads and {kv_heads} kv heads",
                "give tensors whose heads are a multiple of the kv heads",
            )
        if self.expansion in {"index", "unknown"} and kv_heads > 1:
            raise _unreadable("scores", f"the expansion of kv heads ({self.expansion})")
        if self.expansion == "repeat":
            return tuple(head % kv_heads for head in range(heads))
        return tuple(head // (heads // kv_heads) for head in range(heads))

    def raw_scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Return q·k, each query head with its kv head; errors as `kv_head_of`."""
        return q @ self._expanded(k, q.shape[1]).mT

    def weigh(self, weights: Tensor, v: Tensor) -> Tensor:
        """Return `weights @ v`, each query head with its kv head; errors as `kv_head_of`."""
        return weights @ self._expanded(v, weights.shape[1])

    def _expanded(self, x: Tensor, heads: int) -> Tensor:
        """Give every query head its kv head: (batch, kv_heads, …) to (batch, heads, …)."""
        kv_heads = x.shape[1]
        met = self.kv_head_of(heads, kv_heads)
        if met == tuple(range(kv_heads)):
            return x
        return x[:, 0:1] if kv_heads == 1 else x[:, list(met)]

    def _require(self, what: str, not_needed: frozenset[str]) -> None:
        """Raise where a part is unknown that `what` needs."""
        missing = [part for part in self.unknown if part not in not_needed]
        if missing:
            raise _unreadable(what, ", ".join(missing))


def _bounds(rows: slice | None, queries: int) -> tuple[int, int]:
    if rows is None:
        return 0, queries
    start, stop, step = rows.indices(queries)
    if step != 1:
        raise ReplayError(
            "evaluating a recipe for some queries",
            f"a slice with step {step}",
            "give a slice with step 1, or index the result",
        )
    return start, max(start, stop)


def _unreadable(what: str, part: str) -> ReplayError:
    return ReplayError(
        f"deriving {what} from a recipe",
        f"{part} could not be read from the recorded operations",
        f"ask the call itself for its {what}: it replays the recorded operations",
    )
