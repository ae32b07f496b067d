"""Some parameters are given other values: does the output react?"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from attnscope.checks.comparing import gap_of
from attnscope.checks.rule import Skipped
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
    kept = {name: known[name].detach().clone() for name in names}
    generator = torch.Generator().manual_seed(subject.seed + 7)
    try:
        with torch.no_grad():
            for name, value in kept.items():
                noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
                known[name].copy_(value * 0.5 + noise.to(value.device, value.dtype))
        after = subject.main_output()
    finally:
        with torch.no_grad():
            for name, value in kept.items():
                known[name].copy_(value)
    gap = gap_of(before, after)
    return float(gap.max()) if gap.numel() else 0.0
