"""Where the way back from the context to q and k is cut."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.tape import Tape
from attnscope.checks.course import CONTRACTIONS, course_of
from attnscope.checks.probes.backward import Backward, backward
from attnscope.checks.residual.graph import behind, first_cut, free_values, learning
from attnscope.checks.residual.purpose import stands_in
from attnscope.checks.residual.stream import stripped
from attnscope.checks.residual.unrecorded import cause_of
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.located import Located

__all__ = ["Cut", "Still", "cut_calls", "cut_scores", "still_calls"]

_PRODUCTS = frozenset("matmul rmatmul bmm baddbmm einsum".split())
_HIDES = frozenset("where masked_fill masked_fill_ masked_scatter setitem".split())


@dataclass(frozen=True, slots=True)
class Cut:
    """An operation that autograd doesn't go through, and the parameters that get nothing for it.

    value_norm: the largest gradient beside it. parts: which of q, k and v of the call get none.
    """

    operation: str
    source: Source | None
    parameters: tuple[str, ...]
    value_norm: float
    call: Call | None = None
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Still:
    """A call whose q and k are zero (finite), or whose gradient of `name` isn't finite."""

    name: str
    call: Call
    source: Source | None
    value_norm: float
    share: float
    finite: bool


def cut_calls(subject: Subject) -> Iterator[Cut]:
    """Iterate over calls of which q, k or v gets no gradient, while another of them does.

    k and v that stand still together are a memory, and meant to.
    """
    found, tape = backward(subject), subject.base.tape
    for located in subject.base.located:
        values = {
            name: [v for v, _ in located.spots.get(name, [])] for name in ("q", "k", "v", "context")
        }
        context = values.pop("context")
        if not context or not all(values.values()):
            continue
        still = [n for n, vs in values.items() if all(found.values.get(v) is None for v in vs)]
        largest = max(_norm(found, vs) for vs in values.values())
        if not still or largest == 0.0 or set(still) == {"k", "v"}:
            continue
        names: dict[str, None] = {}
        for part in still:
            names.update(dict.fromkeys(_untaught(subject, found, values[part])))
        starts = _weights_of(subject, names)
        way = behind(tape, context, [v for n in values if n not in still for v in values[n]])
        cut, _ = first_cut(tape, way, starts)
        if names and cut is not None and not stands_in(tape, cut):
            name, source = cause_of(subject, cut)
            yield Cut(name, source, tuple(names), largest, located.call, tuple(still))


def _untaught(subject: Subject, found: Backward, values: list[int]) -> tuple[str, ...]:
    """Return the parameters that q, k or v is made of and that get no gradient through it.

    Those that get none at all; else the projection of all three, of which a share of the rows gets
    exactly zeros.
    """
    way = behind(subject.base.tape, values)
    starved = _starved(subject, found, way)
    if starved:
        return starved
    for operation in reversed(way):
        if operation.name not in CONTRACTIONS:
            continue
        names = [n for n in _on(subject, [operation]) if n in found.parameters]
        return tuple(n for n in names if _has_idle_rows(found.parameters[n]))
    return ()


def _packed(subject: Subject, found: Backward, operands: list[int]) -> tuple[str, ...]:
    """Return the projection that all operands are slices of, and learn nothing in."""
    names = [set(_untaught(subject, found, [value])) for value in operands]
    return tuple(set.intersection(*names)) if names else ()


def _has_idle_rows(gradient: Tensor | None) -> bool:
    """Return whether a matrix's gradient is zero in whole rows or columns, and not everywhere."""
    if gradient is None or gradient.dim() < 2 or not bool(gradient.any()):
        return False
    rows = gradient.flatten(1) != 0
    return not (bool(rows.any(0).all()) and bool(rows.any(1).all()))


def cut_scores(subject: Subject) -> Iterator[Cut]:
    """Iterate over products of two activations that no gradient comes back to, in no known call.

    The cut must lie between the scores and what they weigh, and that must come from the inputs: an
    index that is looked up in a table of parameters (a codebook, the next token) is no attention.
    """
    tape = subject.base.tape
    found = backward(subject)
    largest = max((_size(g) for g in found.parameters.values() if g is not None), default=0.0)
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
        moving = [v for v in operands if v not in weights or _from_parameters(tape, v, weights)]
        if len(moving) < 2 or not tape.tensors[operation.defines[0]].requires_grad:
            continue
        way = behind(tape, operands)
        names = _starved(subject, found, way)
        if len(names) < 2 or not _all_starved(subject, found, way):
            names = _packed(subject, found, operands) if live.isdisjoint(operands) else ()
        if not names:
            continue
        cut = _cut_of_scores(tape, operation, weights)
        if cut is None or cut.defines[0] in seen or _selects(subject, cut):
            continue
        if _weighs(tape, cut, free):
            seen.update(cut.defines)
            yield Cut(*cause_of(subject, cut), names, largest)


