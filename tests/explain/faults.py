"""Faulty attentions: what a port gets wrong inside, each with its key and what has to be said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.explain.scenes import Sizes, Steps, causal, padding, steps

Pair = tuple[Steps, Steps]
"""Reference and candidate."""


@dataclass(frozen=True)
class Fault:
    """One fault. says: all of these stand in the text; also: keys of the same arithmetic.

    readable: a recipe can say it. modes: where it shows; None: everywhere. square: with as many
    queries as keys. grouped: with fewer kv heads than heads.
    """

    name: str
    key: str
    make: Callable[[Sizes], Pair]
    says: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    readable: bool = True
    modes: tuple[str, ...] | None = None
    square: bool = True
    grouped: bool = False


def fault(key: str, *says: str, **options: Any) -> Callable[[Callable[[Sizes], Pair]], Fault]:
    """Make a fault of what builds reference and candidate."""

    def named(make: Callable[[Sizes], Pair]) -> Fault:
        name = make.__name__.replace("_", "-")
        return Fault(name, key, make, says, **options)

    return named


def faults_in(names: dict[str, object]) -> tuple[Fault, ...]:
    """Return the faults of a module, in order."""
    return tuple(value for value in names.values() if isinstance(value, Fault))


def lengths(sizes: Sizes) -> list[int]:
    return [max(1, sizes.keys - 1 - 2 * sample) for sample in range(sizes.batch)]


def alibi(sizes: Sizes, heads: int | None = None) -> Tensor:
    count = heads or sizes.heads
    slopes = 2.0 ** (-8 * torch.arange(1, count + 1, dtype=torch.float64) / count)
    distance = torch.arange(sizes.keys) - torch.arange(sizes.queries)[:, None]
    return slopes[None, : sizes.heads, None, None] * -distance.abs()


def table(sizes: Sizes, seed: int = 5) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    by_distance = torch.randn(
        sizes.heads, sizes.queries + sizes.keys - 1, generator=random, dtype=torch.float64
    )
    place = torch.arange(sizes.keys) - torch.arange(sizes.queries)[:, None] + sizes.queries - 1
    return by_distance[:, place][None]


def causal_padded(sizes: Sizes, **changes: Any) -> Steps:
    seen = causal(sizes.queries, sizes.keys) & padding(lengths(sizes), sizes.keys)
    return steps(sizes, seen=seen, **changes)
