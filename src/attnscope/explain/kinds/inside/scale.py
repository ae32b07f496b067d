"""The scale of the scores: another constant, one a head, none at all, or in another place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isclose, log, sqrt

import torch
from torch import Tensor

from attnscope.calls.recipe import Recipe
from attnscope.explain.kinds.inside.course import Course
from attnscope.explain.kinds.inside.evaluating import Edit, Inside
from attnscope.explain.kinds.inside.fitting import fitted
from attnscope.explain.kinds.inside.naming import Names, number, numbers, ratio_name, single

__all__ = ["edits", "names_of"]

_SAME = 1e-6
"""Share up to which scales that went through float32 are the same."""

_COMMON = ("1 (not scaled)", "1/√d_model", "1/head_dim")
"""The scales that are meant most often."""

_SNAPS = 1e-5
"""A fitted scale so near to a known one is that."""

_STARTS = (1.05,)
"""Ratios to start a fit from, beside the known ones."""


def edits(inside: Inside) -> Iterator[Edit]:
    """Iterate over other scales: what was read, else the known mistakes, else what fits."""
    reference = inside.recipe.scale
    if reference is None:
        return
    if inside.hint is not None:
        assert inside.hint.scale is not None  # noqa: S101  a hint has a scale
        if _same(inside.hint.scale, 1.0) and {"multiply", "divide"} & set(inside.hint.after):
            yield from _after_softmax(inside)
        elif not _same(inside.hint.scale, reference):
            yield _edit(inside, inside.hint.scale)
        return
    known = _hypotheses(inside)
    if inside.fits:
        found = _fit(inside, known)
        known = [] if found is None else [found]
    for value in known:
        yield _edit(inside, value)
    if inside.reaches("weights"):
        yield from _after_softmax(inside)


def names_of(inside: Inside) -> Names:
    """Return the formulas over this attention's sizes."""
    sizes = inside.sizes
    joined = sizes.heads * sizes.head_dim
    width = inside.scene.reference.width
    named = [("head_dim", sizes.head_dim), ("d_model", width or joined)]
    if width not in {None, joined}:
        named.append(("(heads·head_dim)", joined))
    if sizes.kv_heads != sizes.heads:
        named.append(("(kv_heads·head_dim)", sizes.kv_heads * sizes.head_dim))
    other = inside.scene.candidate.attention
    if other is not None and other.q.shape[-1] != sizes.head_dim:
        named.append(("(head_dim of the candidate)", other.q.shape[-1]))
    if sizes.value_dim != sizes.head_dim:
        named.append(("value_dim", sizes.value_dim))
    named += [("heads", sizes.heads), ("keys", sizes.keys), ("queries", sizes.queries)]
    return Names(tuple(named))


def _hypotheses(inside: Inside) -> list[float | Tensor]:
    """Return the scales that people apply by mistake, the commonest first, each number once."""
    reference = inside.recipe.scale
    head_dim = inside.sizes.head_dim
    widths = tuple(each for each in names_of(inside).sizes if each[0] in {"head_dim", "d_model"})
    named = Names(widths).formulas()  # those of other sizes are fitted
    named.sort(key=lambda each: each[0] not in _COMMON)
    values: list[float | Tensor] = [value for _, value in named]
    if isinstance(reference, Tensor):
        times: tuple[float, ...] = (1 / sqrt(head_dim), sqrt(head_dim), log(2), 1 / log(2))
        values += [reference.double() * factor for factor in times]
    elif reference is not None and reference > 0:
        root = sqrt(head_dim)
        values += [reference**2, 1 / reference, sqrt(reference), reference / root, reference * root]
        values += [reference * log(2), reference / log(2)]
    kept: list[float | Tensor] = []
    for value in values:
        known = any(_same(value, other) for other in kept)
        if not known and reference is not None and not _same(value, reference):
            kept.append(value)
    return kept


