"""Tokens that a model makes of several each: which of them are made of padding alone."""

from __future__ import annotations

from torch import Tensor

from attnscope.checks.masking.seen import seen_by
from attnscope.checks.masking.sides import Sides, sides_of
from attnscope.checks.subject.roles import Padding
from attnscope.checks.subject.subject import Subject

__all__ = ["coarser"]


def coarser(subject: Subject, padding: Padding, output: Tensor) -> Sides | None:
    """Return which tokens that attention sees are real, where an output has one row for each.

    None where tokens are not fewer than the inputs have, or one is made of real ones and padding.
    """
    length = padding.stream.length(subject.given)
    for call in subject.calls:
        if 1 < call.keys < length and call.keys in output.shape and output.dim() > 2:
            return sides_of(subject, seen_by(subject, call), padding)
    return None
