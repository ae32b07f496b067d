"""Names what a boolean mask is: causal, padding, window, documents, prefix, or several of them.

Each explanation is built as a hypothesis and compared with the mask entry by entry; the simplest
one that is equal wins, and where none is, the mask is "custom". Rows that see nothing (the first
rows of a left-padded sequence under a causal mask) are part of the comparison, not an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from attnscope.calls.broadcasting import collapse

__all__ = ["Alignment", "Explanation", "explain"]

Alignment: TypeAlias = Literal["top-left", "bottom-right"]

_SAMPLE = 32
_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a mask is, and the few numbers that build it again.

    kinds: subset of none, causal, causal-bottom-right, prefix, window, documents, padding, custom.
    causal, window: as in `Mask`. remainder: what has to be combined with them, True = may attend,
    broadcastable to (batch, heads, queries, keys): the visible keys of padding, or the whole mask.
    """

    kinds: frozenset[str]
    causal: Alignment | None = None
    window: int | None = None
    remainder: Tensor | None = None


def explain(visible: Tensor) -> Explanation:
    """Explain a boolean mask (batch, heads, queries, keys), True = may attend.

    Axes of size 1 stand for any size, except that of the queries: expand it before, since one
    query against a cache is something else than the same row for all queries.
    """
    visible = collapse(visible, axes=(1, 0))
    if bool(visible.all()):
        return Explanation(frozenset({"none"}))
    for hypothesis in _hypotheses(visible):
        kinds = hypothesis.kinds()
        if kinds and hypothesis.equals(visible):
            return _explanation(hypothesis, kinds, visible)
    return Explanation(frozenset({"custom"}), remainder=collapse(visible))


