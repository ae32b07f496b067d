"""The scores and weights of a call, as numbers that rules can look at."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.checks.operations import CONTRACTIONS
from attnscope.checks.subject.libraries import is_of_library
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = [
    "is_of_a_library",
    "is_projected",
    "path_back",
    "projection_names",
    "recorded_weights",
    "scores_of",
    "weights_met",
]

_LARGEST = 1 << 24
"""Entries of a matrix of weights that is looked at whole."""


def weights_met(subject: Subject, call: Call) -> Tensor | None:
    """Return the weights as they met v, (batch, heads, queries, keys), float64; None: not known."""
    return subject.once(("weights met", call.index), lambda: _met(subject, call))


def recorded_weights(subject: Subject, call: Call) -> Tensor | None:
    """Return what left the softmax, as recorded, in float32; None: not known, or too large."""
    return subject.once(("weights", call.index), lambda: _recorded(call, "weights"))


def scores_of(subject: Subject, call: Call) -> Tensor | None:
    """Return what entered the softmax, as recorded, in float32; None: not known, or too large."""
    return subject.once(("scores", call.index), lambda: _recorded(call, "scores"))


def _recorded(call: Call, name: str) -> Tensor | None:
    if call.batch * call.heads * call.queries * call.keys > _LARGEST:
        return None
    try:
        return call.evidence.value(name).detach().float()
    except UNREADABLE:
        return None


def _met(subject: Subject, call: Call) -> Tensor | None:
    located = subject.located(call)
    if located is None or call.batch * call.heads * call.queries * call.keys > _LARGEST:
        return None
    try:
        q, k, v = (located.value(name).detach().double() for name in ("q", "k", "v"))
        return located.rerun("weights", q, k, v)
    except UNREADABLE:
        return None


def is_of_a_library(subject: Subject, call: Call) -> bool:
    """Return whether a library wrote the module that made a call."""
    owner = subject.module(call.module)
    return owner is not None and is_of_library(owner)


def path_back(subject: Subject, value: int, weights: Collection[int]) -> Iterator[Operation]:
    """Iterate over the operations behind a value, along first operands, to its projection.

    The projection is the last one; nothing comes where there is no single way back.
    """
    maker = subject.base.tape.maker
    for _ in range(64):
        operation = maker.get(value)
        if operation is None:
            return
        yield operation
        before = [each for each in operation.values() if each not in weights]
        if _is_projection(operation) or not before:
            return
        value = before[0]


def _is_projection(operation: Operation) -> bool:
    return operation.name in CONTRACTIONS or operation.name.startswith("conv")


def is_projected(subject: Subject, call: Call, side: str) -> bool:
    """Return whether q, k or v is made by a projection with parameters."""
    located = subject.located(call)
    spots = located.spots.get(side, []) if located is not None else []
    if located is None or not spots:
        return False
    for operation in path_back(subject, spots[0][0], located.weights):
        if _is_projection(operation):
            return any(value in located.weights for value in operation.values())
    return False


def projection_names(subject: Subject, call: Call, side: str) -> tuple[str, ...]:
    """Return the dotted names of the parameters of the projection of q, k or v."""
    located = subject.located(call)
    spots = located.spots.get(side, []) if located is not None else []
    if located is None or not spots:
        return ()
    last: Operation | None = None
    for operation in path_back(subject, spots[0][0], located.weights):
        last = operation
    if last is None or last.name not in CONTRACTIONS:
        return ()
    parameters = subject.base.parameters
    found: list[str] = []
    for value in last.values():
        found += _sources(subject, value, parameters)
    return tuple(found)


def _sources(subject: Subject, value: int, parameters: dict[int, str]) -> list[str]:
    """Return the parameter that a value is, or that it is a plain view of."""
    for _ in range(6):
        if value in parameters:
            return [parameters[value]]
        operation = subject.base.tape.maker.get(value)
        if operation is None:
            return []
        before = list(operation.values())
        if len(before) != 1:
            return []
        value = before[0]
    return []


def finite(tensor: Tensor) -> Tensor:
    """Return the entries that are numbers, flat."""
    return tensor[torch.isfinite(tensor)]
