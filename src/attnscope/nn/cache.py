"""What was projected for earlier tokens, so that decoding projects each token once."""

from __future__ import annotations

from typing import TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from attnscope.axes import Key, Value
from attnscope.errors import InputError

__all__ = ["KeyPositions", "KeyValueCache"]

KeyPositions: TypeAlias = Int[Tensor, " keys"] | Int[Tensor, "batch keys"]
"""Positions of the keys: the same for all samples, or of each."""


class KeyValueCache:
    """Keys and values of the tokens so far, of one attention module.

    It is empty at first and grows by what each forward is given. With a window it keeps the last
    `window` tokens alone. Keys are kept as they meet the queries: normalised and rotated.
    `MultiheadAttention.new_cache` makes the one that fits a module's mask.

    keys: (batch, kv_heads, kept, head_dim), None while empty; values: the same with value_dim;
    length: tokens seen so far, kept or not. Others: `past_key_values` in Hugging Face.

    Args:
        window: how many tokens to keep; None: all of them.

    Example:
        >>> cache = KeyValueCache()
        >>> k = torch.randn(2, 4, 3, 8)
        >>> keys, values, positions = cache.extend(k, k, torch.arange(3))
        >>> keys, values, positions = cache.extend(k, k, torch.arange(3, 6))
        >>> cache.length, tuple(keys.shape), positions.tolist()
        (6, (2, 4, 6, 8), [0, 1, 2, 3, 4, 5])
    """

    def __init__(self, window: int | None = None) -> None:
        if window is not None and window < 1:
            raise InputError(
                "making a cache",
                f"window={window}",
                "give the number of tokens to keep, 1 or more, or None for all",
            )
        self.window = window
        self.length = 0
        self._attended: tuple[Key, Value, KeyPositions] | None = None

    @property
    def kept(self) -> int:
        """Number of tokens whose keys and values are there."""
        return self.length if self.window is None else min(self.length, self.window)

    @property
    def keys(self) -> Key | None:
        """The keys that are kept."""
        return None if self._attended is None else self._last(self._attended[0])

    @property
    def values(self) -> Value | None:
        """The values that are kept."""
        return None if self._attended is None else self._last(self._attended[1])

    def places(self, tokens: int, device: torch.device | str = "cpu") -> Int[Tensor, " tokens"]:
        """Return the places in the sequence of the next `tokens` tokens."""
        return torch.arange(self.length, self.length + tokens, device=device)

    def extend(self, k: Key, v: Value, positions: KeyPositions) -> tuple[Key, Value, KeyPositions]:
        """Add the next tokens; return what their queries attend to: all that is kept, and they.

        Args:
            k: (batch, kv_heads, tokens, head_dim).
            v: (batch, kv_heads, tokens, value_dim).
            positions: of these tokens.

        Raises:
            InputError: another batch or number of heads than before.
        """
        new = k.shape[2]
        if self._attended is not None:
            keys, values, before = self._attended
            if keys.shape[:2] != k.shape[:2]:
                raise InputError(
                    "adding to a cache",
                    f"keys {tuple(k.shape)} after keys {tuple(keys.shape)}",
                    "use one cache for one batch and one module; reset() empties it",
                )
            if self.kept:
                k = torch.cat([self._last(keys), k], 2)
                v = torch.cat([self._last(values), v], 2)
                positions = _joined(before[..., before.shape[-1] - self.kept :], positions)
        self.length += new
        self._attended = k, v, positions
        return self._attended

    def before(self, length: int) -> KeyValueCache:
        """Return the cache as it was at `length` tokens, before the latest `extend`.

        It shares its memory with this one.
        """
        earlier = KeyValueCache(self.window)
        earlier.length = length
        if self._attended is not None and length:
            end = self._attended[0].shape[2] - (self.length - length)
            k, v, positions = self._attended
            earlier._attended = (
                k[:, :, :end].detach(),
                v[:, :, :end].detach(),
                positions[..., :end],
            )
        return earlier

    def reorder(self, samples: Int[Tensor, " batch"]) -> None:
        """Take other samples of the batch, as beam search does."""
        if self._attended is not None:
            k, v, positions = self._attended
            if positions.dim() == 2 and len(positions) > 1:
                positions = positions[samples]
            self._attended = k[samples], v[samples], positions

    def reset(self) -> None:
        """Forget everything."""
        self.length, self._attended = 0, None

    def _last(self, tensor: Tensor) -> Tensor:
        return tensor[:, :, tensor.shape[2] - self.kept :]

    def __repr__(self) -> str:
        """Return one line with what is kept."""
        return f"KeyValueCache(window={self.window}, length={self.length}, kept={self.kept})"


def _joined(before: KeyPositions, after: KeyPositions) -> KeyPositions:
    if before.dim() != after.dim():
        batch = max(len(positions) if positions.dim() == 2 else 1 for positions in (before, after))
        before, after = (positions.expand(batch, -1) for positions in (before, after))
    return torch.cat([before, after], -1)
