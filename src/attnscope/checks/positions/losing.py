"""The line at which positions get lost."""

from __future__ import annotations

from torch import Tensor, nn

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.attributes import attribute
from attnscope.checks.definitions import defined
from attnscope.checks.lines import is_installed
from attnscope.checks.operations import ADDS
from attnscope.checks.positions.constants import varies
from attnscope.checks.residual.graph import contents, needed_by_outputs, reached
from attnscope.checks.subject.subject import Subject

__all__ = ["are_added_to_tokens", "line_of_loss"]

_ARITHMETIC = frozenset(
    "sub rsub sub_ mul mul_ floor_divide div floordiv remainder clamp clamp_ clamp_min "
    "clamp_max minimum maximum where masked_fill einsum outer matmul pow rpow".split()
)


def line_of_loss(subject: Subject, parts: list[str]) -> Source | None:
    """Return where positions become all alike; else where what a part makes is let go, or read.

    One that nothing reads should meet the tokens where the module that has it takes them in.
    """
    tape, moving = subject.base.tape, contents(subject)
    for operation in tape.operations:
        if moving.isdisjoint(operation.values()) and _loses(tape.tensors, operation):
            return operation.source
    read = [v for v, name in subject.base.parameters.items() if name in parts]
    users = [user for v in read for user in tape.users.get(v, ()) if user.source is not None]
    if users:
        return (_let_go(subject, read) or users[0]).source
    if not parts or subject.model is None:
        return None
    return (
        _read_plain(subject, parts)
        or _taken_in(subject, subject.model, parts[0])
        or defined(subject.model, parts[0])
    )


def _let_go(subject: Subject, read: list[int]) -> Operation | None:
    """Return the last operation on what positional parts make, where no output needs it."""
    tape = subject.base.tape
    made = reached(tape, read)
    if not needed_by_outputs(subject).isdisjoint(made):
        return None
    way = [op for op in tape.operations if not made.isdisjoint(op.values())]
    return way[-1] if way and way[-1].source is not None else None


def _taken_in(subject: Subject, model: nn.Module, part: str) -> Source | None:
    """Return the first line about tokens in the forward of the module that has a part."""
    moving, path = contents(subject), part
    while path:
        path = path.rpartition(".")[0]
        kind = type(model.get_submodule(path))
        forward = f"{kind.__qualname__}.forward"
        for operation in subject.base.tape.operations:
            source = operation.source
            if source is None or source.function != forward:
                continue
            if not moving.isdisjoint(operation.values()) and not is_installed(source.file):
                return source
    return None


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
    tape = subject.base.tape
    for part in parts:
        owner, _, name = part.rpartition(".")
        table = attribute(subject.module(owner), name)
        value = tape.value_of(table) if isinstance(table, Tensor) else None
        users = tape.users.get(value, []) if value is not None else []
        if users:
            return users[0].source
    return None
