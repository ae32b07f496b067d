"""Which outputs of real tokens, or of samples that have padding, moved."""

from __future__ import annotations

import torch
from torch import Tensor

from attnscope.checks.masking.sides import Sides
from attnscope.checks.masking.taken_out import is_read_by_another
from attnscope.checks.subject.roles import Padding, Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along

__all__ = ["moved_outputs", "moved_outputs_coarsely"]


def moved_outputs_coarsely(subject: Subject, sides: Sides, entries: Tensor) -> Tensor:
    """Return which tokens that were made of real ones alone moved, (batch, tokens)."""
    main = subject.roles.main
    usual = main.batch_axis if main is not None and main.batch_axis is not None else 0
    fits = [a for a, n in enumerate(entries.shape) if n == sides.real.shape[1] and a != usual]
    if not fits:
        return torch.zeros_like(sides.real)
    flat = entries.movedim((usual, fits[0]), (0, 1)).flatten(2).any(-1)
    return flat & sides.real & sides.mixed[:, None]


def moved_outputs(
    subject: Subject, padding: Padding, real: Tensor, entries: Tensor, output: Tensor
) -> tuple[Tensor, str]:
    """Return which real tokens (batch, length), or which samples with padding (batch,), moved."""
    stream = padding.stream
    owner = _owner(subject, stream, output)
    aside = owner is not stream
    samples, tokens = along(subject, output, owner)
    if samples is None and stream.batch_axis is not None:
        return torch.zeros(1, dtype=torch.bool), "nothing"
    some = (~real).any(1)
    if tokens is not None:
        keep = [a for a in (samples, tokens) if a is not None]
        rest = [a for a in range(entries.dim()) if a not in keep]
        flat = entries.permute(*keep, *rest).reshape(*(entries.shape[a] for a in keep), -1).any(-1)
        flat = flat if samples is not None else flat[None]
        if not aside:
            return flat & real, "tokens"
        own = subject.roles.padding_of(owner)
        mine = own.real(subject.given) if own is not None else torch.ones_like(flat)
        return flat & mine & some[:, None], "tokens"
    if samples is None or output.dim() > 2:
        return torch.zeros(1, dtype=torch.bool), "nothing"
    return entries.movedim(samples, 0).reshape(len(some), -1).any(1) & some, "samples"


def _owner(subject: Subject, stream: Stream, output: Tensor) -> Stream | None:
    """Return the sequence that outputs belong to: by names, else by the one length that fits."""
    main = subject.roles.main
    if is_read_by_another(subject, stream):
        return main
    if stream.length(subject.given) in output.shape:
        return stream
    others = [
        each
        for each in subject.roles.streams
        if each.name != stream.name and 1 < each.length(subject.given) in output.shape
    ]
    return others[0] if len(others) == 1 and output.dim() > 1 else stream
