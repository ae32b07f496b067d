"""Which scheme could have drawn a weight: by its spread and by the shape of its distribution.

The std of n independent draws scatters around the true one by ``√((κ - 1)/4n)`` of it, with the
kurtosis κ = 1.8 of a uniform and 3 of a normal distribution; four times that is allowed, one weight
in 16,000. A uniform distribution also ends at √3 times its std, which a normal one passes at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.errors import InputError
from attnscope.nn.init.roles import Place
from attnscope.nn.init.schemes import (
    T5,
    KaimingNormal,
    KaimingUniform,
    Normal,
    ScaledResidual,
    Scheme,
    TorchDefault,
    XavierNormal,
    XavierUniform,
)

__all__ = ["CANDIDATES", "Spread", "choose", "expected", "fits", "spread_of"]

CANDIDATES: tuple[Scheme, ...] = (
    XavierUniform(),
    XavierUniform(together=False),
    TorchDefault(),
    Normal(),
    ScaledResidual(),
    XavierNormal(),
    XavierNormal(together=False),
    KaimingUniform(),
    KaimingNormal(),
    T5(),
)
"""Schemes that are looked for, the simpler one first where two can't be told apart.

`MuP` is not among them: without its base width it can be any number."""

_CERTAINTY = 4.0
_KURTOSIS = {"uniform": 1.8, "normal": 3.0}
_ENOUGH = 200  # draws of which a normal distribution has one beyond √3 std: 1 - 0.917²⁰⁰ ≈ 1


@dataclass(frozen=True, slots=True)
class Spread:
    """What is known of a weight's entries: how many, their std, the largest, the rounding."""

    count: int
    std: float
    largest: float
    rounding: float


def spread_of(weight: Tensor) -> Spread:
    """Measure a weight.

    Example:
        >>> round(spread_of(torch.tensor([[1.0, -1.0], [1.0, -1.0]])).std, 3)
        1.0
    """
    if not weight.numel():
        return Spread(0, math.nan, math.nan, 0.0)
    exact = weight.detach().to(torch.float64)
    rounding = torch.finfo(weight.dtype).eps if weight.is_floating_point() else 0.0
    return Spread(exact.numel(), float(exact.std(correction=0)), float(exact.abs().max()), rounding)


def expected(scheme: Scheme, place: Place) -> float | None:
    """Return the std that a scheme gives a place; None where it needs what is not known."""
    try:
        return scheme.std(place)
    except InputError:
        return None


def fits(spread: Spread, place: Place, scheme: Scheme) -> bool:
    """Return whether `scheme` could have drawn a weight of this spread.

    Example:
        >>> weight = torch.nn.Linear(256, 256).weight
        >>> place = Place("q", fan_in=256, fan_out=256)
        >>> fits(spread_of(weight), place, TorchDefault())
        True
        >>> fits(spread_of(weight), place, XavierUniform())
        False
    """
    std = expected(scheme, place)
    if not std or not spread.count or not math.isfinite(spread.std):
        return False
    shape = scheme.distribution(place)
    scatter = _CERTAINTY * math.sqrt((_KURTOSIS[shape] - 1) / (4 * spread.count))
    if abs(spread.std / std - 1) > scatter + spread.rounding:
        return False
    bounded = spread.largest <= math.sqrt(3) * std * (1 + spread.rounding)
    return bounded if shape == "uniform" else not bounded or spread.count < _ENOUGH


def choose(fitting: Sequence[tuple[Scheme, ...]]) -> list[Scheme | None]:
    """Choose one scheme for each weight among those that fit it, the same for as many as can be."""
    votes = Counter(name for schemes in fitting for name in {scheme.name for scheme in schemes})

    def rank(scheme: Scheme) -> tuple[int, int]:
        place = CANDIDATES.index(scheme) if scheme in CANDIDATES else -1
        return (-votes[scheme.name], place)

    return [min(schemes, key=rank) if schemes else None for schemes in fitting]


def candidates(place: Place, given: Iterable[Scheme] = CANDIDATES) -> tuple[Scheme, ...]:
    """Return the schemes that mean something in a place: no "thirds" where nothing is packed."""
    packed = place.rows != place.fan_out
    return tuple(s for s in given if packed or getattr(s, "together", True))
