"""What of a call a tensor is: its weights, or what is often taken for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.checks.masking.biases import DEEP
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Kind", "Likeness", "likeness"]

Kind: TypeAlias = Literal["mean", "mixed", "dropped", "again", "stretched", "other"]
"""A mean over heads, which may be meant; heads laid out as samples; weights after dropout, which
are right in eval mode; weights computed once more without a part of the call; one map for all heads
or samples, or a softer or sharper one; all else.
"""

_CLOSE = 1e-3
"""Largest difference, relative, of two tensors that are one but for a half type's rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """What is often taken for weights, in words; entries: (batch, heads, queries, keys) or less."""

    what: str
    entries: Tensor
    kind: Kind = "other"


@dataclass(frozen=True, slots=True)
class Likeness:
    """What of a call a tensor is that is not its weights.

    error: largest difference from the weights; remains: from what it is said to be.
    """

    call: Call
    what: str
    kind: Kind
    error: float
    remains: float


def likeness(tensor: Tensor, calls: list[Call], *, named: bool, train: bool) -> Likeness | None:
    """Return the call, and what of it a tensor is, where it is not its weights."""
    given = tensor.detach().double()
    wrong: Likeness | None = None
    for call in calls:
        try:
            right = call.weights().detach().double()
            scores = call.scores().detach().double()
        except UNREADABLE:
            return None
        if any(_gap(given, laid) <= _CLOSE for laid in _layouts(right)):
            return None
        if _is_keys_first(given, right, call):
            return None
        if wrong is None:
            wrong = _form_of(given, call, right, scores)
    if wrong is not None and (wrong.kind != "dropped" or train):
        return wrong
    if named and calls and wrong is None and not _fits(given, calls):
        what = "no (queries, keys) matrix at all"
        return Likeness(calls[0], what, "other", float("inf"), float("inf"))
    return None


def _is_keys_first(given: Tensor, right: Tensor, call: Call) -> bool:
    """Return whether a tensor has keys before queries as the code around it has them."""
    try:
        spot = call.evidence.spot("weights")
        kept = spot.held.tensor.double() if spot is not None else None
    except UNREADABLE:
        return False
    return kept is not None and max(_gap(given, right.mT), _gap(given, kept)) <= _CLOSE


def _form_of(given: Tensor, call: Call, right: Tensor, scores: Tensor) -> Likeness | None:
    for form in _forms(call, right, scores):
        laid = [each for each in _layouts(form.entries) if each.shape == given.shape]
        if not laid:
            continue
        remains = min(_gap(given, each) for each in laid)
        error = min(_gap(given, each) for each in _as(right, given.shape))
        if remains <= _CLOSE < error:
            return Likeness(call, form.what, form.kind, error, remains)
    batch, heads, queries, keys = right.shape
    turned = right.reshape(heads, batch, queries, keys)
    if heads != batch and given.shape == turned.shape and _gap(given, turned) <= _CLOSE:
        error = _gap(given, right.transpose(0, 1))
        what = "the weights with heads and samples mixed up"
        return Likeness(call, what, "mixed", error, _gap(given, turned))
    return None


def _forms(call: Call, weights: Tensor, scores: Tensor) -> Iterator[_Form]:
    """Iterate over what is often taken for the weights of a call."""
    again = weights.softmax(-1)
    if call.heads > 1:
        yield _Form("their mean over the heads", weights.mean(1), "mean")
    yield _Form("the weights after a second softmax", again)
    yield _Form("the mean over the heads of a second softmax of the weights", again.mean(1))
    if call.queries == call.keys > 1:  # of other sizes, the shape says which axis is which
        yield _Form("the weights with queries and keys exchanged", weights.mT)
    if call.queries > 1:
        yield _Form("the scores' softmax over the queries", scores.softmax(2))
    yield _Form("the scores before the softmax", scores)
    yield _Form("the log-sum-exp of the scores", scores.logsumexp(-1))
    yield _Form("the logarithm of the weights", scores.log_softmax(-1))
    yield from _other_recipes(call)
    try:
        met = call.evidence.rerun("weights", call.q, call.k, call.v)
    except UNREADABLE:
        return
    yield _Form("the weights after dropout", met.double(), "dropped")


def _other_recipes(call: Call) -> Iterator[_Form]:
    """Iterate over weights as they would be without mask, bias or scale."""
    recipe = call.recipe
    if not isinstance(recipe.scale, int | float | Tensor) or recipe.normaliser != "softmax":
        return
    try:
        raw = recipe.raw_scores(call.q.detach().double(), call.k.detach().double())
    except UNREADABLE:
        return
    scaled = raw * recipe.scale
    yield _Form("the scores before scale and softmax", raw)
    yield _Form("weights of q·k without a scale", raw.softmax(-1))
    again = "weights computed again without the"
    masked, biased = recipe.mask.hides, recipe.bias is not None
    if masked or biased:
        parts = " and ".join(name for name, has in (("mask", masked), ("bias", biased)) if has)
        yield _Form(f"{again} {parts}", scaled.softmax(-1), "again")
        yield _Form("the scores before mask, bias and softmax", scaled)
    if masked and recipe.bias is not None:
        yield _Form(f"{again} mask", (scaled + recipe.bias).softmax(-1), "again")


def _layouts(form: Tensor) -> Iterator[Tensor]:
    """Iterate over the ways to lay out (batch, heads, queries, keys), or less."""
    yield form
    if form.dim() < 4:
        if form.dim() == 3 and form.shape[0] == 1:
            yield form[0]
        return
    yield form.transpose(0, 1)
    yield form.transpose(1, 2)
    if form.shape[2] != form.shape[3]:
        yield form.mT
    yield form.permute(0, 2, 3, 1)
    yield form.flatten(0, 1)
    if form.shape[1] == 1:
        yield form[:, 0]
        if form.shape[2] != form.shape[3]:
            yield form[:, 0].mT
    if form.shape[0] == 1:
        yield form[0]
    if 1 in form.shape:
        yield form.squeeze()


def _as(right: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    """Return the weights in every layout of a shape; in none: of no likeness."""
    laid = [each for each in _layouts(right) if each.shape == shape]
    return laid or [torch.full(shape, float("inf"), dtype=torch.float64)]


def _gap(a: Tensor, b: Tensor) -> float:
    """Return the largest difference, relative to the largest finite entry; inf: other shapes."""
    if a.shape != b.shape or not a.numel():
        return float("inf")
    a, b = _without_fills(a), _without_fills(b)
    hidden = a.isneginf() & b.isneginf()
    gap = (a - b).abs().masked_fill(hidden, 0.0)
    largest = b[b.isfinite()].abs()
    scale = float(largest.max()) if largest.numel() else 1.0
    return float(gap.nan_to_num(float("inf"), float("inf")).max()) / max(scale, 1e-12)


def _without_fills(tensor: Tensor) -> Tensor:
    return tensor.masked_fill(tensor <= DEEP, float("-inf"))


def _fits(given: Tensor, calls: list[Call]) -> bool:
    """Return whether a tensor has the queries and the keys of some call among its axes."""
    sizes = list(given.shape)
    return any(
        call.queries in sizes
        and call.keys in [s for at, s in enumerate(sizes) if at != sizes.index(call.queries)]
        for call in calls
    )
