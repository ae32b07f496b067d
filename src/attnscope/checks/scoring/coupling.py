"""Whether scores or weights of queries and keys depend on other samples or on later tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.course import Course, course_of
from attnscope.checks.influence import Allowed, differs
from attnscope.checks.masking.biases import DEEP
from attnscope.checks.operations import CONTRACTIONS
from attnscope.checks.scoring.mates import other_last_sample
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Coupled", "coupled"]

_WEIGHT = 1e-3
"""How far a weight must move: a shift that cancels leaves rounding, or what an epsilon makes."""

_SHIFTS = frozenset("amax max amin min logsumexp mean".split())

_What = Literal["another sample", "a later token", "the inputs of another sample"]


_Stages: TypeAlias = dict[str, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Coupled:
    """Scores, or weights, that move although their own q and k stay.

    what: what was changed; largest: how far they move; before: the largest one before; of: which.
    """

    what: _What
    largest: float
    before: float
    source: Source
    of: str


def coupled(subject: Subject, call: Call) -> Coupled | None:
    """Change q and k of the last sample, then of the last token, then all that a sample is given.

    Returns what moved the scores of others; None: nothing did, or it can't be run.
    """
    course = course_of(subject, call)
    if course is None or len(course.main) < 3 or course.softmax is None:
        return None
    try:
        base = _stages(course, {})
        return (
            _by_sample(course, base)
            or _by_later_token(course, base)
            or (_by_inputs(subject, course, base) if course.aside else None)
        )
    except UNREADABLE:
        return None


def _by_sample(course: Course, base: _Stages) -> Coupled | None:
    batch = course.call.batch
    if batch < 2:
        return None
    changed = _other(course, lambda tensor: tensor[-1:])
    return _judged(course, "another sample", base, changed, batch)


def _by_later_token(course: Course, base: _Stages) -> Coupled | None:
    if not _is_causal(course.call):
        return None
    changed = _other(course, lambda tensor: tensor[:, :, -1:])
    return _judged(course, "a later token", base, changed, course.call.keys)


def _by_inputs(subject: Subject, course: Course, base: _Stages) -> Coupled | None:
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
    return _judged(course, "the inputs of another sample", base, changed, batch)


def _is_causal(call: Call) -> bool:
    causal = any(kind.startswith("causal") for kind in call.recipe.mask.kinds)
    return causal and call.queries == call.keys > 1


def _other(course: Course, part: Callable[[Tensor], Tensor]) -> dict[int, Tensor]:
    """Return q and k with other numbers in one part of them, as values of the tape."""
    located = course.located
    values = [value for side in ("q", "k") for value, _ in located.spots[side]]
    own = course.tape.run(values, wide=True)
    changed: dict[int, Tensor] = {}
    for side in ("q", "k"):
        tensor = located.read(side, own).clone()
        piece = part(tensor)
        piece.copy_(piece.flip(-1) * 1.7 + 0.3 * (1.0 + piece.abs().mean()))
        changed |= located.write(side, tensor)
    return changed


def _stages(course: Course, changed: Mapping[int, Tensor]) -> _Stages:
    """Return scores, and weights where they lie open, (batch, heads, queries, keys), float64."""
    spots = course.located.spots
    names = [name for name in ("scores", "weights") if spots.get(name)]
    wanted = [value for name in names for value, _ in spots[name]]
    made = course.tape.run(wanted, changed, wide=True)
    return {name: course.located.read(name, made) for name in names}


def _others(what: _What, stage: Tensor) -> Tensor:
    """Return the part of scores or weights that must stay."""
    return stage[..., :-1, :-1] if what == "a later token" else stage[:-1]


def _shown(before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """Return scores with zeros where a mask hides the key in either of them."""
    hidden = _hidden(before) | _hidden(after)
    return before.masked_fill(hidden, 0.0), after.masked_fill(hidden, 0.0)


def _seeing(what: _What, base: _Stages, weights: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return weights with zeros in the rows of queries that see nothing: they say nothing."""
    if "scores" not in base:
        return weights
    scores = _others(what, base["scores"])
    blind = _hidden(scores).all(-1, keepdim=True)
    if blind.shape[:-1] != weights[0].shape[:-1]:
        return weights
    return weights[0].masked_fill(blind, 0.0), weights[1].masked_fill(blind, 0.0)


def _hidden(scores: Tensor) -> Tensor:
    return scores.isinf() | (scores <= DEEP)


def _judged(
    course: Course, what: _What, base: _Stages, changed: Mapping[int, Tensor], size: int
) -> Coupled | None:
    """Return what moved: scores at all, or weights by more than rounding.

    A shift of the scores shows in the weights alone, where it does not cancel in the softmax: the
    line is that of its division. Else it is that of the operation that mixes.
    """
    other = _stages(course, changed)
    for name, before in base.items():
        pair = _others(what, before), _others(what, other[name])
        pair = _shown(*pair) if name == "scores" else _seeing(what, base, pair)
        gap = (pair[0] - pair[1]).abs().nan_to_num(0.0, 0.0, 0.0)
        moves = differs(*pair).any() if name == "scores" else (gap > _WEIGHT).any()
        if not bool(moves):
            continue
        mixing = _mixing(course, changed, size)
        if mixing is None or mixing.name in CONTRACTIONS:
            return None  # q and k have other axes than they are taken for: AS103, AS104 look there
        maker = course.tape.maker.get(course.located.spots[name][0][0])
        shifted = name == "weights" and mixing.name in _SHIFTS
        line = course.line(maker if shifted else mixing, course.softmax)
        largest = float(pair[0].abs().nan_to_num(0.0, 0.0, 0.0).max())
        return Coupled(what, float(gap.max()), largest, line, name)
    return None


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
