"""Whether the scores or the weights of some queries and keys depend on other samples or on later tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.course import CONTRACTIONS, Course, course_of
from attnscope.checks.influence import Allowed, differs
from attnscope.checks.scoring.mates import other_last_sample
from attnscope.checks.scoring.reading import UNREADABLE
from attnscope.checks.subject.subject import Subject

__all__ = ["Coupled", "coupled"]

_FILLS = -1e4
"""Scores below are fills of a mask."""


_WEIGHT = 1e-3
"""How far a weight must move: a shift that cancels leaves rounding, or what an epsilon makes."""

_SHIFTS = frozenset("amax max amin min logsumexp mean".split())

_What = Literal["another sample", "a later token", "the inputs of another sample"]


@dataclass(frozen=True, slots=True, eq=False)
class Coupled:
    """Scores, or weights, that move although their own q and k stay.

    what: what was changed; largest: how far they move; before: the largest one before; of: which.
    """

    what: _What
    largest: float
    before: float
    source: Source
    of: Literal["scores", "weights"] = "scores"


def coupled(subject: Subject, call: Call) -> Coupled | None:
    """Change q and k of the last sample, then of the last token, then all that a sample is given.

    Returns what moved the scores of others; None: nothing did, or it can't be run.
    """
    course = course_of(subject, call)
    if course is None or len(course.main) < 3 or course.softmax is None:
        return None
    try:
        return (
            _by_sample(course)
            or _by_later_token(course)
            or (_by_inputs(subject, course) if course.aside else None)
            or _by_weights(course)
        )
    except UNREADABLE:
        return None


def _by_sample(course: Course) -> Coupled | None:
    batch = course.call.batch
    if batch < 2:
        return None
    changed = _other(course, lambda tensor: tensor[-1:])
    before, after = _shown(_scores(course, {}), _scores(course, changed))
    moved = differs(before[:-1], after[:-1])
    if not bool(moved.any()):
        return None
    return _found(course, "another sample", before[:-1], after[:-1], changed, batch)


def _by_later_token(course: Course) -> Coupled | None:
    call = course.call
    if not _is_causal(call):
        return None
    changed = _other(course, lambda tensor: tensor[:, :, -1:])
    before, after = _shown(_scores(course, {}), _scores(course, changed))
    before, after = (each[..., :-1, :-1] for each in (before, after))
    if not bool(differs(before, after).any()):
        return None
    return _found(course, "a later token", before, after, changed, call.keys)


def _by_inputs(subject: Subject, course: Course) -> Coupled | None:
    """Change everything that is given for the last sample: masks count, too."""
    main = subject.roles.main
    batch = main.batch(subject.given) if main is not None else 1
    if batch != course.call.batch or batch < 2:
        return None
    changed = other_last_sample(subject)
    tape, located = course.tape, course.located
    values = [value for side in ("q", "k") for value, _ in located.spots[side]]
    plain, other = tape.run(values, wide=True), tape.run(values, changed, wide=True)
    for side in ("q", "k"):
        pair = located.read(side, plain)[:-1], located.read(side, other)[:-1]
        if bool(differs(*pair).any()):
            return None  # something before has mixed them already
    before, after = _shown(_scores(course, {}), _scores(course, changed))
    if not bool(differs(before[:-1], after[:-1]).any()):
        return None
    pair = before[:-1], after[:-1]
    return _found(course, "the inputs of another sample", *pair, changed, batch)


def _by_weights(course: Course) -> Coupled | None:
    """Look at what left the softmax: a shift of the scores shows there, where it doesn't cancel."""
    call = course.call
    if not course.located.spots.get("weights"):
        return None
    if call.batch > 1:
        changed = _other(course, lambda tensor: tensor[-1:])
        before, after = (_stage(course, "weights", each)[:-1] for each in ({}, changed))
        found = _moved(course, "another sample", before, after, changed, call.batch)
        if found is not None:
            return found
    if not _is_causal(call):
        return None
    changed = _other(course, lambda tensor: tensor[:, :, -1:])
    before, after = (_stage(course, "weights", each)[:, :, :-1, :-1] for each in ({}, changed))
    return _moved(course, "a later token", before, after, changed, call.keys)


