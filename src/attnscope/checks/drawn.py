"""Whether a weight is still as an initialiser drew it: independent entries of one distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

__all__ = ["Drawn", "default_bounds", "drawn", "is_uniform_within"]

_FEWEST = 64
"""Entries below which a distribution can't be told."""

_SIGMAS = 6.0
_ALIKE = (0.35, 2.2)
"""Variance of the rows' mean squares, relative to that of independent entries."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """std, largest size, and kurtosis of the entries: 1.8 for uniform, 3 for normal ones."""

    std: float
    largest: float
    kurtosis: float


def drawn(weight: Tensor) -> Drawn | None:
    """Return the distribution of independent entries around zero; None: trained, or constant.

    Training makes rows and columns of unlike size and tails heavier than normal ones.
    """
    flat = weight.detach().double().flatten()
    if flat.numel() < _FEWEST or not bool(flat.isfinite().all()):
        return None
    std = float(flat.std())
    if std == 0.0 or abs(float(flat.mean())) > _SIGMAS * std / math.sqrt(flat.numel()):
        return None
    kurtosis = float(((flat - flat.mean()) / std).pow(4).mean())
    room = _SIGMAS * math.sqrt(24 / flat.numel())
    if not 1.8 - room / 3 <= kurtosis <= 3 + room:
        return None
    rows = weight.detach().double().reshape(weight.shape[0], -1)
    if not (_even(rows, std, kurtosis) and _even(rows.mT, std, kurtosis)):
        return None
    return Drawn(std, float(flat.abs().max()), kurtosis)


def _even(rows: Tensor, std: float, kurtosis: float) -> bool:
    """Return whether rows differ in size as those of independent entries do."""
    count, width = rows.shape
    if count < 8 or width < 8:
        return True
    spread = float((rows / std).square().mean(1).var())
    expected = max(kurtosis - 1, 0.5) / width
    room = 1 + 4 / math.sqrt(count)
    return _ALIKE[0] / room < spread / expected < _ALIKE[1] * room


def default_bounds(weight: Tensor) -> tuple[float, float]:
    """Return the bounds of torch's two uniform initialisers: of nn.Linear, and Xavier's."""
    fan_out, fan_in = weight.shape[0], weight[0].numel()
    return 1 / math.sqrt(fan_in), math.sqrt(6 / (fan_in + fan_out))


def is_uniform_within(tensor: Tensor, bound: float) -> bool:
    """Return whether entries fill [−bound, bound] evenly, and none lies outside."""
    flat = tensor.detach().double().flatten()
    if flat.numel() < 2 or float(flat.abs().max()) > bound * (1 + 1e-6):
        return False
    if flat.numel() < _FEWEST:
        return bool((flat != 0).any())
    full = float(flat.abs().max()) > bound * (1 - 20 / flat.numel())
    spread = float(flat.square().mean()) / (bound**2 / 3)
    return full and abs(spread - 1) < _SIGMAS * math.sqrt(0.8 / flat.numel())
