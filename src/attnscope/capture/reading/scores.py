"""Reads how scores follow from `q·k`: not from the names of operations, but from their answers.

The recorded operations are run again on raw scores of our own choice: 0, 1, -1, a mixture, a large
number. What an entry answers to them gives its scale, soft cap, bias, and whether it is hidden;
what was read must then predict the actual scores, or it is reported as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnscope.calls.broadcasting import collapse, rows_of
from attnscope.calls.recipe import EmptyRow
from attnscope.calls.tolerance import unit_roundoff
from attnscope.capture.reading.gap import low_cutoff
from attnscope.capture.reading.probe import (
    LEVELS,
    Operations,
    Probe,
    close,
    differs,
    some_rows,
)
from attnscope.capture.reading.scale import Sample, narrow, read_scale

__all__ = ["ScoresReading", "read_scores"]

Raw: TypeAlias = Float[Tensor, "batch heads queries keys"]
WithExtra: TypeAlias = Float[Tensor, "batch heads queries columns"]
Visible: TypeAlias = Bool[Tensor, "#batch #heads #queries #keys"]

_ALL_AXES = (0, 1, 2, 3)
_STEPS = 8
_FILLS = 8
_BLOCK_ELEMENTS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class ScoresReading:
    """How scores follow from raw: `softcap · tanh(scale · raw / softcap) + bias`, or hidden.

    All tensors broadcast to (batch, heads, queries, keys) and have size 1 where nothing changes,
    `visible` along batch and heads only.

    scale: a number, or a tensor where it differs; None: unknown. softcap: None: there is none.
    bias: None: nothing is added. visible: True = may attend; None: all are.
    fill: the distinct values that stand in place of, or were added to, hidden scores, in the type
        of the scores and ascending; of more than 8 the lowest and the highest.
    sinks: (…, sinks), the columns beyond the keys.
    empty_row: what the row of a query that sees no key turns into; None: there is none, or unknown.
    overwritten: True where the score does not depend on raw though the key is not hidden: a mask
        that was multiplied onto the scores, or a fill that is too weak. None: nowhere.
    row_shift: a number was subtracted from each row (its maximum), which no softmax notices;
        `bias` and `sinks` are then counted from one key of the row.
    unknown: of scale, softcap, sinks, overwritten, head-mixing, empty-row, scores (as a whole).
    """

    scale: float | Tensor | None
    softcap: float | None = None
    bias: Tensor | None = None
    visible: Tensor | None = None
    fill: tuple[float, ...] = ()
    sinks: Tensor | None = None
    empty_row: EmptyRow | None = None
    overwritten: Tensor | None = None
    row_shift: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Answers:
    """What entries (batch, heads, queries, keys) answer, and what that says about each of them."""

    additive: Tensor  # batch and heads may be of size 1
    hidden: Tensor  # as additive
    overwritten: Tensor | None
    extra: Tensor  # columns beyond the keys
    extra_reacts: bool
    sample: Sample


@torch.no_grad()
def read_scores(operations: Operations, raw: Raw, scores: WithExtra) -> ScoresReading:
    """Read scale, soft cap, bias, mask and sinks from the operations between raw and scores.

    Args:
        operations: run the recorded operations on a raw tensor and return the scores; they must
            not draw random numbers, and may change the tensor that they are given.
        raw: the actual `q·k`.
        scores: the actual scores, keys first, sinks after them.
    """
    probe = Probe.of(operations, raw, scores)
    reading = _read(probe, raw, scores)
    if "softcap" in reading.unknown and probe.far > _NEAR:  # a clamp far out, which bound nothing
        nearer = _read(replace(probe, far=_NEAR), raw, scores)
        return nearer if len(nearer.unknown) < len(reading.unknown) else reading
    return reading


_NEAR = 2.0**12
"""A raw score that saturates the soft caps in use (50 and below) at common scales."""


def _read(probe: Probe, raw: Raw, scores: WithExtra) -> ScoresReading:
    levels = tuple(probe.constant(level) for level in LEVELS)
    strange = ""
    if not probe.follows(levels, _ALL_AXES):
        probe, levels, strange = _explain_coupling(probe, levels, scores)
    answers = _answers(probe, levels)
    reading = _read_additive(probe, answers, scores)
    if strange:
        return replace(reading, bias=None, unknown=(strange, *reading.unknown))
    scale, softcap, missing = read_scale(probe, answers.sample)
    if missing:
        return replace(reading, bias=None, unknown=(*missing, *reading.unknown))
    reading = replace(reading, scale=scale, softcap=softcap)
    if _predicts(reading, answers, raw, scores):
        return reading
    return replace(reading, scale=None, bias=None, unknown=("scores", *reading.unknown))


def _explain_coupling(
    probe: Probe, levels: tuple[Tensor, ...], scores: Tensor
) -> tuple[Probe, tuple[Tensor, ...], str]:
    """Say why entries answer to other entries' raw: heads are mixed, or rows are shifted.

    Where rows are shifted, the returned probe counts each row from its largest score, and with it
    entries answer to their own raw alone. The name is that of what stays unknown, or empty.
    """
    if probe.shape[1] > 1 and probe.follows(levels, (0, 2, 3)):
        return probe, levels, "head-mixing"
    reference = scores[..., : probe.shape[-1]].argmax(-1, keepdim=True)
    relative = replace(probe, reference=reference)
    relative_levels = tuple(relative.constant(level) for level in LEVELS)
    if relative.follows(relative_levels, _ALL_AXES):
        return relative, relative_levels, ""
    return probe, levels, "scores"


def _answers(probe: Probe, levels: tuple[Tensor, ...]) -> _Answers:
    """Ask with one more, large raw; judge every entry, and keep some rows for the scale."""
    keys = probe.shape[-1]
    zero, one, minus = (level[..., :keys] for level in levels)
    far_answer = probe.constant(probe.far)
    far = far_answer[..., :keys]
    rows = some_rows(probe.shape, probe.device)
    additive = zero
    if not bool(_is_middle(probe, *(part[..., rows, :] for part in (zero, one, minus))).all()):
        # operations that look for zeros: what is halfway between the answers to 1 and -1 counts
        exact = _is_middle(probe, zero, one, minus)
        additive = torch.where(exact, zero, (one + minus) / 2)
    if probe.reference is None:
        additive = collapse(additive, axes=(1, 0))
    hidden = additive.isneginf()
    cutoff = low_cutoff(additive)
    if cutoff is not None:
        hidden = hidden | (additive < cutoff)
    reacts = differs(one, zero)
    if not bool((reacts | hidden).all()):
        reacts = reacts | differs(minus, zero) | differs(far, zero)
    if probe.reference is not None:
        hidden, reacts = _around_reference(hidden, reacts, additive, probe.reference)
    free = reacts | hidden
    extra = levels[0][..., keys:]
    moved = (close(more[..., keys:], extra, probe.roundoff) for more in (*levels, far_answer))
    known = _without(reacts & ~hidden, probe.reference)[..., rows, :]
    one, minus, far, some = (part[..., rows, :] for part in (one, minus, far, additive))
    return _Answers(
        additive=additive,
        hidden=hidden,
        overwritten=None if bool(free.all()) else ~free,
        extra=extra,
        extra_reacts=not all(moved),
        sample=Sample(
            rows=rows,
            additive=some,
            step=(one - minus) / 2,
            far=far - some,
            known=known,
            slack=_STEPS * probe.roundoff * (one.abs() + minus.abs() + some.abs()),
        ),
    )


def _is_middle(probe: Probe, zero: Tensor, one: Tensor, minus: Tensor) -> Tensor:
    """Return where the answer to 0 lies halfway between those to 1 and -1, or all are the same."""
    slack = _STEPS * probe.roundoff * (one.abs() + minus.abs())
    return ((zero - (one + minus) / 2).abs() <= slack) | ((zero == one) & (zero == minus))


def _around_reference(
    hidden: Tensor, reacts: Tensor, additive: Tensor, reference: Tensor
) -> tuple[Tensor, Tensor]:
    """Judge the key that others are counted from, which by itself answers nothing.

    It is visible, unless no other key of its row answers or is low beside it: then none is visible.
    """
    hidden = hidden | additive.isnan()
    others = torch.ones_like(hidden).scatter(-1, reference, value=False)
    silent = ~reacts & ~hidden & others
    empty = (silent | ~others | additive.isnan()).all(-1, keepdim=True) & (hidden.shape[-1] > 1)
    return hidden | empty, reacts.scatter(-1, reference, value=True)


def _without(known: Tensor, reference: Tensor | None) -> Tensor:
    return known if reference is None else known.scatter(-1, reference, value=False)


def _read_additive(probe: Probe, answers: _Answers, scores: Tensor) -> ScoresReading:
    """Read all but scale and cap: bias, what is hidden and with which fill, sinks, empty rows."""
    unknown: list[str] = []
    keys = probe.shape[-1]
    hidden = answers.hidden
    sinks = None
    if answers.extra.shape[-1] and answers.extra_reacts:
        unknown.append("sinks")
    elif answers.extra.shape[-1]:
        rounded = probe.reference is not None
        slack = _STEPS * probe.roundoff * answers.extra.abs() if rounded else None
        sinks = narrow(collapse(answers.extra, slack=slack))
    if answers.overwritten is not None:
        unknown.append("overwritten")
    empty = hidden.all(-1).expand(probe.shape[:-1])
    some = bool(empty.any())
    empty_row = _empty_row(scores[..., :keys], empty) if some else None
    if some and empty_row is None:
        unknown.append("empty-row")
    counted = hidden
    if probe.reference is not None:  # an empty row has no key to count from
        counted = hidden & ~hidden.all(-1, keepdim=True)
    return ScoresReading(
        scale=None,
        bias=_read_bias(probe, answers),
        visible=collapse(~hidden, axes=(1, 0)) if bool(hidden.any()) else None,
        fill=_fills(answers.additive[counted].to(scores.dtype)),
        sinks=sinks,
        empty_row=empty_row,
        overwritten=None if answers.overwritten is None else collapse(answers.overwritten),
        row_shift=probe.reference is not None,
        unknown=tuple(unknown),
    )


def _read_bias(probe: Probe, answers: _Answers) -> Tensor | None:
    """Return the finite part that is added to visible scores, or None where it is zero."""
    seen = answers.additive.masked_fill(answers.hidden, 0.0)
    slack = None
    if probe.reference is not None:  # differences of rounded numbers
        slack = _STEPS * probe.roundoff * answers.additive.abs()
        slack = slack + answers.sample.slack.masked_fill(~answers.sample.known, 0.0).amax()
        seen = seen.masked_fill(seen.abs() <= slack, 0.0)
    if not bool((seen != 0).any()):
        return None
    return narrow(collapse(seen, ~answers.hidden, slack=slack))


def _empty_row(scores: Tensor, empty: Tensor) -> EmptyRow | None:
    """Say what a softmax makes of rows that are hidden as a whole: None: a choice among keys."""
    rows = scores[empty]
    if bool((rows.isneginf() | rows.isnan()).all()):
        return "nan"
    return "uniform" if bool((rows == rows[:, :1]).all()) else None


def _fills(values: Tensor) -> tuple[float, ...]:
    if not values.numel():
        return ()
    low, high = values.amin(), values.amax()
    if bool(low == high):
        return (float(low),)
    distinct = values.unique()
    chosen = distinct if distinct.numel() <= _FILLS else torch.stack([low, high])
    return tuple(chosen.tolist())


def _predicts(reading: ScoresReading, answers: _Answers, raw: Tensor, scores: Tensor) -> bool:
    """Say whether what was read gives the actual scores of the visible keys, but for rounding."""
    queries, keys = raw.shape[-2:]
    step = max(1, _BLOCK_ELEMENTS // max(1, raw.numel() // max(1, queries)))
    roundoff = max(unit_roundoff(scores.dtype), unit_roundoff(raw.dtype))
    for start in range(0, queries, step):
        stop = min(start + step, queries)
        counted = ~rows_of(answers.hidden, start, stop)
        if answers.overwritten is not None:
            counted = counted & ~rows_of(answers.overwritten, start, stop)
        predicted, size = _predict(reading, raw[..., start:stop, :].double(), start, stop)
        actual = scores[..., start:stop, :keys].double()
        error = predicted - actual
        if reading.row_shift:
            best = actual.masked_fill(~counted, float("-inf")).argmax(-1, keepdim=True)
            error = error - error.gather(-1, best)
            size = size + size.masked_fill(~counted, 0).amax(-1, keepdim=True) + actual.abs()
        # biases of several parts may cancel: their roundings are those of the row's larger terms
        size = size + size.masked_fill(~counted, 0).amax(-1, keepdim=True) / 4
        fits = error.abs() <= _STEPS * roundoff * size.clamp_min(1e-30)
        if not bool((fits | ~counted | (predicted.isnan() & actual.isnan())).all()):
            return False
    return True


def _predict(reading: ScoresReading, raw: Tensor, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """Return the scores of query rows `start` to `stop`, and how large the terms in them are."""
    scale = reading.scale
    predicted = raw * (rows_of(scale, start, stop) if isinstance(scale, Tensor) else scale or 0.0)
    size = predicted.abs()
    if reading.softcap is not None:
        predicted = reading.softcap * torch.tanh(predicted / reading.softcap)
    if reading.bias is not None:
        bias = rows_of(reading.bias, start, stop)
        predicted, size = predicted + bias, size + bias.abs()
    return predicted, size
