"""Residual connections that are misplaced: doubled, missing, from the wrong tensor or a norm."""

from __future__ import annotations

from collections.abc import Iterator

from attnscope.calls.program import Operation
from attnscope.checks.residual.after_norm import after_norm, after_second_norm, all_after_norms
from attnscope.checks.residual.graph import output_values, reached
from attnscope.checks.residual.stream import (
    Misplacement,
    Sum,
    Surroundings,
    is_feed_forward,
)
from attnscope.checks.subject.subject import Subject

__all__ = ["misplacements"]


def misplacements(subject: Subject) -> list[Misplacement]:
    """Return what is misplaced around the calls of the base run."""
    side = subject.base
    everything = [Surroundings(each, side.tape, side.weights) for each in side.located]
    calls = [each for each in everything if each.received is not None]
    found: list[Misplacement] = []
    for each in everything:
        if each.received is None and each.join is not None and each.join.other == each.join.branch:
            found += _doubled(each)
    found += all_after_norms(subject, calls)
    for each in [] if found else calls:
        found += after_norm(subject, each, calls)
        found += _doubled(each)
        found += _block_input(each)
        found += after_second_norm(subject, each)
    found += _missing(subject, calls)
    return [each for each in found if not _only_at_the_start(each, found, calls)]


def _only_at_the_start(
    found: Misplacement, everything: list[Misplacement], calls: list[Surroundings]
) -> bool:
    """Return whether a sum is doubled in the first layer alone: inputs that are fed in again."""
    if found.kind != "doubled":
        return False
    places = [each.around for each in everything if each.kind == "doubled"]
    joined = [each for each in calls if each.joins]
    return len(joined) > 1 and all(each is joined[0] for each in places)


# -- doubled -----------------------------------------------------------------------------------


def _doubled(around: Surroundings) -> Iterator[Misplacement]:
    join = around.join
    if join is None:
        return
    if join.other == join.branch:
        yield Misplacement("doubled", around, join.operation)
        return
    for each in around.sums_of(join.result):
        if each.other == each.branch or (
            around.same(each.other, join.other) and not around.depends(each.other)
        ):
            yield Misplacement("doubled", around, each.operation)
            return


# -- block input -------------------------------------------------------------------------------


def _block_input(around: Surroundings) -> Iterator[Misplacement]:
    """The feed-forward adds what the block received instead of the sum behind attention."""
    join = around.join
    if join is None or join.other == join.branch:
        return
    skip, total = around.stripped(join.other), join.result
    if any(True for _ in around.sums_of(total)):
        return
    for each in around.sums_of(skip):
        if each.operation is join.operation or not around.depends(each.other):
            continue
        way = around.between(total, each.other)
        if way and is_feed_forward(around, way, total):
            yield Misplacement("block input", around, each.operation)
            return


# -- missing -----------------------------------------------------------------------------------


def _missing(subject: Subject, calls: list[Surroundings]) -> Iterator[Misplacement]:
    """Attention's result goes on without its input, in blocks whose feed-forward has a residual."""
    found = [each for each in calls if _lacks_skip(subject, each)]
    if len(found) == 1 and not found[0].normed:
        return
    for each in found:
        yield Misplacement("missing", each, _first_after(each, each.later[0]))


def _lacks_skip(subject: Subject, around: Surroundings) -> bool:
    received = around.received
    if around.joins or not around.later or received is None:
        return False
    if around.tape.tensors[received].numel() != around.tape.tensors[around.later[0].result].numel():
        return False
    start = around.before_norm if around.before_norm is not None else received
    contexts = [v for v, _ in around.located.spots["context"]]
    free = reached(around.tape, [start], barred=contexts)
    ends = [v for v in output_values(subject) if v in free]
    return not ends and around.later[0].result not in free


def _first_after(around: Surroundings, later: Sum) -> Operation:
    """Return what takes the place of the sum: the first norm of the result, or what made it."""
    made = around.tape.maker.get(around.stripped(later.branch))
    return made if made is not None else later.operation
