"""Residual connections that add to the norm of the stream instead of to the stream."""

from __future__ import annotations

from collections.abc import Iterator

from attnscope.calls.program import Operation
from attnscope.checks.operations import ADDS
from attnscope.checks.residual.graph import projection_of, reached
from attnscope.checks.residual.stream import PRODUCTS, Misplacement, Surroundings, is_feed_forward
from attnscope.checks.subject.subject import Subject

__all__ = ["after_norm", "after_second_norm", "all_after_norms"]


def after_norm(
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
        users = around.tape.users.get(around.stripped(each.branch), ())
        for user in (*users, *around.tape.users.get(result, ())):
            made = user.defines[0]
            if around.norm_input(made) == around.stripped(result) and each.other in reached(
                around.tape, [made]
            ):
                return True
        if _normed_on_the_way(around, result, each.other):
            return True
    return False


def _normed_on_the_way(around: Surroundings, result: int, other: int) -> bool:
    """Return whether the first projection on a way receives a norm of its start."""
    start = around.stripped(result)
    for operation in around.between(result, other):
        if operation.name in PRODUCTS:
            inputs = [v for v in operation.values() if v not in around.weights]
            return any(around.norm_input(around.stripped(v)) == start for v in inputs)
    return False


def _is_sum(around: Surroundings) -> bool:
    """Return whether the norm receives the sum of a residual, and its result is the skip."""
    stream, join = around.before_norm, around.join
    if stream is None or join is None or around.received is None:
        return False
    made = around.tape.maker.get(stream)
    if made is None or made.name not in ADDS or not around.same(join.other, around.received):
        return False
    return any(around.stripped(v) != stream and _norm_in(around, made) for v in made.values())


def _norm_in(around: Surroundings, made: Operation) -> bool:
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
    return around.stripped(stream) in inputs


def after_second_norm(subject: Subject, around: Surroundings) -> Iterator[Misplacement]:
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
            if way and is_feed_forward(around, way, norm.defines[-1]):
                yield Misplacement("after the second norm", around, each.operation)
                return


def _norms_of(around: Surroundings, value: int) -> Iterator[Operation]:
    """Iterate over the operations that return the norm of a value."""
    start = around.stripped(value)
    after = reached(around.tape, [value])
    for operation in around.tape.operations:
        if not operation.defines or operation.defines[-1] not in after:
            continue
        if around.norm_input(operation.defines[-1]) == start:
            yield operation


def all_after_norms(subject: Subject, calls: list[Surroundings]) -> Iterator[Misplacement]:
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