def _cut_of_scores(tape: Tape, product: Operation, weights: Collection[int]) -> Operation | None:
    """Return the cut between a product and the next one with an activation: the context.

    None: some way to the context is not cut, whatever else is made of the scores.
    """
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
        cut = ends[-1] if ends and not tape.users.get(ends[-1].defines[0]) else None
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


def _from_parameters(tape: Tape, value: int, weights: Iterable[int]) -> bool:
    """Return whether a value is a learned query: made of parameters by some operation."""
    del weights
    return value in tape.maker


def still_calls(subject: Subject) -> Iterator[Still]:
    """Iterate over calls whose q and k are all zero, or whose gradients aren't finite."""
    found = backward(subject)
    finite = all(bool(t.isfinite().all()) for t in subject.base.outputs.values())
    for located in subject.base.located:
        values = {name: [v for v, _ in located.spots.get(name, [])] for name in ("q", "k", "v")}
        if not all(values.values()) or located.call.keys < 2:
            continue
        norm = _norm(found, values["v"])
        if finite:
            yield from _not_finite(found, located, values, norm)
        q, k = (_largest(subject.base.tape, values[name]) for name in ("q", "k"))
        if q == 0.0 and k == 0.0 and norm > 0.0 and not _nothing_comes_in(subject, values["q"]):
            yield Still(
                "q and k", located.call, _source_of(subject, values["q"]), norm, 0.0, finite=True
            )


def _nothing_comes_in(subject: Subject, values: list[int]) -> bool:
    """Return whether what is projected is zero: whatever a projection holds, it makes nothing."""
    tape = subject.base.tape
    for operation in reversed(behind(tape, values)):
        if operation.name in CONTRACTIONS:
            given = (v for v in operation.values() if _largest(tape, [v]) == 0.0)
            plain = (stripped(tape, v, frozenset()) for v in given)
            return any(value not in subject.base.parameters for value in plain)
    return False


def _not_finite(
    found: Backward, located: Located, values: dict[str, list[int]], norm: float
) -> Iterator[Still]:
    for name, numbers in values.items():
        gradients = [g for v in numbers if (g := found.values.get(v)) is not None and g.numel()]
        share = max((float((~g.isfinite()).double().mean()) for g in gradients), default=0.0)
        if share:
            yield Still(name, located.call, located.call.source, norm, share, finite=False)
            return


def _source_of(subject: Subject, values: list[int]) -> Source | None:
    """Return the line that fills what q is made of, where the code shows it."""
    from attnscope.checks.definitions import filled

    names = subject.base.parameters
    read = [names[v] for op in behind(subject.base.tape, values) for v in op.values() if v in names]
    weights = [name for name in read if _is_zero(subject, name)]
    if not weights or subject.model is None:
        return None
    return filled(subject.model, weights[-1])


def _is_zero(subject: Subject, name: str) -> bool:
    parameter = (
        dict(subject.model.named_parameters()).get(name) if subject.model is not None else None
    )
    if parameter is None or parameter.dim() < 2 or parameter.layout != torch.strided:
        return False
    return not bool(parameter.detach().any())


def _starved(subject: Subject, found: Backward, way: Iterable[Operation]) -> tuple[str, ...]:
    """Return the parameters on a way that get no gradient at all."""
    return tuple(
        n for n in _on(subject, way) if n in found.parameters and found.parameters[n] is None
    )


def _all_starved(subject: Subject, found: Backward, way: tuple[Operation, ...]) -> bool:
    """Return whether the projections nearest to a product get no gradient."""
    named = [n for n in _on(subject, way) if n in found.parameters]
    return bool(named) and all(found.parameters[n] is None for n in named[-2:])


def _on(subject: Subject, way: Iterable[Operation]) -> list[str]:
    names = subject.base.parameters
    return list(dict.fromkeys(names[v] for op in way for v in op.values() if v in names))


def _weights_of(subject: Subject, names: Iterable[str]) -> list[int]:
    wanted = set(names)
    return [value for value, name in subject.base.parameters.items() if name in wanted]


def _norm(found: Backward, values: Iterable[int]) -> float:
    return max((_size(g) for v in values if (g := found.values.get(v)) is not None), default=0.0)


def _size(gradient: Tensor) -> float:
    return (
        float(gradient.detach().double().nan_to_num(0.0, 0.0, 0.0).abs().max())
        if gradient.numel()
        else 0.0
    )


def _largest(tape: Tape, values: Iterable[int]) -> float:
    return max(
        float(tape.tensors[v].detach().abs().max()) if tape.tensors[v].numel() else 0.0
        for v in values
    )
