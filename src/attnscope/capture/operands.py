"""The tensors in any arguments, and products that spread over each other's axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

def tensors_in(tree: Any) -> Iterator[Tensor]:  # noqa: ANN401  arguments of any PyTorch function
    """Iterate over the tensors in nested arguments."""
    for leaf in tree.values() if isinstance(tree, Mapping) else tree:
        if isinstance(leaf, Tensor):
            yield leaf
        elif isinstance(leaf, (tuple, list, dict)):
            yield from tensors_in(leaf)
        elif isinstance(leaf, slice):
            yield from tensors_in((leaf.start, leaf.stop, leaf.step))


def is_outer(left: Tensor, right: Tensor) -> bool:
    """Return whether an elementwise product spreads both tensors over axes of the other."""
    size = 1
    one, other = left.shape, right.shape
    for back in range(1, max(len(one), len(other)) + 1):
        a = one[-back] if back <= len(one) else 1
        b = other[-back] if back <= len(other) else 1
        size *= max(a, b)
    return size > left.numel() and size > right.numel()
