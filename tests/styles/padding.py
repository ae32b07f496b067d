"""Masks that depend on the data: padding, documents, prefixes, windows, and their products."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .projections import Core, lower, noise, seeded, usual
from .truth import Style

PADDING = frozenset({"padding"})
KEEP = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
DOCUMENTS = torch.tensor([[0, 0, 1, 1, 1], [0, 0, 0, 0, 2]])


def additive_keep(q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor) -> Tensor:
    """A keep mask made additive with the lowest finite number."""
    extended = attention_mask[:, None, None, :].to(q.dtype)
    extended = (1.0 - extended) * torch.finfo(q.dtype).min
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(8)
    return torch.matmul(F.softmax(scores + extended, dim=-1), v)


def additive_ten_thousand(q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor) -> Tensor:
    """The same with the old -10000."""
    bias = (1.0 - attention_mask[:, None, None, :].float()) * -10000.0
    scores = torch.matmul(q, k.transpose(-1, -2))
    scores = scores / math.sqrt(8)
    scores += bias
    return scores.softmax(-1) @ v


def drop_folded(q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor) -> Tensor:
    """True means drop; folded scores unfolded just for the mask."""
    bsz, heads, length, _ = q.shape
    q, k, v = (t.reshape(bsz * heads, length, 8) for t in (q, k, v))
    w = torch.bmm(q, k.transpose(1, 2)) * 8**-0.5
    w = w.view(bsz, heads, length, length)
    w = w.masked_fill(key_padding_mask.unsqueeze(1).unsqueeze(2).to(torch.bool), float("-inf"))
    w = w.view(bsz * heads, length, length)
    return torch.bmm(F.softmax(w, -1), v).view(bsz, heads, length, 8)


def lengths(q: Tensor, k: Tensor, v: Tensor, valid_lens: Tensor) -> Tensor:
    """Lengths per sample, repeated per head and query, overwritten in place."""
    scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(8)
    shape = scores.shape
    flat = scores.reshape(-1, shape[-1])
    valid = torch.repeat_interleave(valid_lens, flat.shape[0] // valid_lens.shape[0])
    flat[~(torch.arange(shape[-1])[None, :] < valid[:, None])] = -1e6
    return F.softmax(flat.reshape(shape), dim=-1) @ v


def causal_and_padding(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    """One boolean mask from two."""
    mask = keep[:, None, None, :].bool() & torch.tril(torch.ones(5, 5)).bool()
    scores = (q @ k.mT / 8**0.5).masked_fill(~mask, torch.finfo(q.dtype).min)
    return scores.softmax(-1) @ v


def causal_then_padding(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    """Two masks, one after the other, each by other means."""
    dots = torch.einsum("bhid,bhjd->bhij", q, k) * 8**-0.5
    dots.masked_fill_(~keep[:, None, None, :].bool(), -torch.finfo(dots.dtype).max)
    dots = dots + torch.full((5, 5), -math.inf).triu(1)
    return torch.einsum("bhij,bhjd->bhid", dots.softmax(-1), v)


def band(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Sliding causal window of three: two triangles."""
    mask = torch.ones(5, 5, dtype=torch.bool).tril() & ~torch.ones(5, 5).tril(-3).bool()
    scores = torch.where(mask, q @ k.mT / 8**0.5, -torch.inf)
    return scores.softmax(-1) @ v


def both_sides(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Window to both sides by distance."""
    position = torch.arange(q.shape[-2])
    far = (position[:, None] - position[None, :]).abs() > 1
    return (q @ k.mT / 8**0.5).masked_fill(far, -1e9).softmax(-1) @ v


def documents(q: Tensor, k: Tensor, v: Tensor, segment_ids: Tensor) -> Tensor:
    """Packed documents, causal within each."""
    same = segment_ids[:, None, :, None] == segment_ids[:, None, None, :]
    allowed = same & lower(q.shape[2])
    logits = torch.einsum("bhqd,bhkd->bhqk", q * 8**-0.5, k)
    return torch.einsum("bhqk,bhkd->bhqd", logits.where(allowed, -1e30).softmax(-1), v)


def prefix(q: Tensor, k: Tensor, v: Tensor, prefix_len: int) -> Tensor:
    """Causal, except that the prefix sees itself both ways."""
    mask = torch.tril(torch.ones(5, 5))
    mask[:, :prefix_len] = 1
    scores = q @ k.mT * 8**-0.5 - 1e10 * (1 - mask)
    return torch.softmax(scores, dim=-1) @ v


def with_mask(mask: Tensor | int) -> Any:
    """Inputs: tokens and a mask."""
    return lambda: (noise(2, 5, 20), mask)


DISTANCE = torch.arange(5)[:, None] - torch.arange(5)[None, :]
BAND = (DISTANCE >= 0) & (DISTANCE < 3)
SAME = (DOCUMENTS[:, None, :, None] == DOCUMENTS[:, None, None, :]) & lower()
PREFIX = lower() | (torch.arange(5) < 2)
KEPT = KEEP.bool()[:, None, None, :]
BOTH = lower() & KEPT

STYLES: tuple[Style, ...] = (
    Style(
        name="padding-additive-lowest", build=seeded(Core, additive_keep),
        inputs=with_mask(KEEP), mask=PADDING, visible=0.8, truth=usual(visible=KEPT),
    ),
    Style(
        name="padding-additive-ten-thousand", build=seeded(Core, additive_ten_thousand),
        inputs=with_mask(KEEP), mask=PADDING, visible=0.8, truth=usual(visible=KEPT),
    ),
    Style(
        name="padding-drop-folded", build=seeded(Core, drop_folded),
        inputs=with_mask(KEEP == 0), mask=PADDING, visible=0.8, truth=usual(visible=KEPT),
    ),
    Style(
        name="padding-lengths", build=seeded(Core, lengths),
        inputs=with_mask(KEEP.sum(1)), mask=PADDING, visible=0.8,
        truth=usual(visible=KEPT),
    ),
    Style(
        name="padding-and-causal", build=seeded(Core, causal_and_padding),
        inputs=with_mask(KEEP), mask=frozenset({"causal", "padding"}), visible=27 / 50,
        truth=usual(visible=BOTH),
    ),
    Style(
        name="padding-then-causal", build=seeded(Core, causal_then_padding),
        inputs=with_mask(KEEP), mask=frozenset({"causal", "padding"}), visible=27 / 50,
        truth=usual(visible=BOTH),
    ),
    Style(
        name="window-causal-band", build=seeded(Core, band),
        mask=frozenset({"causal", "window"}), visible=12 / 25, truth=usual(visible=BAND),
    ),
    Style(
        name="window-both-sides", build=seeded(Core, both_sides),
        mask=frozenset({"window"}), visible=13 / 25,
        truth=usual(visible=DISTANCE.abs() <= 1),
    ),
    Style(
        name="documents-causal", build=seeded(Core, documents),
        inputs=with_mask(DOCUMENTS), mask=frozenset({"causal", "documents"}),
        visible=20 / 50, truth=usual(visible=SAME),
    ),
    Style(
        name="prefix-visible-both-ways", build=seeded(Core, prefix),
        inputs=with_mask(2), mask=frozenset({"prefix"}), visible=16 / 25,
        truth=usual(visible=PREFIX),
    ),
)  # fmt: skip
