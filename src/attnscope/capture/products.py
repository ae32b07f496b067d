"""What a product of two tensors may be, judged by its operands alone."""

from __future__ import annotations

from torch import Tensor

from attnscope.capture.operands import pairing_of
from attnscope.capture.step import Step


def is_outer(step: Step, left: Tensor, right: Tensor) -> bool:
    """Return whether an einsum is an outer product, whose sum is still to come."""
    pairs = pairing_of(step.name, step.args, step.kwargs, (left, right))
    return pairs is not None and not pairs.summed


def may_be_queries(name: str, left: Tensor, weights: tuple[bool, bool]) -> bool:
    """Return whether the parameter in a product may be learned queries rather than a projection.

    weights: whether the left and the right side are parameters.
    """
    if name == "einsum":
        return True
    if weights[1] or name in {"linear", "tensordot"}:
        return False
    return left.dim() <= 2 or is_shared(left)


def is_shared(queries: Tensor) -> bool:
    """Return whether all samples have the same queries: one, or one expanded."""
    return queries.shape[0] == 1 or queries.stride(0) == 0
