"""Where an attention drops, beside its weights."""

from __future__ import annotations

from dataclasses import dataclass, fields

from attnscope.nn.kinds import is_number
from attnscope.nn.refusals import RefusedInputError

__all__ = ["AttentionDropouts"]


@dataclass(frozen=True, slots=True)
class AttentionDropouts:
    """Probabilities of dropout in training, by place; that on the weights is `dropout` itself.

    scores: of what enters the softmax, before bias and mask; a dropped score is 0, which hides no
    key: a common mistake, here to be looked at. context: of each head's result, before the output
    projection. output: of the result, as in a residual connection.

    Example:
        >>> AttentionDropouts(output=0.1)
        AttentionDropouts(scores=0.0, context=0.0, output=0.1)
    """

    scores: float = 0.0
    context: float = 0.0
    output: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        for field in fields(self):
            rate = getattr(self, field.name)
            if not is_number(rate) or not 0 <= rate <= 1:
                raise RefusedInputError(
                    "placing dropout",
                    f"{field.name}={rate!r}",
                    "give a probability from 0 to 1",
                )

    @property
    def any(self) -> bool:
        """Whether anything is dropped."""
        return any(getattr(self, field.name) for field in fields(self))
