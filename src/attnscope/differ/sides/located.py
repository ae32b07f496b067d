"""Where the stages of a call lie in the run of a model.

They go from what its projections receive to what its output projection returns.

Attention that a loop computes head by head, sample by sample or in blocks of queries is several
recorded calls; joined, they are the one call that another implementation makes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.capture.tape import Tape
from attnscope.differ.sides.regrouping import Regrouping
from attnscope.differ.sides.spots import Spots
from attnscope.differ.walk.stages import PROJECTED
from attnscope.explain import Attention

__all__ = ["AXES", "Located"]

AXES = {"heads": 1, "batch": 0, "queries": 2}
"""Axis of the canonical layout along which several calls can be one."""

_CONTRACTIONS = frozenset(
    "linear matmul rmatmul mm bmm addmm baddbmm einsum tensordot conv1d conv2d mv".split()
)
_LONGEST = 400
"""Operations between q and its projection, or the context and the output projection, at most."""


@dataclass(eq=False)
class Located:
    """One attention: its calls (one, or several that are joined along `axis`) on their tape.

    weights: the values of the tape that are parameters, or made of such alone. regrouped: how its
    axes become those of its partner, where a single call groups them otherwise.
    """

    calls: tuple[Call, ...]
    tape: Tape
    weights: Collection[int]
    axis: str = "heads"
    regrouped: Regrouping | None = None

    @property
    def call(self) -> Call:
        """The first call."""
        return self.calls[0]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Sizes of batch, heads, queries and keys."""
        if self.regrouped is not None:
            return self.regrouped.wanted
        sizes = [[c.batch, c.heads, c.queries, c.keys] for c in self.calls]
        whole = list(sizes[0])
        at = AXES[self.axis]
        whole[at] = sum(size[at] for size in sizes)
        return whole[0], whole[1], whole[2], whole[3]

    @cached_property
    def spots(self) -> Spots:
        """The values that are its stages, of each call, and how they are laid out."""
        return Spots(self.calls, self.tape)

    @cached_property
    def received(self) -> dict[str, int]:
        """The value that the projection of q, of k and of v receives."""
        found = {}
        for name in PROJECTED:
            values = [
                _received(self.tape, value, self.weights) for value, _ in self.spots.get(name, [])
            ]
            known = {value for value in values if value is not None}
            if len(known) == 1:
                found[name] = known.pop()
        return found

    @property
    def inputs(self) -> dict[str, int]:
        """What the projections receive: one tensor (named ""), or one for each of q, k and v."""
        values = set(self.received.values())
        return {"": values.pop()} if len(values) == 1 else dict(self.received)

    @cached_property
    def output(self) -> int | None:
        """The value that the output projection returns; None: none was found."""
        spots = self.spots.get("context")
        return _projected(self.tape, spots[-1][0], self.weights) if spots else None

    @property
    def stage_values(self) -> tuple[int, ...]:
        """All values that are a stage, in the order of the stages inside, around them last."""
        inside = [value for spots in self.spots.values() for value, _ in spots]
        around = [*self.received.values(), *([] if self.output is None else [self.output])]
        return tuple(dict.fromkeys((*inside, *around)))

    def read(self, name: str, values: Mapping[int, Tensor]) -> Tensor:
        """Return q, k, v or context, canonical, from values of the tape."""
        return self.join(name, [spot.read(values[value]) for value, spot in self.spots[name]])

    def write(self, name: str, canonical: Tensor) -> dict[int, Tensor]:
        """Return the values of the tape that hold canonical q, k, v or context."""
        parts = self.split(name, canonical)
        return {
            value: spot.write(part)
            for (value, spot), part in zip(self.spots[name], parts, strict=True)
        }

    def join(self, name: str, parts: Sequence[Tensor]) -> Tensor:
        """Put a tensor of each call together."""
        if self.regrouped is not None:
            return self.regrouped.read(name, parts[0])
        if len(parts) == 1 or (self.axis == "queries" and name in {"k", "v"}):
            return parts[0]
        return torch.cat(list(parts), AXES[self.axis])

    def split(self, name: str, whole: Tensor) -> list[Tensor]:
        """Take a tensor of the whole apart into one for each call."""
        if self.regrouped is not None:
            return [self.regrouped.write(name, whole)]
        if len(self.calls) == 1:
            return [whole]
        if self.axis == "queries" and name in {"k", "v"}:
            return [whole] * len(self.calls)
        sizes = [_size(call, name, self.axis) for call in self.calls]
        return list(whole.split(sizes, AXES[self.axis]))

    def rerun(self, stage: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return what the calls would make of other q, k and v, in float64."""
        parts = [self.split(name, x) for name, x in (("q", q), ("k", k), ("v", v))]
        made = [
            call.evidence.rerun(stage, *each)
            for call, *each in zip(self.calls, *parts, strict=True)
        ]
        return self.join(stage, made)

    def value(self, name: str) -> Tensor:
        """Return q, k, v or the context as they were recorded."""
        return self.join(name, [call.evidence.value(name) for call in self.calls])

    def attention(self, q: Tensor, k: Tensor, v: Tensor) -> Attention | None:
        """Return other q, k and v with the recipe; None where it can't be read.

        Calls that are joined have one recipe only where it says nothing of single heads or rows.
        """
        recipe = self.call.recipe
        if self.regrouped is not None:
            return Attention(q, k, v, self.regrouped.recipe(recipe))
        plain = recipe.bias is None and recipe.sinks is None and recipe.mask.tensor is None
        if len(self.calls) > 1 and not (plain and self.axis == "heads"):
            return None
        return Attention(q, k, v, recipe)

    def kv_head_of(self, kv_heads: int) -> tuple[int, ...]:
        """Return for each query head the kv head that it met."""
        recipe = self.call.recipe
        if self.regrouped is not None:
            recipe = self.regrouped.recipe(recipe)
        return recipe.kv_head_of(self.shape[1], kv_heads)


def _size(call: Call, name: str, axis: str) -> int:
    if axis == "heads":
        return call.kv_heads if name in {"k", "v"} else call.heads
    return call.batch if axis == "batch" else call.queries


def _received(tape: Tape, value: int, weights: Collection[int]) -> int | None:
    """Walk back from q, k or v to what its (first) projection received."""
    found = [
        side
        for operation in _backwards(tape, value, weights)
        for side in _activations(operation, weights)
    ]
    return min(found) if found else None


def _backwards(tape: Tape, value: int, weights: Collection[int]) -> Iterator[Operation]:
    """Iterate over the nearest projections behind a value."""
    waiting, seen = [value], set[int]()
    while waiting and len(seen) < _LONGEST:
        number = waiting.pop()
        operation = tape.maker.get(number)
        if number in seen or operation is None:
            continue
        seen.add(number)
        if _is_projection(operation, weights):
            yield operation
        else:
            waiting.extend(operation.needs)


def _projected(tape: Tape, value: int, weights: Collection[int]) -> int | None:
    """Walk on from the context to what the first projection makes of it."""
    waiting, seen = [value], set[int]()
    while waiting and len(seen) < _LONGEST:
        number = waiting.pop(0)
        if number in seen:
            continue
        seen.add(number)
        for operation in tape.users.get(number, []):
            if _is_projection(operation, weights):
                return _with_bias(tape, operation.defines[0], weights)
            waiting.extend(operation.defines)
    return None


def _with_bias(tape: Tape, value: int, weights: Collection[int]) -> int:
    """Go on over reshapes to the addition of a bias, where there is one."""
    number = value
    for _ in range(3):
        users = tape.users.get(number, [])
        if len(users) != 1:
            return value
        (operation,) = users
        if operation.name in {"add", "add_"} and any(v in weights for v in operation.values()):
            return operation.defines[0]
        if operation.name not in {"view", "reshape", "transpose", "permute"}:
            return value
        number = operation.defines[0]
    return value


def _is_projection(operation: Operation, weights: Collection[int]) -> bool:
    values = list(operation.values())
    return (
        operation.name in _CONTRACTIONS
        and any(value in weights for value in values)
        and any(value not in weights for value in values)
    )


def _activations(operation: Operation, weights: Collection[int]) -> list[int]:
    return [value for value in operation.values() if value not in weights]
