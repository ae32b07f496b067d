"""Some parameters are given other values: does the output react?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attnscope.checks.comparing import gap_of
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.restoring import versions_kept
from attnscope.checks.subject.subject import Subject

__all__ = ["moved_by_parameters"]


def moved_by_parameters(subject: Subject, names: Sequence[str]) -> float:
    """Return how far the output moves at most when all parameters of these names are others.

    Raises:
        Skipped: the subject is no module, or raises.
    """
    if subject.model is None:
        raise Skipped("a function has no parameters: give a module")
    known = dict(subject.model.named_parameters())
    before = subject.output
    entries = [_entries(known[name].detach()) for name in names]
    kept = [each.clone() for each in entries]
    generator = torch.Generator().manual_seed(subject.seed + 7)
    with versions_kept([known[name] for name in names]):
        try:
            for each in entries:
                noise = torch.randn(each.shape, generator=generator, dtype=torch.float64)
                each.mul_(0.5).add_(noise.to(each.device, each.dtype))
            after = subject.main_output()
        finally:
            for each, value in zip(entries, kept, strict=True):
                each.copy_(value)
    gap = gap_of(before, after)
    return float(gap.max()) if gap.numel() else 0.0


def _entries(tensor: Tensor) -> Tensor:
    """Return the numbers that a tensor holds, in its own memory: those of a sparse one alone."""
    if tensor.layout == torch.sparse_coo:
        return tensor._values()  # noqa: SLF001  values() refuses one that isn't coalesced
    return tensor if tensor.layout in {torch.strided, torch.jagged} else tensor.values()
