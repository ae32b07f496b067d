"""The first operation of a cached step whose result is not what the full pass has at these tokens.

Both runs are the same code but for branches: operations are paired by their lines, in order. The
first pair that differs is at fault, or what feeds it and has no partner: the joining of old and new
keys, and what was kept of the steps before.
"""

from __future__ import annotations

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.checks.decoding.joining import JOINS, grown, lost, of_join
from attnscope.checks.decoding.matching import Stretch
from attnscope.checks.decoding.pairing import Pairs, Parting
from attnscope.differ.sides.side import Side

__all__ = ["first_parting"]

_DEEPEST = 40
"""Operations without a partner that are followed back."""


def first_parting(full: Side, step: Side, stretch: Stretch) -> tuple[Parting | None, set[int]]:
    """Return where a step parts from the full pass, and the numbers of operations that don't."""
    pairs = Pairs(full, step, stretch)
    found = lost(pairs) or grown(pairs) or _first(pairs)
    return found, pairs.right() if found is not None and found.made is not None else set()


def _first(pairs: Pairs) -> Parting | None:
    for number, operation in enumerate(pairs.step.tape.operations):
        partner = pairs.partners.get(number)
        if partner is None or pairs.is_past(operation):
            continue
        if pairs.agree(partner.defines, operation.defines) is False:
            return _cause(pairs, operation, partner)
    return None


def _cause(pairs: Pairs, operation: Operation, partner: Operation) -> Parting:
    """Return what makes an operation differ: an operand of it, or itself."""
    for ours, theirs in zip(operation.values(), partner.values(), strict=False):
        if pairs.agree((theirs,), (ours,)) is False:
            found = _of_value(pairs, ours, theirs)
            if found is not None:
                return found
    for ours, theirs in zip(operation.values(), partner.values(), strict=False):
        if pairs.apart(ours, theirs):
            found = _of_value(pairs, ours, theirs)
            if found is not None:
                return found
    return _other_result(operation)


def _of_value(pairs: Pairs, ours: int, theirs: int) -> Parting | None:
    """Return what made a value of the step wrong that should be `theirs` of the full pass."""
    tape, expected = pairs.step.tape, pairs.theirs(theirs)
    value = ours
    for _ in range(_DEEPEST):
        maker = tape.maker.get(value)
        if maker is None:  # from outside: positions, or what was kept
            return None
        if maker.name in JOINS:
            return of_join(pairs, maker, theirs)
        if pairs.is_past(maker) and pairs.past.agree(expected, pairs.ours(value)):
            what = "is given what was kept alone, without the tokens of the step"
            return Parting(
                maker.source,
                maker.name,
                what,
                maker,
                kept=pairs.ours(next(pairs.kept(maker))),
            )
        before = [v for v in maker.values() if v not in pairs.step.weights]
        wrong = [v for v in before if _wrong(pairs, v, expected)]
        if not wrong:
            return _left_out(pairs, maker, theirs) or _other_result(maker)
        value = wrong[0]
    return None


def _left_out(pairs: Pairs, maker: Operation, theirs: int) -> Parting | None:
    """Return what the full pass does to a value that the step hands on as it is."""
    partner, last = pairs.partner_of(maker), pairs.full.tape.maker.get(theirs)
    if partner is None or last is None or last is partner:
        return None
    if pairs.agree(partner.defines, maker.defines) is not True:
        return None
    return Parting(
        last.source, last.name, "is done in the full pass, not in this step", last, in_full=True
    )


def _wrong(pairs: Pairs, value: int, expected: Tensor) -> bool:
    """Return whether a value has the shape of what is wrong, and so hands it on."""
    tensor = pairs.ours(value)
    return (
        tensor.dim() == expected.dim()
        and tensor.numel() > 1
        and pairs.stretch.agree(expected, tensor) is False
    )


def _other_result(operation: Operation) -> Parting:
    what = "gives another result than in the full pass"
    return Parting(operation.source, operation.name, what, operation)
