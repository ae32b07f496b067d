"""The base and the width of the rotary tables that a run read, fitted from their angles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.definitions import defined
from attnscope.checks.operations import MULTIPLIES
from attnscope.checks.scoring.assigned import line_of_argument
from attnscope.checks.subject.subject import Subject

__all__ = ["Rotary", "angles_line", "rotary_tables", "table_of", "turning"]

_GEOMETRIC = 1e-3
"""How far the logarithms of frequencies may be from a line, relative to the whole range."""

_ONE = 1e-4

_PRODUCTS = frozenset("mul mul_ outer ger einsum matmul bmm div".split())


@dataclass(frozen=True, slots=True)
class Rotary:
    """One table of angles: base of its geometric frequencies, and how many channels it turns."""

    base: float
    channels: int
    value: int


def rotary_tables(subject: Subject) -> tuple[Rotary, ...]:
    """Return the tables whose frequencies are base^(-j/n), from 1 down; others are left out."""
    found = []
    for value, frequencies in _frequencies(subject):
        fitted = _fit(frequencies)
        if fitted is not None:
            found.append(Rotary(fitted[0], 2 * fitted[1], value))
    return tuple(found)


def _frequencies(subject: Subject) -> Iterator[tuple[int, Tensor]]:
    """Iterate over the angles by which one position differs from the one before."""
    tape = subject.base.tape
    for operation in tape.operations:
        if operation.name not in {"cos", "polar"}:
            continue
        first = _first(operation)
        angles = tape.tensors[first].detach().double() if first is not None else None
        steps = _steps(angles) if angles is not None else None
        if steps is not None:
            yield operation.defines[0], steps
    for value, name in _held(subject).items():
        table = tape.tensors[value].detach()
        if table.is_complex():
            steps = _from_rotations(table)
            if steps is not None:
                yield value, steps
        elif "cos" in name.rpartition(".")[2].lower() and table.is_floating_point():
            flat = table.double().reshape(-1, table.shape[-1]) if table.dim() > 1 else None
            if flat is not None and len(flat) > 1 and bool((flat[0] == 1).all()):
                yield value, _from_cosines(flat)


def _held(subject: Subject) -> dict[int, str]:
    """Return the values of the tape that modules hold: parameters, buffers and plain attributes."""
    return subject.once("tables that modules hold", lambda: _find_held(subject))


def _find_held(subject: Subject) -> dict[int, str]:
    tape, found = subject.base.tape, dict(subject.base.parameters)
    names = {
        tensor.data_ptr(): f"{path}.{name}" if path else name
        for path, module in (subject.model.named_modules() if subject.model is not None else ())
        for name, tensor in vars(module).items()
        if isinstance(tensor, Tensor) and tensor.numel() > 1
    }
    for operation in tape.operations if names else ():
        for value in operation.values():
            if value not in tape.maker and value not in found:
                name = names.get(tape.tensors[value].data_ptr())
                found |= {} if name is None else {value: name}
    return found


def _first(operation: Operation) -> int | None:
    """Return the value that an operation is about: of polar the angles, which come second."""
    values = list(operation.values())
    return values[-1 if operation.name == "polar" else 0] if values else None


def _from_cosines(table: Tensor) -> Tensor:
    """Return the frequencies of a table of cosines, each read at a row where its angle is about 1.

    Near 0 a cosine is flat, and says next to nothing of its angle.
    """
    rough = table[1].clamp(-1, 1).arccos().clamp_min(1e-9)
    rows = (1.0 / rough).floor().clamp(1, len(table) - 1).long()
    cosines = table.gather(0, rows[None])[0]
    return cosines.clamp(-1, 1).arccos() / rows


def _from_rotations(table: Tensor) -> Tensor | None:
    """Return the frequencies of a table of exp(i · angle), position 0 first; None: it is another.

    Beyond the second row an angle may have gone round.
    """
    rows = table.to(torch.complex128).squeeze()
    if rows.dim() != 2 or len(rows) < 2 or float((rows.abs() - 1).abs().max()) > _ONE:
        return None
    return rows[1].angle() if bool((rows[0] == 1).all()) else None


def _steps(angles: Tensor) -> Tensor | None:
    """Return the frequencies of a table of angles, features last: the angles of the least step.

    Positions may start anywhere, stay (at padding), and differ from sample to sample.
    """
    if angles.dim() < 2 or angles.shape[-1] < 2:
        return None
    rows = angles.flatten(0, -2)
    steps = (rows - rows[0]).abs()
    sizes = steps.amax(-1)
    sizes = sizes.masked_fill((sizes == 0) | ~sizes.isfinite(), float("inf"))
    least = int(sizes.argmin())
    return steps[least] if bool(sizes[least].isfinite()) else None


def _fit(frequencies: Tensor) -> tuple[float, int] | None:
    """Return the base and the number of frequencies; None: they are no plain rotary ones."""
    distinct = torch.unique(frequencies.abs().float()).double().flip(0)
    count = len(distinct)
    if count < 2 or float(distinct[-1]) <= 0 or abs(float(distinct[0]) - 1.0) > _ONE:
        return None
    logs = distinct.log()
    line = torch.linspace(float(logs[0]), float(logs[-1]), count, dtype=torch.float64)
    if float((logs - line).abs().max()) > _GEOMETRIC * max(abs(float(logs[-1])), 1e-9):
        return None
    return math.exp(-float(logs[-1]) * count / (count - 1)), count


def angles_line(subject: Subject, value: int) -> Source | None:
    """Return the line where the angles of a table were multiplied out, or its buffer was made."""
    base, held = subject.base, _held(subject)
    if value in held and subject.model is not None:
        made = defined(subject.model, held[value])
        return line_of_argument(made) if made is not None else None
    maker = base.tape.maker
    operation = maker.get(value)  # the cosine
    for _ in range(16):
        first = _first(operation) if operation is not None else None
        if first is not None and first in held and subject.model is not None:
            made = defined(subject.model, held[first])
            return line_of_argument(made) if made is not None else None
        operation = maker.get(first) if first is not None else None
        if operation is None:
            return None
        if operation.name in _PRODUCTS:
            tables = [name for v in operation.values() if (name := table_of(subject, v))]
            made = defined(subject.model, tables[0]) if tables and subject.model else None
            return line_of_argument(made) if made is not None else operation.source
    return None


def table_of(subject: Subject, value: int) -> str | None:
    """Return the name of the parameter or buffer that a value is, or a view of."""
    base = subject.base
    for _ in range(8):
        if value in base.parameters:
            return base.parameters[value]
        operation = base.tape.maker.get(value)
        before = list(operation.values()) if operation is not None else []
        if len(before) != 1:
            return None
        value = before[0]
    return None


def turning(subject: Subject, value: int) -> Operation | None:
    """Return the first product with a table."""
    waiting, seen = [value], set[int]()
    users = subject.base.tape.users
    while waiting and len(seen) < 64:
        at = waiting.pop(0)
        if at in seen:
            continue
        seen.add(at)
        for user in users.get(at, []):
            if user.name in MULTIPLIES:
                return user
            waiting += user.defines
    return None
