"""A rotation multiplies the same numbers by cosines and by sines; here some come from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from attnscope.checks.positions.turning import Factor, Turning, are_partners
from attnscope.checks.subject.subject import Subject
from attnscope.errors import AttnscopeError

__all__ = ["stranger"]

_FEW = 0.01
"""Share of numbers without a partner that may be chance or padding."""


def stranger(subject: Subject, turning: Turning) -> tuple[Factor, int, int] | None:
    """Return the last table that multiplies numbers which its partners don't, and how many.

    None: there is none, or it can't be told.
    """
    real = [each for each in turning.by_position() if not each.table.is_complex()]
    operands = _operands(subject, real)
    for factor in reversed(real):
        partners = [each for each in real if are_partners(factor, each)]
        if not partners or id(factor) not in operands:
            continue
        others = _joined(operands, [each for each in real if _shares(each, partners)])
        own = operands[id(factor)]
        strange = int((~torch.isin(own, others)).sum()) if others is not None else 0
        if strange > _FEW * own.numel():
            return factor, strange, own.numel()
    return None


def _shares(factor: Factor, partners: Iterable[Factor]) -> bool:
    """Return whether a table is one of the partners, or the same as one of them."""
    return any(
        factor is each
        or (factor.table.shape == each.table.shape and torch.equal(factor.table, each.table))
        for each in partners
    )


def _operands(subject: Subject, factors: Iterable[Factor]) -> dict[int, Tensor]:
    """Return the sizes of the numbers that each table multiplies, in float64."""
    values = {id(each): _operand(each) for each in factors if each.operation.target is None}
    known = {key: value for key, value in values.items() if value is not None}
    try:
        made = subject.base.tape.run(list(dict.fromkeys(known.values())), wide=True)
    except (AttnscopeError, RuntimeError):
        return {}
    sizes = {key: made[value].abs().flatten() for key, value in known.items()}
    return {key: each[each.isfinite()] for key, each in sizes.items()}


def _operand(factor: Factor) -> int | None:
    others = [value for value in factor.operation.values() if value != factor.value]
    return others[0] if len(others) == 1 else None


def _joined(operands: Mapping[int, Tensor], factors: Iterable[Factor]) -> Tensor | None:
    """Return the numbers of several tables; None: those of one are not known."""
    found = [operands.get(id(each)) for each in factors]
    known = [each for each in found if each is not None]
    return torch.cat(known) if known and len(known) == len(found) else None
