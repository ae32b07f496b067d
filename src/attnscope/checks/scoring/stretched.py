"""Maps that have the sizes of weights and are made of some: one for all heads, or sharpened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.checks.scoring.forms import Likeness
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["another_calls", "stretched"]

_CLOSE = 1e-3
"""Largest difference, relative, of two maps that are one but for a half type's rounding."""

_SEEN = 1e-9
"""Weight from which on a key is looked at."""


def stretched(given: Tensor, calls: Sequence[Call]) -> Likeness | None:
    """Return the call of which a map is one for all heads or samples, or softer or sharper."""
    for call in calls:
        right = _weights(call)
        if right is None or right.shape != given.shape:
            continue
        wide = given.detach().double()
        for what, made in (*_one_for_all(wide, right), *_tempered(wide, right)):
            if _gap(wide, made) <= _CLOSE < _gap(wide, right):
                return Likeness(call, what, "stretched", _gap(wide, right), _gap(wide, made))
    return None


def _weights(call: Call) -> Tensor | None:
    try:
        return call.weights().detach().double()
    except UNREADABLE:
        return None


def _one_for_all(given: Tensor, right: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Iterate over what may stand for all heads, or for all samples, of a map."""
    for axis, one in ((1, "head"), (0, "sample")):
        if right.shape[axis] < 2 or _gap(given, given.narrow(axis, 0, 1).expand_as(given)) > 0:
            continue
        mean = right.mean(axis, keepdim=True).expand_as(right)
        yield f"their mean over the {one}s, repeated for each {one},", mean
        for at in range(right.shape[axis]):
            single = right.narrow(axis, at, 1).expand_as(right)
            yield f"the weights of {one} {at}, repeated for each {one},", single


def _tempered(given: Tensor, right: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Iterate over the softmax of the same scores times another number, if it can be that."""
    seen = right > _SEEN
    if bool((given < 0).any()) or _gap(given.sum(-1), right.sum(-1)) > _CLOSE:
        return
    logs, own = (_centred(each, seen & (given > 0)) for each in (given, right))
    power = float((logs * own).sum() / own.square().sum().clamp_min(1e-12))
    if power > 0:
        made = (right.log() * power).softmax(-1)
        yield f"the softmax of {power:.3g} times the scores", made


def _centred(weights: Tensor, seen: Tensor) -> Tensor:
    """Return the logarithms of each row, less their mean over what is seen; 0 elsewhere."""
    logs = weights.clamp_min(1e-300).log().masked_fill(~seen, 0.0)
    mean = logs.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp_min(1)
    return (logs - mean).masked_fill(~seen, 0.0)


def another_calls(maps: Sequence[Tensor], calls: Sequence[Call]) -> tuple[int, Likeness] | None:
    """Return the first map of several that is the weights of another call than its own.

    There are as many maps as calls, each is the weights of one, and some call's are not among them.
    """
    known = [_weights(call) for call in calls]
    if len(maps) != len(calls) or len(maps) < 2 or any(each is None for each in known):
        return None
    weights = [each for each in known if each is not None]
    if len({each.shape for each in (*maps, *weights)}) > 1:
        return None
    gaps = torch.tensor([[_gap(a.detach().double(), b) for b in weights] for a in maps])
    same = gaps <= _CLOSE
    if not bool(same.any(1).all()) or bool(same.any(0).all()):
        return None
    at = int((~same.diagonal()).nonzero()[0])
    whose = calls[int(same[at].nonzero()[0])].index
    what = f"the weights of call {whose} in the place of those"
    return at, Likeness(calls[at], what, "other", float(gaps[at, at]), float(gaps[at].min()))


def _gap(a: Tensor, b: Tensor) -> float:
    """Return the largest difference, relative to the largest entry."""
    scale = float(b.abs().max()) if b.numel() else 1.0
    return float((a - b).abs().nan_to_num(float("inf")).max()) / max(scale, 1e-12)
