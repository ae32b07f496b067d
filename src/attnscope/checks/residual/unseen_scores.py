"""Scores of which no call is known, that no gradient comes back to."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from attnscope.calls.program import Operation
from attnscope.capture.tape import Tape
from attnscope.checks.course import course_of
from attnscope.checks.probes.backward import Backward, backward
from attnscope.checks.residual.cutting import Cut, size_of, starved, untaught
from attnscope.checks.residual.graph import (
    behind,
    first_cut,
    free_values,
    learning,
    output_values,
    parameters_on,
)
from attnscope.checks.residual.unrecorded import cause_of
from attnscope.checks.subject.subject import Subject

__all__ = ["cut_scores"]

_PRODUCTS = frozenset("matmul rmatmul bmm baddbmm einsum".split())
_HIDES = frozenset("where masked_fill masked_fill_ masked_scatter setitem".split())


def cut_scores(subject: Subject) -> Iterator[Cut]:
    """Iterate over products of two activations that no gradient comes back to, in no known call.

    The cut must lie between the scores and what they weigh, and that must come from the inputs: an
    index that is looked up in a table of parameters (a codebook, the next token) is no attention.
    """
    tape = subject.base.tape
    found = backward(subject)
    largest = max((size_of(g) for g in found.parameters.values() if g is not None), default=0.0)
    if largest == 0.0:
        return
    weights, live, free = subject.base.weights, learning(subject), free_values(subject)
    seen: set[int] = set()
    courses = [course for call in subject.calls if (course := course_of(subject, call))]
    known = {value for each in courses for op in each.main for value in op.defines}
    for operation in tape.operations:
        operands = list(dict.fromkeys(operation.values()))
        if operation.name not in _PRODUCTS or len(operands) < 2:
            continue
        if operation.defines[0] in known:
            continue
        moving = [v for v in operands if v not in weights or v in tape.maker]
        if len(moving) < 2 or not tape.tensors[operation.defines[0]].requires_grad:
            continue
        way = behind(tape, operands)
        names = starved(subject, found, way)
        if len(names) < 2 or not _all_starved(subject, found, way):
            names = _packed(subject, found, operands) if live.isdisjoint(operands) else ()
        if not names:
            continue
        cut = _cut_of_scores(subject, operation)
        if cut is None or cut.defines[0] in seen or _selects(subject, cut):
            continue
        if _weighs(tape, cut, free):
            seen.update(cut.defines)
            yield Cut(*cause_of(subject, cut), names, largest)


def _packed(subject: Subject, found: Backward, operands: list[int]) -> tuple[str, ...]:
    """Return the projection that all operands are slices of, and learn nothing in."""
    names = [set(untaught(subject, found, [value])) for value in operands]
    return tuple(set.intersection(*names)) if names else ()


def _all_starved(subject: Subject, found: Backward, way: tuple[Operation, ...]) -> bool:
    """Return whether the projections nearest to a product get no gradient."""
    named = [n for n in parameters_on(subject, way) if n in found.parameters]
    return bool(named) and all(found.parameters[n] is None for n in named[-2:])


def _cut_of_scores(subject: Subject, product: Operation) -> Operation | None:
    """Return the cut between a product and the next one with an activation: the context.

    None: some way to the context is not cut, whatever else is made of the scores.
    """
    tape, weights = subject.base.tape, subject.base.weights
    alive = set(product.defines)
    later = []
    for operation in tape.operations:
        if operation is product or alive.isdisjoint(operation.values()):
            continue
        joined = [v for v in operation.values() if v not in alive and v not in weights]
        if operation.name in _PRODUCTS and joined:
            kept = [v for v in operation.values() if v in alive]
            if any(tape.tensors[v].requires_grad for v in kept):
                return None
            continue
        later.append(operation)
        alive.update(operation.defines)
    cut, alive = first_cut(tape, later, product.defines)
    if cut is None:  # it goes on as plain numbers, from the last tensor that nothing reads
        ends = [op for op in later if not alive.isdisjoint(op.defines)]
        last = ends[-1].defines[0] if ends else None
        if last is not None and last not in output_values(subject) and not tape.users.get(last):
            cut = ends[-1]
    return cut


def _selects(subject: Subject, cut: Operation) -> bool:
    """Return whether an index or a comparison picks what a known call then attends to."""
    tape = subject.base.tape
    if tape.tensors[cut.defines[0]].is_floating_point():
        return False
    courses = [course for call in subject.calls if (course := course_of(subject, call))]
    starts = {v for c in courses for n in ("k", "v") for v, _ in c.located.spots.get(n, [])}
    inside = {v for c in courses for op in c.main for v in op.defines}
    alive = set(cut.defines)
    for operation in tape.operations:
        if alive.isdisjoint(operation.values()):
            continue
        if not inside.isdisjoint(operation.defines):
            return True
        if operation.name not in _PRODUCTS and operation.name != "linear":
            alive.update(operation.defines)
    return not starts.isdisjoint(alive)


def _weighs(tape: Tape, cut: Operation, free: Collection[int]) -> bool:
    """Return whether what is made of a cut's result first meets is weighed by it, and moves.

    What leaves the tape (through NumPy) comes back as something that can't be followed.
    """
    alive = set(cut.defines)
    for operation in tape.operations:
        values = operation.values()
        if operation is cut or alive.isdisjoint(values):
            continue
        joined = [v for v in values if v not in alive and tape.tensors[v].is_floating_point()]
        if joined:
            return operation.name not in _HIDES and any(v not in free for v in joined)
        alive.update(operation.defines)
    first = cut.defines[0]
    return tape.tensors[first].is_floating_point() and not tape.users.get(first)
