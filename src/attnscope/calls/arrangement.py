"""How a tensor in the user's own layout becomes canonical: split, permute, join axes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The way of one tensor into the canonical layout, and back.

    splits: the factors that each axis is a product of, outermost first; sizes.
    groups: for each canonical axis the factors it is made of, by position among all factors.
    copies: factors whose positions all hold the same values; the first is taken.
    """

    splits: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[int, ...], ...]
    copies: tuple[int, ...] = ()

    @property
    def factors(self) -> tuple[int, ...]:
        """Sizes of all factors, axis by axis."""
        return tuple(size for axis in self.splits for size in axis)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape in the canonical layout."""
        sizes = self.factors
        return tuple(prod(sizes[factor] for factor in group) for group in self.groups)

    def canonical(self, tensor: Tensor, *, add_copies: bool = False) -> Tensor:
        """Return `tensor` in the canonical layout.

        add_copies: add up what the copies hold instead of taking the first (for gradients).
        """
        split = tensor.reshape(self.factors)
        for factor in sorted(self.copies, reverse=True):
            split = split.sum(factor) if add_copies else split.select(factor, 0)
        left = [factor for factor in range(len(self.factors)) if factor not in self.copies]
        order = [left.index(factor) for group in self.groups for factor in group]
        return split.permute(order).reshape(self.shape)

    def restore(self, tensor: Tensor) -> Tensor:
        """Return a canonical `tensor` in the user's own layout, with the copies made again."""
        sizes = self.factors
        order = [factor for group in self.groups for factor in group]
        split = tensor.reshape([sizes[factor] for factor in order])
        left = [factor for factor in range(len(sizes)) if factor not in self.copies]
        split = split.permute([order.index(factor) for factor in left])
        for factor in sorted(self.copies):
            split = split.unsqueeze(factor)
        return split.expand(sizes).reshape([prod(axis) for axis in self.splits])


PLAIN_NAMES = ("batch", "heads", "tokens", "dim")


def from_names(shape: tuple[int, ...], names: tuple[str, ...]) -> Arrangement:
    """Return the arrangement of a tensor whose axes have whole names ("batch", "heads", …).

    Axes of one name are joined in order; a name that is absent gives a canonical axis of size 1.
    """
    groups = tuple(
        tuple(axis for axis, name in enumerate(names) if name == wanted) for wanted in PLAIN_NAMES
    )
    return Arrangement(tuple((size,) for size in shape), groups)
