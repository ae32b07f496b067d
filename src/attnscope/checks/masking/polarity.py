"""Masks that hide what they should show: padding the wrong way round, causality upside down."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.checks.masking.hides import Hide
from attnscope.checks.masking.lines import behind, depends
from attnscope.checks.masking.seen import Seen
from attnscope.checks.subject.roles import Padding
from attnscope.checks.subject.subject import Subject

__all__ = ["Inverted", "inverted_bits", "inverted_padding", "upside_down"]


@dataclass(frozen=True, slots=True, eq=False)
class Inverted:
    """What a mask shows although it should not: how many pairs, and how many it should and doesn't.

    hide: the operation that applies it; None: it can't be told.
    """

    hide: Hide | None
    shown: int
    hidden: int
    sample: int


def inverted_padding(subject: Subject, seen: Seen, padding: Padding) -> Inverted | None:
    """Return whether a call shows just the padded keys and hides just the real ones."""
    hidden, call = seen.effective, seen.call
    real = padding.real(subject.given)
    if hidden is None or tuple(real.shape) != (call.batch, call.keys):
        return None
    mixed = real.any(1) & ~real.all(1)
    if not bool(mixed.any()):
        return None
    names = (padding.name, padding.stream.name)
    inputs = [subject.input_value(n) for n in names if n in subject.given.values]
    if seen.hides and not any(depends(seen, hide, inputs) for hide in seen.hides):
        return None
    shown = ~hidden[mixed].any(1)  # in every head: (samples, queries, keys)
    real = real[mixed][:, None, :].expand_as(shown)
    shown_to_some = (~hidden[mixed]).any(1)
    causal = torch.ones(call.queries, call.keys, dtype=torch.bool).tril(call.keys - call.queries)
    if not torch.equal(shown, shown_to_some):
        return None
    for edge in (torch.ones_like(causal), causal):
        within = torch.equal(shown & edge, ~real & edge) and not bool((shown & ~edge).any())
        if within or torch.equal(shown, ~(real & edge)):
            lost, sample = int((real & edge).sum()), int(mixed.nonzero()[0])
            hide = next((h for h in seen.hides if depends(seen, h, inputs)), None)
            return Inverted(hide, int((shown & ~real).sum()), lost, sample)
    return None


def upside_down(seen: Seen) -> Inverted | None:
    """Return whether each query of a square call sees itself and later keys, or only later ones."""
    hidden, call = seen.effective, seen.call
    if hidden is None or call.queries != call.keys or call.queries < 3 or seen.turned:
        return None
    shown = ~hidden
    some = shown.any(-2, keepdim=True) if not bool(shown.any(-2).all()) else None
    ones = torch.ones(call.queries, call.keys, dtype=torch.bool)
    for diagonal in (0, 1):
        wrong = ones.triu(diagonal)
        if _is(shown, wrong, some):
            triangle = next((h for h in seen.hides if _is_triangle(seen.part(h))), None)
            later = int((shown & ones.triu(1)).sum())
            return Inverted(triangle, later, int((hidden & ones.tril()).sum()), 0)
    return None


def _is(shown: Tensor, wrong: Tensor, some: Tensor | None) -> bool:
    if torch.equal(shown, wrong.expand_as(shown)):
        return True
    return some is not None and bool(shown.any()) and _with_padding(shown, wrong, some)


def _with_padding(shown: Tensor, wrong: Tensor, some: Tensor) -> bool:
    whole = some.all(-1, keepdim=True)
    at_all = bool(whole.any())
    return at_all and torch.equal(shown, (wrong & some).expand_as(shown))


def _is_triangle(hidden: Tensor) -> bool:
    square = hidden.flatten(0, 1).all(0)
    return bool(square.any()) and not bool(square.triu(1).any())


def inverted_bits(seen: Seen) -> tuple[Hide, Tensor] | None:
    """Return a mask that was made by `~` of zeros and ones that are integers, with these."""
    for hide in seen.hides:
        for operation in behind(seen, hide):
            if operation.name not in {"invert", "bitwise_not"}:
                continue
            given = next(operation.values(), None)
            tensor = seen.subject.base.tape.tensors[given].detach() if given is not None else None
            if tensor is None or tensor.dtype == torch.bool or tensor.numel() < 2:
                continue
            zeros_and_ones = bool(((tensor == 0) | (tensor == 1)).all())
            if zeros_and_ones and bool(seen.part(hide).all()):
                return hide, tensor
    return None