@dataclass(frozen=True, slots=True)
class _Hypothesis:
    """`low <= key - query <= high`, or key < prefix; same document; key and row not padding."""

    queries: int
    keys: int
    low: int | None = None
    high: int | None = None
    prefix: Tensor | None = None  # (batch, heads, 1, 1)
    documents: Tensor | None = None  # (batch, heads, queries)
    seen_keys: Tensor | None = None  # (batch, heads, 1, keys)
    seen_rows: Tensor | None = None  # (batch, heads, queries, 1)

    def rows(self, index: Tensor) -> Tensor:
        """Build the rows `index` of the mask: (batch or 1, heads or 1, len(index), keys)."""
        key = torch.arange(self.keys, device=index.device)
        offset = key - index[:, None]
        seen = torch.ones_like(offset, dtype=torch.bool)[None, None]
        if self.high is not None:
            seen = seen & (offset <= self.high)
        if self.prefix is not None:
            seen = seen | (key < self.prefix)
        if self.low is not None:
            seen = seen & (offset >= self.low)
        if self.documents is not None:
            seen = seen & (self.documents[..., index, None] == self.documents[..., None, :])
        if self.seen_keys is not None:
            seen = seen & self.seen_keys
        if self.seen_rows is not None:
            seen = seen & self.seen_rows[..., index, :]
        return seen

    def equals(self, visible: Tensor) -> bool:
        """Compare with the mask: first a few rows, then all, in blocks."""
        every = torch.arange(self.queries, device=visible.device)
        sample = every[:: max(1, self.queries // _SAMPLE)]
        return all(
            bool((self.rows(index) == visible[..., index, :]).all())
            for index in (sample, *every.split(_BLOCK))
        )

    def alignment(self) -> Alignment | None:
        """Return at which corner the causal edge starts, or None where it starts at neither."""
        if self.high == 0:
            return "top-left"
        return "bottom-right" if self.high == self.keys - self.queries else None

    def kinds(self) -> frozenset[str]:
        """Return the names of its parts; empty where the band is none that has a name."""
        found = self._band_kinds()
        if found is None:
            return frozenset()
        if self.prefix is not None:
            found = found - {"causal", "causal-bottom-right"} | {"prefix"}
        if self.documents is not None:
            found = found | {"documents"}
        if self.seen_keys is not None or self.seen_rows is not None:
            found = found | {"padding"}
        return found or frozenset({"none"})

    def _band_kinds(self) -> frozenset[str] | None:
        window = frozenset({"window"} if self.low is not None else ())
        if self.high is None:
            upside_down = self.low == 0 and self.queries == self.keys > 1
            return None if upside_down else window
        if self.queries == 1:
            return frozenset({"causal"}) if self.high == 0 and self.low is None else None
        corner = self.alignment()
        if corner == "bottom-right":
            return window | {"causal-bottom-right"}
        if corner == "top-left" or 0 < self.high < self.keys - self.queries:
            return window | {"causal"}  # the latter: a cache with free places at its end
        if self.low is not None and self.low < 0 < self.high:
            return window
        return None


def _hypotheses(visible: Tensor) -> Iterator[_Hypothesis]:
    """Yield explanations from the simplest on: bands, then with padding, prefix, documents."""
    queries, keys = visible.shape[-2:]
    seen_keys = visible.any(-2, keepdim=True)
    seen_rows = visible.any(-1, keepdim=True)
    bands = _bands(visible)
    padded = (None, None), (seen_keys, None), (seen_keys, seen_rows)
    for key_part, row_part in padded:
        for band in bands:
            yield replace(band, seen_keys=key_part, seen_rows=row_part)
    if keys >= queries > 1:
        prefix = _prefix(visible, seen_rows)
        base = _Hypothesis(queries, keys, high=keys - queries, prefix=prefix)
        for key_part, row_part in padded:
            yield replace(base, seen_keys=key_part, seen_rows=row_part)
    if queries == keys:
        documents = _documents(visible, seen_keys)
        for key_part, row_part in padded:
            for band in bands:
                yield replace(band, documents=documents, seen_keys=key_part, seen_rows=row_part)


def _bands(visible: Tensor) -> list[_Hypothesis]:
    """Return the bands of `key - query` that contain all visible entries, the widest first."""
    queries, keys = visible.shape[-2:]
    union = visible.flatten(0, 1).any(0)
    place = torch.arange(keys, device=visible.device)
    first = torch.where(union, place, keys).amin(-1)
    last = torch.where(union, place, -1).amax(-1)
    row = torch.arange(queries, device=visible.device)
    some = union.any(-1)
    bands = [_Hypothesis(queries, keys)]
    if not bool(some.any()):
        return bands
    low, high = int((first - row)[some].min()), int((last - row)[some].max())
    lows = [low] if low > 1 - queries else []
    highs = [high] if high < keys - 1 else []
    bands += [_Hypothesis(queries, keys, high=h) for h in highs]
    bands += [_Hypothesis(queries, keys, low=w) for w in lows]
    bands += [_Hypothesis(queries, keys, low=w, high=h) for w in lows for h in highs]
    return bands


def _prefix(visible: Tensor, seen_rows: Tensor) -> Tensor:
    """Return how many keys the first row that sees any sees: (batch, heads, 1, 1)."""
    keys = visible.shape[-1]
    first = seen_rows.to(torch.uint8).argmax(-2, keepdim=True)
    row = visible.gather(-2, first.expand(*first.shape[:-1], keys))
    place = torch.arange(1, keys + 1, device=visible.device)
    return (row * place).amax(-1, keepdim=True)


def _documents(visible: Tensor, seen_keys: Tensor) -> Tensor:
    """Number the documents: a new one starts where a row does not see the key before it.

    "The key before" is the last one that any query sees, so that padding starts no document.
    """
    keys = visible.shape[-1]
    place = torch.arange(keys, device=visible.device)
    last_seen = torch.where(seen_keys[..., 0, :], place, -1).cummax(-1).values
    before = last_seen.roll(1, -1)
    before[..., 0] = -1
    sees = visible.gather(-1, before.clamp_min(0)[..., None])[..., 0]
    return ((before >= 0) & ~sees).cumsum(-1)


def _explanation(found: _Hypothesis, kinds: frozenset[str], visible: Tensor) -> Explanation:
    """Keep the numbers where they say all, the visible keys or the mask itself where not."""
    banded = found.low is not None or found.high is not None
    causal, window = found.alignment() if found.high is not None else None, None
    if found.low is not None and found.high is not None:
        if causal is not None:
            window = found.high - found.low + 1
        elif found.low == -found.high:
            window = found.high + 1
    whole = (
        found.prefix is not None
        or found.documents is not None
        or found.seen_rows is not None
        or (banded and causal is None and window is None)
    )
    if whole:
        return Explanation(kinds, remainder=collapse(visible))
    remainder = None if found.seen_keys is None else collapse(found.seen_keys)
    return Explanation(kinds, causal, window, remainder)
