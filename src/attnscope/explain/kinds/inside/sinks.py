"""Sinks: columns of the softmax that belong to no key, missing, of other logits, kept or extra."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from attnscope.axes import Scores, Sinks
from attnscope.calls.recipe import Recipe
from attnscope.explain.kinds.inside.course import Course, Weighing
from attnscope.explain.kinds.inside.evaluating import Edit, Inside
from attnscope.explain.kinds.inside.naming import numbers

__all__ = ["edits"]

_ZERO = 1e-6
"""A sink nearer to 0 is softmax-off-by-one, which is named as a normaliser."""


def edits(inside: Inside) -> Iterator[Edit]:
    """Iterate over other sinks, and what else becomes of the sink column."""
    if not inside.reaches("weights"):
        return
    own = inside.recipe.sinks
    tried: list[tuple[str, Sinks | None]] = []
    if own is not None:
        tried += [("no sinks", None), *_forms(inside, own.double())]
    if inside.hint is not None and inside.hint.sinks is not None:
        theirs = inside.hint.sinks.double()
        tried.append((f"sinks of {numbers(theirs)}", theirs))
    else:
        read = _read(inside)
        if read is not None and (own is not None or float(read.abs().max()) > _ZERO):
            tried.append((f"sinks of {numbers(read)}", read))
    had = "none" if own is None else f"sinks of {numbers(own)}"
    for how, sinks in tried:
        yield Edit("sinks", f"{how}, where the reference has {had}", _Sinks(sinks))
    if own is not None:
        yield from _columns(numbers(own))


class _Sinks:
    """Puts sinks into a course."""

    def __init__(self, sinks: Sinks | None) -> None:
        self._sinks = sinks

    def __call__(self, course: Course) -> Course:
        return replace(course, recipe=replace(course.recipe, sinks=self._sinks))


def _forms(inside: Inside, own: Tensor) -> Iterator[tuple[str, Sinks | None]]:
    yield f"sinks of the other sign, {numbers(-own)}", -own
    yield "sinks of 0 (softmax-off-by-one)", torch.zeros_like(own)
    scale = inside.recipe.scale
    if isinstance(scale, float):
        yield f"sinks times the scale, {numbers(own * scale)}", own * scale
    yield f"sinks taken as exp of a logit, {numbers(own.exp())}", own.exp()
    if bool((own > 0).all()):
        yield f"the logarithm of sinks, {numbers(own.log())}", own.log()
    heads = own.shape[1] if own.dim() == len("bhqs") else 1
    if heads < 2:
        return
    yield "sinks of the heads in reverse order", own.flip(1)
    for shift in (1, -1):
        yield f"sinks of the head {shift:+d}", own.roll(-shift, 1)
    yield "the sink of head 0 in all heads", own[:, :1]
    for width in range(2, heads):
        if heads % width == 0:
            order = torch.arange(heads).view(heads // width, width).mT.flatten().tolist()
            yield f"sinks of the heads in the order {tuple(order)}", own[:, order]


def _columns(said: str) -> Iterator[Edit]:
    """Iterate over what happens to the sink column itself."""

    def wrong_end(scores: Scores, recipe: Recipe) -> Tensor:
        weights = _with_column(scores, recipe)
        return weights[..., : scores.shape[-1]]

    def shared(scores: Scores, recipe: Recipe) -> Tensor:
        weights = _with_column(scores, recipe)
        count = weights.shape[-1] - scores.shape[-1]
        rest = weights[..., count:]
        return rest + weights[..., :count].sum(-1, keepdim=True) / scores.shape[-1]

    for step, how in (
        (wrong_end, "stands before the keys and the last key is dropped in its place"),
        (shared, "is kept, its weight spread over the keys"),
    ):
        text = f"the column of the sinks {said} {how}, where the reference drops it"
        yield Edit("sinks", text, Weighing(step))


def _with_column(scores: Scores, recipe: Recipe) -> Tensor:
    """Return the weights of sinks and keys, the sinks first."""
    assert recipe.sinks is not None  # noqa: S101  asked for where there are some
    sinks = recipe.sinks.to(scores)
    return torch.cat([sinks.expand(*scores.shape[:-1], sinks.shape[-1]), scores], -1).softmax(-1)


def _read(inside: Inside) -> Sinks | None:
    """Read one sink a head from what is missing in the rows.

    A sink of logit s leaves r = Z / (Z + exp(s)) of a row, Z = Σ exp(scores), and r is the ratio
    of the candidate's row to that of the recipe without sinks; so s = log Z + log(1/r - 1). It is
    read from the row that loses most, where rounding matters least.
    """
    recipe = inside.recipe
    plain = recipe.normaliser == "softmax" and recipe.normaliser_axis == "keys"
    if not plain or inside.scene.stage not in {"weights", "context"}:
        return None
    course = _Sinks(None)(inside.course)
    without, actual = inside.at(course), inside.scene.actual
    if without.shape != actual.shape:
        return None
    share = (without * actual).sum(-1) / without.square().sum(-1)
    levels = course.stage("scores").logsumexp(-1) + (1 / share - 1).log()
    known = levels.isfinite()
    if not bool(known.any(-1).any(0).all()):
        return None
    share = torch.where(known, share, 2.0).transpose(0, 1).flatten(1)  # (heads, batch · queries)
    levels = levels.transpose(0, 1).flatten(1)
    return levels.gather(-1, share.argmin(-1, keepdim=True)).reshape(1, -1, 1, 1)
