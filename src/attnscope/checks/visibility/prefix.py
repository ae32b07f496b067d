"""The positions that may see one another both ways, as `expect` declares them."""

from __future__ import annotations

import torch
from torch import Tensor

from attnscope.checks.rule import Skipped
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject

__all__ = ["prefix_of"]


def prefix_of(subject: Subject, stream: Stream) -> Tensor:
    """Return True = belongs to the prefix, (batch, length).

    It is declared as a number of positions, or as an input: one number, one for each sample, or a
    mark for each token (those that are marked like the first token).

    Raises:
        Skipped: it is declared as an input that isn't given.
    """
    batch, length = stream.batch(subject.given), stream.length(subject.given)
    said = subject.expect.get("prefix", 0)
    value = subject.given.values.get(said) if isinstance(said, str) else said
    if value is None:
        raise Skipped(f"the prefix is declared as {said}, which is no input: give it")
    positions = torch.arange(length)
    if not isinstance(value, Tensor):
        return (positions < int(value)).expand(batch, length)
    value = value.detach().cpu()
    if value.numel() == 1:
        return (positions < int(value)).expand(batch, length)
    if value.numel() == batch and value.numel() != batch * length:
        return positions < value.reshape(-1, 1)
    marks = value if value.shape == (batch, length) else value.mT
    if marks.shape != (batch, length):
        raise Skipped(
            f"the prefix {said} has the shape {tuple(value.shape)}: give one mark a token"
        )
    return marks == marks[:, :1]