def _edit(inside: Inside, scale: float | Tensor) -> Edit:
    assert inside.recipe.scale is not None  # noqa: S101  the caller has asked
    names = names_of(inside)
    ours, theirs = _said(names, scale), _said(names, inside.recipe.scale)
    text = f"scores times {ours}{_twice(inside, scale)} where the reference has {theirs}"
    ratio = _ratio(scale, inside.recipe.scale)
    if ratio is not None:
        text += f", a ratio of {ratio_name(ratio)}"
    text += names.legend(ours, theirs)
    return Edit("scale", text, lambda course: _with_scale(course, scale))


def _with_scale(course: Course, scale: float | Tensor) -> Course:
    return replace(course, recipe=replace(course.recipe, scale=scale))


def _said(names: Names, scale: float | Tensor) -> str:
    if isinstance(scale, Tensor):
        return f"a scale of its own by position or head: {numbers(scale)}"
    return names.of(scale)


def _twice(inside: Inside, scale: float | Tensor) -> str:
    """Name the product that a scale is where it was applied twice, or turned over."""
    reference = inside.recipe.scale
    if isinstance(scale, Tensor) or isinstance(reference, Tensor) or not reference:
        return ""
    if isclose(reference, 1.0, rel_tol=_SAME):
        return ""
    if isclose(scale, reference**2, rel_tol=_SAME):
        return f" = {number(reference)}²: scaled twice"
    if isclose(scale, 1 / reference, rel_tol=_SAME):
        return f" = 1/{number(reference)}: multiplied instead of divided"
    if isclose(scale * scale, reference, rel_tol=_SAME):
        return f" = √{number(reference)}: applied to one of q and k"
    return ""


def _ratio(scale: float | Tensor, reference: float | Tensor) -> float | None:
    if not isinstance(reference, Tensor):
        if isinstance(scale, Tensor) or not reference:
            return None
        return scale / reference
    ratio = single(torch.as_tensor(scale, dtype=torch.float64) / reference.double())
    return None if ratio is None else ratio


def _same(a: float | Tensor, b: float | Tensor) -> bool:
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        return isclose(a, b, rel_tol=_SAME)
    a, b = torch.as_tensor(a, dtype=torch.float64), torch.as_tensor(b, dtype=torch.float64)
    try:
        return bool(torch.isclose(a, b, rtol=_SAME, atol=0.0).all())
    except RuntimeError:
        return False  # of sizes that don't meet


def _after_softmax(inside: Inside) -> Iterator[Edit]:
    """Apply the scale to the weights: scores unscaled, rows that sum to the scale."""
    reference = inside.recipe.scale
    if isinstance(reference, Tensor) or reference is None:
        return
    said = names_of(inside).of(reference)
    text = (
        f"the scale {said} multiplies the weights, after the softmax (a row sums to "
        f"{number(reference)}), where the reference multiplies the scores with it"
    )

    def apply(course: Course) -> Course:
        recipe: Recipe = replace(course.recipe, scale=1.0)
        return replace(course, recipe=recipe, after=lambda weights: weights * reference)

    yield Edit("scale", text, apply)


def _fit(inside: Inside, known: list[float | Tensor]) -> float | Tensor | None:
    """Return the scale that fits, from the known ones on: one number, else one a head."""
    reference = inside.recipe.scale
    assert reference is not None  # noqa: S101  the caller has asked

    def make(ratio: Tensor) -> Course:
        scale = ratio * torch.as_tensor(reference, dtype=torch.float64).to(ratio)
        return _with_scale(inside.course, scale)

    ratios = [_ratio(value, reference) for value in known]
    starts = dict.fromkeys([*(ratio for ratio in ratios if ratio and ratio > 0), *_STARTS])
    ratio = fitted(inside, make, tuple(starts), by_head=True)
    if ratio is None:
        return None
    one = single(ratio)
    if one is None or isinstance(reference, Tensor):
        return ratio * reference
    found = reference * one
    close = (v for v in known if not isinstance(v, Tensor) and isclose(v, found, rel_tol=_SNAPS))
    return next(close, found)
