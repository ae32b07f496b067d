"""Rows that carry no meaning: padding that nobody attends to, and that itself sees nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["Relevance"]

_KEEP_NAMES = ("attention_mask", "decoder_attention_mask", "padding_mask", "keep_mask")
_DROP_NAMES = ("key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask")
_BY_HEAD = frozenset("q k v raw_scores scores weights context".split())
_HIDDEN = -1e4  # scores below this are fills


class Relevance:
    """Which rows of a stage count, by the padding masks among the inputs.

    Keys and values of padding are read by nobody who masks it, so they count for nothing. A query
    that is padding counts unless it sees no key, as under left padding with a causal mask: what an
    implementation makes of such a row (NaN, zeros, a mean, all keys) is its own affair.

    A mask is a (batch, length) table of 0 and 1 that keeps something in every sample.
    """

    def __init__(self, inputs: Mapping[Any, Any], padding: str | None = None) -> None:
        """Read the masks of the inputs; padding: as `expect` declares it ("NAME keep" …)."""
        self._tables = [table for table in _tables(inputs, padding) if bool(table.any(-1).all())]
        self._blind: list[Tensor] = []

    def see(self, scores: Iterable[Tensor]) -> None:
        """Learn from the reference's scores which padded queries see no key.

        In a causal model they may also be opened, so that they see later keys: that is one of the
        ways of keeping NaN away.
        """
        for each in scores:
            visible = ~(each.isnan() | (each < _HIDDEN)).all(1)  # batch queries keys
            for table in self._tables:
                if tuple(table.shape) == tuple(visible.shape[:2]):
                    real = table.to(visible.device)
                    blind = ~visible.any(-1) | _opened(visible, real)
                    self._blind.append(blind & ~real)

    def rows(self, stage: str, shape: tuple[int, ...]) -> Tensor | None:
        """Return which rows of a stage count, (…, 1); None: all of them.

        Stages inside an attention are (batch, heads, length, …), others (batch, length, …).
        """
        at = 2 if stage in _BY_HEAD else 1
        if len(shape) <= at:
            return None
        keep = [~blind for blind in self._blind]
        if stage in {"k", "v"}:
            keep = self._tables
        for table in keep:
            if tuple(table.shape) == (shape[0], shape[at]) and not bool(table.all()):
                view = [1] * len(shape)
                view[0], view[at] = table.shape
                return table.view(view)
        return None

    def widen(self, stage: str, limit: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return the limit with infinity in rows that don't count."""
        rows = self.rows(stage, shape)
        if rows is None:
            return limit
        return torch.where(rows.to(limit.device), limit, float("inf"))

    def cotangent(self, tensor: Tensor) -> Tensor:
        """Return 1 for entries of an output that count, and 0 for others."""
        rows = self.rows("model", tuple(tensor.shape))
        return (
            torch.ones_like(tensor) if rows is None else rows.to(tensor).expand_as(tensor).clone()
        )


def _opened(visible: Tensor, real: Tensor) -> Tensor:
    """Return the queries that see later keys although no real one does (batch, queries)."""
    queries, keys = visible.shape[1:]
    if queries != keys:
        return torch.zeros_like(real)
    later = visible & torch.ones_like(visible).triu(1)
    causal = not bool((later & real[:, :, None] & real[:, None, :]).any())
    return later.any(-1) if causal else torch.zeros_like(real)


def _tables(inputs: Mapping[Any, Any], padding: str | None) -> list[Tensor]:
    found: list[Tensor] = []
    declared, _, meaning = (padding or "").partition(" ")
    for name, value in inputs.items():
        if not isinstance(value, Tensor):
            continue
        named = name == declared
        if named and meaning == "lengths":
            found.append(_of_lengths(value))
        elif value.dim() == 2 and named and meaning.startswith("pad="):
            found.append(value != int(meaning.removeprefix("pad=")))
        elif value.dim() == 2 and not value.is_floating_point():
            if name in _KEEP_NAMES or (named and meaning == "keep"):
                found.append(value.bool())
            elif name in _DROP_NAMES or (named and meaning == "drop"):
                found.append(~value.bool())
    return found


def _of_lengths(lengths: Tensor) -> Tensor:
    flat = lengths.flatten()
    return torch.arange(int(flat.max()), device=flat.device)[None] < flat[:, None]
