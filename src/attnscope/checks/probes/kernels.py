"""The tensors of a call by other kernels, and attention in blocks against the whole softmax."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnscope.calls.call import Call
from attnscope.calls.program import Value, map_leaves
from attnscope.checks.comparing import finite_gap
from attnscope.checks.course import course_of
from attnscope.checks.probes.disagreement import APART, Disagreement
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["by_blocks", "by_kernel"]


_MOST_CALLS = 4
"""Calls whose tensors are handed to other kernels."""


def by_blocks(subject: Subject) -> Iterator[Disagreement]:
    """Compare attention in blocks, whose sums are no softmax of its scores, with that softmax."""
    for call in subject.calls:
        recipe = call.recipe
        whole = call.kind != "eager" or recipe.unknown != ("normaliser",)
        if whole or not isinstance(recipe.scale, int | float) or course_of(subject, call):
            continue
        try:
            gap, limit = _from_softmax(call, recipe.scale)
        except UNREADABLE:
            continue
        if gap is not None and gap > limit:
            switch = "the softmax over all keys at once instead of its own blocks of them"
            yield Disagreement(switch, gap, limit, "", call, call.source, in_blocks=True)
            return


def _from_softmax(call: Call, scale: float) -> tuple[float | None, float]:
    """Return how far a context is from that of the softmax of its scores, and what is rounding."""
    recipe = call.recipe
    q, k, v = (each.detach().double() for each in (call.q, call.k, call.v))
    scores = recipe.raw_scores(q, k) * scale
    if recipe.mask.hides:
        hidden = ~recipe.mask.dense(call.queries, call.keys)
        scores = scores.masked_fill(hidden, float("-inf"))
    right = recipe.weigh(scores.softmax(-1), v)
    eps = torch.finfo(call.v.dtype).eps
    limit = max(64 * eps, 10 * APART) * float(right.abs().nan_to_num().max())
    return finite_gap(right, call.context().detach().double()), limit


def by_kernel(subject: Subject) -> Iterator[Disagreement]:
    """Run the fused kernels of the base run on their very tensors, by each backend there is."""
    done, tensors = 0, subject.base.tape.tensors

    def given(leaf: Any) -> Any:
        return tensors[leaf.index].detach() if isinstance(leaf, Value) else leaf

    for call in subject.calls:
        course = course_of(subject, call) if call.kind == "sdpa" else None
        operation = course.main[0] if course is not None and len(course.main) == 1 else None
        if operation is None or operation.function is not F.scaled_dot_product_attention:
            continue
        done += 1
        if done > _MOST_CALLS:
            return
        args, named = map_leaves(operation.args, given), map_leaves(dict(operation.kwargs), given)
        yield from _kernels(call, args, named)


def _kernels(call: Call, args: tuple[Any, ...], named: dict[str, Any]) -> Iterator[Disagreement]:
    if float(named.get("dropout_p", args[4] if len(args) > 4 else 0.0)):
        return
    plain = map_leaves(args, lambda x: x.contiguous() if isinstance(x, Tensor) else x)
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            right = F.scaled_dot_product_attention(*plain, **named)
    except UNREADABLE:
        return
    eps = torch.finfo(right.dtype).eps
    limit = max(64 * eps, APART) * max(float(right.abs().nan_to_num().max()), 1e-12)
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
        try:
            with warnings.catch_warnings(), torch.no_grad(), sdpa_kernel(backend):
                warnings.simplefilter("ignore")  # why a backend does not take them
                gap = finite_gap(right, F.scaled_dot_product_attention(*args, **named))
        except UNREADABLE:
            continue  # the backend does not take them
        if gap is not None and gap > limit:
            switch = f"{backend.name} on the strides as they were against MATH on contiguous copies"
            yield Disagreement(switch, gap, limit, "", call, call.source)
