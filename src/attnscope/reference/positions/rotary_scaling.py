"""How rotary frequencies are changed so that a model reads longer texts than it was trained on.

Each class is one published way: it takes the plain frequencies and returns those to turn by, and
says by what cos and sin are multiplied. `length` matters to those alone that change as the
sequence grows. Here are the ways that follow from one number; those that treat fast and slow
pairs apart are in `rotary_ramps`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float64

from attnscope.errors import InputError
from attnscope.reference.given import count, number, positive

__all__ = [
    "DOING",
    "DynamicNTKScaling",
    "Frequencies",
    "LinearScaling",
    "NTKScaling",
    "ProportionalScaling",
    "RotaryScaling",
    "Unamplified",
]

Frequencies: TypeAlias = Float64[np.ndarray, " pairs"]
"""Radians a token of each pair of features, the fastest first."""

DOING = "scaling rotary frequencies"


@runtime_checkable
class RotaryScaling(Protocol):
    """What `rotary` asks of a scaling."""

    @property
    def amplitude(self) -> float:
        """Return what cos and sin are multiplied by; scores of turned parts grow by its square."""

    def frequencies(self, plain: Frequencies, base: float, length: int) -> Frequencies:
        """Return the frequencies in radians a token, of the plain ones base^(-2i/width).

        Args:
            plain: (width/2,), unscaled.
            base: that they were made with.
            length: of the whole sequence so far; 0: not longer than in training.
        """


class Unamplified:
    """A scaling that leaves cos and sin as they are."""

    __slots__ = ()

    @property
    def amplitude(self) -> float:
        """Return 1: cos and sin are taken as they are."""
        return 1.0


@dataclass(frozen=True, slots=True)
class LinearScaling(Unamplified):
    """Position interpolation: all positions are divided by `factor`.

        frequency'[i] = frequency[i] / factor

    Source: Chen et al. 2023, "Extending Context Window of Large Language Models via Positional
        Interpolation", equation 4.

    Elsewhere: `rope_type="linear"` in transformers; `rope-scaling linear` in llama.cpp.

    Example:
        >>> LinearScaling(4.0).frequencies(np.array([1.0, 0.1]), 100.0, 0)
        array([0.25 , 0.025])
    """

    factor: float

    def __post_init__(self) -> None:
        positive(DOING, factor=self.factor)

    def frequencies(self, plain: Frequencies, base: float, length: int) -> Frequencies:
        """Return all frequencies divided by the factor."""
        del base, length
        return plain / self.factor


@dataclass(frozen=True, slots=True)
class NTKScaling(Unamplified):
    """NTK-aware: a larger base, so that the slowest pair is interpolated and the fastest not.

        base'         = base · factor^(width / (width - 2))
        frequency'[i] = base'^(-2i / width) = frequency[i] · factor^(-i / (width/2 - 1))

    Source: bloc97 2023, "NTK-Aware Scaled RoPE"; Peng et al. 2023 (YaRN), section 3.1.

    Elsewhere: `alpha` in Qwen and exllama; Code Llama gives the larger base itself.

    Example:
        >>> NTKScaling(4.0).frequencies(np.array([1.0, 0.1]), 100.0, 0)
        array([1.   , 0.025])
    """

    factor: float

    def __post_init__(self) -> None:
        positive(DOING, factor=self.factor)

    def frequencies(self, plain: Frequencies, base: float, length: int) -> Frequencies:
        """Return the frequencies of the larger base."""
        del base, length
        return _of_larger_base(plain, self.factor)


@dataclass(frozen=True, slots=True)
class DynamicNTKScaling(Unamplified):
    """NTK-aware with a base that grows with the sequence, from the trained length onwards.

        stretch       = factor · length / trained_length - (factor - 1), at least 1
        frequency'[i] = frequency[i] · stretch^(-i / (width/2 - 1))

    All positions turn by the new frequencies: keys that a cache turned by older ones differ.

    Source: emozilla 2023, "Dynamically Scaled RoPE"; Peng et al. 2023 (YaRN), section 3.3.

    Elsewhere: `rope_type="dynamic"` in transformers, trained_length = `max_position_embeddings`.

    Example:
        >>> scaling = DynamicNTKScaling(2.0, trained_length=8)
        >>> scaling.frequencies(np.array([1.0, 0.1]), 100.0, 8)
        array([1. , 0.1])
        >>> scaling.frequencies(np.array([1.0, 0.1]), 100.0, 12)
        array([1.  , 0.05])
    """

    factor: float
    trained_length: int

    def __post_init__(self) -> None:
        positive(DOING, factor=self.factor)
        count(DOING, "trained_length", self.trained_length)

    def frequencies(self, plain: Frequencies, base: float, length: int) -> Frequencies:
        """Return the frequencies of the base that this length asks for."""
        del base
        stretch = self.factor * max(length, self.trained_length) / self.trained_length
        return _of_larger_base(plain, stretch - (self.factor - 1))


@dataclass(frozen=True, slots=True)
class ProportionalScaling(Unamplified):
    """Pairs over the whole head, of which the slower ones stand still.

        frequency'[i] = frequency[i] / factor   for i < ⌊share · width / 2⌋,   else 0

    Unlike the `share` of `rotary`, the pairing is that of the whole head: with the pairing "half"
    feature i meets feature i + width/2.

    Source: the code of Gemma 4.

    Elsewhere: `rope_type="proportional"` in transformers, `partial_rotary_factor` for share.

    Example:
        >>> ProportionalScaling(0.5).frequencies(np.array([1.0, 0.1]), 100.0, 0)
        array([1., 0.])
    """

    share: float
    factor: float = 1.0

    def __post_init__(self) -> None:
        positive(DOING, factor=self.factor)
        if not 0 < number(DOING, "share", self.share) <= 1:
            raise InputError(
                DOING, f"share is {self.share}", "give a number above 0 and at most 1 (all pairs)"
            )

    def frequencies(self, plain: Frequencies, base: float, length: int) -> Frequencies:
        """Return the first frequencies, and 0 for the others."""
        del base, length
        turning = int(self.share * 2 * len(plain) // 2)
        return np.where(np.arange(len(plain)) < turning, plain / self.factor, 0.0)


def _of_larger_base(plain: Frequencies, stretch: float) -> Frequencies:
    if len(plain) == 1:
        raise InputError(
            DOING,
            "two features turn, and the exponent width / (width - 2) is infinite",
            "let at least four features turn, or take LinearScaling",
        )
    return plain * stretch ** (-np.arange(len(plain)) / (len(plain) - 1))
