"""The contents of padding are changed: nothing of a real token may move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.evidence import Spot
from attnscope.calls.program import Operation
from attnscope.checks.influence import differs, moved
from attnscope.checks.masking.coarser import coarser
from attnscope.checks.masking.pooling import pooling_of
from attnscope.checks.masking.refilling import refilled
from attnscope.checks.masking.seen import NOTHING, Seen, seen_by
from attnscope.checks.masking.sides import Sides
from attnscope.checks.masking.taken_out import is_read_by_another, taken_out
from attnscope.checks.masking.unrecorded import Unrecorded, unrecorded_of
from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.roles import Padding, Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Entry", "PaddingFill", "padded", "padding_fills"]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Where padding enters attention: a call, and how much weight real queries give to it.

    queries: how many queries moved that had not moved before; weight: the largest of theirs on keys
    that are padding; sample, query: where that is.
    """

    seen: Seen
    queries: int
    weight: float
    sample: int
    query: int


@dataclass(frozen=True, slots=True, eq=False)
class PaddingFill:
    """What moved when the padding of one sequence held something else.

    subject: the subject that was looked at (with padding put in, where it had none). real: (batch,
    length). largest: how far an output of a real token, or of a sample, moved; outputs: how many
    tokens or samples did; of: which. entry: the call where it enters; pooling: else the operation
    behind all calls where it does. unrecorded: attention that is no call, where it does. share:
    what padding holds moves nothing, but it takes a share
    of the softmax: outputs move when padded keys are taken out. tokens: which of the tokens that
    attention sees are real, where the model makes fewer of them: (batch, keys).
    """

    subject: Subject
    padding: Padding
    real: Tensor
    largest: float
    scale: float
    outputs: int
    of: str
    entry: Entry | None
    pooling: Operation | None
    share: bool = False
    unrecorded: Unrecorded | None = None
    tokens: Tensor | None = None

    @property
    def leaks(self) -> bool:
        """Whether padding reaches an output that is real."""
        where = (self.entry, self.pooling, self.unrecorded)
        return self.outputs > 0 and any(each is not None for each in where)


@probe
def padding_fills(subject: Subject) -> list[PaddingFill]:
    """Change what every padded position holds, and see what moves, in float64.

    Raises:
        Skipped: nothing says which tokens are padding.
    """
    subject = padded(subject)
    known = [p for p in subject.roles.padding if p.given and not bool(p.real(subject.given).all())]
    if not known:
        raise Skipped(
            "no input says which tokens are padding: declare it, e.g. expect "
            '{"padding": "attention_mask keep"}, and give a batch with some'
        )
    if not subject.base.is_faithful:
        raise Skipped("the run can't be repeated in float64")
    found = [fill for each in known for fill in _changed(subject, each)]
    if not found:
        raise Skipped("what the padded positions hold can't be changed on its own")
    return found


def padded(subject: Subject) -> Subject:
    """Return the subject, with padding put into token ids whose mask by name has or gets none."""
    return subject.once("padded", lambda: _padded(subject))


