"""Names the axes of a hand-written attention: which are batch, heads, queries, keys, features.

Works on sizes alone, so it is done while the model runs, and also decides whether what looked like
attention is one: the product with v has to sum over the axis that k brought into the scores.
"""

from __future__ import annotations

from attnscope.capture.layout import Contraction, fresh
from attnscope.capture.provenance import Node, Operand, Output
from attnscope.capture.reading.axesreading import AxesReading, NotAttentionError
from attnscope.capture.reading.factors import SCORES
from attnscope.capture.reading.following import chain_layouts
from attnscope.capture.reading.pairing import flipped, pairing, product_of
from attnscope.capture.reading.sides import Sides
from attnscope.capture.reading.trails import Trails

__all__ = ["AxesReading", "NotAttentionError", "product_of", "read_axes", "read_some_axes"]


def read_axes(
    nodes: list[Node],
    start: Node,
    weights: Output,
    value: Operand,
    final: Node,
    *,
    weights_left: bool,
    trails: Trails | None = None,
) -> AxesReading | None:
    """Name the axes; None where that can't be told.

    trails: layouts that are known of other calls, so that what they share is followed once.

    Raises:
        NotAttentionError: what was followed shows that this is something else.
    """
    first = product_of(start)
    if first is None or start.left is None or start.right is None:
        return None
    layouts = chain_layouts(nodes, start)
    weights_layout = layouts.get((id(weights.node), weights.index))
    if weights_layout is None:
        return None
    shapes = (weights_layout.shape, value.held.shape)
    second = pairing(final, shapes if weights_left else (shapes[1], shapes[0]))
    if second is None:
        return None
    if not weights_left:
        second = flipped(second)
    sides = Sides(trails or Trails(), start, value, first, second, weights_layout)
    keys_left = sides.keys_are_left()
    if keys_left is None:
        return None
    factors = sides.factors(keys_left=keys_left)
    return sides.reading(factors, layouts, keys_left=keys_left)


def read_some_axes(start: Node, value: Operand) -> AxesReading | None:
    """Name the axes of q, k and their product alone, where what follows could not be followed.

    The keys are taken to be the axis that the right operand alone brings in, as in `q @ k.mT`.
    """
    first = product_of(start)
    if first is None or not first.summed or not first.right:
        return None
    whole = fresh(start.shapes[0], SCORES)
    outs = [out for _, out in first.right]
    second = Contraction((), (), (), tuple((out, -1) for out in outs))
    sides = Sides(Trails(), start, value, first, second, whole)
    factors = sides.factors(keys_left=False)
    return sides.partial(factors, keys_left=False)
