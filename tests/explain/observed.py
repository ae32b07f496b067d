"""Scenes of two small modules, made as a comparison makes them: one stage, from equal inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

import attnscope
from attnscope.calls.call import Call
from attnscope.calls.exact import widened
from attnscope.calls.trace import Trace
from attnscope.capture.tape import Tape
from attnscope.explain import Attention, Explanation, Part, Scene, Sight, explain

__all__ = ["Observed", "explained", "observe", "scene_of"]

PROJECTIONS = frozenset("linear matmul mm bmm addmm einsum conv1d".split())
RELATIVE = 1e-6


@dataclass(eq=False)
class Observed:
    """One module and what was seen of one run of it."""

    model: nn.Module
    tape: Tape
    trace: Trace
    output: Tensor
    length_first: bool = False

    def canonical(self, tensor: Tensor) -> Tensor:
        """Return an input or output of the projections as (batch, length, width)."""
        batch, width = self.trace[0].q.shape[0], tensor.shape[-1]
        if self.length_first:
            return tensor.reshape(-1, batch, width).transpose(0, 1)
        return tensor.reshape(batch, -1, width)

    def own(self, tensor: Tensor, value: int) -> Tensor:
        """Return a canonical input as `value` has it."""
        turned = tensor.transpose(0, 1) if self.length_first else tensor
        return turned.reshape(self.tape.tensors[value].shape)

    @cached_property
    def parameters(self) -> dict[int, str]:
        named = [*self.model.named_buffers(), *self.model.named_parameters()]
        names = {id(tensor): name for name, tensor in named}
        values = self.tape.tensors
        return {n: names[id(values[n])] for n in self.tape.inputs if id(values[n]) in names}

    @cached_property
    def weights(self) -> frozenset[int]:
        """Values that are parameters, or made of parameters alone."""
        found = set(self.parameters)
        for op in self.tape.operations:
            if set(op.needs) <= found:
                found.update(op.defines)
        return frozenset(found)

    def call(self, index: int) -> Call:
        return self.trace[index]

    def value(self, index: int, stage: str) -> int:
        spot = self.trace[index].evidence.spot(stage)
        assert spot is not None
        value = self.tape.value_of(spot.held)
        assert value is not None
        return value

    def origin(self, index: int, stage: str) -> int | None:
        """What the first projection behind q, k or v received."""
        waiting, found = [self.value(index, stage)], []
        while waiting:
            op = self.tape.maker.get(waiting.pop())
            if op is None:
                continue
            read = list(op.values())
            others = [value for value in read if value not in self.weights]
            if op.name in PROJECTIONS and len(others) < len(read):
                found.append(others[0])
            else:
                waiting.extend(op.needs)
        return min(found, default=None)

    def projected(self, index: int) -> int:
        """What the first projection behind the context returns."""
        reached = {self.value(index, "context")}
        for op in self.tape.operations:
            if reached.isdisjoint(op.values()):
                continue
            if op.name in PROJECTIONS and any(v in self.weights for v in op.values()):
                return self._with_bias(op.defines[0])
            reached.update(op.defines)
        raise AssertionError

    def _with_bias(self, value: int) -> int:
        """Go on to the addition of a bias, where there is one."""
        for op in self.tape.users.get(value, []):
            if op.name == "add" and any(each in self.weights for each in op.values()):
                return op.defines[0]
        return value

    def part(self, wanted: int, given: Mapping[int, Tensor], read: Any, origin: Any = None) -> Part:
        return Part(self.tape.exact, wanted, given, read, self.parameters, origin)


def observe(model: nn.Module, *args: Any, length_first: bool = False, **kwargs: Any) -> Observed:
    tape = Tape()
    with tape.writing(), attnscope.record(model, keep="all") as trace:
        output = model(*args, **kwargs)
    if not isinstance(output, Tensor):
        output = output[0]
    return Observed(model, tape, trace, output, length_first)


def scene_of(
    candidate: Observed, reference: Observed, stage: str, index: int = 0, limit: float = RELATIVE
) -> Scene:
    """Return the scene of one stage, the candidate fed with what the reference had before."""
    theirs = _sight(reference, reference, index, stage)
    ours = _sight(candidate, reference, index, stage)
    expected = theirs.stages[stage]
    size = float(expected.abs().max()) * limit
    return Scene(stage, ours, theirs, torch.full((*expected.shape[:-1], 1), size))


def explained(
    candidate: Observed, reference: Observed, stage: str, index: int = 0
) -> Explanation | None:
    return explain(scene_of(candidate, reference, stage, index))


def _sight(side: Observed, reference: Observed, index: int, stage: str) -> Sight:
    parts, call = {}, side.call(index)
    for name in ("q", "k", "v"):
        origin, theirs = side.origin(index, name), reference.origin(index, name)
        given = {}
        if origin is not None and theirs is not None:
            exact = reference.tape.run([theirs], wide=True)[theirs]
            given = {origin: side.own(reference.canonical(exact), origin)}
        spot = call.evidence.spot(name)
        assert spot is not None
        parts[name] = side.part(side.value(index, name), given, spot.read, origin)
    for name, end in {"input": "q", "input_k": "k"}.items():
        origin = side.origin(index, end)
        if origin is not None:
            given = _before(side, reference, index - 1)
            parts[name] = side.part(origin, given, side.canonical)
    if stage == "output":
        given = _before(side, reference, index)
        parts["output"] = side.part(side.projected(index), given, side.canonical)
    if stage == "model":
        value = side.tape.value_of(side.output)
        assert value is not None
        given = _before(side, reference, len(side.trace) - 1)
        parts["model"] = side.part(value, given, lambda t: t)
    stages = {name: part.run() for name, part in parts.items()}
    stages["context"] = reference.call(index).context().double()
    attention = Attention(stages["q"], stages["k"], stages["v"], call.recipe)
    return Sight(stages, attention, parts, stages["q"].shape[1] * stages["q"].shape[3], call)


def _before(side: Observed, reference: Observed, index: int) -> dict[int, Tensor]:
    """Return the contexts of all calls up to `index`, as the reference has them."""
    given = {}
    for at in range(index + 1):
        spot = side.call(at).evidence.spot("context")
        theirs = reference.call(at).evidence.spot("context")
        assert spot is not None
        assert theirs is not None
        value = reference.value(at, "context")
        exact = reference.tape.run([value], wide=True)[value]
        given[side.value(at, "context")] = widened(spot.write(theirs.read(exact)))
    return given
