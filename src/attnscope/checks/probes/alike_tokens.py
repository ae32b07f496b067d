"""All tokens of a sample are made alike: only positions can tell them apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.errors import AttnscopeError

__all__ = ["AlikeTokens", "alike_tokens"]

_SAME = 1e-5
"""Relative differences of values and weights of alike tokens that are rounding."""

_HIDDEN = 1e-9
"""A weight below that is a hidden key's."""


@dataclass(frozen=True, slots=True)
class AlikeTokens:
    """What tells alike tokens apart.

    by_values: tokens already differ where attention receives them; by_weights: weights of alike
    keys differ; by_mask: keys are hidden otherwise than by padding or a causal mask. calls:
    self-attentions that were looked at. spread: largest difference of two weights of a row.
    shifts: of calls that receive alike rows alone, how far q·k changes at most when both places
    move on by one, relative to the largest.
    """

    by_values: bool
    by_weights: bool
    by_mask: bool
    calls: int
    spread: float
    shifts: Mapping[int, float] = field(default_factory=dict)

    @property
    def blind(self) -> bool:
        """Whether nothing tells them apart."""
        return not (self.by_values or self.by_weights or self.by_mask) and self.calls > 0


@probe
def alike_tokens(subject: Subject) -> AlikeTokens:
    """Put the first token of each sample at all its places, in every sequence, and run it.

    Raises:
        Skipped: no input is a sequence, the model raises, or no self-attention was seen.
    """
    given = subject.given
    if not subject.roles.streams:
        raise Skipped("no input is a sequence: give inputs that are")
    for stream in subject.roles.streams:
        given = _alike(given, stream)
    side = subject.watched(given)
    if side.error is not None:
        raise Skipped("the model raises when all tokens are alike")
    by_values = by_weights = by_mask = False
    looked, spread = 0, 0.0
    shifts: dict[int, float] = {}
    for call in side.trace:
        if call.queries != call.keys or call.keys < 2 or call.recomputed:
            continue
        try:
            found = _read(call, _base_call(subject, call))
        except (AttnscopeError, RuntimeError):
            by_mask = True  # it can't be looked into, so that nothing can be said
            continue
        looked += 1
        if not found[0] and found[3]:
            shifts[call.index] = _shift(call)
        by_values |= found[0]
        by_mask |= found[1]
        by_weights |= found[2] > _SAME
        spread = max(spread, found[2])
    if not looked:
        raise Skipped("no self-attention with two tokens or more was seen")
    return AlikeTokens(by_values, by_weights, by_mask, looked, spread, shifts)


def _alike(given: Given, stream: Stream) -> Given:
    tokens = given.values[stream.name]
    axis = stream.sequence_axis
    if stream.kind == "heads":
        axis = tokens.dim() - 2
    if axis is not None and axis < tokens.dim():
        return given.replaced(stream.name, tokens.narrow(axis, 0, 1).expand_as(tokens).clone())
    flat = torch.linspace(0.5, 1.5, max(len(tokens), 1), dtype=torch.float64, device=tokens.device)
    shape = (-1, *[1] * (tokens.dim() - 1))
    return given.replaced(stream.name, flat.view(shape).to(tokens.dtype).expand_as(tokens).clone())


def _base_call(subject: Subject, call: Call) -> Call | None:
    """Return the call of the base run that a call is, where both have the same tokens."""
    base = subject.calls[call.index] if call.index < len(subject.calls) else None
    return base if base is not None and base.v.shape == call.v.shape else None


def _read(call: Call, base: Call | None) -> tuple[bool, bool, float, bool]:
    """Return whether values differ, keys are hidden, how weights differ, and if all are alike."""
    values, weights = call.v.detach().double(), call.weights().detach().double()
    size = max(float(values.abs().max()), 1e-12)
    asked = _of_tokens(values, base)
    groups = _largest_group(values, size, asked)
    if int(groups.sum()) < max(2, (int(asked.sum()) + 1) // 2):
        return True, False, 0.0, False
    inside = weights[..., groups, :][..., groups]
    shown = inside > _HIDDEN * inside.amax(-1, keepdim=True).clamp_min(1e-300)
    high = inside.masked_fill(~shown, -1.0).amax(-1)
    low = inside.masked_fill(~shown, 2.0).amin(-1)
    some = shown.any(-1)
    gap = ((high - low) / high.clamp_min(1e-12))[some]
    spread = float(gap.max()) if gap.numel() else 0.0
    return False, not _is_plain(shown), spread, bool(groups.all())


def _shift(call: Call) -> float:
    """Return how far q·k of (i + 1, j + 1) is from that of (i, j), relative to the largest."""
    q, k = call.q.detach().double(), call.k.detach().double()
    if q.shape[1] % k.shape[1]:
        return 0.0
    scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT
    gap = (scores[..., 1:, 1:] - scores[..., :-1, :-1]).abs()
    return float(gap.max()) / max(float(scores.abs().max()), 1e-12)


def _of_tokens(values: Tensor, base: Call | None) -> Tensor:
    """Return which keys are made of the tokens: what fills up a block is the same in any run."""
    if base is None:
        return torch.ones(values.shape[2], dtype=torch.bool, device=values.device)
    moved = (values != base.v.detach().double()).any(-1).any(1).any(0)
    return moved if int(moved.sum()) > 1 else torch.ones_like(moved)


def _largest_group(values: Tensor, size: float, asked: Tensor) -> Tensor:
    """Return which keys hold the value that most of some keys hold, in every sample."""
    rows = values.transpose(1, 2).flatten(2)  # (batch, keys, heads * value_dim)
    alike = ((rows[:, :, None] - rows[:, None]).abs().amax(-1) <= 1e2 * _SAME * size).all(0)
    return alike[int((alike.sum(-1) * asked).argmax())]


def _is_plain(shown: Tensor) -> bool:
    """Return whether what is visible is all, up to oneself, or the same for every query."""
    length = shown.shape[-1]
    every = shown.flatten(0, -3)
    lower = torch.ones(length, length, dtype=torch.bool, device=shown.device).tril()
    for allowed in (torch.ones_like(lower), lower):
        keys = (every | ~allowed).all(-2, keepdim=True)  # keys that nobody is kept from
        if bool((every == (allowed & keys)).all()):
            return True
    itself = torch.eye(length, dtype=torch.bool, device=shown.device)
    for allowed in (torch.ones_like(lower), lower):
        keys = (every | ~allowed | itself).all(-2, keepdim=True)
        if bool(((every | itself) == ((allowed & keys) | itself)).all()):
            return True
    return False
