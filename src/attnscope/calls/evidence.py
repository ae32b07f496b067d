"""What stands behind a call: recorded operations, a kernel's arguments, or numbers alone.

A consumer reads calls and never asks which it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from attnscope.calls.numbers import HeadNumbers
from attnscope.calls.recipe import Recipe
from attnscope.calls.shapes import ShapeRow

NAMES = ("q", "k", "v", "scores", "weights", "context")
"""The tensors of a call that have values and gradients."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of one call in the canonical layout."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_dim: int
    value_dim: int

    @property
    def group(self) -> int:
        """Query heads per kv head."""
        return max(self.heads // max(self.kv_heads, 1), 1)


class Evidence(Protocol):
    """The proof of one call: its tensors in the canonical layout, and its replay."""

    @property
    def sizes(self) -> Sizes:
        """Sizes in the canonical layout."""

    @property
    def by_recipe(self) -> bool:
        """Whether scores and weights are what `recipe` makes of q and k, by definition."""
        return False

    @property
    def recipe(self) -> Recipe:
        """How scores came from `q·k` and weights from scores."""

    def value(self, name: str) -> Tensor:
        """Return one of `NAMES` in the canonical layout, derived where it is not kept."""

    def gradient(self, name: str) -> Tensor:
        """Return the gradient of one of `NAMES`, after a backward."""

    def weight_blocks(self) -> Iterator[Tensor]:
        """Iterate over the weights by blocks of queries, (batch, heads, some queries, keys)."""

    def kept_numbers(self) -> HeadNumbers | None:
        """Return the numbers per head where they were kept; None: they follow from the weights."""
        return None

    def replay_error(self) -> float | None:
        """Return the largest relative difference of replayed and real output; 0.0 = bit for bit.

        None where there are no values to compare (meta and fake tensors).
        """

    def shapes(self) -> tuple[ShapeRow, ...]:
        """Return one row a step."""
