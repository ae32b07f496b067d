"""The soft cap of the scores: missing, another one, or applied at another place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isclose

import torch
from torch import Tensor

from attnscope.calls.recipe import Recipe
from attnscope.explain.kinds.inside.course import Course, Scoring, Step, capped, masked, scaled
from attnscope.explain.kinds.inside.evaluating import Edit, Inside
from attnscope.explain.kinds.inside.fitting import fitted
from attnscope.explain.kinds.inside.naming import number

__all__ = ["edits"]

_USUAL = (50.0, 30.0, 20.0, 15.0, 10.0, 5.0, 100.0)
"""Caps in use: Gemma 2 has 50 on scores and 30 on logits, Grok 30, others between."""

_SAME = 1e-6
"""Share up to which caps that went through float32 are the same."""

_SNAPS = 1e-4
"""A fitted cap so near to a known one is that."""

_STARTS = (0.7, 2.0, 5.0, 12.0, 30.0, 80.0)
_TO_MASK = "after the mask: a hidden key has the score -{0}, not -inf"


def edits(inside: Inside) -> Iterator[Edit]:
    """Iterate over other soft caps, and over other places of the reference's own."""
    own = inside.recipe.softcap
    if inside.hint is not None:
        other = inside.hint.softcap
        if own is None or other is None or not isclose(own, other, rel_tol=_SAME):
            if own != other:
                yield _edit(own, other)
                yield from _places(own) if own is not None else ()
            return
    elif own is not None:
        yield _edit(own, None)
        yield from _clamp(inside)
        yield from _places(own)
        yield from _others(inside, own, (*_USUAL, own / 2, own * 2))
    else:
        yield from _clamp(inside)
        yield from _others(inside, None, _USUAL)


def _edit(own: float | None, other: float | None) -> Edit:
    ours = "no soft cap" if other is None else f"a soft cap of {number(other)}"
    theirs = "none" if own is None else f"{number(own)} · tanh(scores / {number(own)})"
    text = f"{ours} where the reference has {theirs}"
    return Edit("softcap", text, lambda course: _with_cap(course, other))


def _clamp(inside: Inside) -> Iterator[Edit]:
    """Read from scores that end at the same number several times where they were cut off."""
    if inside.scene.stage != "scores":
        return
    settled = inside.scene.actual
    known = settled[settled.isfinite() & inside.scene.expected.isfinite()]
    if not known.numel():
        return
    low, high = (float(end) if int((known == end).sum()) > 1 else None for end in known.aminmax())
    if low is None and high is None:
        return

    def step(raw: Tensor, recipe: Recipe) -> Tensor:
        return masked(_biased(scaled(raw, recipe), recipe).clamp(low, high), recipe)

    ends = " and ".join(number(end) for end in (low, high) if end is not None)
    own = inside.recipe.softcap
    theirs = "none" if own is None else f"a soft cap of {number(own)}"
    text = f"the scores are cut off (clamp) at {ends}, where the reference has {theirs}"
    yield Edit("softcap", text, Scoring(step))


def _with_cap(course: Course, cap: float | None) -> Course:
    return replace(course, recipe=replace(course.recipe, softcap=cap))


def _places(cap: float) -> Iterator[Edit]:
    """Iterate over the places and forms in which a cap is written by mistake."""

    def after_bias(raw: Tensor, recipe: Recipe) -> Tensor:
        return masked(capped(_biased(scaled(raw, recipe), recipe), cap), recipe)

    def after_mask(raw: Tensor, recipe: Recipe) -> Tensor:
        return capped(masked(_biased(scaled(raw, recipe), recipe), recipe), cap)

    def between(raw: Tensor, recipe: Recipe) -> Tensor:
        return _biased(capped(masked(scaled(raw, recipe), recipe), cap), recipe)

    def before_scale(raw: Tensor, recipe: Recipe) -> Tensor:
        return masked(_biased(scaled(capped(raw, cap), recipe), recipe), recipe)

    def not_back(raw: Tensor, recipe: Recipe) -> Tensor:
        return masked(_biased(torch.tanh(scaled(raw, recipe) / cap), recipe), recipe)

    def clipped(raw: Tensor, recipe: Recipe) -> Tensor:
        return masked(_biased(scaled(raw, recipe).clamp(-cap, cap), recipe), recipe)

    said = number(cap)
    places: tuple[tuple[str, Step], ...] = (
        (_TO_MASK.format(said), after_mask),
        (_TO_MASK.format(said) + ", and before the bias", between),
        ("after the bias is added", after_bias),
        ("to q·k before it is scaled", before_scale),
        ("as tanh(scores / cap), without the factor in front", not_back),
        (f"as a clamp between -{said} and {said}", clipped),
    )
    for where, step in places:
        text = (
            f"the soft cap {said} is applied {where}, where the reference has "
            f"{said} · tanh(scale · q·k / {said}) before bias and mask"
        )
        yield Edit("softcap", text, Scoring(step))


def _biased(scores: Tensor, recipe: Recipe) -> Tensor:
    return scores if recipe.bias is None else scores + recipe.bias.to(scores)


def _others(inside: Inside, own: float | None, usual: tuple[float, ...]) -> Iterator[Edit]:
    """Fit another cap from the usual ones; where nothing can be fitted, try these.

    It is 1/cap² that is fitted: scores are about s - s³/(3 cap²), linear in it.
    """
    caps = list(dict.fromkeys(cap for cap in usual if cap != own))
    if not inside.fits:
        yield from (_edit(own, cap) for cap in caps)
        return

    def make(curvature: Tensor) -> Course:
        cap = curvature.rsqrt()

        def step(raw: Tensor, recipe: Recipe) -> Tensor:
            scores = scaled(raw, recipe)
            return masked(_biased(cap * torch.tanh(scores / cap), recipe), recipe)

        return replace(inside.course, scoring=step)

    starts = (*_STARTS, *([] if own is None else [own]))
    found = fitted(inside, make, tuple(cap**-2 for cap in starts))
    if found is not None and float(found) > 0:
        cap = float(found) ** -0.5
        yield _edit(own, next((c for c in caps if isclose(c, cap, rel_tol=_SNAPS)), cap))
