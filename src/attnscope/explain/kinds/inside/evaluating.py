"""A scene from inside the attention: its recipe changed, and evaluated at the scene's stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Literal, Self, TypeAlias

import torch
from torch import Tensor

from attnscope.axes import Scores
from attnscope.calls.evidence import Sizes
from attnscope.calls.recipe import Recipe
from attnscope.errors import AttnscopeError, ReplayError
from attnscope.explain.attention import INSIDE, Attention
from attnscope.explain.change import Change
from attnscope.explain.kinds.inside.course import Course
from attnscope.explain.kinds.inside.onward import onward
from attnscope.explain.scene import Scene

__all__ = ["Edit", "Edits", "Inside", "Key", "kind"]

Key: TypeAlias = Literal[
    "scale",
    "softcap",
    "mask-missing",
    "mask-extra",
    "mask-inverted",
    "mask-corner",
    "mask-shifted",
    "mask-axis",
    "mask-rows",
    "mask-as-bias",
    "mask-fill",
    "mask-after-softmax",
    "mask",
    "empty-rows",
    "window",
    "bias-missing",
    "bias-extra",
    "bias-sign",
    "bias-slope",
    "bias-heads",
    "bias-transposed",
    "bias-scaled",
    "bias-shifted",
    "bias",
    "sinks",
    "softmax-axis",
    "normaliser",
    "kv-heads-tiled",
    "kv-heads-first",
    "kv-heads",
    "weights-factor",
    "weights-transposed",
    "values-transposed",
    "dropout",
    "rounding",
]
"""What may differ inside an attention."""

_UNREADABLE = frozenset({"scale", "scores", "softcap", "mask", "bias", "overwritten"})
_SURELY_HIDDEN = 1000.0
"""A score this far below the largest of its row has no weight, whatever stands in its place."""

_MAX_VISITS = 1 << 33
"""Products of q and k that the searches for more than one fault may take together."""

_A_FIT = 16
"""Evaluations that a fit takes; where fewer can be afforded, numbers are not fitted."""


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """One way in which a recipe may differ: key and text as in `Change`, and the changed course.

    touches: the queries that the edit can change, broadcastable to (batch, heads, queries); the
    others must agree already. None: any.
    """

    key: Key
    text: str
    apply: Callable[[Course], Course]
    touches: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Inside:
    """A scene whose stage follows from the reference's q, k, v and recipe.

    course: the reference's attention. hint: the candidate's recipe, where all that scores need
    could be read; None: hypotheses have to be searched. fits: whether numbers may be fitted.
    """

    scene: Scene
    course: Course
    hint: Recipe | None
    fits: bool = True

    @classmethod
    def of(cls, scene: Scene) -> Self | None:
        """Return the scene from inside; None: its stage does not follow from the attention."""
        attention = scene.reference.attention
        stage = scene.stage
        if attention is None or stage in {"q", "k", "v"} or not scene.expected.numel():
            return None
        if stage not in INSIDE and stage not in scene.reference.parts:
            return None
        own = replace(attention, recipe=_with_four_axes(attention.recipe))
        inside = cls(scene, Course.of(own), _hint(scene.candidate.attention, attention))
        return inside if inside.affordable >= _A_FIT else replace(inside, fits=False)

    @property
    def recipe(self) -> Recipe:
        """The reference's recipe."""
        return self.course.recipe

    @cached_property
    def sizes(self) -> Sizes:
        """Sizes of the reference's attention."""
        q, k, v = self.course.q, self.course.k, self.course.v
        return Sizes(
            batch=q.shape[0],
            heads=q.shape[1],
            kv_heads=k.shape[1],
            queries=q.shape[2],
            keys=k.shape[2],
            head_dim=q.shape[3],
            value_dim=v.shape[3],
        )

    @property
    def affordable(self) -> int:
        """How many evaluations a search over two faults may take."""
        sizes = self.sizes
        one = sizes.batch * sizes.heads * sizes.queries * sizes.keys
        return max(8, min(96, _MAX_VISITS // max(one * sizes.head_dim, 1)))

    def reaches(self, stage: str) -> bool:
        """Return whether what happens at `stage` of the attention can be seen at the scene's."""
        own = self.scene.stage
        return own not in INSIDE or INSIDE.index(own) >= INSIDE.index(stage)

    def at(self, course: Course) -> Tensor:
        """Return what the scene's stage is for a changed course.

        Raises:
            ReplayError: the recipe has an unknown part, or no context leads to the stage.
        """
        stage = self.scene.stage
        if stage not in INSIDE:
            return self._onward(course.stage("context"))
        value = course.stage(stage)
        return self._settled(value, course) if stage == "scores" else value

    def value_of(self, edit: Edit) -> Tensor | None:
        """Return the stage under an edit; None: it can't be made, or be the candidate's."""
        if edit.touches is not None and not self.covers(edit.touches):
            return None
        try:
            value = self.at(edit.apply(self.course))
        except (AttnscopeError, RuntimeError, IndexError, ValueError):
            return None  # an edit that does not fit these sizes
        return None if self.scene.agrees(value, mends=True) else value

    def covers(self, touches: Tensor) -> bool:
        """Return whether no query differs but those that an edit touches."""
        differ = self._differing
        if differ is None:
            return True
        touches = touches.expand(*differ.shape[:1], self.sizes.heads, *differ.shape[-1:])
        if differ.shape[1] == 1:
            touches = touches.any(1, keepdim=True)
        return not bool((differ & ~touches).any())

    @cached_property
    def _differing(self) -> Tensor | None:
        """The queries that differ, (batch, heads or 1, queries); None: the stage has no such axes.

        Scores that differ by a number a row are not seen to agree, so that of them nothing is said.
        """
        scene, sizes = self.scene, self.sizes
        actual, expected = scene.actual, scene.expected
        rows = (sizes.batch, sizes.heads, sizes.queries)
        if scene.stage == "scores" or actual.shape != expected.shape:
            return None
        same = (actual == expected) | (actual.isnan() & expected.isnan())
        differ = ~(same | ((actual - expected).abs() <= scene.limit)).all(-1)
        if tuple(differ.shape) == rows:
            return differ
        joined = tuple(differ.shape) == (sizes.batch, sizes.queries) and scene.stage == "output"
        return differ[:, None] if joined else None

    def changes(self, edits: Iterable[Edit]) -> Iterator[Change]:
        """Iterate over the edits that change the stage, each as a change that was applied."""
        for edit in edits:
            value = self.value_of(edit)
            if value is not None:
                yield Change(edit.key, edit.text, _Made(value))

    def misfit(self, course: Course) -> float:
        """Return how far the stage of a course is from the candidate's: 0 the same, 1 unrelated."""
        try:
            return misfit(self.at(course), self.scene.actual)
        except (AttnscopeError, RuntimeError, IndexError, ValueError):
            return float("inf")

    @cached_property
    def _onward(self) -> Callable[[Tensor], Tensor]:
        part = self.scene.reference.parts[self.scene.stage]
        stages = self.scene.reference.stages
        context = stages["context"] if "context" in stages else self.course.stage("context")
        run = onward(part, context)
        if run is None:
            raise ReplayError(
                f"making the {self.scene.stage} from another context",
                "no value of the recorded part is the context",
                "compare the context itself",
            )
        return run

    def _settled(self, value: Scores, course: Course) -> Scores:
        """Take from the candidate what no softmax notices: the fill of hidden keys, row shifts."""
        actual = self.scene.actual
        if value.shape != actual.shape:
            return value
        top = actual.amax(-1, keepdim=True)
        value = torch.where(value.isneginf() & (actual < top - _SURELY_HIDDEN), actual, value)
        recipe = course.recipe
        if recipe.empty_row == "uniform":
            flat = (top - actual.amin(-1, keepdim=True)) <= self.scene.limit
            value = torch.where(value.isneginf().all(-1, keepdim=True) & flat, actual, value)
        plain = recipe.normaliser == "softmax" and recipe.normaliser_axis == "keys"
        if not plain or recipe.sinks is not None or self.scene.agrees(value):
            return value
        both = value.isfinite() & actual.isfinite()
        gap = torch.where(both, actual - value, 0.0).sum(-1, keepdim=True)
        shifted = value + gap / both.sum(-1, keepdim=True).clamp_min(1)
        return shifted if self.scene.agrees(shifted) else value


def _hint(candidate: Attention | None, reference: Attention) -> Recipe | None:
    """Return the candidate's recipe, where it was read and is of the reference's sizes."""
    if candidate is None or candidate.recipe.scale is None:
        return None
    if _UNREADABLE & set(candidate.recipe.unknown):
        return None
    ours, theirs = ((*a.q.shape[:3], a.k.shape[2]) for a in (candidate, reference))
    return _with_four_axes(candidate.recipe) if ours == theirs else None


def _with_four_axes(recipe: Recipe) -> Recipe:
    """Return the recipe with (batch, heads, queries, keys) written out in all of its tensors."""
    scale, bias, sinks = recipe.scale, recipe.bias, recipe.sinks
    return replace(
        recipe,
        scale=scale[(None,) * (4 - scale.dim())] if isinstance(scale, Tensor) else scale,
        bias=None if bias is None else bias[(None,) * (4 - bias.dim())],
        sinks=None if sinks is None else sinks[(None,) * (4 - sinks.dim())],
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    """A stage that was already computed."""

    value: Tensor

    def __call__(self) -> Tensor:
        return self.value


Edits: TypeAlias = Callable[[Inside], Iterator[Edit]]


def kind(
    edits: Edits, acts_at: str, *, one: bool = False, nearest: bool = False
) -> Callable[[Scene], Iterator[Change]]:
    """Return the kind of change that tries `edits` wherever what happens at `acts_at` shows.

    one: of those that make the stage agree, the first alone counts; nearest: that which leaves
    least.
    """

    def changes(scene: Scene) -> Iterator[Change]:
        inside = Inside.of(scene)
        if inside is None or not inside.reaches(acts_at):
            return
        tried = inside.changes(edits(inside))
        if not one:
            yield from tried
            return
        left = ((scene.gap(change.make()), change) for change in tried)
        mends = ((gap, change) for gap, change in left if gap is not None)
        found = sorted(mends, key=lambda entry: entry[0]) if nearest else islice(mends, 1)
        yield from (change for _, change in islice(found, 1))

    return changes


def misfit(value: Tensor, actual: Tensor) -> float:
    """Return the mean distance of two stages, each entry at most 1, relative to the typical one."""
    if value.shape != actual.shape or not value.numel():
        return float("inf")
    same = (value == actual) | (value.isnan() & actual.isnan())
    finite = actual.abs()[actual.isfinite()]
    typical = float(finite.mean()) if finite.numel() else 1.0
    gap = ((value - actual).abs() / max(typical, 1e-30)).nan_to_num(1.0, 1.0, 1.0).clamp_max(1.0)
    return float(gap.masked_fill(same, 0.0).mean())
