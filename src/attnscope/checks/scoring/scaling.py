"""What is wrong with the scale of a call, each with the number that proves it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.course import course_of
from attnscope.checks.operations import DIVIDES, MULTIPLIES
from attnscope.checks.scoring.configured import capped_unscaled
from attnscope.checks.scoring.factors import Factor, factors_of, numbers_written_in
from attnscope.checks.scoring.naming import name_of_scale
from attnscope.checks.scoring.reading import (
    is_of_a_library,
    is_projected,
    weights_met,
)
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Scaled", "other_scale"]

_SAME = 1e-3
"""Relative difference up to which two scales are one."""

_LOUD = 1.5
"""Standard deviation of unscaled scores from which they are too large for a softmax."""

_FRESH = (0.2, 2.5)
"""Standard deviation that scores at initialisation have where they are scaled by 1/√head_dim."""

_UNIT = 1e-3
"""Relative spread of the lengths of q or k up to which they are normalised."""

_NAMED = frozenset(
    "scale scaling softmax_scale sm_scale attn_scale qk_scale attention_scale norm_factor".split()
)


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """A scale that is not what it should be.

    kind: what says so; found, wanted: the scales; text: the end of a sentence about the numbers.
    certain: an error rather than a note.
    """

    kind: Literal["declared", "attribute", "twice", "after", "inverse", "missing", "unusual", "cap"]
    found: float
    wanted: float
    text: str
    source: Source
    certain: bool
    numbers: dict[str, Any] = field(default_factory=dict)


def other_scale(subject: Subject, call: Call) -> Scaled | None:
    """Return what is wrong with the scale of a call; None: nothing is known to be."""
    scale, late = call.recipe.scale, _after_cap(subject, call)
    if late is not None:
        return late
    if "scale" in subject.expect:
        return _declared(subject, call, scale, float(subject.expect["scale"]))
    if not isinstance(scale, int | float) or call.head_dim < 2:
        return None
    return (
        _after(subject, call, scale)
        or _attribute(subject, call, scale)
        or _twice(subject, call, scale)
        or _by_numbers(subject, call, scale)
    )


def _after_cap(subject: Subject, call: Call) -> Scaled | None:
    """Return a scale that is applied to what was capped already."""
    asked, course = capped_unscaled(subject, call), course_of(subject, call)
    if asked is None or course is None:
        return None
    cap, scale = asked
    text = (
        f"q·k is capped at {cap:g} before it is scaled: scaled by "
        f"{name_of_scale(scale, call.head_dim, call.heads)} afterwards, no score is above "
        f"{cap * scale:g}"
    )
    late = [f.operation for f in factors_of(subject, call) if math.isclose(f.number, scale)]
    return Scaled(
        "cap", 1.0, scale, text, course.line(*reversed(late), course.product), certain=True
    )


def _declared(
    subject: Subject, call: Call, scale: float | Tensor | None, wanted: float
) -> Scaled | None:
    if scale is None:
        return None
    found = float(scale.detach().abs().max()) if isinstance(scale, Tensor) else float(scale)
    if math.isclose(found, wanted, rel_tol=_SAME):
        return None
    names = [name_of_scale(each, call.head_dim, call.heads) for each in (found, wanted)]
    text = f"scores are q·k times {names[0]} where expect declares {names[1]}"
    return Scaled("declared", found, wanted, text, _line(subject, call, wanted), certain=True)


def _after(subject: Subject, call: Call, scale: float) -> Scaled | None:
    """Return a scale that is applied to the weights."""
    course = course_of(subject, call)
    weights = weights_met(subject, call)
    right = call.head_dim**-0.5
    if course is None or weights is None or math.isclose(scale, right, rel_tol=_SAME):
        return None
    sums = weights.sum(-1)
    low, high = float(sums.min()), float(sums.max())
    if not (math.isclose(low, right, rel_tol=_SAME) and math.isclose(high, right, rel_tol=_SAME)):
        return None
    later = list(course.main)
    if course.softmax in later:
        later = later[later.index(course.softmax) + 1 :]
    named = [op for op in later if op.name in MULTIPLIES | DIVIDES]
    text = (
        f"the weights of every query sum to {high:.4g} = 1/√{call.head_dim}: the scale was applied "
        "after the softmax, and the scores have none"
    )
    return Scaled("after", scale, right, text, course.line(*named), certain=True)


def _attribute(subject: Subject, call: Call, scale: float) -> Scaled | None:
    """Return a scale that a module keeps and a kernel, left to its default, does not get."""
    default = next((f for f in factors_of(subject, call) if f.by_default), None)
    owner = subject.module(call.module)
    if default is None or owner is None or is_of_a_library(subject, call):
        return None
    others = numbers_written_in(subject, call.source.function)
    for name, value in vars(owner).items():
        if name not in _NAMED or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if value <= 0 or value == 1.0 or _is_used(scale, float(value)):
            continue
        if any(_follows(number, float(value)) for number in others):
            continue  # it scales something else: a branch, a residual, a low-rank update
        text = (
            f"the kernel scales by its default, {name_of_scale(scale, call.head_dim, call.heads)}, "
            f"while {type(owner).__name__}.{name} is {value:.6g} and is not handed to it"
        )
        source = default.operation.source or call.source
        return Scaled("attribute", scale, float(value), text, source, certain=True)
    return None


def _follows(number: float, value: float) -> bool:
    """Return whether one of two numbers follows from the other one."""
    return number > 0 and (_is_used(number, value) or _is_used(value, number))


def _is_used(scale: float, value: float) -> bool:
    """Return whether a scale follows from a number: itself, its inverse, its powers of a half."""
    forms = (value, 1 / value, value**-0.5, value**2, value**-2)
    return any(math.isclose(scale, each, rel_tol=_SAME) for each in forms)


def _twice(subject: Subject, call: Call, scale: float) -> Scaled | None:
    """Return two factors that are 1/√head_dim each."""
    right = call.head_dim**-0.5
    factors = factors_of(subject, call)
    same = [f for f in factors if math.isclose(f.number, right, rel_tol=_SAME)]
    if len(same) < 2 or not math.isclose(scale, right * right, rel_tol=_SAME):
        return None
    lines = [str(f.operation.source.line) for f in same if f.operation.source is not None]
    where = f"lines {' and '.join(lines)}"
    if len({id(f.operation) for f in same}) == 1:
        where = "by one operation: q and k are one tensor, and k is scaled with q"
    elif len(set(lines)) == 1:
        where = f"both in line {lines[0]}"
    text = (
        f"scores are divided by √head_dim = √{call.head_dim} twice ({where}): "
        f"they are q·k times {name_of_scale(scale, call.head_dim, call.heads)}"
    )
    source = same[-1].operation.source or call.source
    return Scaled("twice", scale, right, text, source, certain=True)


def _by_numbers(subject: Subject, call: Call, scale: float) -> Scaled | None:
    right = call.head_dim**-0.5
    inverse = math.isclose(scale, call.head_dim**0.5, rel_tol=_SAME)
    missing = math.isclose(scale, 1.0, rel_tol=_SAME)
    wider = math.isclose(scale, (call.heads * call.head_dim) ** -0.5, rel_tol=_SAME)
    if math.isclose(scale, right, rel_tol=_SAME) or not (inverse or missing or wider):
        return None
    if is_of_a_library(subject, call):
        return None
    spread = _spread(call)
    if spread is None:
        return None
    names = [name_of_scale(each, call.head_dim, call.heads) for each in (scale, right)]
    numbers = {"score_std": spread * scale, "score_std_if_scaled": spread * right}
    source = _line(subject, call, right)
    with_right = f"{spread * right:.2g} with {names[1]}"
    text = f"scores are q·k times {names[0]}: their std is {spread * scale:.2g}, {with_right}"
    fresh = _FRESH[0] <= spread * right <= _FRESH[1]
    loud = spread * scale >= _LOUD
    if inverse and loud and not _is_constant(subject, call, scale):
        return Scaled("inverse", scale, right, text, source, certain=True, numbers=numbers)
    projected = is_projected(subject, call, "q") and is_projected(subject, call, "k")
    if missing and loud and fresh and projected:
        return Scaled("missing", scale, right, text, source, certain=True, numbers=numbers)
    return Scaled("unusual", scale, right, text, source, certain=False, numbers=numbers)


def _spread(call: Call) -> float | None:
    """Return the standard deviation of q·k; None where q or k are normalised, or unreadable."""
    try:
        q, k = call.q.detach().double(), call.k.detach().double()
        lengths = (q.norm(dim=-1), k.norm(dim=-1))
        if any(float(n.std() / n.mean()) < _UNIT for n in lengths if n.numel() > 1):
            return None
        raw = call.recipe.raw_scores(q[:2], k[:2])
        spread = float(raw.std())
    except UNREADABLE:
        return None
    return spread if math.isfinite(spread) and spread > 0 else None


def _is_constant(subject: Subject, call: Call, scale: float) -> bool:
    """Return whether the scale is learned: then it may come to be anything."""
    factors = factors_of(subject, call)
    at = next((f for f in factors if math.isclose(f.number, scale, rel_tol=_SAME)), None)
    if at is None:
        return False
    weights = subject.base.weights
    return any(value in weights for value in at.operation.values())


def _line(subject: Subject, call: Call, wanted: float) -> Source:
    """Return the line of the factor that is not the wanted one, or of the product q·k."""
    course = course_of(subject, call)
    factors = factors_of(subject, call)
    same = [f for f in factors if math.isclose(f.number, wanted, rel_tol=_SAME)]
    odd = [f for f in factors if _is_odd(f, wanted)] or (same if len(same) > 1 else [])
    lines = [f.operation for f in odd]
    if course is None:
        return next((op.source for op in lines if op.source is not None), call.source)
    return course.line(*reversed(lines), course.product)


def _is_odd(factor: Factor, wanted: float) -> bool:
    root = math.sqrt(wanted) if wanted > 0 else 0.0
    return not any(math.isclose(factor.number, each, rel_tol=_SAME) for each in (1.0, wanted, root))
