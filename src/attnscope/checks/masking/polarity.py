"""Masks that hide what they should show: padding the wrong way round, causality upside down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.checks.masking.hides import Hide
from attnscope.checks.masking.lines import behind, depends
from attnscope.checks.masking.seen import Seen
from attnscope.checks.masking.sides import Sides, sides_of
from attnscope.checks.subject import names as habits
from attnscope.checks.subject.roles import Padding
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = [
    "Inverted",
    "inverted_bits",
    "inverted_input",
    "inverted_marks",
    "inverted_padding",
    "only_later",
    "upside_down",
]


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
    """Return whether a call shows just the padded keys and hides just the real ones.

    What a single mask hides is looked at as well as what all of them together do.
    """
    if seen.effective is None:
        return None
    names = (padding.name, padding.stream.name)
    inputs = [subject.input_value(n) for n in names if n in subject.given.values]
    hides = [hide for hide in seen.hides if depends(seen, hide, inputs)]
    if seen.hides and not hides:
        return None
    sides = sides_of(subject, seen, padding)
    if sides is None:
        return None
    found = _against(seen, seen.effective, sides, hides[0] if hides else None)
    for hide in hides if found is None else ():
        found = found or _against(seen, seen.part(hide), sides, hide)
    return found


def _against(seen: Seen, hidden: Tensor, sides: Sides, hide: Hide | None) -> Inverted | None:
    call, mixed = seen.call, sides.mixed
    shown = ~hidden[mixed].any(1)  # in every head: (samples, queries, keys)
    if not torch.equal(shown, (~hidden[mixed]).any(1)):
        return None
    real, padded = (each[mixed][:, None, :].expand_as(shown) for each in (sides.real, sides.padded))
    causal = torch.ones(call.queries, call.keys, dtype=torch.bool).tril(call.keys - call.queries)
    for edge in (torch.ones_like(causal), causal):
        told = real | padded
        within = torch.equal(shown & told & edge, padded & edge)
        past_edge = bool((shown & told & ~edge).any())
        if (within and not past_edge) or torch.equal(shown & told, told & ~(real & edge)):
            sample = int(mixed.nonzero()[0])
            return Inverted(hide, int((shown & padded).sum()), int((real & edge).sum()), sample)
    return None


def upside_down(subject: Subject, seen: Seen) -> Inverted | None:
    """Return whether each query of a square call sees what it should not see, and nothing else.

    That is itself and later keys, only later ones, or what lies outside its own document as well.
    """
    hidden, call = seen.effective, seen.call
    if hidden is None or call.queries != call.keys or call.queries < 3 or seen.turned:
        return None
    shown = ~hidden
    ones = torch.ones(call.queries, call.keys, dtype=torch.bool)
    some = shown.any(-2, keepdim=True) if not bool(shown.any(-2).all()) else None
    for wrong in (ones.triu(), ones.triu(1), *_across_documents(subject, seen)):
        if _is(shown, wrong, some):
            triangle = next((h for h in seen.hides if _is_triangle(seen.part(h))), None)
            later = int((shown & ones.triu(1)).sum())
            return Inverted(triangle, later, int((hidden & ones.tril()).sum()), 0)
    return None


def only_later(seen: Seen) -> Inverted | None:
    """Return whether the queries of a square call see nothing but later keys, some nothing at all.

    That is what a mask with steps (frames, a prefix, a window) shows when it is read the other way
    round: it was to show the diagonal, of which it shows no entry.
    """
    hidden, call = seen.effective, seen.call
    if hidden is None or call.queries != call.keys or call.queries < 3 or seen.turned:
        return None
    shown, ones = ~hidden, torch.ones(call.queries, call.keys, dtype=torch.bool)
    later = int((shown & ones.triu(1)).sum())
    if not later or bool((shown & ones.tril()).any()) or bool(shown.any(-1).all()):
        return None
    alone = next((h for h in seen.hides if bool((seen.part(h) | ~ones.tril()).all())), None)
    return Inverted(alone, later, int((hidden & ones.tril()).sum()), 0)


def _across_documents(subject: Subject, seen: Seen) -> Iterator[Tensor]:
    """Yield all but the earlier tokens of a query's own document, (batch, 1, queries, keys)."""
    name = subject.roles.documents
    segments = subject.given.values.get(name) if name is not None else None
    if isinstance(segments, Tensor) and segments.shape == (seen.call.batch, seen.call.keys):
        same = segments[:, None, :, None] == segments[:, None, None, :]
        yield ~(same & torch.ones_like(same).tril())


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


