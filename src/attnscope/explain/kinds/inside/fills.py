"""What stands at hidden keys: a fill too weak or of the wrong sign, a 0/1 mask as a bias."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import isclose

import torch
from torch import Tensor

from attnscope.axes import Scores, Visible
from attnscope.calls.mask import Mask
from attnscope.calls.recipe import Recipe
from attnscope.explain.kinds.inside.course import Course, Step, scored
from attnscope.explain.kinds.inside.evaluating import Edit, Inside
from attnscope.explain.kinds.inside.fitting import fitted
from attnscope.explain.kinds.inside.maskparts import MaskPart, MaskParts, parts_of
from attnscope.explain.kinds.inside.naming import number

__all__ = ["after_softmax", "as_bias", "fills"]

_FILLS = (
    (0.0, " (the scores multiplied by a mask of 0 and 1)"),
    (-1.0, ""),
    (-10.0, ""),
    (-100.0, ""),
    (-1e3, ""),
    (-1e4, ""),
    (-1e5, ""),
    (1e-9, " (1e-9 for -1e9)"),
    (1e4, ": of the wrong sign, hidden keys win"),
    (1e9, ": of the wrong sign, hidden keys win"),
    (-1e9, ""),
    (torch.finfo(torch.float32).min, " (the lowest float32)"),
)
"""Fills that people write, with what they come from."""

_SAME = 1e-6
"""Share up to which numbers that went through float32 are the same."""

_LOWEST = 1e-30
"""Keeps a division by a tensor of zeros finite."""

_WINS = 1e6
"""A fill with which hidden keys take all of the weight."""

_ROUNDINGS = 16.0
"""How many limits a row may be off where a fill is only thought of."""


def as_bias(inside: Inside) -> Iterator[Edit]:
    """Iterate over masks that were added to the scores as numbers of 0 and 1."""
    scale = inside.recipe.scale
    factor = scale if isinstance(scale, float) else 1.0
    parts = parts_of(inside)
    for part, rest in _choices(parts):
        if not _lies_between(inside, part, rest, adds=True):
            continue
        for amount, at in ((1.0, "visible"), (-1.0, "hidden"), (1.0, "hidden")):
            for times, when in ((1.0, ""), (factor, ", before the scale")):
                if times == 1.0 and when:
                    continue
                where = part.seen if at == "visible" else ~part.seen
                text = (
                    f"the {part.name} is added to the scores as a bias{when}: "
                    f"{number(amount * times)} at {at} keys and 0 elsewhere, where the reference "
                    "has -inf at hidden keys"
                )
                hidden = (~part.seen).any(-1)
                yield Edit("mask-as-bias", text, _Adding(rest, where, amount * times), hidden)


def fills(inside: Inside) -> Iterator[Edit]:
    """Iterate over finite fills of hidden scores, put in their place or added to them."""
    for part, rest in _choices(parts_of(inside)):
        for adds in (False, True):
            if inside.scene.stage == "scores":
                tried: Iterable[float] = _as_held(inside, part, rest, adds=adds)
            else:
                tried = _searched(inside, part, rest, adds=adds)
            for fill in tried:
                if fill or not adds:
                    yield _fill(part, rest, fill, adds=adds)


def _fill(part: MaskPart, rest: Visible, fill: float, *, adds: bool) -> Edit:
    origin = next((said for other, said in _FILLS if isclose(fill, other, rel_tol=_SAME)), "")
    how = f"get {number(fill)} added" if adds else f"hold {number(fill)}"
    text = f"scores that the {part.name} hides {how}{origin}, where the reference has -inf"
    hidden = ~part.seen
    change = _Adding(rest, hidden, fill) if adds else _Holding(rest, hidden, fill)
    return Edit("mask-fill", text, change, hidden.any(-1))


def after_softmax(inside: Inside) -> Iterator[Edit]:
    """Iterate over masks that multiply the weights; the rows then no longer sum to one.

    At the scores such a mask is missing; where it went was read from the candidate's operations.
    """
    after = () if inside.hint is None else inside.hint.after
    if not inside.reaches("weights") and not {"mask", "multiply"} & set(after):
        return
    for part, rest in _choices(parts_of(inside)):
        text = (
            f"the {part.name} is applied after the softmax, on the weights (rows no longer sum to "
            "one), where the reference hides the scores before it"
        )
        touches = (~part.seen).any(-1)
        yield Edit("mask-after-softmax", text, _Weighted(rest, part.seen), touches)


def _choices(parts: MaskParts) -> Iterator[tuple[MaskPart, Visible]]:
    """Yield the whole mask with nothing left, then each part with the others."""
    if not parts.parts:
        return
    if len(parts.parts) > 1:
        yield MaskPart("mask", parts.whole), parts.band(None, None)
    for part in parts.parts:
        yield part, parts.without([part])


def _masked_by(recipe: Recipe, rest: Visible) -> Recipe:
    return replace(recipe, mask=Mask(tensor=rest, kinds=frozenset({"custom"})))


class _Adding:
    """Adds a number to some scores, and masks the rest."""

    def __init__(self, rest: Visible, where: Visible, amount: float | Tensor) -> None:
        self._rest, self._where, self._amount = rest, where, amount

    def __call__(self, course: Course) -> Course:
        before = course.scoring or scored

        def step(raw: Scores, recipe: Recipe) -> Scores:
            return before(raw, _masked_by(recipe, self._rest)) + self._amount * self._where.double()

        return replace(course, scoring=step)


class _Holding:
    """Puts a number in the place of some scores, and masks the rest."""

    def __init__(self, rest: Visible, hidden: Visible, fill: float | Tensor) -> None:
        self._rest, self._hidden, self._fill = rest, hidden, fill

    def __call__(self, course: Course) -> Course:
        before: Step = course.scoring or scored
        fill = self._fill

        def step(raw: Scores, recipe: Recipe) -> Scores:
            scores = before(raw, _masked_by(recipe, self._rest))
            value = fill if isinstance(fill, Tensor) else scores.new_tensor(fill)
            return torch.where(self._hidden & ~scores.isneginf(), value, scores)

        return replace(course, scoring=step)


def _as_held(inside: Inside, part: MaskPart, rest: Visible, *, adds: bool) -> tuple[float, ...]:
    """Return the one number that stands at all hidden keys of the scores, or was added to them."""
    sizes = inside.sizes
    actual = inside.scene.actual
    hidden = (~part.seen & rest).expand(sizes.batch, sizes.heads, sizes.queries, sizes.keys)
    if adds:  # beside what is added to all of the row, which no softmax notices
        plain = replace(inside.course, recipe=_masked_by(inside.recipe, rest)).stage("scores")
        seen = (part.seen & rest).expand(actual.shape)
        gap = torch.where(rest, actual - plain, 0.0)
        level = gap.masked_fill(~seen, 0.0).sum(-1, keepdim=True)
        actual = gap - level / seen.sum(-1, keepdim=True).clamp_min(1)
    held = actual[hidden]
    return (float(held[0]),) if _constant(held) else ()


def _searched(inside: Inside, part: MaskPart, rest: Visible, *, adds: bool) -> Iterator[float]:
    """Iterate over the usual fills, then the one that fits."""
    if not _lies_between(inside, part, rest, adds=adds):
        return
    for fill, _ in _FILLS:
        yield fill
    change = _Adding if adds else _Holding

    def make(fill: Tensor) -> Course:
        return change(rest, ~part.seen, fill)(inside.course)

    found = fitted(inside, make, (-20.0, -5.0, -1.0, 1.0, 5.0))
    if found is not None:
        yield float(found)


def _lies_between(inside: Inside, part: MaskPart, rest: Visible, *, adds: bool) -> bool:
    """Return whether each row is a mean of what visible keys give and what hidden keys give.

    A finite fill does no more than that: it says how much of the second there is. One evaluation,
    with a fill so large that hidden keys win, tells so for all fills.
    """
    if not inside.covers((~part.seen).any(-1)):
        return False
    scene = inside.scene
    if scene.stage not in {"weights", "context"} or not inside.fits:
        return True
    change = _Adding if adds else _Holding
    visible, hidden = scene.expected, inside.at(change(rest, ~part.seen, _WINS)(inside.course))
    known = (visible.isfinite() & hidden.isfinite() & scene.actual.isfinite()).all(-1, keepdim=True)
    across = (hidden - visible).masked_fill(~known, 0.0)
    gone = (scene.actual - visible).masked_fill(~known, 0.0)
    share = (gone * across).sum(-1, keepdim=True)
    share = share / across.square().sum(-1, keepdim=True).clamp_min(_LOWEST)
    left = (gone - share * across).abs().amax(-1, keepdim=True)
    slack = scene.limit.clamp_min(_SAME * float(gone.abs().max()))
    return bool((left <= _ROUNDINGS * slack).all())


def _constant(values: Tensor) -> bool:
    if not values.numel() or not bool(values.isfinite().all()):
        return False
    spread = float(values.max() - values.min())
    return spread <= _SAME * max(float(values.abs().max()), _LOWEST)


class _Weighted:
    """Masks weights instead of scores."""

    def __init__(self, rest: Visible, seen: Visible) -> None:
        self._rest, self._seen = rest, seen

    def __call__(self, course: Course) -> Course:
        before = course.after

        def after(weights: Tensor) -> Tensor:
            return (weights if before is None else before(weights)) * self._seen

        return replace(course, recipe=_masked_by(course.recipe, self._rest), after=after)
