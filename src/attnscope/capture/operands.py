"""The tensors in any arguments, and the two that a contraction multiplies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from attnscope.capture.layout import Contraction, contract, operands


def tensors_in(tree: Any) -> Iterator[Tensor]:
    """Iterate over the tensors in nested arguments."""
    for leaf in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(leaf, Tensor):
            yield leaf
        elif isinstance(leaf, (tuple, list, dict)):
            yield from tensors_in(leaf)
        elif isinstance(leaf, slice):
            yield from tensors_in((leaf.start, leaf.stop, leaf.step))


def two_sides(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Tensor, Tensor] | None:
    """Return the two tensors that a contraction multiplies, in that order; None: not two.

    Operands of `einsum` that are single numbers are left out: they only scale.
    """
    name = name.removesuffix("_")
    if name == "einsum":
        _, sides = equation_of_two(args)
        pair: Any = sides if len(sides) == 2 else None
    else:
        pair = operands(name, args, kwargs)
    if pair is None or not all(isinstance(side, Tensor) for side in pair):
        return None
    return pair[0], pair[1]


def equation_of_two(args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return equation and operands of an `einsum` without its 0-dimensional operands."""
    if not args or not isinstance(args[0], str):
        return "", ()
    sides = args[1:]
    if len(sides) == 1 and isinstance(sides[0], (tuple, list)):
        sides = tuple(sides[0])
    inputs, arrow, output = args[0].partition("->")
    terms = inputs.split(",")
    if len(terms) != len(sides):
        return "", ()
    kept = [(term, side) for term, side in zip(terms, sides, strict=True) if term.strip()]
    return ",".join(term for term, _ in kept) + arrow + output, tuple(side for _, side in kept)


def pairing_of(
    name: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    sides: tuple[Any, Any],
) -> Contraction | None:
    """Return which axes a contraction of `sides` (anything with a shape) pairs, keeps and sums."""
    shapes = (tuple(sides[0].shape), tuple(sides[1].shape))
    name = name.removesuffix("_")
    if name == "einsum":
        equation, _ = equation_of_two(args)
        return contract(name, (equation,), {}, shapes)
    return contract(name, args, kwargs, shapes)