def inverted_input(subject: Subject, seen: Seen) -> tuple[Inverted, str] | None:
    """Return whether a mask input for pairs hides just what its name says that it shows."""
    for name in subject.roles.masks:
        given, meaning = subject.given.values.get(name), habits.mask_meaning(name)
        value = subject.input_value(name)
        if not isinstance(given, Tensor) or meaning is None or given.dim() < 3 or value is None:
            continue
        wanted = _over_pairs(given, seen)
        if wanted is None or name == _padding_name(subject):
            continue
        kept = wanted if meaning == "keep" else ~wanted
        for hide in seen.hides:
            if depends(seen, hide, [value]) and torch.equal(seen.part(hide).any(1), kept):
                shown = int((~kept).sum())
                return Inverted(hide, shown, int(kept.sum()), 0), name
    return None


def inverted_marks(subject: Subject, seen: Seen) -> tuple[Inverted, str] | None:
    """Return whether a mask hides all where its input marks nothing, and the other way round.

    That is asked of masks that are not laid out as tokens are: of the pixels of a picture, say.
    """
    told = {padding.name for padding in subject.roles.padding}
    for name in subject.roles.masks:
        given, value = subject.given.values.get(name), subject.input_value(name)
        meaning = _meaning(subject, name)
        if name in told or meaning is None or value is None or not isinstance(given, Tensor):
            continue
        real = given != 0 if meaning == "keep" else given == 0
        for hide in seen.hides if bool(real.any()) and not bool(real.all()) else ():
            if not depends(seen, hide, [value]) or hide.value is None:
                continue
            marks = [torch.ones_like(given), torch.zeros_like(given)]  # keep: all real, all not
            marks = marks if meaning == "keep" else marks[::-1]
            none, every = (_part_with(seen, hide, value, each) for each in marks)
            if none is not None and every is not None and bool(none.all() & ~every.any()):
                hidden = seen.part(hide)
                return Inverted(hide, int((~hidden).sum()), int(hidden.sum()), 0), name
    return None


def _meaning(subject: Subject, name: str) -> str | None:
    declared, _, meaning = str(subject.expect.get("padding") or "").partition(" ")
    if declared == name:
        return meaning if meaning in {"keep", "drop"} else None
    return habits.mask_meaning(name)


def _part_with(seen: Seen, hide: Hide, value: int, mask: Tensor) -> Tensor | None:
    """Return what an operation hides where an input is another one."""
    if hide.value is None:
        return None
    try:
        made = seen.subject.base.tape.run([hide.value], {value: mask}, wide=False)
        return seen.part(hide, made[hide.value])
    except UNREADABLE:
        return None


def _padding_name(subject: Subject) -> str | None:
    return next((p.name for p in subject.roles.padding), None)


def _over_pairs(given: Tensor, seen: Seen) -> Tensor | None:
    """Return a mask of zeros and ones as (batch, queries, keys); None: it is none of pairs."""
    call = seen.call
    flat = given.squeeze(1) if given.dim() == 4 and given.shape[1] == 1 else given
    if tuple(flat.shape) != (call.batch, call.queries, call.keys) or call.queries < 2:
        return None
    zero, one = flat == 0, flat == 1
    both = bool((zero | one).all()) and bool(zero.any()) and bool(one.any())
    return one if both else None


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
