"""Extends token sequences one token at a time: the likeliest, or drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnscope.errors import InputError
from attnscope.nn.padded import PerSample, Real, check_real, last_real

__all__ = ["Sampling", "extend"]

Ids: TypeAlias = Int[Tensor, "batch tokens"]
Extended: TypeAlias = Int[Tensor, "batch all"]
Predict: TypeAlias = Callable[[Ids, Real | None], Tensor]
"""From all tokens so far, and which of them are real, to logits (batch, some, vocabulary) of which
the last belong to the last tokens."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen.

    temperature: logits are divided by it before the softmax; 0 = the likeliest token, no draw.
    top_k: only the k likeliest tokens may be drawn; None: all. generator: of the random numbers;
    None: the global one.

    Raises:
        InputError: a temperature below 0, or a top_k below 1.

    Source: Fan et al. 2018, "Hierarchical neural story generation", section 5.4 (top-k).

    Example:
        >>> logits = torch.tensor([[0.0, 2.0, 1.0]])
        >>> Sampling().choose(logits)
        tensor([1])
        >>> draw = Sampling(1.0, top_k=2, generator=torch.Generator().manual_seed(0))
        >>> sorted({int(draw.choose(logits)) for _ in range(50)})
        [1, 2]
    """

    temperature: float = 0.0
    top_k: int | None = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        """Refuse values that choose nothing."""
        if self.temperature < 0 or (self.top_k is not None and self.top_k < 1):
            raise InputError(
                doing="choosing how tokens are drawn",
                found=f"temperature={self.temperature}, top_k={self.top_k}",
                todo="give a temperature of 0 (the likeliest) or more, and a top_k of 1 or more",
            )

    def choose(self, logits: Float[Tensor, "batch vocabulary"]) -> PerSample:
        """Return one token for each sample."""
        if self.temperature == 0:
            return logits.argmax(-1)
        logits = logits.float() / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            likeliest, tokens = logits.topk(self.top_k, -1)
            drawn = likeliest.softmax(-1).multinomial(1, generator=self.generator)
            return tokens.gather(-1, drawn).squeeze(-1)
        return logits.softmax(-1).multinomial(1, generator=self.generator).squeeze(-1)


@torch.no_grad()
def extend(
    predict: Predict, ids: Ids, count: int, sampling: Sampling, real: Real | None = None
) -> Extended:
    """Return `ids` (batch, tokens) with `count` more tokens, each chosen from what `predict` says.

    A prompt that is padded on the right is continued from its last real token; the new tokens stand
    behind the padding, and are real.

    Raises:
        InputError: an empty prompt, a negative count, or padding that does not fit.
    """
    if count < 0 or not ids.shape[1]:
        raise InputError(
            doing="generating",
            found=f"a prompt of {ids.shape[1]} tokens and count={count}",
            todo="give one token or more to start from, and a count of 0 or more",
        )
    at: Tensor | None = None
    if real is not None:
        check_real(real, ids)
        at = last_real(real)
    samples = torch.arange(len(ids), device=ids.device)
    for _ in range(count):
        logits = predict(ids, real)
        last = logits[:, -1] if at is None else logits[samples, at]
        at = None  # from now on the last token is real everywhere
        ids = torch.cat([ids, sampling.choose(last)[:, None]], -1)
        if real is not None:
            real = torch.nn.functional.pad(real, (0, 1), value=True)
    return ids
