"""Extends token sequences one token at a time: the likeliest, or drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnscope.errors import InputError
from attnscope.nn.kinds import described, is_count, is_number, is_whole
from attnscope.nn.padded import PerSample, Real, check_real, padding_first

__all__ = ["Sampling", "check_prompt", "extend"]

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
        hot = is_number(self.temperature) and self.temperature >= 0
        if self.generator is not None and not isinstance(self.generator, torch.Generator):
            raise InputError(
                doing="choosing how tokens are drawn",
                found=f"generator: {described(self.generator)}",
                todo="give torch.Generator().manual_seed(0), or None for the global one",
            )
        if not hot or (self.top_k is not None and not is_count(self.top_k)):
            raise InputError(
                doing="choosing how tokens are drawn",
                found=f"temperature={self.temperature!r}, top_k={self.top_k!r}",
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
    predict: Predict,
    ids: Ids,
    count: int,
    sampling: Sampling | None = None,
    real: Real | None = None,
) -> Extended:
    """Return `ids` (batch, tokens) with `count` more tokens, each chosen from what `predict` says.

    Padding is moved to the left before anything is predicted, so that new tokens follow the last
    real one. In what is returned the prompts are as they were given, and the new tokens stand
    behind.

    Raises:
        InputError: an empty prompt, a negative count, or padding or sampling that does not fit.
    """
    check_prompt(ids, count, sampling, real)
    sampling = sampling or Sampling()
    sequence = ids
    if real is not None:
        sequence, real = padding_first(ids, real)
    for _ in range(count):
        logits = predict(sequence, real)
        sequence = torch.cat([sequence, sampling.choose(logits[:, -1])[:, None]], -1)
        if real is not None:
            real = torch.nn.functional.pad(real, (0, 1), value=True)
    return torch.cat([ids, sequence[:, ids.shape[1] :]], -1)


def check_prompt(ids: Tensor, count: int, sampling: object, real: Real | None) -> None:
    """Refuse what can't be extended.

    Raises:
        InputError: as `extend`.
    """
    if sampling is not None and not isinstance(sampling, Sampling):
        raise InputError(
            doing="generating",
            found=f"sampling: {described(sampling)}",
            todo="give Sampling(temperature, top_k=…), or leave it out for the likeliest token",
        )
    if not is_whole(ids, 2):
        raise InputError(
            doing="generating",
            found=f"a prompt: {described(ids)}",
            todo="give token ids (batch, tokens), whole numbers",
        )
    if not is_count(count, 0) or not ids.shape[1]:
        raise InputError(
            doing="generating",
            found=f"a prompt of {ids.shape[1]} tokens and count={count!r}",
            todo="give one token or more to start from, and a count of 0 or more",
        )
    if real is None:
        return
    check_real(real, ids)
    empty = (~real.any(-1)).nonzero().flatten().tolist()
    if empty:
        raise InputError(
            doing="generating",
            found=f"no real token in sample {empty[0]}",
            todo="give one token or more to start from in each sample",
        )
