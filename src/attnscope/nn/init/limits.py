"""Where attention counts as uniform, sane or saturated: limits that follow from arithmetic.

Take one row of n visible keys whose scores are independent normal numbers of standard deviation s.
The weights of such a row are the Gibbs measure of Derrida's random energy model, of which the
entropy is known for large n:

    H = log n - s²/2          for s < √(2·log n)
    H = O(1)                  beyond

- **saturated**: s reaches ``√(2·log n)`` (3.1 for 128 keys, 3.7 for 1,024). From there the weight
  condenses on a number of keys that no longer grows with n; the softmax has become a maximum.
- **uniform**: s stays below ``√(2·log(10/9))`` = 0.46, where the effective number of keys
  ``exp(H)`` of a long row is nine tenths of n. A weight then is 1/n up to a factor of typically
  ``e^0.46``, and the head returns little but the mean of v, whatever it is asked.

Both are said as shares of the largest entropy, ``H / log n``, which can be read off any row; the
share at a given s is the exact mean over rows of n keys (see `expected_share`). So the limits are
the same s for rows of every length, and a causal mask, whose first rows are short, changes no
verdict but by chance.

Uniform is no fault by itself: `nn.Linear`'s default starts so (s = 0.33), and so does T5. That of
`nn.MultiheadAttention` lies at the limit (s = 0.5): a report says "sane, near uniform". Saturated
is one at the start of a training: the gradient reaches q and k through few keys alone.

Source: Derrida 1981, "Random-energy model", Phys. Rev. B 24, 2613.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypeAlias, cast

import torch

from attnscope.errors import InputError
from attnscope.reference.given import count, number

__all__ = [
    "Verdict",
    "critical_std",
    "expected_share",
    "near",
    "saturated_below",
    "uniform_above",
    "verdict",
    "verdict_of",
]

Verdict: TypeAlias = Literal["uniform", "sane", "saturated", "mixed", "unknown"]

UNIFORM_STD = math.sqrt(2 * math.log(10 / 9))
"""Std of scores up to which attention counts as uniform: nine tenths of a long row's keys."""

_DOING = "working out what the entropy of attention can be"
_CLOSE = 0.25
_WIDE, _REACH, _STEP = 50.0, 8.5, 0.4  # std, standard deviations of z, and step of u
_GONE = 50.0  # exp(-exp(50)) is 0


def critical_std(keys: int) -> float:
    """Return ``√(2·log n)``: the std of scores at which attention to n keys condenses.

    Example:
        >>> round(critical_std(128), 2)
        3.12
    """
    return math.sqrt(2 * math.log(_at_least_two(keys)))


def expected_share(std: float, keys: int) -> float:
    """Return ``H / log n`` of rows whose scores are normal with standard deviation `std`, exactly.

    It is the mean over rows, by quadrature to about 1e-6. With Z = Σ exp(s) and φ its Laplace
    transform for one key::

        E log Z = ∫ (exp(-e^u) - φ(e^u)^n) du,   φ(t) = E exp(-t·exp(std·z)),   z normal
        E H     = E log Z - std · d(E log Z)/d(std)

    the second because ``Σ weight · score`` is the slope of log Z as all scores grow.

    Raises:
        InputError: fewer than two keys, or a std below 0.

    Example:
        >>> round(expected_share(1.0, 128), 2)
        0.9
    """
    n = _at_least_two(keys)
    number(_DOING, "std", std, least=0)
    grid = min(
        std, _WIDE
    )  # beyond it H falls as 1/std: two keys must come within O(1) of each other
    value, slope = _log_sum(grid, n)
    share = (value - grid * slope) / math.log(n)
    return share * grid / std if std > grid else share


def _log_sum(std: float, n: int) -> tuple[float, float]:
    """Return E log Σ exp(s) over n normal scores, and its slope in std: trapezoids both ways.

    The integrands are analytic in a strip of half-width π/2 of u, so that their error falls as
    ``exp(-π²/step)``: 2e-11.
    """
    z = torch.arange(-_REACH, _REACH, min(_STEP, _STEP / max(std, 1e-9)), dtype=torch.float64)
    weight = (-z.square() / 2).exp()
    weight /= weight.sum()
    low, high = -(math.log(n) + _REACH * std + 20), _REACH * std + 4
    u = torch.arange(low, high, _STEP, dtype=torch.float64)
    times = (u[:, None] + std * z).clamp(max=_GONE).exp()  # t·exp(s)
    kept = (-times).exp()
    phi = (kept @ weight).clamp(max=1.0)
    of_phi = -(times * kept) @ (weight * z)
    value = ((-u.exp()).exp() - phi**n).sum() * _STEP
    slope = -(n * phi ** (n - 1) * of_phi).sum() * _STEP
    return float(value), float(slope)


@lru_cache(maxsize=8192)
def saturated_below(keys: int) -> float:
    """Return the share of the largest entropy at which n keys count as saturated.

    Example:
        >>> 0.3 < saturated_below(128) < 0.5
        True
    """
    return expected_share(critical_std(keys), keys)


@lru_cache(maxsize=8192)
def uniform_above(keys: int) -> float:
    """Return the share from which attention to n keys counts as uniform: that at std 0.46.

    Example:
        >>> round(uniform_above(128), 3)
        0.979
    """
    return expected_share(UNIFORM_STD, keys)


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


def near(share: float, low: float, high: float) -> Verdict | None:
    """Return the verdict on the other side of a limit that is close, None where none is.

    Close is a quarter of the limit's own distance from 1, which grows as the square of the std: an
    eighth of the std. Two runs of the same model may be told either way there.

    Example:
        >>> near(0.975, low=0.4, high=0.98)
        'uniform'
    """
    found = verdict(share, low, high)
    for limit, beyond in ((high, "uniform"), (low, "saturated")):
        if abs((1 - share) - (1 - limit)) <= _CLOSE * (1 - limit):
            return "sane" if found == beyond else cast("Verdict", beyond)
    return None


def verdict_of(heads: Sequence[Verdict], mean: Verdict) -> Verdict:
    """Return the verdict of a call from those of its heads, and that of their mean.

    The mean alone would call saturated and uniform heads sane together. They are "mixed", and so
    are heads of which half are saturated; fewer leave the others' verdict.

    Example:
        >>> verdict_of(["saturated", "saturated", "uniform", "uniform"], mean="sane")
        'mixed'
        >>> verdict_of(["saturated", "sane", "sane", "sane"], mean="sane")
        'sane'
    """
    saturated = heads.count("saturated")
    if "unknown" in heads or not heads:
        return "unknown"
    if not saturated:
        return mean
    if "uniform" in heads or 2 * saturated == len(heads):
        return "mixed"
    return "saturated" if 2 * saturated > len(heads) else "sane"


def _at_least_two(keys: int) -> int:
    least = 2
    if count(_DOING, "keys", keys, least=0) < least:
        raise InputError(
            doing=_DOING,
            found=f"{keys} visible keys",
            todo="ask for two keys or more: with one, nothing is left to choose",
        )
    return keys
