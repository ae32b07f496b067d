"""A Hugging Face model, run whole by its other attention implementation: eager against sdpa."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.attributes import attribute
from attnscope.checks.comparing import finite_gap
from attnscope.checks.course import course_of
from attnscope.checks.probe import probe
from attnscope.checks.probes.recomputed import what_parts
from attnscope.checks.rule import Skipped
from attnscope.checks.scoring.implementations import configs_of, own_line, set_to
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along
from attnscope.checks.unreadable import UNREADABLE
from attnscope.differ.sides.located import Located

__all__ = ["Parting", "other_implementation"]

_OTHER = {"sdpa": "eager", "eager": "sdpa"}
_LARGEST = 60_000_000
"""Parameters up to which a model is run four times more."""

_APART = 1e-4
"""Relative difference from which two ways are called different, where noise says nothing else."""

_TIMES = 4.0
"""Multiples of the noise of one run that two runs with other padding may differ by."""


@dataclass(frozen=True, slots=True)
class Parting:
    """That two implementations give different results at real tokens.

    own, other: their names; padded: whether padding was written into the inputs; largest, limit:
    difference of the outputs and what is rounding; call: the first call that gets the same q, k
    and v and gives another context, None where there is none; source: the author's own line in it,
    where a library's stands below; explained: what it does otherwise.
    """

    own: str
    other: str
    padded: bool
    largest: float
    limit: float
    call: Call | None
    explained: str
    source: Source | None = None


@probe
def other_implementation(subject: Subject) -> Parting | None:
    """Run the model by the other implementation; None: they agree, or it is no such model.

    Raises:
        Skipped: it has too many parameters, or does not run by the other one.
    """
    configs = configs_of(subject.model)
    own = next(iter(configs.values()), None) if configs else None
    if own is None or subject.model is None:
        return None
    other = _OTHER.get(own, "eager")
    if set(configs.values()) != {own} or (other == "sdpa" and not _takes_sdpa(subject.model)):
        return None
    size = sum(parameter.numel() for parameter in subject.model.parameters())
    if size > _LARGEST:
        raise Skipped(
            f"the model has {size / 1e6:.0f} million parameters, too many to be run whole by "
            f"attn_implementation={other!r} as well: check a smaller one of the same config"
        )
    given, padded = _with_padding(subject) if own in _OTHER else (subject.given, False)
    before = subject.main_output(given)
    real = _real(subject, given, before)
    if padded and real is None:  # outputs of other tokens: frames that were joined, or pooled
        given, padded = subject.given, False
        before = subject.main_output(given)
    with set_to(subject.model, other):
        after = subject.main_output(given)
    gap = finite_gap(before, after, real)
    scale = float(before.abs().nan_to_num(0.0, 0.0, 0.0).max()) if before.numel() else 0.0
    limit = max(_TIMES * subject.noise, _APART * scale)
    if gap is None or gap <= limit:
        return None
    parting = _first_parting(subject, given, other)
    if parting is None:
        return None
    call, explained = parting
    course = course_of(subject, call) if call is not None else None
    source = own_line(subject, course.product) if course is not None else None
    return Parting(own, other, padded, gap, limit, call, explained, source)


def _takes_sdpa(model: nn.Module) -> bool:
    known = [attribute(each, "_supports_sdpa") for each in model.modules()]
    return all(each for each in known if each is not None)


def _with_padding(subject: Subject) -> tuple[Given, bool]:
    """Return the inputs with padding: their own, or a third of the last sample's tokens."""
    padding = subject.roles.padding_of(subject.roles.main)
    stream = subject.roles.main
    if padding is None or stream is None:
        return subject.given, False
    try:
        real = padding.real(subject.given)
        batch, length = real.shape
        if not bool(real.all()) or batch < 2 or length < 3:
            return subject.given, False
        left = subject.causal is not None and bool(subject.causal.value)
        at, pads = torch.arange(length), max(1, length // 3)
        shown = torch.ones_like(real)
        shown[-1] = at >= pads if left else at < length - pads
        given = padding.written(subject.given, shown)
        subject.main_output(given)
    except (Skipped, RuntimeError, LookupError, ValueError):
        return subject.given, False
    return given, True


def _real(subject: Subject, given: Given, output: Tensor) -> Tensor | None:
    """Return which entries of an output belong to real tokens; None: all, or it can't be told."""
    padding = subject.roles.padding_of(subject.roles.main)
    if padding is None:
        return None
    try:
        samples, tokens = along(subject, output)
        real = padding.real(given)
    except (RuntimeError, LookupError, ValueError):
        return None
    if samples is None or tokens is None:
        return None
    shape = [1] * output.dim()
    shape[samples], shape[tokens] = output.shape[samples], output.shape[tokens]
    ordered = real if samples < tokens else real.mT
    return ordered.reshape(shape) if ordered.numel() == shape[samples] * shape[tokens] else None


def _first_parting(subject: Subject, given: Given, other: str) -> tuple[Call | None, str] | None:
    """Return the first call that parts from its counterpart, with what that one does otherwise.

    None: it takes the booleans of a mask for numbers, which the implementation chosen does not.
    """
    if subject.model is None:
        return None, ""
    ours = subject.base if given is subject.given else subject.watched(given)
    with set_to(subject.model, other):
        theirs = subject.watched(given)
    first = ours.located[0].call if ours.located else None
    if len(ours.located) != len(theirs.located):
        return first, ""
    for mine, their in zip(ours.located, theirs.located, strict=True):
        try:
            if _parts(mine, their):
                if other == "eager" and _adds_booleans(mine.call, their.call):
                    return None
                return mine.call, what_parts(mine, their)
        except UNREADABLE:
            continue
    return first, ""


def _adds_booleans(mine: Call, their: Call) -> bool:
    """Return whether another call adds 1 where this one lets a key be seen, and 0 elsewhere."""
    bias = their.recipe.bias
    if not mine.recipe.mask.hides or their.recipe.mask.hides or bias is None:
        return False
    shown = mine.recipe.mask.dense(mine.queries, mine.keys)
    return bool((bias == shown.to(bias.dtype)).all())


def _parts(mine: Located, their: Located) -> bool:
    """Return whether two calls make different contexts, of the same q (and what goes with it)."""
    contexts, queries = [], []
    for each in (mine, their):
        q, k, v = (each.value(name).detach().double() for name in ("q", "k", "v"))
        queries.append(q)
        contexts.append(each.rerun("context", q, k, v))
    (first, second), (q, other_q) = contexts, queries
    if first.shape != second.shape or q.shape != other_q.shape:
        return False
    empty = _empty_rows(mine) | _empty_rows(their)
    return _is_other(first, second, empty) and not _is_other(q, other_q, empty & False)


def _is_other(a: Tensor, b: Tensor, left_out: Tensor) -> bool:
    gap = (a - b).abs()
    gap = gap.masked_fill(left_out | ~gap.isfinite(), 0.0)
    return float(gap.max()) > _APART * float(a.abs().nan_to_num(0.0, 0.0, 0.0).max())


def _empty_rows(located: Located) -> Tensor:
    """Return the queries that see nothing, (batch or 1, heads or 1, queries, 1)."""
    call = located.call
    mask = call.recipe.mask
    if not mask.hides:
        return torch.zeros(1, 1, 1, 1, dtype=torch.bool)
    return ~mask.dense(call.queries, call.keys).any(-1, keepdim=True)
