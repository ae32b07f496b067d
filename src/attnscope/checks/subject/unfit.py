"""Inputs without a token, or with NaN where tokens are real: nothing that comes out is judged."""

from __future__ import annotations

import torch
from torch import Tensor

from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.errors import InputError

__all__ = ["refuse_unfit"]


def refuse_unfit(subject: Subject) -> None:
    """Refuse inputs without a sample or token, or that aren't finite and make the output so.

    Masks may hold infinity, padding may hold anything, and a model may deal with missing values.

    Raises:
        InputError: they do.
    """
    main = subject.roles.main
    sizes = tuple(subject.given.values[main.name].shape) if main is not None else ()
    if main is not None and 0 in sizes:
        raise InputError(
            f"checking {subject.name}",
            f"{main.name} {sizes} is empty: there is no token in it to look at",
            "give inputs with a few samples of several tokens",
        )
    if all(bool(each.isfinite().all()) for each in subject.base.outputs.values()):
        return
    for stream in subject.roles.streams:
        tensor = subject.given.values[stream.name]
        if isinstance(tensor, Tensor) and tensor.is_floating_point():
            lost = int((~tensor.isfinite() & _real(subject, stream, tensor)).sum())
            if lost:
                raise InputError(
                    f"checking {subject.name}",
                    f"{lost} of the {tensor.numel()} entries of {stream.name} are NaN or infinite, "
                    "and so are outputs",
                    "give inputs that are finite",
                )


def _real(subject: Subject, stream: Stream, tensor: Tensor) -> Tensor:
    """Return which entries are of real tokens."""
    padding = subject.roles.padding_of(stream)
    if padding is None or not padding.given or None in {stream.batch_axis, stream.sequence_axis}:
        return torch.ones_like(tensor, dtype=torch.bool)
    axes = (stream.batch_axis or 0, stream.sequence_axis or 0)
    whole = torch.ones_like(tensor, dtype=torch.bool).movedim(axes, (0, 1))
    real = padding.real(subject.given)
    real = real.view(*real.shape, *[1] * (whole.dim() - 2))
    return (whole & real).movedim((0, 1), axes)
