"""What turns q and k by position: tables of cosines and sines that multiply them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.checks.operations import MULTIPLIES
from attnscope.checks.positions.constants import varies
from attnscope.checks.positions.partners import in_order_of, is_one_circle, is_unit
from attnscope.checks.residual.graph import behind, contents, reached
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.located import Located
from attnscope.errors import AttnscopeError

__all__ = ["Factor", "Turning", "are_partners", "turnings"]

_TURNS = MULTIPLIES | {"einsum", "addcmul", "addcmul_"}
_ALIKE = 1e-6


@dataclass(frozen=True, eq=False)
class Factor:
    """A table that an operation multiplies with.

    axes: of its result, along which the table differs (features left out). depth: how many such
    tables lie on the way so far, this one included.
    """

    operation: Operation
    value: int
    table: Tensor
    axes: tuple[int, ...]
    depth: int

    @cached_property
    def grain(self) -> float:
        """Roundoff of the coarsest type that holds all entries: a table may have been cast."""
        table = self.table
        real = torch.view_as_real(table.resolve_conj()) if table.is_complex() else table
        for dtype in (torch.bfloat16, torch.float16):
            if torch.equal(real.to(dtype).to(real.dtype), real):
                return torch.finfo(dtype).eps
        return torch.finfo(real.dtype).eps


@dataclass(eq=False)
class Turning:
    """How q or k of a call is turned.

    pairs: cosines and sines; one complex table counts as its own partner. shuffled: such pairs
    whose columns stand in different orders. depth: how often it is turned, one after the other.
    """

    located: Located
    side: str
    factors: list[Factor] = field(default_factory=list)
    pairs: list[tuple[Factor, Factor]] = field(default_factory=list)
    shuffled: list[tuple[Factor, Factor]] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Number of positions."""
        return self.located.call.queries if self.side == "q" else self.located.call.keys

    @property
    def heads(self) -> int:
        """Number of heads on this side."""
        return self.located.call.heads if self.side == "q" else self.located.call.kv_heads

    @property
    def depth(self) -> int:
        """How often it is turned."""
        return max((one.depth for one, _ in self.pairs), default=0)

    def along(self, factor: Factor, size: int) -> bool:
        """Return whether a table differs along an axis of that size."""
        made = factor.operation.shapes[0] if factor.operation.shapes else ()
        return any(made[axis] == size for axis in factor.axes)

    def by_position(self) -> list[Factor]:
        """Return the tables that differ from token to token."""
        return [each for each in self.factors if self.along(each, self.length)]

    def complex_of(self, pair: tuple[Factor, Factor]) -> Tensor | None:
        """Return exp(i · angle) of a pair, (length, features); None: it has other axes too."""
        one, other = pair
        table = (
            one.table if one is other else torch.complex(one.table.double(), other.table.double())
        )
        flat = table.to(torch.complex128).squeeze()
        if flat.dim() == 3:  # one row a sample
            if float((flat - flat[:1]).abs().max()) > _ALIKE:
                return None
            flat = flat[0]
        return flat if flat.dim() == 2 and flat.shape[0] == self.length else None

    def before_and_after(
        self, subject: Subject, instead: Mapping[int, Tensor] | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """Return q or k with all tokens at the first place, and as it is; float64, canonical.

        instead: tables to take in the place of others.
        """
        tape = subject.base.tape
        values = [value for value, _ in self.located.spots[self.side]]
        tables = {each.value: each for each in self.by_position()}
        received = self.located.received[self.side]  # earlier layers have the same tables
        real = {value: each.table for value, each in tables.items()}
        real[received] = tape.tensors[received].detach()
        real |= instead or {}
        first = {value: _at_first(each, real[value], self.length) for value, each in tables.items()}
        if any(table is None for table in first.values()):
            return None
        known = real | {value: table for value, table in first.items() if table is not None}
        try:
            before = self.located.read(self.side, tape.run(values, known, wide=True))
            after = self.located.read(self.side, tape.run(values, real, wide=True))
        except (AttnscopeError, RuntimeError):
            return None
        return before, after


def turnings(subject: Subject) -> list[tuple[Turning, Turning]]:
    """Return how q and k are turned, for each call whose projections are known."""
    return subject.once("turnings", lambda: _read(subject))


def _read(subject: Subject) -> list[tuple[Turning, Turning]]:
    moving = contents(subject)
    return [
        (_turning(subject, located, "q", moving), _turning(subject, located, "k", moving))
        for located in subject.base.located
        if "q" in located.received and "k" in located.received
    ]


def _turning(subject: Subject, located: Located, side: str, moving: set[int]) -> Turning:
    tape, received = subject.base.tape, located.received[side]
    values = [value for value, _ in located.spots[side]]
    way = behind(tape, values, [received])
    through = reached(tape, [received])
    depths: dict[int, int] = {}
    turning = Turning(located, side)
    for operation in way:
        own = [v for v in operation.values() if v in through]
        if not own:
            continue
        depth = max(depths.get(v, 0) for v in own)
        joined = [
            v for v in dict.fromkeys(operation.values()) if v not in through and v not in moving
        ]
        tables = [v for v in joined if _is_table(tape.tensors[v])]
        if operation.name in _TURNS and len(tables) == 1 and operation.shapes:
            before = max((depths.get(v, 0) for v in _multiplied(operation) & {*own}), default=0)
            factor = _factor(operation, tables[0], tape.tensors[tables[0]], before + 1)
            if factor is not None:
                turning.factors.append(factor)
                depth = max(depth, before + 1)
        for made in operation.defines:
            depths[made] = depth
    turning.pairs = _pairs(turning.factors)
    turning.shuffled = _shuffled(turning)
    return turning


def _multiplied(operation: Operation) -> set[int]:
    """Return the values that an operation multiplies: of addcmul, all but the first."""
    values = list(operation.values())
    return set(values[1:] if operation.name.startswith("addcmul") else values)


def _is_table(tensor: Tensor) -> bool:
    numbers = tensor.is_floating_point() or tensor.is_complex()
    return numbers and tensor.dim() > 0 and tensor.numel() > 1


def _factor(operation: Operation, value: int, table: Tensor, depth: int) -> Factor | None:
    made = operation.shapes[0]
    table = table.detach()
    if operation.name == "einsum" or value not in _multiplied(operation):
        return None
    offset = len(made) - table.dim()
    if offset < 0:
        return None
    last = table.dim() - 1
    axes = tuple(
        axis + offset
        for axis in range(table.dim())
        if axis != last and varies(table, axis) and made[axis + offset] == table.shape[axis]
    )
    return Factor(operation, value, table, axes, depth) if axes else None


def _pairs(factors: list[Factor]) -> list[tuple[Factor, Factor]]:
    """Return the tables that are cosine and sine of the same angles."""
    found = [
        (each, each)
        for each in factors
        if each.table.is_complex() and is_unit(each.table.abs(), each.grain)
    ]
    for one, other in combinations([each for each in factors if not each.table.is_complex()], 2):
        if one.depth != other.depth or not are_partners(one, other):
            continue
        found.append(_cosine_first(one, other))
    return found


def _shuffled(turning: Turning) -> list[tuple[Factor, Factor]]:
    """Return the tables that are cosine and sine of the same angles, with columns out of order."""
    known = {id(each) for pair in turning.pairs for each in pair}
    alone = [
        each
        for each in turning.by_position()
        if id(each) not in known and not each.table.is_complex()
    ]
    return [
        _cosine_first(one, other)
        for one, other in combinations(alone, 2)
        if one.depth == other.depth
        and in_order_of(one.table, other.table, max(one.grain, other.grain)) is not None
    ]


def _cosine_first(one: Factor, other: Factor) -> tuple[Factor, Factor]:
    cosine = float(one.table.double().mean()) >= float(other.table.double().mean())
    return (one, other) if cosine else (other, one)


def are_partners(one: Factor, other: Factor) -> bool:
    """Return whether two real tables are cosine and sine of the same angles, either way round."""
    return is_one_circle(one.table, other.table, max(one.grain, other.grain))


def _at_first(factor: Factor, table: Tensor, length: int) -> Tensor | None:
    """Return a table in which every token has the row of the first one."""
    made = factor.operation.shapes[0]
    offset = len(made) - factor.table.dim()
    axes = [axis - offset for axis in factor.axes if made[axis] == length]
    if len(axes) != 1:
        return None
    return table.narrow(axes[0], 0, 1).expand_as(table).clone()
