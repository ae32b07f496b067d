"""What is wrong with a rotary embedding, told by numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.checks.positions.partners import in_order_of
from attnscope.checks.positions.sources import have_one_source
from attnscope.checks.positions.strangers import stranger
from attnscope.checks.positions.turning import Factor, Turning, turnings
from attnscope.checks.probes.alike_tokens import alike_tokens
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject

__all__ = ["RotaryFault", "rotary_faults"]

_UNEVEN = 1e-3
"""Relative spread of a length ratio that is no rounding in float64."""

_SHIFT = 1e-2
"""Relative change of q·k under a common shift: far above tables rounded to float32."""


@dataclass(frozen=True, slots=True)
class RotaryFault:
    """A fault: in words, with numbers. table: the one that is out of order, where it is known."""

    kind: str
    text: str
    turning: Turning
    operation: Operation
    numbers: dict[str, float | int | str]
    table: Factor | None = None


def rotary_faults(subject: Subject) -> Iterator[RotaryFault]:
    """Iterate over the first fault of every call."""
    for q, k in turnings(subject):
        found = next(_of_call(subject, q, k), None)
        if found is not None:
            yield found


def _of_call(subject: Subject, q: Turning, k: Turning) -> Iterator[RotaryFault]:
    for each in (q, k):
        yield from _along_other_axis(each)
    for each in (q, k):
        yield from _strange(subject, each)
    for each in (q, k):
        yield from _no_rotation(subject, each)
    if not have_one_source(subject, q.located):
        return
    yield from _one_side(q, k)
    yield from _twice(q, k)
    yield from _unlike(subject, q, k)


def _along_other_axis(turning: Turning) -> Iterator[RotaryFault]:
    """The angle differs from head to head, or sample to sample, and not from token to token."""
    call, length = turning.located.call, turning.length
    for one, _ in turning.pairs:
        made = one.operation.shapes[0]
        if length < 2 or turning.along(one, length) or not _holds_all(made, one.axes, length):
            continue
        for axis in one.axes:
            size = made[axis]
            sizes = {"sample": call.batch, "head": turning.heads}
            names = [name for name, own in sizes.items() if own == size]
            if not names:
                continue
            name = names[0] if len(names) == 1 else "sample" if axis == 0 else "head"
            yield RotaryFault(
                "axis",
                f"{turning.side} is turned by the number of the {name} (an axis of {size}), "
                f"the same at all {length} positions",
                turning,
                one.operation,
                {"axis_size": size, "positions": length, "axis": name},
            )


def _strange(subject: Subject, turning: Turning) -> Iterator[RotaryFault]:
    """Cosines multiply one vector and sines another one."""
    found = stranger(subject, turning)
    if found is None:
        return
    factor, strange, of = found
    yield RotaryFault(
        "two vectors",
        f"what turns {turning.side} is no rotation: {strange} of the {of} numbers that are "
        "multiplied here have no partner: cosines multiply one vector, and sines another one",
        turning,
        factor.operation,
        {"strangers": strange, "of": of, "side": turning.side},
    )


def _holds_all(made: tuple[int, ...], axes: tuple[int, ...], length: int) -> bool:
    """Return whether all positions lie along an axis that the angle is not told by.

    What is turned may be a part of k, joined to the rest later: its own axes say nothing then.
    """
    rest = [size for axis, size in enumerate(made[:-1]) if axis not in axes]
    return any(size % length == 0 for size in rest)


def _no_rotation(subject: Subject, turning: Turning) -> Iterator[RotaryFault]:
    """Lengths change by position, by another factor in each head: no rotation does that."""
    pairs = turning.pairs + turning.shuffled
    if not any(turning.along(one, turning.length) for one, _ in pairs):
        return
    known = {id(each) for pair in pairs for each in pair}
    others = [each for each in turning.by_position() if id(each) not in known]
    if any(_is_by_feature(each) for each in others):
        return
    both = turning.before_and_after(subject)
    if both is None:
        return
    spread, at = _uneven(*both)
    if spread > _limit(pairs):
        yield RotaryFault(
            "no rotation",
            f"what turns {turning.side} is no rotation: at position {at} the lengths of its "
            f"vectors change by factors that differ by {spread:.2g} from head to head, where a "
            "rotation keeps them all. The two features of a pair don't turn together"
            + (": cosines and sines stand in different orders" if turning.shuffled else ""),
            turning,
            pairs[-1][1].operation,
            {"spread_of_lengths": spread, "position": at, "side": turning.side},
            _out_of_order(subject, turning),
        )


def _limit(pairs: list[tuple[Factor, Factor]]) -> float:
    return max(_UNEVEN, 8 * max(one.grain for one, _ in pairs))


def _out_of_order(subject: Subject, turning: Turning) -> Factor | None:
    """Return the table whose columns make a rotation once they are in the order of its partner."""
    for cosine, sine in turning.shuffled:
        for odd, partner in ((sine, cosine), (cosine, sine)):
            mended = in_order_of(partner.table, odd.table, max(odd.grain, partner.grain))
            if mended is None:
                continue
            both = turning.before_and_after(subject, {odd.value: mended})
            if both is not None and _uneven(*both)[0] <= _limit(turning.shuffled):
                return odd
    return None


def _paired(turning: Turning) -> set[int]:
    return {id(each) for pair in turning.pairs for each in pair}


def _is_by_feature(factor: Factor) -> bool:
    """Return whether a table that is no cosine or sine has other numbers in other features."""
    from attnscope.checks.positions.constants import varies

    return varies(factor.table, factor.table.dim() - 1)


def _uneven(before: Tensor, after: Tensor) -> tuple[float, int]:
    """Return the largest spread over heads and samples of how lengths change, and where."""
    size = max(float(before.abs().max()), 1e-300)
    moved = (after - before).abs().amax((0, 1, 2)) > 1e-9 * size
    if not bool(moved.any()):
        return 0.0, 0
    old, new = (each[..., moved].norm(dim=-1).flatten(0, 1) for each in (before, after))
    ratio = new / old.clamp_min(1e-300)
    known = (old > 1e-3 * float(old.max())).all(0)  # tokens of zeros say nothing
    spread = (ratio.amax(0) - ratio.amin(0)).masked_fill(~known, 0.0)
    return float(spread.max()), int(spread.argmax())


def _one_side(q: Turning, k: Turning) -> Iterator[RotaryFault]:
    turned = [each for each in (q, k) if _is_turned(each)]
    if len(turned) != 1:
        return
    other = k if turned[0] is q else q
    if other.factors or other.located.call.head_dim != turned[0].located.call.head_dim:
        return
    yield RotaryFault(
        "one side",
        f"{turned[0].side} is turned by position and {other.side} is not: q·k depends on the "
        f"absolute place of {turned[0].side} instead of the distance",
        turned[0],
        turned[0].pairs[0][0].operation,
        {"turned": turned[0].side, "not_turned": other.side},
    )


def _is_turned(turning: Turning) -> bool:
    return any(turning.along(one, turning.length) for one, _ in turning.pairs)


def _twice(q: Turning, k: Turning) -> Iterator[RotaryFault]:
    if not (_is_turned(q) and _is_turned(k)):
        return
    if q.depth == k.depth == 1 or min(q.depth, k.depth) == 0:
        return
    more = max((q, k), key=lambda each: each.depth)
    if not _same_tables(more):
        return
    where = "q and k are" if q.depth == k.depth else f"{more.side} is"
    last = next(one for one, _ in reversed(more.pairs) if one.depth == more.depth)
    yield RotaryFault(
        "twice",
        f"{where} turned {more.depth} times by the same angles, one after the other"
        + (
            ""
            if q.depth == k.depth
            else f", where {'k' if more is q else 'q'} is turned {min(q.depth, k.depth)} time"
        ),
        more,
        last.operation,
        {"times_q": q.depth, "times_k": k.depth},
    )


def _same_tables(turning: Turning) -> bool:
    """Return whether the same angles come at the first and at a later depth."""
    first = [one.table for one, _ in turning.pairs if one.depth == 1]
    later = [one.table for one, _ in turning.pairs if one.depth > 1]
    return any(
        a.numel() == b.numel() and torch.allclose(a.flatten(), b.flatten().to(a.dtype), atol=1e-5)
        for a in first
        for b in later
    )


def _unlike(subject: Subject, q: Turning, k: Turning) -> Iterator[RotaryFault]:
    """Alike tokens, turned by angles that grow evenly: q·k must not change when both move on."""
    if not (_is_turned(q) and _is_turned(k)) or not (_is_even(q) and _is_even(k)):
        return
    if any(id(each) not in _paired(side) for side in (q, k) for each in side.by_position()):
        return  # a temperature by place
    try:
        shift = alike_tokens(subject).shifts.get(q.located.call.index, 0.0)
    except Skipped:
        return
    eps = max(one.grain for one, _ in (*q.pairs, *k.pairs))
    if shift > max(_SHIFT, 32 * eps):
        yield RotaryFault(
            "not relative",
            "q and k are turned against one another: with the same token everywhere, q·k changes "
            f"by {shift:.2g} of its largest value when both places move on by one, where it must "
            "stay the same",
            k,
            k.pairs[0][0].operation,
            {"shift": shift},
        )


def _is_even(turning: Turning) -> bool:
    """Return whether the angle grows by the same step from each position to the next."""
    for pair in turning.pairs:
        turns = turning.complex_of(pair)
        if turns is None or len(turns) < 3:
            return False
        steps = turns[1:] * turns[:-1].conj()
        if float((steps - steps[:1]).abs().max()) > 32 * pair[0].grain + 1e-4:
            return False
    return True
