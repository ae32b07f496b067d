"""Tensors whose axes could not be named: what is said of them."""

from __future__ import annotations

from attnscope.calls.arrangement import Arrangement
from attnscope.calls.held import Held
from attnscope.errors import ReplayError

__all__ = ["named", "unnamed"]


def named(arrangement: Arrangement | None, name: str, held: Held) -> Arrangement:
    """Return the arrangement of a tensor.

    Raises:
        ReplayError: its axes could not be named.
    """
    if arrangement is None:
        raise unnamed(name, held.shape)
    return arrangement


def unnamed(name: str, shape: tuple[int, ...]) -> ReplayError:
    """Return the error for a tensor whose axes could not be named."""
    return ReplayError(
        doing=f"deriving {name}",
        found=f"a tensor {shape} whose axes could not be named",
        todo="look at call.shapes() for what is known; the replay itself is not affected",
    )
