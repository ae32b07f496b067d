"""A batch of prompts of different lengths, padded on the left, as people put it together."""

from __future__ import annotations

import torch
from torch import Tensor

from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Padding, Stream
from attnscope.checks.subject.subject import Subject

__all__ = ["left_padded"]


def left_padded(subject: Subject, stream: Stream, prompt: int) -> tuple[Given, Tensor] | None:
    """Return inputs whose samples are padded on the left, and which tokens are real then.

    prompt: number of tokens of the prompts, of which each has at least one that is real. None: the
    inputs can't say it, or are padded on the left as they are.
    """
    padding, given = subject.roles.padding_of(stream), subject.given
    if padding is None or not _can_say(padding, given):
        return None
    before = padding.real(given)
    if not bool(before[:, 0].all()):
        return None
    batch, length = stream.batch(given), stream.length(given)
    pads = [(prompt - 1) * (sample + 1) // batch for sample in range(batch)]
    real = torch.arange(length)[None] >= torch.tensor(pads)[:, None]
    if bool(real.all()):
        return None
    return padding.written(given, real), real


def _can_say(padding: Padding, given: Given) -> bool:
    """Return whether a mask of (batch, length) says which tokens are padding."""
    value = given.values.get(padding.name)
    if padding.meaning == "pad":
        return padding.declared
    if padding.meaning == "lengths":
        return False
    return not isinstance(value, Tensor) or not value.is_floating_point()
