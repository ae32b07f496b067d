"""Other inputs for the last sample of a batch, and for nobody else, as values of the tape."""

from __future__ import annotations

import torch
from torch import Tensor

from attnscope.checks.subject.subject import Subject

__all__ = ["other_last_sample"]


def other_last_sample(subject: Subject) -> dict[int, Tensor]:
    """Return for every input with one row a sample a tensor in which the last row is another one.

    Ids are moved along their axis, features drawn anew, flags turned over in their second half.
    """
    given, found = subject.given, dict[int, Tensor]()
    for name, axis in subject.roles.batch_axes.items():
        tensor = given.values.get(name)
        value = subject.input_value(name) if isinstance(tensor, Tensor) else None
        if value is None or not isinstance(tensor, Tensor) or tensor.shape[axis] < 2:
            continue
        changed = tensor.detach().clone()
        row = changed.select(axis, -1)
        if row.dim():
            row.copy_(_another(row.clone(), subject.seed))
            found[value] = changed
    return found


def _another(row: Tensor, seed: int) -> Tensor:
    if row.is_floating_point():
        generator = torch.Generator().manual_seed(seed + 17)
        spread = float(row.float().std()) if row.numel() > 1 else 1.0
        drawn = torch.randn(row.shape, generator=generator) * (spread or 1.0)
        return (drawn + float(row.float().mean())).to(row)
    half = torch.arange(row.shape[-1]) >= row.shape[-1] // 2
    if row.dtype == torch.bool:
        return row ^ half
    if bool(((row == 0) | (row == 1)).all()):
        return torch.where(half, 1 - row, row)
    return row.roll(1, -1)
