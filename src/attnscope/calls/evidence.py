"""What stands behind a call: recorded operations, a kernel's arguments, or numbers alone.

A consumer reads calls and never asks which it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from attnscope.calls.held import Held
from attnscope.calls.numbers import HeadNumbers
from attnscope.calls.recipe import Recipe
from attnscope.calls.shapes import ShapeRow
from attnscope.errors import ReplayError

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


@dataclass(frozen=True, slots=True)
class Spot:
    """Where one tensor of a call lies in the model's own run.

    held: the model's own tensor; read: from the model's layout to the canonical one; write: back,
    in the type of what it is given. What was multiplied into it for the scale is taken out by
    `read` and put in by `write`. read_gradient: the same for its gradient, which adds up over
    copies and takes the scale as a factor.
    """

    held: Held
    read: Callable[[Tensor], Tensor]
    write: Callable[[Tensor], Tensor]
    read_gradient: Callable[[Tensor], Tensor]


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

    def spot(self, name: str) -> Spot | None:
        """Return where one of `NAMES` lies in the model's run; None: not known."""
        del name
        return None

    def rerun(self, name: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return what the call would make of other q, k and v, in float64.

        What it dropped at random it drops again.

        name: "raw_scores" (q·k), "scores", "weights" (as they met v) or "context".

        Raises:
            ReplayError: the call can't be run with other values.
        """
        del q, k, v
        raise ReplayError(
            f"running a call again as far as its {name}",
            "a call of which only tensors or numbers are kept",
            "record the model again, with keep='all' or 'qkv'",
        )

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
