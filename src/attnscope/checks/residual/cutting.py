"""Where the way back from the context to q, k or v is cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.tape import Tape
from attnscope.checks.operations import CONTRACTIONS
from attnscope.checks.probes.backward import Backward, backward
from attnscope.checks.residual.graph import (
    behind,
    first_cut,
    parameters_on,
    projection_of,
)
from attnscope.checks.residual.purpose import stands_in
from attnscope.checks.residual.stream import stripped
from attnscope.checks.residual.unrecorded import cause_of
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.located import Located

__all__ = ["Cut", "Still", "cut_calls", "size_of", "starved", "still_calls", "untaught"]

_WRITES = frozenset("setitem copy_ index_copy_ index_put_ scatter_".split())


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

    k and v that stand still together are a memory, or a cache that is written to, and meant to; but
    for those whose projection learns nothing anywhere, while that of q does.
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
        if not still or largest == 0.0:
            continue
        memory = set(still) == {"k", "v"}
        if memory and not _projects_in_vain(subject, found, values):
            continue
        names: dict[str, None] = {}
        for part in still:
            names.update(dict.fromkeys(untaught(subject, found, values[part])))
        nearest = {n for part in still for n in projection_of(subject, values[part]) if n in names}
        starts = _weights_of(subject, nearest or names)  # what is cut further back is another thing
        way = behind(tape, context, [v for n in values if n not in still for v in values[n]])
        cut, _ = first_cut(tape, way, starts)
        if names and cut is not None and not stands_in(tape, cut):
            name, source = cause_of(subject, cut)
            yield Cut(name, source, tuple(names), largest, located.call, tuple(still))


def _projects_in_vain(subject: Subject, found: Backward, values: dict[str, list[int]]) -> bool:
    """Return whether k and v come of weights that get no gradient, beside those of q that do."""
    q, k, v = (projection_of(subject, values[name]) for name in ("q", "k", "v"))
    way = behind(subject.base.tape, [*values["k"], *values["v"]])
    if any(operation.name in _WRITES for operation in way):
        return False
    if q == k == v:
        return any(_has_idle_rows(found.parameters.get(name)) for name in q)
    fed = any(found.parameters.get(name) is not None for name in q)
    beside = {_holder(name) for name in q}
    return fed and all(
        bool(names)
        and all(
            name in found.parameters and found.parameters[name] is None and _holder(name) in beside
            for name in names
        )
        for names in (k, v)
    )


def _holder(name: str) -> str:
    """Return the module that holds the layer of a parameter."""
    return name.rpartition(".")[0].rpartition(".")[0]


def untaught(subject: Subject, found: Backward, values: list[int]) -> tuple[str, ...]:
    """Return the parameters that q, k or v is made of and that get no gradient through it.

    Those that get none at all; else the projection of all three, of which a share of the rows gets
    exactly zeros.
    """
    way = behind(subject.base.tape, values)
    still = starved(subject, found, way)
    if still:
        return still
    for operation in reversed(way):
        if operation.name not in CONTRACTIONS:
            continue
        names = [n for n in parameters_on(subject, [operation]) if n in found.parameters]
        return tuple(n for n in names if _has_idle_rows(found.parameters[n]))
    return ()


def _has_idle_rows(gradient: Tensor | None) -> bool:
    """Return whether a matrix's gradient is zero in whole rows or columns, and not everywhere."""
    if gradient is None or gradient.dim() < 2 or not bool(gradient.any()):
        return False
    rows = gradient.flatten(1) != 0
    return not (bool(rows.any(0).all()) and bool(rows.any(1).all()))


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
    from attnscope.checks.initialising import filled

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


def starved(subject: Subject, found: Backward, way: Iterable[Operation]) -> tuple[str, ...]:
    """Return the parameters on a way that get no gradient at all."""
    read = parameters_on(subject, way)
    return tuple(n for n in read if n in found.parameters and found.parameters[n] is None)


def _weights_of(subject: Subject, names: Iterable[str]) -> list[int]:
    wanted = set(names)
    return [value for value, name in subject.base.parameters.items() if name in wanted]


def _norm(found: Backward, values: Iterable[int]) -> float:
    return max((size_of(g) for v in values if (g := found.values.get(v)) is not None), default=0.0)


def size_of(gradient: Tensor) -> float:
    """Return the largest entry of a gradient, what isn't finite left out."""
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
