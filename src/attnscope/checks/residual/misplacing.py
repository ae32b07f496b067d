"""Residual connections that are after the norm, doubled, missing, or from the wrong tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attnscope.calls.program import Operation
from attnscope.checks.residual.graph import output_values, projection_of, reached
from attnscope.checks.residual.stream import (
    ADDS,
    CONTRACTIONS,
    Sum,
    Surroundings,
    norm_input,
    stripped,
)
from attnscope.checks.subject.subject import Subject

__all__ = ["Misplacement", "misplacements"]


@dataclass(frozen=True, slots=True)
class Misplacement:
    """kind: "after the norm", "after the second norm", "doubled", "missing" or "block input".

    at: the operation at fault.
    """

    kind: str
    around: Surroundings
    at: Operation


def misplacements(subject: Subject) -> list[Misplacement]:
    """Return what is misplaced around the calls of the base run."""
    side = subject.base
    everything = [Surroundings(each, side.tape, side.weights) for each in side.located]
    calls = [each for each in everything if each.received is not None]
    found: list[Misplacement] = []
    for each in everything:
        if each.received is None and each.join is not None and each.join.other == each.join.branch:
            found += _doubled(each)
    found += _all_after_norms(subject, calls)
    for each in [] if found else calls:
        found += _after_norm(subject, each, calls)
        found += _doubled(each)
        found += _block_input(each)
        found += _after_second_norm(subject, each)
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


# -- after the norm ----------------------------------------------------------------------------


def _after_norm(
    subject: Subject, around: Surroundings, calls: list[Surroundings]
) -> Iterator[Misplacement]:
    """The skip is what the projections receive, and that is normed, in blocks that norm first."""
    join, received, stream = around.join, around.received, around.before_norm
    if join is None or received is None or stream is None or around.normed:
        return
    if not around.same(join.other, received) or not _norms_first(around, join.result):
        return
    repeated = [each for each in calls if each.before_norm is not None and _is_sum(each)]
    if repeated or _inside_block(subject, around, received) or _is_input(subject, around, stream):
        yield Misplacement("after the norm", around, join.operation)


def _norms_first(around: Surroundings, result: int) -> bool:
    """Return whether what follows adds to `result` what it makes of its norm."""
    for each in around.sums_of(result):
        if each.operation.name not in ADDS or not around.depends(each.other):
            continue
        users = around.tape.users.get(stripped(around.tape, each.branch, around.weights), ())
        for user in (*users, *around.tape.users.get(result, ())):
            made = user.defines[0]
            if norm_input(around.tape, made, around.weights) == stripped(
                around.tape, result, around.weights
            ) and each.other in reached(around.tape, [made]):
                return True
        if _normed_on_the_way(around, result, each.other):
            return True
    return False


def _normed_on_the_way(around: Surroundings, result: int, other: int) -> bool:
    """Return whether the first projection on a way receives a norm of its start."""
    start = stripped(around.tape, result, around.weights)
    for operation in around.between(result, other):
        if operation.name in CONTRACTIONS:
            inputs = [v for v in operation.values() if v not in around.weights]
            return any(
                norm_input(around.tape, stripped(around.tape, v, around.weights), around.weights)
                == start
                for v in inputs
            )
    return False


def _is_sum(around: Surroundings) -> bool:
    """Return whether the norm receives the sum of a residual, and its result is the skip."""
    stream, join = around.before_norm, around.join
    if stream is None or join is None or around.received is None:
        return False
    made = around.tape.maker.get(stream)
    if made is None or made.name not in ADDS or not around.same(join.other, around.received):
        return False
    return any(
        stripped(around.tape, v, around.weights) != stream and norm_in(around, made)
        for v in made.values()
    )


def norm_in(around: Surroundings, made: Operation) -> bool:
    """Return whether a sum adds, to a value, something computed from that value's norm."""
    operands = list(dict.fromkeys(made.values()))
    if len(operands) != 2:
        return False
    return any(
        _normed_on_the_way(around, skip, branch)
        for skip, branch in (operands, operands[::-1])
        if branch in reached(around.tape, [skip])
    )


def _inside_block(subject: Subject, around: Surroundings, received: int) -> bool:
    """Return whether the norm lies in the same block as the attention, below the model itself."""
    made = around.tape.maker.get(received)
    return made is not None and _lies_inside(subject, around, made)