def _moved(
    course: Course,
    what: _What,
    before: Tensor,
    after: Tensor,
    changed: Mapping[int, Tensor],
    size: int,
) -> Coupled | None:
    """Return weights that moved, at the operation that mixes; for a shift: at the division."""
    gap = (before - after).abs().nan_to_num(0.0, 0.0, 0.0)
    if not gap.numel() or float(gap.max()) < _WEIGHT:
        return None
    mixing = _mixing(course, changed, size)
    if mixing is None or mixing.name in CONTRACTIONS:
        return None
    maker = course.tape.maker.get(course.located.spots["weights"][0][0])
    at = (maker, mixing) if mixing.name in _SHIFTS else (mixing, maker)
    largest = float(before.abs().nan_to_num(0.0, 0.0, 0.0).max())
    return Coupled(what, float(gap.max()), largest, course.line(*at), "weights")


def _is_causal(call: Call) -> bool:
    causal = any(kind.startswith("causal") for kind in call.recipe.mask.kinds)
    return causal and call.queries == call.keys > 1


def _other(course: Course, part: object) -> dict[int, Tensor]:
    """Return q and k with other numbers in one part of them, as values of the tape."""
    located = course.located
    values = [value for side in ("q", "k") for value, _ in located.spots[side]]
    own = course.tape.run(values, wide=True)
    changed: dict[int, Tensor] = {}
    for side in ("q", "k"):
        tensor = located.read(side, own).clone()
        piece = part(tensor)  # type: ignore[operator]
        piece.copy_(piece.flip(-1) * 1.7 + 0.3 * (1.0 + piece.abs().mean()))
        changed |= located.write(side, tensor)
    return changed


def _scores(course: Course, changed: Mapping[int, Tensor]) -> Tensor:
    return _stage(course, "scores", changed)


def _stage(course: Course, name: str, changed: Mapping[int, Tensor]) -> Tensor:
    """Return scores or weights, (batch, heads, queries, keys), float64."""
    values = course.located.spots[name]
    made = course.tape.run([value for value, _ in values], changed, wide=True)
    return course.located.read(name, made)


def _shown(before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """Return scores with zeros where a mask hides the key in either of them."""
    hidden = before.isinf() | (before < _FILLS) | after.isinf() | (after < _FILLS)
    return before.masked_fill(hidden, 0.0), after.masked_fill(hidden, 0.0)


def _found(
    course: Course,
    what: _What,
    before: Tensor,
    after: Tensor,
    changed: Mapping[int, Tensor],
    size: int,
) -> Coupled | None:
    gap = (before - after).abs().nan_to_num(0.0, 0.0, 0.0)
    mixing = _mixing(course, changed, size)
    if mixing is None or mixing.name in CONTRACTIONS:
        return (
            None  # the axes of q and k are not what they are taken for: AS103 and AS104 look there
        )
    return Coupled(
        what,
        float(gap.max()),
        float(before.abs().nan_to_num(0.0, 0.0, 0.0).max()),
        course.line(mixing, course.softmax),
    )


def _mixing(course: Course, changed: Mapping[int, Tensor], size: int) -> Operation | None:
    """Return the first operation of a call whose result moves outside of the last index."""
    operations = sorted((*course.aside, *course.main), key=lambda op: min(op.defines))
    wanted = [value for op in operations for value in op.defines]
    before = course.tape.run(wanted, wide=True)
    after = course.tape.run(wanted, changed, wide=True)
    allowed = Allowed(torch.arange(size) == size - 1)
    outside: set[int] = set()
    for operation in operations:
        made = [
            value
            for value in operation.defines
            if not allowed.holds(differs(before[value], after[value]))
        ]
        if made and outside.isdisjoint(operation.values()):
            return operation
        outside.update(made)
    return None
