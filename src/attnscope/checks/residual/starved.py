"""Parameters of the attention that reach the output and get no gradient, or never will."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.probes.backward import Backward, backward
from attnscope.checks.residual.cutting import Cut
from attnscope.checks.residual.graph import (
    behind,
    first_cut,
    needed_by_outputs,
    output_values,
    reached,
)
from attnscope.checks.residual.owning import attending, own_parameters
from attnscope.checks.residual.purpose import SUMS, is_meant, joins
from attnscope.checks.residual.stream import PRODUCTS, stripped
from attnscope.checks.residual.unrecorded import cause_of
from attnscope.checks.subject.subject import Subject

__all__ = ["dead_products", "starved_parameters"]


def starved_parameters(subject: Subject) -> Iterator[Cut]:
    """Iterate over what cuts parameters off that decide what comes out.

    Others of the same module get a gradient; or none does, and what is cut off is added to the
    stream that the module reads, which gets one.
    """
    model = subject.model
    if model is None:
        return
    found, needed = backward(subject), needed_by_outputs(subject)
    values = {name: value for value, name in subject.base.parameters.items()}
    memory = _of_memories(subject, found)
    largest = max((_size(found, name) for name in found.parameters), default=0.0)
    for owner in attending(subject, model):
        names = [name for name in own_parameters(model, owner) if name in found.parameters]
        fed = max((_size(found, name) for name in names), default=0.0)
        cuts: dict[int, tuple[Operation, list[str]]] = {}
        for name in names:
            if _size(found, name) > 0.0 or values.get(name) not in needed or name in memory:
                continue
            cut = _cut(subject, values[name], needed)
            if cut is not None and (fed > 0.0 or _is_beside_stream(subject, cut)):
                cuts.setdefault(cut.defines[0], (cut, []))[1].append(name)
        causes: dict[tuple[str, Source | None], list[str]] = {}
        for cut, starved in cuts.values():
            if not is_meant(subject, cut) and not _ends_stage(subject, cut, starved):
                causes.setdefault(cause_of(subject, cut), []).extend(starved)
        for (operation, source), starved in causes.items() if largest > 0.0 else ():
            yield Cut(operation, source, tuple(starved), fed or largest)


def _cut(subject: Subject, value: int, needed: set[int]) -> Operation | None:
    """Return what cuts off a parameter on its way to the outputs; None: some way is not cut."""
    tape = subject.base.tape
    way = [op for op in tape.operations if not needed.isdisjoint(op.defines)]
    cut, alive = first_cut(tape, way, [value])
    return cut if alive.isdisjoint(output_values(subject)) else None


def _of_memories(subject: Subject, found: Backward) -> set[str]:
    """Return the parameters behind k and v that stand still together."""
    names: set[str] = set()
    for located in subject.base.located:
        spots = {n: [v for v, _ in located.spots.get(n, [])] for n in ("q", "k", "v")}
        fed = {n: any(found.values.get(v) is not None for v in vs) for n, vs in spots.items()}
        if fed["q"] and not fed["k"] and not fed["v"]:
            way = behind(subject.base.tape, [*spots["k"], *spots["v"]])
            known = subject.base.parameters
            names.update(known[v] for op in way for v in op.values() if v in known)
    return names


def _is_beside_stream(subject: Subject, cut: Operation) -> bool:
    """Return whether what is cut off is added to something that it was made of, and that learns."""
    tape = subject.base.tape
    for operation, other in joins(tape, cut):
        way = behind(tape, cut.defines)
        if operation.name in SUMS and any(other in op.values() for op in way):
            return True
    return False


def _ends_stage(subject: Subject, cut: Operation, starved: list[str]) -> bool:
    """Return whether a whole stage is held still: an attention, and the tables that it reads."""
    tape, names = subject.base.tape, subject.base.parameters
    made = {v for op in behind(tape, cut.defines) for v in op.values()}
    for located in subject.base.located:
        if made.isdisjoint(v for v, _ in located.spots.get("context", [])):
            continue
        for operation in behind(tape, [v for v, _ in located.spots.get("q", [])]):
            read = {names.get(v) for v in operation.values()}
            if operation.name == "embedding" and not read.isdisjoint(starved):
                return True
    return False


def dead_products(subject: Subject) -> Iterator[Cut]:
    """Iterate over products of two parameters that are all zero, and keep each other there."""
    model = subject.model
    if model is None:
        return
    found, tape = backward(subject), subject.base.tape
    values = {name: value for value, name in subject.base.parameters.items()}
    gradients = [g for g in (*found.parameters.values(), *found.values.values()) if g is not None]
    fed = max((float(g.abs().max()) for g in gradients if g.numel()), default=0.0)
    for owner in attending(subject, model):
        own = [name for name in own_parameters(model, owner) if name in values]
        names = [name for name in own if _is_dead(model, found, name)]
        for first in names:
            after = reached(tape, [values[first]])
            for operation in tape.operations if names[1:] else ():
                others = [n for n in names if n != first and _joins(subject, operation, values[n])]
                if operation.name not in PRODUCTS or not others or fed == 0.0:
                    continue
                if not after.isdisjoint(operation.values()):
                    yield Cut(operation.name, operation.source, (first, others[0]), fed)
                    break


def _joins(subject: Subject, operation: Operation, value: int) -> bool:
    """Return whether an operation takes a parameter, transposed perhaps."""
    tape = subject.base.tape
    return any(stripped(tape, v, frozenset()) == value for v in operation.values())


def _is_dead(model: nn.Module, found: Backward, name: str) -> bool:
    """Return whether a matrix is all zero, and so is its gradient."""
    gradient = found.parameters.get(name)
    parameter = model.get_parameter(name)
    if gradient is None or parameter.dim() < 2 or parameter.layout != torch.strided:
        return False
    if bool(parameter.detach().any()):
        return False
    return not bool(gradient.detach().any())


def _size(found: Backward, name: str) -> float:
    gradient: Tensor | None = found.parameters.get(name)
    return 0.0 if gradient is None or not gradient.numel() else float(gradient.abs().max())
