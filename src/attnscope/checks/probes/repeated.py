"""The same inputs twice in eval mode, with other seeds: nothing may move."""

from __future__ import annotations

from dataclasses import dataclass

from attnscope.checks.comparing import gap_of
from attnscope.checks.probe import probe
from attnscope.checks.subject.subject import Subject

__all__ = ["Repeated", "repeated"]


@dataclass(frozen=True, slots=True)
class Repeated:
    """Two runs. largest: how far an output entry moved; share: of the entries that moved.

    again: how far the same seed twice is apart: what moves without any draw. size: of the largest
    entry.
    """

    largest: float
    share: float
    again: float
    size: float


@probe
def repeated(subject: Subject) -> Repeated:
    """Run it with another seed, and with the same seed again.

    Raises:
        Skipped: the model raised, or returns no float tensor.
    """
    first = subject.output
    gap = gap_of(first, subject.main_output(seed=subject.seed + 1))
    again = gap_of(first, subject.main_output())
    if not gap.numel():
        return Repeated(0.0, 0.0, 0.0, 0.0)
    size = float(first.abs().nan_to_num(0.0, 0.0, 0.0).max())
    return Repeated(float(gap.max()), float((gap > 0).double().mean()), float(again.max()), size)
