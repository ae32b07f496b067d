"""The joining of new keys with what was kept of the steps before: of too few, of all, of others."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.checks.decoding.keeping import condition_of, line_of_keeping
from attnscope.checks.decoding.matching import same_but_for_rounding
from attnscope.checks.decoding.pairing import HANDS_ON, Pairs, Parting, place_of
from attnscope.differ.sides.located import Located
from attnscope.differ.sides.side import Side
from attnscope.errors import AttnscopeError

__all__ = ["JOINS", "grown", "lost", "of_join"]

JOINS = frozenset(
    "cat setitem index_copy index_copy_ copy_ scatter scatter_ index_put index_put_ "
    "slice_scatter".split()
)

_DEEPEST = 40
"""Values of the full pass that are followed on from one that is kept."""


def lost(pairs: Pairs) -> Parting | None:
    """Return where new keys join what was kept of fewer tokens than there were."""
    for operation in pairs.step.tape.operations:
        if operation.name != "cat":
            continue
        axis = operation.kwargs.get("dim", operation.args[1] if len(operation.args) > 1 else 0)
        kept = {pairs.ours(value).shape[axis] for value in pairs.kept(operation)}
        sizes = {pairs.ours(value).shape[axis] for value in operation.values()}
        if len(kept) != 1 or not sizes - kept <= {pairs.stretch.count}:
            continue
        (count,) = kept
        if 0 < count < pairs.stretch.start and _seen_in_full(pairs, operation, count):
            line = line_of_keeping(operation.source) or operation.source
            what = (
                f"joins what was kept of {count} tokens, where {pairs.stretch.start} came "
                "before and the full pass sees them"
            )
            return Parting(line, operation.name, what)
    return None


def grown(pairs: Pairs) -> Parting | None:
    """Return where more is joined to what was kept and is whole already: memory, say."""
    for operation in pairs.step.tape.operations:
        if operation.name != "cat":
            continue
        for expected in _expected(pairs, operation.defines[0]):
            kept = [pairs.ours(value) for value in pairs.kept(operation)]
            if any(same_but_for_rounding(pairs.theirs(expected), k) for k in kept):
                what = "joins more to what was kept, which is all of it already"
                return Parting(operation.source, operation.name, what, operation)
    return None


def _expected(pairs: Pairs, value: int) -> Iterator[int]:
    """Iterate over the values of the full pass that a value of the step stands for."""
    for user in pairs.step.tape.users.get(value, []):
        partner = pairs.partner_of(user)
        if partner is not None:
            operands = zip(user.values(), partner.values(), strict=False)
            yield from (theirs for ours, theirs in operands if ours == value)


def _seen_in_full(pairs: Pairs, join: Operation, count: int) -> bool:
    """Return whether the full pass looks further back than to the last `count` tokens."""
    calls = pairs.step.located
    fed = [at for at, call in enumerate(calls) if join in _behind(pairs.step, call)]
    if not fed or len(calls) != len(pairs.full.located):
        return True
    try:
        weights = pairs.full.located[fed[0]].call.weights()
    except (AttnscopeError, RuntimeError):
        return True
    if tuple(weights.shape[-2:]) != (pairs.stretch.length, pairs.stretch.length):
        return True
    return bool(weights[..., pairs.stretch.start, : pairs.stretch.start - count].any())


def of_join(pairs: Pairs, join: Operation, theirs: int) -> Parting:
    """Return whether the joining is at fault, or what was kept of the tokens before."""
    expected = pairs.theirs(theirs)
    kept = [v for v in pairs.kept(join) if pairs.ours(v).dim() == expected.dim()]
    past = pairs.past
    for value in kept:
        if past.agree(expected, pairs.ours(value)) is not True:
            again = _made_again(pairs, join, theirs, value)
            if again is not None:
                return again
            if len([op for op in pairs.step.tape.users[value] if op.name in JOINS]) > 1:
                what = "joins what another layer kept"
                return Parting(join.source, join.name, what, join, handed=True)
            line = line_of_keeping(join.source)
            return Parting(
                line or join.source,
                join.name,
                f"joins what was kept of {past.stop} tokens, and the full pass has others",
            )
    return _moved(pairs, join, expected) or Parting(
        join.source,
        join.name,
        "puts old and new tokens together otherwise than in the full pass",
        join,
    )


def _moved(pairs: Pairs, join: Operation, expected: Tensor) -> Parting | None:
    """Return what makes the tokens that were kept wrong before new ones join them."""
    tape, past, after = pairs.step.tape, pairs.past, None
    value = next(join.values(), None)
    while value is not None and (maker := tape.maker.get(value)) is not None:
        if maker.name not in JOINS and past.agree(expected, pairs.ours(value)):
            break
        after = after if maker.name in HANDS_ON | JOINS else maker
        value = next(maker.values(), None)
    if value is None or after is None:
        return None
    if past.agree(expected, pairs.ours(value)) is not True:
        return None
    line = condition_of(after.source) or after.source
    return Parting(line, after.name, "moves tokens that were kept where they belong", after)


def _made_again(pairs: Pairs, join: Operation, theirs: int, kept: int) -> Parting | None:
    """Return what makes the kept tokens of the joined ones, and so is applied to them twice."""
    reached, tape = {theirs}, pairs.full.tape
    for operation in tape.operations:
        if reached.isdisjoint(operation.values()):
            continue
        reached.update(operation.defines)
        for value in operation.defines:
            if pairs.past.agree(pairs.theirs(value), pairs.ours(kept)) is True:
                what = "is applied again to tokens that were kept with it applied"
                ours = _behind_join(pairs, join, operation)
                made = ours or operation
                return Parting(made.source, made.name, what, made, in_full=ours is None)
        if len(reached) > _DEEPEST:
            break
    return None


def _behind_join(pairs: Pairs, join: Operation, wanted: Operation) -> Operation | None:
    """Return what does in the step, to the joined tokens, what an operation does in full."""
    joined = set(join.defines)
    for operation in pairs.step.tape.operations:
        if joined.isdisjoint(operation.values()):
            continue
        joined.update(operation.defines)
        if place_of(operation) == place_of(wanted):
            return operation
    return None


def _behind(side: Side, located: Located) -> Collection[Operation]:
    """Return the operations that make the keys and values of a call."""
    ends = tuple(value for name in ("k", "v") for value, _ in located.spots.get(name, []))
    return side.tape.program.needed(ends, {})
