"""Parameters that are joined to something, and cut off from it again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.probes.backward import backward
from attnscope.checks.probes.toggled_parameters import moved_by_parameters
from attnscope.checks.residual.graph import needed_by_outputs, output_values, reached
from attnscope.checks.residual.owning import attending, own_parameters
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject

__all__ = ["cut_off_parameters"]

_JOINS = frozenset("cat hstack stack pad".split())
_CUTS = frozenset("getitem narrow split chunk split_with_sizes tensor_split select unbind".split())
_NUMBER = re.compile(r"\d+")


def cut_off_parameters(subject: Subject) -> Iterator[tuple[str, Source | None]]:
    """Iterate over parameters of which no entry is left behind the line that cuts them off.

    The graph has a way from them to the outputs. NaN in their place shows which entries go it: it
    survives every product, also one with zero, and is gone where a slice leaves it out. Where the
    same parameter of another layer learns, that is the end of a stack: of its tokens only some are
    read.
    """
    model, tape = subject.model, subject.base.tape
    if model is None:
        return
    needed, learning = needed_by_outputs(subject), _learning(subject)
    values = {name: value for value, name in subject.base.parameters.items()}
    names = {n for owner in attending(subject, model) for n in own_parameters(model, owner)}
    elsewhere = {_NUMBER.sub("#", each) for each in learning}
    for name in sorted((names & values.keys()) - learning):
        if _NUMBER.sub("#", name) in elsewhere:
            continue
        value = values[name]
        after = reached(tape, [value])
        way = [op for op in tape.operations if not after.isdisjoint(op.values())]
        joined = any(op.name in _JOINS for op in way)
        if value not in needed or not joined or not any(op.name in _CUTS for op in way):
            continue
        cut = _cut(subject, value, way)
        if cut is not None and moved_by_parameters(subject, [name]) == 0.0:
            yield name, cut.source


def _learning(subject: Subject) -> set[str]:
    """Return the parameters some entry of which gets a gradient: it is left behind every line."""
    try:
        gradients = backward(subject).parameters
    except Skipped:
        return set()
    return {name for name, each in gradients.items() if each is not None and bool(each.any())}


def _cut(subject: Subject, value: int, way: list[Operation]) -> Operation | None:
    """Return the first slice that leaves nothing of a value, where none of it comes out."""
    tape = subject.base.tape
    made = [v for op in way for v in op.defines]
    nothing = torch.full_like(tape.tensors[value].detach(), float("nan"), dtype=torch.float64)
    ends = output_values(subject)
    try:
        found = tape.run([*made, *ends], {value: nothing}, wide=True)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None
    held = {value} | {v for v, tensor in found.items() if bool(tensor.isnan().any())}
    if not held.isdisjoint(ends):
        return None
    lost = (op for op in way if not held.isdisjoint(op.values()) and held.isdisjoint(op.defines))
    cut = next(lost, None)
    if cut is None or cut.name not in _CUTS or not tape.tensors[cut.defines[0]].numel():
        return None
    return cut
