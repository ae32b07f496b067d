"""The line at which positions get lost."""

from __future__ import annotations

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.definitions import defined
from attnscope.checks.positions.constants import varies
from attnscope.checks.residual.graph import contents, needed_by_outputs, reached
from attnscope.checks.residual.stream import ADDS
from attnscope.checks.subject.subject import Subject

__all__ = ["are_added_to_tokens", "line_of_loss"]

_ARITHMETIC = frozenset(
    "sub rsub isub sub_ mul mul_ imul rmul floor_divide div floordiv remainder clamp clamp_ "
    "clamp_min "
    "clamp_max minimum maximum where masked_fill einsum outer matmul pow rpow".split()
)


def line_of_loss(subject: Subject, parts: list[str]) -> Source | None:
    """Return where positions become all alike; else where a positional part is read; else built."""
    tape, moving = subject.base.tape, contents(subject)
    for operation in tape.operations:
        if moving.isdisjoint(operation.values()) and _loses(tape.tensors, operation):
            return operation.source
    read = [v for v, name in subject.base.parameters.items() if name in parts]
    for value in read:
        for user in tape.users.get(value, ()):
            if user.source is not None:
                return user.source
    return _read_plain(subject, parts) or (
        defined(subject.model, parts[0]) if parts and subject.model is not None else None
    )


def are_added_to_tokens(subject: Subject, parts: list[str]) -> bool:
    """Return whether a table that differs from place to place is added to some tokens.

    Then positions are where they belong, and it is what follows that loses them. A sum that is
    thrown away, where its tokens go on without it, doesn't count.
    """
    needed = needed_by_outputs(subject)
    tape, moving = subject.base.tape, contents(subject)
    read = [v for v, name in subject.base.parameters.items() if name in parts]
    from_parts = reached(tape, read) - moving
    for operation in tape.operations:
        operands = list(dict.fromkeys(operation.values()))
        if operation.name not in ADDS or len(operands) != 2 or moving.isdisjoint(operands):
            continue
        made, tokens = operation.defines[0], moving.intersection(operands)
        if made not in needed and not tokens.isdisjoint(needed):
            continue
        for value in from_parts.intersection(operands):
            table = tape.tensors[value]
            if table.dim() > 1 and all(varies(table, table.dim() - n) for n in (1, 2)):
                return True
    return False


def _loses(tensors: dict[int, Tensor], operation: Operation) -> bool:
    """Return whether an operation makes something all alike of what differs."""
    if operation.name not in _ARITHMETIC or not operation.defines:
        return False
    made = tensors[operation.defines[0]]
    if made.numel() < 2 or made.is_complex() or not _all_alike(made):
        return False
    operands = [tensors[v] for v in operation.values()]
    return any(
        not each.is_complex() and each.numel() > 1 and not _all_alike(each) for each in operands
    )


def _all_alike(tensor: Tensor) -> bool:
    return bool((tensor == tensor.flatten()[0]).all())


def _read_plain(subject: Subject, parts: list[str]) -> Source | None:
    """Return where a table that is a plain attribute is read."""
    model, tape = subject.model, subject.base.tape
    for part in parts:
        owner, _, name = part.rpartition(".")
        table = getattr(model.get_submodule(owner), name, None) if model is not None else None
        value = tape.value_of(table) if isinstance(table, Tensor) else None
        users = tape.users.get(value, []) if value is not None else []
        if users:
            return users[0].source
    return None
