"""A subject whose batch has padding: one row that is shorter than the others."""

from __future__ import annotations

import torch
from torch import Tensor

from attnscope.checks.subject.roles import Padding
from attnscope.checks.subject.subject import Subject

__all__ = ["padded"]


def padded(subject: Subject) -> Subject:
    """Return the subject, with padding put into token ids whose mask by name has or gets none."""
    return subject.once("padded", lambda: _padded(subject))


def _padded(subject: Subject) -> Subject:
    known = subject.roles.padding
    if not known or any(p.given and not bool(p.real(subject.given).all()) for p in known):
        return subject
    chosen = next((p for p in known if _can_be_made(subject, p)), None)
    if chosen is None:
        return subject
    stream = chosen.stream
    batch, length = stream.batch(subject.given), stream.length(subject.given)
    cut = max(1, length // 3)
    at = torch.arange(length)
    left = subject.causal is not None and bool(subject.causal.value)
    real = torch.ones(batch, length, dtype=torch.bool)
    real[batch - 1] = at >= cut if left else at < length - cut
    try:
        given = chosen.written(subject.given, real)
    except (ValueError, RuntimeError):
        return subject
    other = subject.with_inputs(given)
    return other if other.crash is None and other.roles.padding else subject


def _can_be_made(subject: Subject, padding: Padding) -> bool:
    if padding.stream.kind != "ids" or padding.meaning not in {"keep", "drop"}:
        return False
    if padding.stream.length(subject.given) < 3:
        return False
    value = subject.given.values.get(padding.name)
    return value is None or (isinstance(value, Tensor) and value.dim() == 2)
