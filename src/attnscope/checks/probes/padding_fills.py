"""The contents of padding are changed: nothing of a real token may move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.evidence import Spot
from attnscope.calls.program import Operation
from attnscope.checks.influence import differs, moved
from attnscope.checks.masking.coarser import coarser
from attnscope.checks.masking.entering import Entry, entries_of_calls, rows_moved
from attnscope.checks.masking.moved_outputs import moved_outputs, moved_outputs_coarsely
from attnscope.checks.masking.padded import padded
from attnscope.checks.masking.pooling import pooling_of
from attnscope.checks.masking.refilling import refilled
from attnscope.checks.masking.seen import seen_by
from attnscope.checks.masking.taken_out import taken_out
from attnscope.checks.masking.unrecorded import Unrecorded, unrecorded_of
from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.roles import Padding
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["PaddingFill", "padding_fills"]


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
            differing = {value: differs(before[value], after[value])}
            rows = rows_moved([(value, spot)], differing, *real.shape)
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
        changed, of = moved_outputs(subject, padding, real, entries, output)
        if not bool(changed.any()):
            continue
        gap, scale = _gap(subject, at, values)
        count = int(changed.count_nonzero())
        return PaddingFill(
            subject, padding, real, gap, scale, count, of, each.entry, pooling=None, share=True
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
    changed, of = moved_outputs(subject, padding, real, moved_output, output)
    sides = coarser(subject, padding, output) if of == "nothing" else None
    tokens = sides.real if sides is not None else real
    if sides is not None:
        changed, of = moved_outputs_coarsely(subject, sides, moved_output), "tokens"
    entry = pooling = unrecorded = None
    largest, scale = 0.0, 0.0
    if bool(changed.any()):
        entries = moved(subject.base.tape, values)
        entry = next(entries_of_calls(subject, tokens, entries), None)
        if entry is None:
            unrecorded = unrecorded_of(subject, real)
        if entry is None and unrecorded is None and of == "samples":
            pooling = pooling_of(subject, padding.stream, real)
        largest, scale = _gap(subject, at, values)
    count = int(changed.count_nonzero())
    found = (largest, scale, count, of, entry, pooling)
    tokens_at = tokens if sides is not None else None
    return PaddingFill(subject, padding, real, *found, unrecorded=unrecorded, tokens=tokens_at)
