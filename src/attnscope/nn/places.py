"""Where the queries and keys of one forward stand: in the sequence, and by their positions.

A place counts tokens from 0, which masks ask for; a position is what rotary embedding and biases
see. They are the same unless the caller says otherwise, as for left padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from attnscope.nn.cache import KeyPositions
from attnscope.nn.kinds import described
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

    def with_keys(self, end: int, positions: KeyPositions) -> Whereabouts:
        """Return it with other keys, those of a cache as well: the last ones up to place `end`."""
        places = torch.arange(end - positions.shape[-1], end, device=self.keys.device)
        return Whereabouts(self.queries, places, self.query_positions, positions)


def whereabouts(
    queries: int, keys: int, batch: int, start: int, given: GivenPositions, device: torch.device
) -> Whereabouts:
    """Return where the queries from place `start` on and the new keys stand.

    Raises:
        RefusedInputError: no tensors, or positions for another number of tokens or samples.
    """
    own = torch.arange(start, start + queries, device=device)
    others = own if keys == queries else torch.arange(start, start + keys, device=device)
    if given is None:
        return Whereabouts(own, others, own, others)
    pair: Any = given if isinstance(given, tuple) and len(given) == 2 else (given, given)
    of_queries, of_keys = pair
    for name, positions, tokens in (("queries", of_queries, queries), ("keys", of_keys, keys)):
        fits = isinstance(positions, Tensor) and (
            positions.dtype not in {torch.bool, torch.complex64, torch.complex128}
            and positions.dim() in {1, 2}
            and positions.shape[-1] == tokens
            and (positions.dim() == 1 or positions.shape[0] in {1, batch})
        )
        if not fits:
            raise RefusedInputError(
                "placing tokens",
                f"positions {_shape(positions)} for {tokens} {name} in {batch} samples",
                "give whole numbers (tokens,) or (batch, tokens), or a tuple of two tensors: those"
                " of queries and of keys",
            )
    return Whereabouts(own, others, of_queries, of_keys)


def _shape(positions: object) -> str:
    if not isinstance(positions, Tensor):
        return described(positions)
    kind = "" if positions.dtype == torch.int64 else f" of {positions.dtype}"
    return f"{tuple(positions.shape)}{kind}"
