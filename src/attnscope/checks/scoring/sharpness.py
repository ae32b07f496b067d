"""How sharp the softmax of each call is, and whether scores grow from call to call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.checks.scoring.reading import recorded_weights
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["AtUnit", "Growth", "Sharpness", "at_unit", "growing", "sharpness_of"]

_ONE_KEY = 0.8
"""Share of a head's rows with the same largest key from which it rests on that key."""

_FEWEST_ROWS = 8
"""Rows with a choice of keys that are needed to say anything."""

_MOST_SAMPLES = 2
_FEWEST_CALLS = 4


@dataclass(frozen=True, slots=True)
class Sharpness:
    """How sharp the rows of one call are that see several keys.

    sensitivity: mean of 1 - Σw², the trace of the softmax's derivative: what q and k get of the
    gradient; 0 where one key has it all. one_hot: share of rows below 0.05. entropy: mean entropy
    over the logarithm of the visible keys. resting: share of rows in heads that rest on one key,
    or on their own position. reach: |scale|·|q|·|k| of the longest q and k, that no score passes;
    None: the scale is not known.
    """

    sensitivity: float
    one_hot: float
    entropy: float
    resting: float
    rows: int
    reach: float | None


_ALMOST = 0.05


def sharpness_of(subject: Subject, call: Call) -> Sharpness | None:
    """Return how sharp a call is; None: not known, or too few rows have a choice."""
    return subject.once(("sharpness", call.index), lambda: _measure(subject, call))


def _measure(subject: Subject, call: Call) -> Sharpness | None:
    weights = recorded_weights(subject, call)
    if weights is None or not bool(weights.isfinite().any()) or call.keys < 2:
        return None
    weights = weights.nan_to_num(0.0, 0.0, 0.0)
    visible = _visible(call, weights)
    chosen = visible > 1
    rows = int(chosen.sum())
    sums = weights.sum(-1)
    if rows < _FEWEST_ROWS or float((sums[chosen] - 1).abs().max()) > _ALMOST:
        return None
    sensitivity = (1 - weights.square().sum(-1))[chosen]
    logs = weights * weights.clamp_min(1e-30).log()
    entropy = (-logs.sum(-1) / visible.clamp_min(2).double().log())[chosen]
    return Sharpness(
        float(sensitivity.mean()),
        float((sensitivity < _ALMOST).float().mean()),
        float(entropy.mean()),
        _resting(weights, chosen),
        rows,
        _reach(call),
    )


@dataclass(frozen=True, slots=True)
class AtUnit:
    """What a call would be if what its projections receive had entries of a mean square of 1.

    size: the root mean square that it has, of q's and k's in the geometric mean; sensitivity: as of
    `Sharpness`.
    """

    size: float
    sensitivity: float


def at_unit(subject: Subject, call: Call) -> AtUnit | None:
    """Return how sharp a call would be with inputs of unit size; None: it can't be told."""
    located, scale = subject.located(call), call.recipe.scale
    received = located.received if located is not None else {}
    if scale is None or not {"q", "k"} <= received.keys():
        return None
    tensors = (subject.base.tape.tensors[received[name]].detach().double() for name in ("q", "k"))
    product = math.prod(float(each.square().mean().sqrt()) for each in tensors)
    try:
        q, k = (each.detach().double() for each in (call.q, call.k))
        factor = scale.detach() if isinstance(scale, Tensor) else scale
        scores = call.recipe.raw_scores(q, k) * factor / product
        seen = call.recipe.mask.dense(call.queries, call.keys, scores.device).expand(scores.shape)
    except (*UNREADABLE, ZeroDivisionError):
        return None
    weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
    sensitivity = (1 - weights.square().sum(-1))[seen.sum(-1) > 1]
    return AtUnit(product**0.5, float(sensitivity.mean())) if sensitivity.numel() else None


def _reach(call: Call) -> float | None:
    scale = call.recipe.scale
    if scale is None:
        return None
    try:
        lengths = [float(each.detach().double().norm(dim=-1).max()) for each in (call.q, call.k)]
    except UNREADABLE:
        return None
    largest = float(scale.detach().abs().max()) if isinstance(scale, Tensor) else abs(scale)
    return largest * lengths[0] * lengths[1]


def _visible(call: Call, weights: Tensor) -> Tensor:
    """Return how many keys each row may see, as the mask says; all where it can't be read."""
    try:
        seen = call.recipe.mask.dense(call.queries, call.keys, weights.device)
        counts = seen.expand(weights.shape).sum(-1)
    except UNREADABLE:
        return torch.full(weights.shape[:-1], weights.shape[-1], device=weights.device)
    return counts


def _resting(weights: Tensor, chosen: Tensor) -> float:
    """Return the share of rows in heads whose largest weight is at one key, or at their own."""
    best = weights.argmax(-1)
    own = best == torch.arange(weights.shape[-2], device=weights.device)
    rows = 0
    for head in range(weights.shape[1]):
        at = chosen[:, head]
        if not bool(at.any()):
            continue
        keys = best[:, head][at]
        most = float((keys == keys.mode().values).float().mean())
        if max(most, float(own[:, head][at].float().mean())) >= _ONE_KEY:
            rows += int(at.sum())
    return rows / max(int(chosen.sum()), 1)


@dataclass(frozen=True, slots=True)
class Growth:
    """Standard deviations of the scores of the calls in a row, that grow.

    call: the first that passed `steep`.
    """

    call: Call
    spreads: tuple[float, ...]


def growing(subject: Subject, *, times: float, steep: float) -> Iterator[Growth]:
    """Iterate over rows of calls of one shape whose scores grow by `times` and past `steep`."""
    for _, group in groupby(subject.calls, key=lambda c: (c.heads, c.head_dim, c.queries, c.keys)):
        calls = list(group)
        if len(calls) < _FEWEST_CALLS:
            continue
        spreads = [_spread(call) for call in calls]
        known = [each for each in spreads if each is not None]
        if len(known) < len(spreads) or known[-1] < steep or known[-1] < times * known[0]:
            continue
        rising = sum(b > a for a, b in pairwise(known))
        if rising >= len(known) - 2:
            at = next(n for n, each in enumerate(known) if each >= steep)
            yield Growth(calls[at], tuple(known))


def _spread(call: Call) -> float | None:
    """Return the standard deviation of scale times q·k."""
    scale = call.recipe.scale
    if scale is None:
        return None
    try:
        q, k = (each.detach().double()[:_MOST_SAMPLES] for each in (call.q, call.k))
        raw = call.recipe.raw_scores(q, k)
        spread = float((raw * (scale.detach() if isinstance(scale, Tensor) else scale)).std())
    except UNREADABLE:
        return None
    return spread if math.isfinite(spread) and spread > 0 else None
