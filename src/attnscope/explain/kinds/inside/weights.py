"""What happens to the weights before they meet v: a factor, a transpose, dropout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import isclose, sqrt

import torch
from torch import Tensor

from attnscope.errors import AttnscopeError
from attnscope.explain.kinds.inside.course import Course
from attnscope.explain.kinds.inside.evaluating import Edit, Inside
from attnscope.explain.kinds.inside.naming import number, numbers
from attnscope.explain.kinds.inside.scale import names_of

__all__ = ["dropped", "factor", "transposed"]

_SAME = 1e-6
"""Share up to which factors that went through float32 are the same."""

_KEEPS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Dropout probabilities whose 1 / (1 - p) is a factor that is left behind."""

_DEVIATIONS = 5.0
"""Standard deviations of a share of dropped weights that chance explains."""


def factor(inside: Inside) -> Iterator[Edit]:
    """Find a number, or one a head, that the candidate's weights are multiplied with.

    Every stage from the weights on is a·c + b in a factor c of the weights, so that two
    evaluations give c, by least squares.
    """
    if not inside.reaches("weights"):
        return
    try:
        once = inside.at(_After(_times(1.0))(inside.course))
        linear = inside.scene.stage in {"weights", "context"}
        none = torch.zeros_like(once) if linear else inside.at(_After(_times(0.0))(inside.course))
    except AttnscopeError:
        return
    actual = inside.scene.actual
    if once.shape != actual.shape:
        return
    known = none.isfinite() & once.isfinite() & actual.isfinite()
    unit = torch.where(known, once - none, 0.0)
    left = torch.where(known, actual - none, 0.0)
    one = float((unit * left).sum() / unit.square().sum().clamp_min(1e-300))
    theirs = "where the reference leaves them as they are"
    text = f"the weights are multiplied by {_said(inside, one)} before they meet v, {theirs}"
    yield Edit("weights-factor", text, _After(_times(one)))
    heads = inside.sizes.heads
    if actual.dim() == len("bhqk") and actual.shape[1] == heads > 1:
        square = unit.square().sum((0, 2, 3), keepdim=True).clamp_min(1e-300)
        each = (unit * left).sum((0, 2, 3), keepdim=True) / square
        if not torch.allclose(each, each.mean(), rtol=_SAME):
            text = f"the weights of the heads are multiplied by {numbers(each)}, {theirs}"
            yield Edit("weights-factor", text, _After(_times(each)))


def transposed(inside: Inside) -> Iterator[Edit]:
    """Iterate over weights or values with their axes exchanged, where the sizes allow it."""
    sizes = inside.sizes
    if not inside.reaches("weights"):
        return
    if sizes.queries == sizes.keys:
        text = (
            "the weights are transposed before they meet v: key j gathers what queries gave it, "
            "where in the reference query i gathers from the keys"
        )
        yield Edit("weights-transposed", text, _After(lambda weights: weights.mT))
    if sizes.value_dim == sizes.keys:
        text = (
            f"v is transposed: its {sizes.keys} keys and {sizes.value_dim} features are exchanged"
        )
        yield Edit("values-transposed", text, _turned)


def dropped(inside: Inside) -> Iterator[Edit]:
    """Read dropout from weights that are 0, or all else times 1 / (1 - p)."""
    if inside.scene.stage != "weights" or not inside.reaches("weights"):
        return
    actual, expected = inside.scene.actual, inside.scene.expected
    if actual.shape != expected.shape:
        return
    counted = (expected > 0) & actual.isfinite()
    gone = counted & (actual == 0)
    kept = counted & ~gone
    total = int(counted.count_nonzero())
    if not bool(gone.any()) or not bool(kept.any()):
        return
    ratio = float((actual[kept] * expected[kept]).sum() / expected[kept].square().sum())
    share = int(gone.count_nonzero()) / total
    p = 1 - 1 / ratio if ratio > 0 else 0.0
    if p <= 0 or abs(share - p) > _DEVIATIONS * sqrt(p * (1 - p) / total):
        return
    text = (
        f"dropout is active: {share:.1%} of the weights are 0 and the others multiplied by "
        f"{number(ratio)} = 1/(1 - {number(p)}), where the reference drops none"
    )
    yield Edit("dropout", text, _After(lambda weights: weights.masked_fill(gone, 0.0) * ratio))


class _After:
    """Changes the weights behind all that is done to them already."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        self._change = change

    def __call__(self, course: Course) -> Course:
        before, change = course.after, self._change

        def after(weights: Tensor) -> Tensor:
            return change(weights if before is None else before(weights))

        return replace(course, after=after)


def _times(value: float | Tensor) -> Callable[[Tensor], Tensor]:
    return lambda weights: weights * value


def _turned(course: Course) -> Course:
    return replace(course, v=course.v.mT)


def _said(inside: Inside, value: float) -> str:
    """Return the factor with what it may come from."""
    for p in _KEEPS:
        if isclose(value, 1 / (1 - p), rel_tol=_SAME):
            return f"{number(value)} = 1/(1 - {p}): rescaled as for dropout {p}, nothing dropped"
        if isclose(value, 1 - p, rel_tol=_SAME):
            return f"{number(value)} = 1 - {p}: the share that dropout {p} keeps"
    names = names_of(inside)
    said = names.of(value)
    return said + names.legend(said)
