"""What was read about the axes of one attention: arrangements, sizes, layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attnscope.calls.arrangement import Arrangement
from attnscope.calls.evidence import Sizes
from attnscope.capture.layout import Layout
from attnscope.capture.provenance import Node
from attnscope.capture.reading.factors import Factor, by_factors, pieces_of


@dataclass(frozen=True, slots=True)
class AxesReading:
    """Arrangements of all tensors of a call; None where the axes of a tensor could not be named.

    expansion: how kv heads met the query heads; chain: layouts of the chain's outputs.
    names: axis names of the product q·k in the user's own layout, for the shape sheet.
    keys_are_features: the axis of the keys was cut off the features of a projection.
    cut: which queries and keys of the product q·k the weights are left with.
    """

    sizes: Sizes
    q: Arrangement
    k: Arrangement
    v: Arrangement | None
    raw: Arrangement
    context: Arrangement | None
    keys_left: bool
    expansion: str
    names: tuple[str, ...]
    chain: Mapping[tuple[int, int], Layout]
    factors: tuple[tuple[Factor, ...], ...]
    keys_are_features: bool = False
    cut: tuple[slice, slice] = (slice(None), slice(None))

    def arrange(self, node: Node, index: int = 0) -> Arrangement | None:
        """Return the arrangement of any tensor between q·k and the weights."""
        layout = self.chain.get((id(node), index))
        return by_factors(layout, self.factors) if layout is not None else None

    def roles(self, node: Node, index: int, axis: int) -> tuple[str, ...]:
        """Return what one axis of a tensor between q·k and the weights is."""
        layout = self.chain.get((id(node), index))
        if layout is None or not -len(layout.axes) <= axis < len(layout.axes):
            return ()
        pieces = pieces_of(layout.axes[axis], self.factors) or []
        return tuple(dict.fromkeys(piece.role for piece in pieces))


class NotAttentionError(Exception):
    """The product with v does not sum over the axis that k brought in."""
