"""An output whose axes stand in another order."""

from __future__ import annotations

from itertools import permutations

from torch import Tensor

from attnscope.differ.walk.judging import Tolerance, compare
from attnscope.explain import Explanation

__all__ = ["explain_output"]

_MOST_AXES = 4


def explain_output(actual: Tensor, expected: Tensor, tolerance: Tolerance) -> Explanation | None:
    """Return the order of axes in which an output is the reference's."""
    if actual.dim() != expected.dim() or actual.dim() > _MOST_AXES:
        return None
    for order in permutations(range(actual.dim())):
        turned = actual.permute(order)
        gap = compare(turned, expected, tolerance)
        if gap.equal:
            text = (
                f"the output {tuple(actual.shape)} is the reference's {tuple(expected.shape)} with "
                f"its axes in another order: permute{order} makes them equal"
            )
            return Explanation("output-transposed", text, gap.largest)
    return None
