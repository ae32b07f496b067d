"""Half precision inside a side that can't be looked into: a step of it rounded, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnscope.axes import Scores
from attnscope.calls.recipe import Recipe
from attnscope.explain.kinds.inside.course import Course, Scoring, Weighing, scored
from attnscope.explain.kinds.inside.evaluating import Edit, Inside

__all__ = ["halves"]

_TYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
_MOST = 0.02
"""A half type leaves the largest entry this far off at most, where nothing overflows."""


def halves(inside: Inside) -> Iterator[Edit]:
    """Iterate over the steps that may be taken in half precision."""
    if inside.hint is not None or not inside.reaches("weights"):
        return
    actual, expected = inside.scene.actual, inside.scene.expected
    if actual.shape != expected.shape:
        return
    gap = (actual - expected).abs().nan_to_num(0.0).max()
    if float(gap) > _MOST * float(expected.abs().nan_to_num(0.0).max()):
        return
    for dtype, name in _TYPES.items():
        rounded = _To(dtype)
        for what, apply in rounded.steps():
            text = (
                f"{what} rounded to {name} (unit roundoff {torch.finfo(dtype).eps / 2:.2g}), "
                "where the reference goes on as precisely as it began"
            )
            yield Edit("rounding", text, apply)


@dataclass(frozen=True, slots=True)
class _To:
    """Steps of an attention that are rounded to a type; all others stay in float64."""

    dtype: torch.dtype

    def __call__(self, values: Tensor) -> Tensor:
        """Return the values that the type can hold."""
        return values.to(self.dtype).double()

    def steps(self) -> Iterator[tuple[str, Callable[[Course], Course]]]:
        """Iterate over the steps that may be taken in half precision."""
        yield "q·k is", Scoring(lambda raw, recipe: scored(self(raw), recipe))
        scores = Scoring(lambda raw, recipe: self(scored(raw, recipe)))
        yield "the scores are", scores
        yield "the weights are", lambda course: replace(course, after=self)
        yield "scores and weights are", lambda course: replace(scores(course), after=self)
        yield "every step of the softmax is", Weighing(self._softmax)
        yield (
            "q and k are",
            lambda course: replace(course, q=self(course.q), k=self(course.k)),
        )
        yield (
            "q, k and v are",
            lambda course: replace(course, q=self(course.q), k=self(course.k), v=self(course.v)),
        )

    def _softmax(self, scores: Scores, recipe: Recipe) -> Tensor:
        del recipe
        scores = self(scores)
        powers = self(self(scores - scores.amax(-1, keepdim=True)).exp())
        return self(powers / self(powers.sum(-1, keepdim=True)))