def _lies_inside(subject: Subject, around: Surroundings, norm: Operation) -> bool:
    """Return whether a norm's parameters lie in the block of the attention, below the model.

    Blocks that are kept as several lists, of norms and of attentions, are told by their number.
    """
    names, module = subject.base.parameters, around.located.call.module
    projections = projection_of(subject, [v for v, _ in around.located.spots.get("q", [])])
    number = next(filter(None, map(_numbered, [module, *projections])), None)
    for value in norm.values():
        path = names.get(value, "").rpartition(".")[0]
        block = path.rpartition(".")[0]
        if block and f"{module}.".startswith(f"{block}."):
            return True
        if number is not None and number == _numbered(path):
            return True
    return False


def _numbered(path: str) -> tuple[str, tuple[str, ...]] | None:
    """Return where the first list of a path lies, and all numbers in it; None: there is none."""
    parts = path.split(".")
    numbers = tuple(part for part in parts if part.isdigit())
    if not numbers:
        return None
    first = parts.index(numbers[0])
    return ".".join(parts[: max(first - 1, 0)]), numbers


def _is_input(subject: Subject, around: Surroundings, stream: int) -> bool:
    """Return whether a value is an input of the model, as it is."""
    inputs = {subject.input_value(stream.name) for stream in subject.roles.streams}
    return stripped(around.tape, stream, around.weights) in inputs


def _after_second_norm(subject: Subject, around: Surroundings) -> Iterator[Misplacement]:
    """Attention adds to the stream itself, the feed-forward behind it to the norm of the stream."""
    join, stream = around.join, around.before_norm
    if join is None or stream is None or around.normed or not around.same(join.other, stream):
        return
    total = join.result
    if any(True for _ in around.sums_of(total)):
        return
    for norm in _norms_of(around, total):
        if not _lies_inside(subject, around, norm):
            continue
        for each in around.sums_of(norm.defines[-1]):
            way = around.between(norm.defines[-1], each.other)
            if way and _is_feed_forward(around, way, norm.defines[-1]):
                yield Misplacement("after the second norm", around, each.operation)
                return


def _norms_of(around: Surroundings, value: int) -> Iterator[Operation]:
    """Iterate over the operations that return the norm of a value."""
    start = stripped(around.tape, value, around.weights)
    after = reached(around.tape, [value])
    for operation in around.tape.operations:
        if not operation.defines or operation.defines[-1] not in after:
            continue
        if norm_input(around.tape, operation.defines[-1], around.weights) == start:
            yield operation


def _all_after_norms(subject: Subject, calls: list[Surroundings]) -> Iterator[Misplacement]:
    """Blocks that begin with a norm, whose sums all add to norms, in a stack that ends with one.

    Operation by operation that is a post-norm stack; but there no block begins with its own norm,
    and what the last block returns is not normed again.
    """
    if not calls or any(each.normed for each in calls):
        return
    for each in calls:
        join, received = each.join, each.received
        if join is None or received is None or each.before_norm is None:
            return
        if not (each.same(join.other, received) and _inside_block(subject, each, received)):
            return
    last = calls[-1]
    join = last.join
    norm = next(_norms_of(last, join.result), None) if join is not None else None
    if norm is None or not _lies_inside(subject, last, norm):
        return
    sums = [each for each in last.sums_of(norm.defines[-1]) if last.depends(each.other)]
    ends = list(_norms_of(last, sums[0].result)) if sums else []
    if any(not _lies_inside(subject, last, each) for each in ends):
        for each in calls:
            if each.join is not None:
                yield Misplacement("after the norm", each, each.join.operation)


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
    skip, total = stripped(around.tape, join.other, around.weights), join.result
    if any(True for _ in around.sums_of(total)):
        return
    for each in around.sums_of(skip):
        if each.operation is join.operation or not around.depends(each.other):
            continue
        way = around.between(total, each.other)
        if way and _is_feed_forward(around, way, total):
            yield Misplacement("block input", around, each.operation)
            return


def _is_feed_forward(around: Surroundings, way: list[Operation], total: int) -> bool:
    """Return whether a way is two or three projections with nothing added to itself on it."""
    projections = [op for op in way if op.name in CONTRACTIONS]
    if len(projections) not in {2, 3} or not all(
        any(v in around.weights for v in op.values()) for op in projections
    ):
        return False
    from_total = reached(around.tape, [total])
    sums = [op for op in way if op.name in ADDS]
    return not any(sum(v in from_total for v in dict.fromkeys(op.values())) > 1 for op in sums)


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
    made = around.tape.maker.get(stripped(around.tape, later.branch, around.weights))
    return made if made is not None else later.operation
