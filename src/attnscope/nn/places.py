"""Where the queries and keys of one forward stand: in the sequence, and by their positions.

A place counts tokens from 0, which masks ask for; a position is what rotary embedding and biases
see. They are the same unless the caller says otherwise, as for left padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from attnscope.nn.cache import KeyPositions
from attnscope.nn.refusals import RefusedInputError

__all__ = ["GivenPositions", "Whereabouts", "whereabouts"]

GivenPositions: TypeAlias = Tensor | tuple[Tensor, Tensor] | None
"""Of queries and keys alike, or of each; None: counted from 0, or on from the cache."""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Places and positions of queries and keys."""

    queries: Int[Tensor, " queries"]
    keys: Int[Tensor, " keys"]
    query_positions: KeyPositions
    key_positions: KeyPositions

    def with_keys(self, keys: Int[Tensor, " keys"], positions: KeyPositions) -> Whereabouts:
        """Return it with other keys: those of a cache as well."""
        return Whereabouts(self.queries, keys, self.query_positions, positions)


def whereabouts(
    queries: int, keys: int, start: int, given: GivenPositions, device: torch.device
) -> Whereabouts:
    """Return where the queries from place `start` on and the new keys stand.

    Raises:
        RefusedInputError: positions for another number of tokens.
    """
    own = torch.arange(start, start + queries, device=device)
    others = own if keys == queries else torch.arange(start, start + keys, device=device)
    if given is None:
        return Whereabouts(own, others, own, others)
    of_queries, of_keys = given if isinstance(given, tuple) else (given, given)
    for name, positions, tokens in (("queries", of_queries, queries), ("keys", of_keys, keys)):
        if positions.dim() not in {1, 2} or positions.shape[-1] != tokens:
            raise RefusedInputError(
                "placing tokens",
                f"positions {tuple(positions.shape)} for {tokens} {name}",
                "give (tokens,) or (batch, tokens), or a tuple: those of queries and of keys",
            )
    return Whereabouts(own, others, of_queries, of_keys)
