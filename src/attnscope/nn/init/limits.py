"""Where attention counts as uniform, sane or saturated: limits that follow from arithmetic.

Take one row of n visible keys whose scores are independent normal numbers of standard deviation s.
The weights of such a row are the Gibbs measure of Derrida's random energy model, of which the
entropy is known for large n:

    H = log n - s²/2          for s < √(2·log n)
    H = O(1)                  beyond

- **saturated**: s reaches ``√(2·log n)`` (3.1 for 128 keys, 3.7 for 1,024). From there the weight
  condenses on a number of keys that no longer grows with n; the softmax has become a maximum.
- **uniform**: the effective number of keys ``exp(H)`` is at least nine tenths of n, that is
  ``s²/2 <= log(10/9)``, s <= 0.46. A weight then is 1/n up to a factor of typically ``e^0.46``, and
  the head returns little but the mean of v, whatever it is asked.

Both are said as shares of the largest entropy, ``H / log n``, which can be read off any row. For
finite n the share at a given s comes from the same row in its most typical form: scores at the
normal quantiles ``s·Φ⁻¹((i - ½)/n)``. Short of saturation it is the mean over drawn rows to about
0.03 (32 keys or more); past it rows differ much, and their mean lies higher (0.14 for s = 8 and 128
keys, where the typical row has 0.05).

Uniform is no fault by itself: PyTorch's default starts so (s = 0.33), and so does T5. Saturated is
one at the start of a training: the gradient reaches q and k through few keys alone.

Source: Derrida 1981, "Random-energy model", Phys. Rev. B 24, 2613.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, TypeAlias

import torch

from attnscope.errors import InputError

__all__ = [
    "Verdict",
    "critical_std",
    "expected_share",
    "saturated_below",
    "uniform_above",
    "verdict",
]

Verdict: TypeAlias = Literal["uniform", "sane", "saturated", "unknown"]

EFFECTIVE_SHARE = 0.9
"""Effective keys, as a share of the visible ones, from which attention counts as uniform."""


def critical_std(keys: int) -> float:
    """Return ``√(2·log n)``: the std of scores at which attention to n keys condenses.

    Example:
        >>> round(critical_std(128), 2)
        3.12
    """
    return math.sqrt(2 * math.log(_at_least_two(keys)))


def expected_share(std: float, keys: int) -> float:
    """Return ``H / log n`` of a typical row whose scores are normal with standard deviation `std`.

    Example:
        >>> round(expected_share(1.0, 128), 2)
        0.9
    """
    n = _at_least_two(keys)
    positions = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    scores = std * torch.special.ndtri(positions)
    entropy = torch.special.entr(scores.softmax(-1)).sum()
    return float(entropy) / math.log(n)


@lru_cache(maxsize=8192)
def saturated_below(keys: int) -> float:
    """Return the share of the largest entropy at which n keys count as saturated.

    Example:
        >>> 0.3 < saturated_below(128) < 0.5
        True
    """
    return expected_share(critical_std(keys), keys)


def uniform_above(keys: int) -> float:
    """Return the share from which attention to n keys counts as uniform: ``1 + log(0.9)/log n``.

    Example:
        >>> round(uniform_above(128), 3)
        0.978
    """
    return 1 + math.log(EFFECTIVE_SHARE) / math.log(_at_least_two(keys))


def verdict(share: float, low: float, high: float) -> Verdict:
    """Return what a share of the largest entropy means between its two limits.

    Example:
        >>> verdict(0.99, low=0.4, high=0.98)
        'uniform'
    """
    if math.isnan(share):
        return "unknown"
    if share >= high:
        return "uniform"
    return "saturated" if share < low else "sane"


def _at_least_two(keys: int) -> int:
    least = 2
    if keys < least:
        raise InputError(
            doing="working out what the entropy of attention can be",
            found=f"{keys} visible keys",
            todo="ask for two keys or more: with one, nothing is left to choose",
        )
    return keys
