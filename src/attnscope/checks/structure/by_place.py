"""What no input decides, and yet differs from one sample of the batch to the next.

A bias, a temperature or a gate that has one entry a head meets the axis of the samples where the
axis of the heads is missing, and nothing raises while there are as many samples as heads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation, Value
from attnscope.calls.source import Source
from attnscope.checks.influence import Allowed
from attnscope.checks.operations import CONTRACTIONS
from attnscope.checks.probes.batch_mates import batch_mates
from attnscope.checks.rule import Skipped
from attnscope.checks.structure.mixing import moved_by_sample
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE
from attnscope.differ.sides.located import Located

__all__ = ["ByPlace", "by_place"]

_LAYS_OUT = frozenset("cat stack getitem setitem index_select gather".split())
_OTHERWISE = _LAYS_OUT | CONTRACTIONS - {"baddbmm"}
"""What takes rows apart, puts them together or sums over them joins nothing entry by entry."""

_KERNEL = "scaled_dot_product_attention"


@dataclass(frozen=True, slots=True, eq=False)
class ByPlace:
    """A tensor that meets samples by their place in the batch.

    shape: of what joins, and of what it joins; axis: of the samples there; moved: how far an
    output moves with its entries in another order. source: the line that laid its entries along
    that axis, or of the operation in which it joins.
    """

    call: Call
    source: Source | None
    shape: tuple[int, ...]
    meets: tuple[int, ...]
    axis: int
    samples: int
    moved: float


def by_place(subject: Subject) -> Iterator[ByPlace]:
    """Iterate over what joins an attention with entries of its own for places in the batch.

    Raises:
        Skipped: there are not two samples, or they depend on one another anyway.
    """
    mates = batch_mates(subject)
    if mates.leaks:
        raise Skipped("samples depend on one another: which one a bias belongs to can't be told")
    if not subject.base.is_faithful:
        raise Skipped("the run can't be repeated in float64")
    allowed = mates.allowed(subject)
    found = list(_varying(subject, allowed.size))
    asked = {v for _, operation, _ in found for v in (*operation.values(), *operation.defines)}
    try:
        entries = moved_by_sample(subject, mates, asked)
    except UNREADABLE as error:
        raise Skipped(f"the run can't be repeated with another sample: {error}") from error
    told = set[int]()
    for located, operation, value in found:
        axis = _axis_of_samples(operation, entries, allowed)
        if axis is None or operation.defines[0] in told:
            continue
        tensor = subject.base.tape.tensors[value].detach()
        far = _moves(subject, value, axis) if _varies(tensor, axis) else 0.0
        if far > subject.noise:
            told.add(operation.defines[0])
            shape, meets = tuple(tensor.shape), _met_shape(operation, located)
            line = _line(subject, value, axis) or operation.source
            at = axis % len(meets)
            yield ByPlace(located.call, line, shape, meets, at, allowed.size, far)


def _varying(subject: Subject, samples: int) -> Iterator[tuple[Located, Operation, int]]:
    """Iterate over what joins an attention and may have entries of its own for samples.

    It is made of parameters, which know of no batch; or there are as many heads as samples. What
    is drawn anew for each entry is noise, and what doesn't broadcast joins in another way, as the
    weight of a convolution does.
    """
    tape, given = subject.base.tape, _given(subject)
    for located in subject.base.located:
        for operation in _between(subject, located):
            if operation.name in _OTHERWISE:
                continue
            for value in _joining(operation):
                shape, meets = tuple(tape.tensors[value].shape), _met_shape(operation, located)
                if value in given or samples not in shape or not _broadcasts(shape, meets):
                    continue
                by_head = samples == located.call.heads and shape != meets
                if by_head or value in _learned(subject):
                    yield located, operation, value


def _given(subject: Subject) -> Collection[int]:
    """Return the values that any input plays a part in."""
    inputs = {subject.input_value(name) for name, _ in subject.given.tensors()}
    found = {value for value in inputs if value is not None}
    for operation in subject.base.tape.operations:
        if not found.isdisjoint(operation.needs):
            found.update(operation.defines)
    return found


def _between(subject: Subject, located: Located) -> Iterator[Operation]:
    """Iterate over the operations from what the projections receive to what comes out."""
    spots = located.spots.get("context")
    if not spots or not located.received:
        return
    tape = subject.base.tape
    end = located.output if located.output is not None else spots[-1][0]
    held = {value: tape.tensors[value] for value in located.received.values()}
    yield from tape.program.needed((end,), held)


def _joining(operation: Operation) -> Iterator[int]:
    """Iterate over what joins entry by entry: of a kernel's arguments, the mask alone."""
    if operation.name != _KERNEL:
        yield from dict.fromkeys(operation.values())
        return
    mask = operation.kwargs.get("attn_mask", operation.args[3] if len(operation.args) > 3 else None)
    if isinstance(mask, Value):
        yield mask.index


def _axis_of_samples(
    operation: Operation, entries: Mapping[int, Tensor], allowed: Allowed
) -> int | None:
    """Return which axis of what joins, from the last one on (negative), meets the samples."""
    known = [value for value in operation.values() if value in entries]
    if not known:
        return None
    of = entries[known[0]] if operation.name == _KERNEL else entries.get(operation.defines[0])
    if of is None:
        return None
    axes = [axis for axis, size in enumerate(of.shape) if size == allowed.size]
    own = [a for a in axes if not bool(of.movedim(a, 0)[~allowed.indices].any())]
    return own[0] - of.dim() if len(own) == 1 else None


def _met_shape(operation: Operation, located: Located) -> tuple[int, ...]:
    if operation.name != _KERNEL:
        return tuple(operation.shapes[0])
    call = located.call
    return (call.batch, call.heads, call.queries, call.keys)


def _learned(subject: Subject) -> Collection[int]:
    """Return the values that are made of parameters and of nothing that is drawn."""
    tape = subject.base.tape

    def made() -> frozenset[int]:
        found = {v for v in tape.inputs if isinstance(tape.tensors[v], torch.nn.Parameter)}
        drawn = set[int]()
        for operation in tape.operations:
            if operation.random is not None or not drawn.isdisjoint(operation.needs):
                drawn.update(operation.defines)
            elif not found.isdisjoint(operation.needs):
                found.update(operation.defines)
        return frozenset(found - drawn)

    return subject.once("made of parameters", made)


def _broadcasts(shape: tuple[int, ...], meets: tuple[int, ...]) -> bool:
    pairs = zip(reversed(shape), reversed(meets), strict=False)
    return len(shape) <= len(meets) and all(own in (1, other) for own, other in pairs)


def _varies(tensor: Tensor, axis: int) -> bool:
    if tensor.dim() < -axis or tensor.shape[axis] < 2:
        return False
    return not bool((tensor == tensor.narrow(axis, 0, 1)).all())


def _line(subject: Subject, value: int, axis: int) -> Source | None:
    """Return the line that put what differs along an axis there."""
    tape = subject.base.tape
    operation = tape.maker.get(value)
    while operation is not None:
        before = [v for v in operation.values() if _varies(tape.tensors[v].detach(), axis)]
        if not before:
            return operation.source
        operation = tape.maker.get(before[0])
    return None


def _moves(subject: Subject, value: int, axis: int) -> float:
    """Return how far an output moves where a tensor is turned around along an axis."""
    base = subject.base
    main = next(iter(base.outputs.values()))
    given = {value: base.tape.tensors[value].detach().flip(axis)}
    gap = (base.wide_output(main, given) - base.wide_output(main)).abs()
    return float(gap.nan_to_num(0.0, 0.0, 0.0).max()) if gap.numel() else 0.0
