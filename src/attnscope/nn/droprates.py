"""Where a transformer layer drops in training."""

from __future__ import annotations

from dataclasses import dataclass, fields

from attnscope.errors import InputError
from attnscope.nn.kinds import is_number

__all__ = ["Dropouts"]


@dataclass(frozen=True, slots=True)
class Dropouts:
    """Probabilities of dropout in training, by place.

    weights: of the attention weights, after the softmax; residual: of what attention and
    feed-forward add to the stream; feed_forward: of the hidden features; embedding: of tokens and
    positions, by models alone (a layer has no embedding).

    Source: Vaswani et al. 2017, section 5.4 (residual and embedding); their code (weights,
    feed-forward). Elsewhere: one number for weights, residual and feed-forward (torch);
    `attn_pdrop`, `resid_pdrop`, `embd_pdrop` (GPT-2).

    Example:
        >>> Dropouts.everywhere(0.1).residual
        0.1
    """

    weights: float = 0.0
    residual: float = 0.0
    feed_forward: float = 0.0
    embedding: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        for field in fields(self):
            rate = getattr(self, field.name)
            if not is_number(rate) or not 0 <= rate <= 1:
                raise InputError(
                    doing="placing dropout",
                    found=f"{field.name}={rate!r}",
                    todo="give a probability from 0 to 1",
                )

    @classmethod
    def everywhere(cls, probability: float) -> Dropouts:
        """Return the same probability in all places, as `dropout=` of torch's layers means it."""
        return cls(probability, probability, probability, probability)