def _padded(subject: Subject) -> Subject:
    known = subject.roles.padding
    if not known or any(p.given and not bool(p.real(subject.given).all()) for p in known):
        return subject
    chosen = next((p for p in known if _can_be_made(subject, p)), None)
    if chosen is None:
        return subject
    stream = chosen.stream
    batch, length = stream.batch(subject.given), stream.length(subject.given)
    cut = max(1, length // 3)
    at = torch.arange(length)
    left = subject.causal is not None and bool(subject.causal.value)
    real = torch.ones(batch, length, dtype=torch.bool)
    real[batch - 1] = at >= cut if left else at < length - cut
    try:
        given = chosen.written(subject.given, real)
    except (ValueError, RuntimeError):
        return subject
    other = subject.with_inputs(given)
    return other if other.crash is None and other.roles.padding else subject


def _can_be_made(subject: Subject, padding: Padding) -> bool:
    if padding.stream.kind != "ids" or padding.meaning not in {"keep", "drop"}:
        return False
    if padding.stream.length(subject.given) < 3:
        return False
    value = subject.given.values.get(padding.name)
    return value is None or (isinstance(value, Tensor) and value.dim() == 2)


def _changed(subject: Subject, padding: Padding) -> Iterator[PaddingFill]:
    real = padding.real(subject.given)
    stream = padding.stream
    if real.shape != (stream.batch(subject.given), stream.length(subject.given)):
        return
    values = refilled(subject, stream, ~real)
    output = next(iter(subject.base.outputs.values()), None)
    at = subject.base.tape.value_of(output) if output is not None else None
    if not values or output is None or at is None:
        return
    try:
        rows, kept = _reached(subject, values, real, at)
        fill = _read(subject, padding, real, values, rows, output, at)
        yield fill if fill.leaks else _without(subject, padding, real, output, at, kept) or fill
    except UNREADABLE:
        return


def _reached(
    subject: Subject, values: dict[int, Tensor], real: Tensor, at: int
) -> tuple[Tensor, list[Call]]:
    """Return which entries of the output move, and calls whose padded keys don't all move."""
    keys: dict[int, tuple[int, Spot]] = {}
    for call in subject.calls:
        course = seen_by(subject, call).course
        spots = course.located.spots.get("k", []) if course is not None else []
        if len(spots) == 1 and (call.batch, call.keys) == tuple(real.shape):
            keys[call.index] = spots[0]
    tape = subject.base.tape
    wanted = [at, *(value for value, _ in keys.values())]
    before, after = tape.run(wanted, wide=True), tape.run(wanted, values, wide=True)
    kept = []
    for call in subject.calls:
        if call.index in keys:
            value, spot = keys[call.index]
            rows = _rows(spot.read(differs(before[value], after[value]).double()) != 0, *real.shape)
            if not bool(rows[~real].all()):
                kept.append(call)
    return differs(before[at], after[at]), kept


def _without(
    subject: Subject,
    padding: Padding,
    real: Tensor,
    output: Tensor,
    at: int,
    calls: list[Call],
) -> PaddingFill | None:
    """Take padded keys out of the first call that gives them weight, and see what moves.

    calls: those in which padded keys hold the same whatever padding held.
    """
    tape = subject.base.tape
    others = moved(tape, refilled(subject, padding.stream, real)) if calls else {}
    for each in taken_out(subject, padding, real, others, calls):
        values = {each.value: each.context}
        entries = moved(tape, values, {at}).get(at)
        if entries is None:
            continue
        changed, of = _judged(subject, padding, real, entries, output)
        if not bool(changed.any()):
            continue
        gap, scale = _gap(subject, at, values)
        entry = Entry(each.seen, each.queries, each.weight, each.sample, each.query)
        count = int(changed.count_nonzero())
        return PaddingFill(
            subject, padding, real, gap, scale, count, of, entry, pooling=None, share=True
        )
    return None


def _gap(subject: Subject, at: int, values: dict[int, Tensor]) -> tuple[float, float]:
    """Return how far the output moves at most, and its largest entry."""
    tape = subject.base.tape
    before = tape.run([at], wide=True)[at]
    after = tape.run([at], values, wide=True)[at]
    gap = (before - after).abs().nan_to_num(float("inf"))
    return float(gap.max()), float(before.abs().nan_to_num(0.0, 0.0, 0.0).max())


def _read(
    subject: Subject,
    padding: Padding,
    real: Tensor,
    values: dict[int, Tensor],
    moved_output: Tensor,
    output: Tensor,
    at: int,
) -> PaddingFill:
    changed, of = _judged(subject, padding, real, moved_output, output)
    sides = coarser(subject, padding, output) if of == "nothing" else None
    tokens = sides.real if sides is not None else real
    if sides is not None:
        changed, of = _judged_coarsely(subject, sides, moved_output), "tokens"
    entry = pooling = unrecorded = None
    largest, scale = 0.0, 0.0
    if bool(changed.any()):
        entries = moved(subject.base.tape, values)
        entry = next(_entries_of_calls(subject, tokens, entries), None)
        if entry is None:
            unrecorded = unrecorded_of(subject, real)
        if entry is None and unrecorded is None and of == "samples":
            pooling = pooling_of(subject, padding.stream, real)
        largest, scale = _gap(subject, at, values)
    count = int(changed.count_nonzero())
    found = (largest, scale, count, of, entry, pooling)
    tokens_at = tokens if sides is not None else None
    return PaddingFill(subject, padding, real, *found, unrecorded=unrecorded, tokens=tokens_at)


def _judged_coarsely(subject: Subject, sides: Sides, entries: Tensor) -> Tensor:
    """Return which tokens that were made of real ones alone moved, (batch, tokens)."""
    main = subject.roles.main
    usual = main.batch_axis if main is not None and main.batch_axis is not None else 0
    fits = [a for a, n in enumerate(entries.shape) if n == sides.real.shape[1] and a != usual]
    if not fits:
        return torch.zeros_like(sides.real)
    flat = entries.movedim((usual, fits[0]), (0, 1)).flatten(2).any(-1)
    return flat & sides.real & sides.mixed[:, None]


def _judged(
    subject: Subject, padding: Padding, real: Tensor, entries: Tensor, output: Tensor
) -> tuple[Tensor, str]:
    """Return which real tokens (batch, length), or which samples with padding (batch,), moved."""
    stream = padding.stream
    owner = _owner(subject, stream, output)
    aside = owner is not stream
    samples, tokens = along(subject, output, owner)
    if samples is None and stream.batch_axis is not None:
        return torch.zeros(1, dtype=torch.bool), "nothing"
    some = (~real).any(1)
    if tokens is not None:
        keep = [a for a in (samples, tokens) if a is not None]
        rest = [a for a in range(entries.dim()) if a not in keep]
        flat = entries.permute(*keep, *rest).reshape(*(entries.shape[a] for a in keep), -1).any(-1)
        flat = flat if samples is not None else flat[None]
        if not aside:
            return flat & real, "tokens"
        own = subject.roles.padding_of(owner)
        mine = own.real(subject.given) if own is not None else torch.ones_like(flat)
        return flat & mine & some[:, None], "tokens"
    if samples is None or output.dim() > 2:
        return torch.zeros(1, dtype=torch.bool), "nothing"
    return entries.movedim(samples, 0).reshape(len(some), -1).any(1) & some, "samples"


def _owner(subject: Subject, stream: Stream, output: Tensor) -> Stream | None:
    """Return the sequence that outputs belong to: by names, else by the one length that fits."""
    main = subject.roles.main
    if is_read_by_another(subject, stream):
        return main
    if stream.length(subject.given) in output.shape:
        return stream
    others = [
        each
        for each in subject.roles.streams
        if each.name != stream.name and 1 < each.length(subject.given) in output.shape
    ]
    return others[0] if len(others) == 1 and output.dim() > 1 else stream


def _entries_of_calls(
    subject: Subject, real: Tensor, entries: dict[int, Tensor]
) -> Iterator[Entry]:
    """Iterate over calls in which queries that had not moved see keys that are padding."""
    for call in subject.calls:
        seen = seen_by(subject, call)
        spots = seen.course.located.spots if seen.course is not None else {}
        if seen.weights is None or not {"q", "k", "v", "context"} <= set(spots):
            continue
        at = {n: _where(spots[n], entries) for n in ("q", "k", "v", "context")}
        keys = _rows(at["k"], call.batch, call.keys) | _rows(at["v"], call.batch, call.keys)
        if not bool(keys.any()):
            continue
        if tuple(keys.shape) == tuple(real.shape) and bool((keys.sum(1) > (~real).sum(1)).any()):
            return  # something before has mixed tokens already
        queries = _rows(at["q"], call.batch, call.queries)
        out = _rows(at["context"], call.batch, call.queries)
        weight = seen.weights.nan_to_num(0.0).amax(1)  # over heads: (batch, queries, keys)
        mass = weight.masked_fill(~keys[:, None], 0.0).amax(-1)
        leaking = out & ~queries & (mass > NOTHING)
        if bool(leaking.any()):
            mass = mass.masked_fill(~leaking, 0.0)
            place = int(mass.argmax())
            sample, query = divmod(place, call.queries)
            yield Entry(seen, int(leaking.sum()), float(mass.max()), sample, query)


def _where(spots: list[tuple[int, Spot]], entries: dict[int, Tensor]) -> Tensor | None:
    ((value, spot),) = spots
    if value not in entries:
        return None
    canonical: Tensor = spot.read(entries[value].double())
    return canonical.nan_to_num(1.0) != 0


def _rows(entries: Tensor | None, batch: int, length: int) -> Tensor:
    """Return which rows moved in any head and feature: (batch, length)."""
    if entries is None:
        return torch.zeros(batch, length, dtype=torch.bool)
    return entries.any(-1).any(1).expand(batch, length)
