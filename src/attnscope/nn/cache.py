"""What was projected for earlier tokens, so that decoding projects each token once."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor, nn

from attnscope.axes import Key, Value
from attnscope.errors import InputError
from attnscope.nn.kinds import described, is_count, is_whole

__all__ = ["AllOrNone", "Attended", "KeyPositions", "KeyValueCache", "check_caches"]

KeyPositions: TypeAlias = Int[Tensor, " keys"] | Int[Tensor, "batch keys"]
"""Positions of the keys: the same for all samples, or of each."""

Attended: TypeAlias = tuple[Key, Value, KeyPositions]
"""What the queries of one forward attend to."""

Owner: TypeAlias = "weakref.ref[nn.Module] | None"


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
        if window is not None and not is_count(window):
            raise InputError(
                "making a cache",
                f"window={window!r}",
                "give the number of tokens to keep, 1 or more, or None for all",
            )
        self.window = window
        self.length = 0
        self._attended: Attended | None = None
        self._owner: Owner = None

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

    def extend(self, k: Key, v: Value, positions: KeyPositions) -> Attended:
        """Add the next tokens; return what their queries attend to: all that is kept, and they.

        Args:
            k: (batch, kv_heads, tokens, head_dim).
            v: (batch, kv_heads, tokens, value_dim).
            positions: of these tokens.

        Raises:
            InputError: another batch, number of heads or type than before.
        """
        attended = self.joined(k, v, positions)
        self.take(attended, k.shape[2])
        return attended

    def joined(self, k: Key, v: Value, positions: KeyPositions) -> Attended:
        """Return what `extend` would, and leave the cache as it is.

        Raises:
            InputError: as `extend`.
        """
        if self._attended is None:
            return k, v, positions
        keys, values, before = self._attended
        if keys.shape[:2] != k.shape[:2] or keys.shape[3] != k.shape[3] or keys.dtype != k.dtype:
            raise InputError(
                "adding to a cache",
                f"keys {tuple(k.shape)} after keys {tuple(keys.shape)}"
                + ("" if keys.dtype == k.dtype else f", {k.dtype} after {keys.dtype}"),
                "use one cache for one batch and one module; reset() empties it",
            )
        if self.kept:
            k = torch.cat([self._last(keys), k], 2)
            v = torch.cat([self._last(values), v], 2)
            positions = _joined(before[..., before.shape[-1] - self.kept :], positions)
        return k, v, positions

    def take(self, attended: Attended, tokens: int) -> None:
        """Grow by the last `tokens` of what `joined` returned."""
        self.length += tokens
        self._attended = attended

    def serve(self, module: nn.Module) -> None:
        """Take note of whose keys these are, at the first of them.

        Raises:
            InputError: they are another module's.
        """
        owner = None if self._owner is None else self._owner()
        if owner is None or not self.length:
            self._owner = weakref.ref(module)
        elif owner is not module:
            raise InputError(
                "attending with a cache",
                f"{self.length} tokens in it of another module",
                "give each layer a cache of its own: module.new_cache() for each",
            )

    def before(self, length: int) -> KeyValueCache:
        """Return the cache as it was at `length` tokens, before the latest `extend`.

        It shares its memory with this one.

        Raises:
            InputError: it never had so many tokens, or has forgotten some of them since.
        """
        attended = 0 if self._attended is None else self._attended[0].shape[2]
        whole = self.window is None or attended == self.length
        first = 0 if whole else self.length - attended + (self.window or 0)
        if not is_count(length, first) or length > self.length:
            raise InputError(
                "going back in a cache",
                f"length={length!r}, of a cache with {self.length} tokens, {attended} of them kept",
                f"give a whole number from {first} to {self.length}",
            )
        end = attended - (self.length - length)
        earlier = KeyValueCache(self.window)
        earlier.length = length
        if self._attended is not None and length:
            k, v, positions = self._attended
            earlier._attended = (
                k[:, :, :end].detach(),
                v[:, :, :end].detach(),
                positions[..., :end],
            )
        return earlier

    def reorder(self, samples: Int[Tensor, " batch"]) -> None:
        """Take other samples of the batch, as beam search does.

        Raises:
            InputError: no whole numbers (batch,).
        """
        if not is_whole(samples, 1):
            raise InputError(
                "taking other samples of a cache",
                described(samples),
                "give whole numbers (batch,), the samples to take",
            )
        if self._attended is not None:
            k, v, positions = self._attended
            if positions.dim() == 2 and len(positions) > 1:
                positions = positions[samples]
            self._attended = k[samples], v[samples], positions

    def reset(self) -> None:
        """Forget everything."""
        self.length, self._attended, self._owner = 0, None, None

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies carry: not whose keys they are, since a model is copied with them."""
        return {**vars(self), "_owner": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> KeyValueCache:
        """Return a cache with copies of all tensors; a graph leads from them to the originals."""
        twin = KeyValueCache(self.window)
        twin.length = self.length
        if self._attended is not None:
            k, v, positions = self._attended
            twin._attended = k.clone(), v.clone(), positions.clone()
        memo[id(self)] = twin
        return twin

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


class AllOrNone:
    """Caches grow by a whole forward, or stay as they were: in a `with` around it.

    Example:
        >>> cache, k = KeyValueCache(), torch.randn(1, 1, 3, 8)
        >>> try:
        ...     with AllOrNone([cache]):
        ...         _ = cache.extend(k, k, torch.arange(3))
        ...         raise KeyError
        ... except KeyError:
        ...     print(cache)
        KeyValueCache(window=None, length=0, kept=0)
    """

    def __init__(self, caches: Sequence[KeyValueCache]) -> None:
        self._before = [(cache, dict(vars(cache))) for cache in caches]

    def __enter__(self) -> None:
        """Begin the forward."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Take back what the caches grew by, if the forward has failed."""
        if kind is not None:
            for cache, state in self._before:
                vars(cache).update(state)


def check_caches(caches: object, layers: int) -> None:
    """Refuse what is not one cache for each layer, all of the same tokens.

    Raises:
        InputError: another type or number, one object twice, or lengths that differ.
    """
    if caches is None or torch.compiler.is_compiling():
        return
    found = None
    if not isinstance(caches, (list, tuple)):
        found = f"{type(caches).__name__}, no list"
    elif not all(isinstance(cache, KeyValueCache) for cache in caches):
        found = next(described(cache) for cache in caches if not isinstance(cache, KeyValueCache))
    elif len(caches) != layers:
        found = f"{len(caches)} caches for {layers} layers"
    elif len({id(cache) for cache in caches}) != layers:
        found = "one cache for several layers"
    elif len({cache.length for cache in caches}) > 1:
        found = f"caches of {', '.join(str(cache.length) for cache in caches)} tokens"
    if found is not None:
        raise InputError("reading the caches", found, "give those of model.new_cache()")
