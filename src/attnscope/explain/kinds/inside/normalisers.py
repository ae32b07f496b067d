"""What makes weights of scores: a softmax over another axis, or another function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import isclose, log, sqrt

import torch
from torch import Tensor

from attnscope.axes import Scores
from attnscope.calls.normalisers import AXES, NORMALISERS
from attnscope.calls.recipe import Recipe
from attnscope.explain.kinds.inside.course import Course, Step, Weighing
from attnscope.explain.kinds.inside.evaluating import Edit, Inside
from attnscope.explain.kinds.inside.naming import number

__all__ = ["axes", "functions"]

_LOW = torch.finfo(torch.float32).min
_LEAST = 1e-300
"""Keeps a division by nothing at all finite."""

_NEAR = 1e-4
"""How far a stage may be from a multiple of another, relative, for that to be worth a try."""


def axes(inside: Inside) -> Iterator[Edit]:
    """Iterate over other axes for the normaliser to run over, alone and two together."""
    recipe = inside.recipe
    own = recipe.normaliser_axis
    if not inside.reaches("weights") or own not in AXES or recipe.normaliser in _BY_KEY:
        return
    read = None if inside.hint is None else inside.hint.normaliser_axis
    if read == own:
        return
    tried: list[tuple[str, ...]] = [(axis,) for axis in ("queries", "keys", "heads", "batch")]
    tried += [("queries", "keys"), ("heads", "keys")]
    sizes = dict(zip(("batch", "heads", "queries", "keys"), _lengths(inside), strict=True))
    for names in tried:
        if names == (own,):
            continue
        said = " and ".join(f"the {name} ({sizes[name]})" for name in names)
        text = (
            f"the {recipe.normaliser} runs over {said}, where that of the reference runs over the "
            f"{own} ({sizes[own]})"
        )
        if _hides_all(inside, names) and not bool(inside.scene.actual.isnan().any()):
            text = f"{text}; hidden scores are {_LOW:.3g}, not -inf"
            yield Edit("softmax-axis", text, _Axis(names, _LOW))
        else:
            yield Edit("softmax-axis", text, _Axis(names, None))


def _hides_all(inside: Inside, names: tuple[str, ...]) -> bool:
    """Return whether somewhere all that a normaliser over these axes sees is hidden."""
    _, _, queries, keys = _lengths(inside)
    seen = inside.recipe.mask.dense(queries, keys).expand(_lengths(inside))
    return not bool(seen.amax([AXES[name] for name in names]).all())


def functions(inside: Inside) -> Iterator[Edit]:
    """Iterate over other functions of the scores, and other factors behind them."""
    recipe = inside.recipe
    if not inside.reaches("weights"):
        return
    keys = inside.sizes.keys
    had = f"where the reference has {_named(recipe.normaliser, recipe.normaliser_factor)}"
    done = {(recipe.normaliser, recipe.normaliser_factor)}
    for name, factor in _named_functions(inside):
        if (name, factor) not in done:
            done.add((name, factor))
            text = f"the weights are {_named(name, factor)} of the scores, {had}"
            yield Edit("normaliser", text, _Function(name, factor))
    steps = ((f"a sigmoid of scores - log {keys} (the number of keys)", _shifted_sigmoid), *_STEPS)
    for how, step in steps:
        text = f"the weights are {how} of the scores, {had}"
        yield Edit("normaliser", text, Weighing(step))


def _named_functions(inside: Inside) -> Iterator[tuple[str, float]]:
    """Iterate over the functions that have a name in a recipe, each with the factor behind it."""
    for name in NORMALISERS:
        for factor in _factors(inside, name) if name in _BY_KEY else (1.0,):
            yield name, factor
    if inside.hint is not None and inside.hint.normaliser in NORMALISERS:
        yield inside.hint.normaliser, inside.hint.normaliser_factor


def _factors(inside: Inside, name: str) -> tuple[float, ...]:
    """Return the factors behind a function of each score that may be meant.

    Weights and context are the function's own times the factor, so that one evaluation tells it.
    """
    keys = inside.sizes.keys
    usual = (1.0, 1 / keys, 1 / sqrt(keys))
    if inside.scene.stage not in {"weights", "context"}:
        return usual
    once, actual = inside.at(_Function(name, 1.0)(inside.course)), inside.scene.actual
    known = once.isfinite() & actual.isfinite()
    once, actual = once.masked_fill(~known, 0.0), actual.masked_fill(~known, 0.0)
    factor = float((once * actual).sum() / once.square().sum().clamp_min(_LEAST))
    if float((once * factor - actual).abs().max()) > _NEAR * float(actual.abs().max()):
        return ()
    return (next((other for other in usual if isclose(factor, other, rel_tol=_NEAR)), factor),)


_BY_KEY = ("sigmoid", "relu", "relu-squared", "exp", "tanh", "identity")
"""Functions of each score for itself, for which no axis exists and a factor is usual."""


def _lengths(inside: Inside) -> tuple[int, int, int, int]:
    sizes = inside.sizes
    return sizes.batch, sizes.heads, sizes.queries, sizes.keys


def _named(name: str, factor: float) -> str:
    if name == "softmax-off-by-one":
        name = "softmax-off-by-one (a sink of logit 0)"
    return name if factor == 1.0 else f"{number(factor)} · {name}"


class _Axis:
    """Lets the normaliser run over other axes, which are put side by side for it."""

    def __init__(self, names: tuple[str, ...], fill: float | None) -> None:
        self._axes, self._fill = [AXES[name] for name in names], fill

    def __call__(self, course: Course) -> Course:
        def step(scores: Scores, recipe: Recipe) -> Tensor:
            if self._fill is not None:
                scores = scores.masked_fill(scores.isneginf(), self._fill)
            moved = scores.movedim(self._axes, list(range(-len(self._axes), 0)))
            flat = moved.flatten(-len(self._axes))
            weights = NORMALISERS[recipe.normaliser](flat, -1).view(moved.shape)
            return weights.movedim(list(range(-len(self._axes), 0)), self._axes)

        return replace(course, weighing=step)


class _Function:
    """Puts another normaliser into a course."""

    def __init__(self, name: str, factor: float) -> None:
        self._name, self._factor = name, factor

    def __call__(self, course: Course) -> Course:
        changed = replace(course.recipe, normaliser=self._name, normaliser_factor=self._factor)
        return replace(course, recipe=changed)


def _twice(scores: Scores, recipe: Recipe) -> Tensor:
    return recipe.normalise(recipe.normalise(scores))


def _shifted_sigmoid(scores: Scores, recipe: Recipe) -> Tensor:
    del recipe
    return (scores - log(scores.shape[-1])).sigmoid()


def _powers_of_two(scores: Scores, recipe: Recipe) -> Tensor:
    return recipe.normalise(scores * log(2))


def _log_softmax(scores: Scores, recipe: Recipe) -> Tensor:
    return recipe.normalise(scores).log()


@dataclass(frozen=True, slots=True)
class _Divided:
    """Divides what a function makes of each score by the sum over the keys, hidden ones as 0.

    power: of the sum of powers; 1 the sum itself, 2 the length (L2).
    """

    function: Callable[[Tensor], Tensor]
    power: int = 1

    def __call__(self, scores: Scores, recipe: Recipe) -> Tensor:
        """Return the weights."""
        del recipe
        hidden = scores.isneginf()
        made = self.function(scores.masked_fill(hidden, 0.0)).masked_fill(hidden, 0.0)
        total = made.pow(self.power).sum(-1, keepdim=True)
        return made / (total if self.power == 1 else total.sqrt())


_STEPS: tuple[tuple[str, Step], ...] = (
    ("a softmax of a softmax", _twice),
    ("a softmax with powers of 2 instead of e", _powers_of_two),
    ("the logarithm of a softmax", _log_softmax),
    ("a division of the scores by their sum, without exp,", _Divided(lambda x: x)),
    ("a division by the root of the sum of squares (L2)", _Divided(lambda x: x, 2)),
    ("a sigmoid divided by the sum of sigmoids", _Divided(torch.sigmoid)),
    ("a softplus divided by its sum", _Divided(torch.nn.functional.softplus)),
    ("the absolute values divided by their sum", _Divided(torch.abs)),
    ("squares divided by their sum", _Divided(torch.square)),
    ("1 + elu divided by its sum", _Divided(lambda x: 1 + torch.nn.functional.elu(x))),
)
"""Ways from scores to weights that have no name in a recipe."""
