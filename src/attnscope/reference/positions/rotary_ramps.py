"""Rotary scalings that change each pair by how fast it turns: YaRN, Llama 3's, LongRoPE.

A pair that makes many turns within the trained length tells near tokens apart and is left alone; a
pair that makes less than one has met only part of its circle and is interpolated.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log, pi, sqrt

import numpy as np

from attnscope.errors import InputError
from attnscope.reference.given import count, flag, number, positive, real
from attnscope.reference.positions.rotary_scaling import (
    DOING,
    Frequencies,
    Unamplified,
)

__all__ = ["Llama3Scaling", "LongRopeScaling", "YarnScaling"]

_YARN_GAP = 0.001  # what YaRN's code widens an empty ramp by


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """YaRN: fast pairs as they are, slow pairs interpolated, a ramp between, and sharper scores.

        turns(i)      = trained_length · frequency[i] / 2π             within the trained length
        ramp[i]       = clip((i - low) / (high - low), 0, 1)
        frequency'[i] = frequency[i] · (1 - ramp[i] + ramp[i] / factor)
        amplitude     = 0.1 · ln(factor) + 1                           (1 for factor ≤ 1)

    `low` and `high` are the (fractional) pairs that make `beta_fast` and `beta_slow` turns, rounded
    outwards where `truncate`. Scores of turned features grow by amplitude².

    With `mscale` and `mscale_all` both given, amplitude = m(mscale) / m(mscale_all) where
    m(s) = 0.1 · s · ln(factor) + 1; DeepSeek multiplies its softmax scale by m(mscale_all)²
    besides, which is no matter of positions. `attention_factor` overrides all of it.

    Raises:
        InputError: parameters that are not positive, or beta_fast below beta_slow.

    Source: Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models",
        sections 3.2 to 3.4; DeepSeek-V2 2024, section 3.1.4 (mscale).

    Elsewhere: `rope_type="yarn"` in transformers, with `original_max_position_embeddings` for
    trained_length, `mscale_all_dim` for mscale_all; GPT-OSS has truncate=False.

    Example:
        >>> yarn = YarnScaling(4.0, trained_length=64, beta_fast=8, beta_slow=1)
        >>> plain = np.array([1.0, 0.1, 0.01, 0.001])
        >>> (yarn.frequencies(plain, 10000.0, 0) / plain).round(4)
        array([1.   , 0.625, 0.25 , 0.25 ])
        >>> round(yarn.amplitude, 4)
        1.1386
    """

    factor: float
    trained_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        positive(
            DOING,
            factor=self.factor,
            beta_fast=self.beta_fast,
            beta_slow=self.beta_slow,
        )
        count(DOING, "trained_length", self.trained_length)
        flag(DOING, "truncate", self.truncate)
        for name in ("attention_factor", "mscale", "mscale_all"):
            if getattr(self, name) is not None:
                number(DOING, name, getattr(self, name), least=0)
        if self.beta_fast < self.beta_slow:
            raise InputError(
                DOING,
                f"beta_fast {self.beta_fast} is below beta_slow {self.beta_slow}",
                "give the larger number of turns as beta_fast",
            )

    @property
    def amplitude(self) -> float:
        """Return the factor of cos and sin; the literature's is that of the scores, its square."""
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all:
            return self._sharpness(self.mscale) / self._sharpness(self.mscale_all)
        return self._sharpness(1.0)

    def frequencies(self, plain: Frequencies, base: float, length: int) -> Frequencies:
        """Return plain frequencies where they turn fast, divided ones where they turn slowly."""
        del length
        width = 2 * len(plain)
        low, high = (self._pair(turns, width, base) for turns in (self.beta_fast, self.beta_slow))
        if self.truncate:
            low, high = floor(low), ceil(high)
        low, high = max(low, 0), min(high, width - 1)
        if low == high:
            high += _YARN_GAP
        ramp = np.clip((np.arange(len(plain)) - low) / (high - low), 0, 1)
        return np.asarray(plain * (1 - ramp + ramp / self.factor))

    def _pair(self, turns: float, width: int, base: float) -> float:
        """Return the pair i, a real number, of which base^(-2i/width) makes so many turns."""
        return width * log(self.trained_length / (turns * 2 * pi)) / (2 * log(base))

    def _sharpness(self, mscale: float) -> float:
        return 1.0 if self.factor <= 1 else 0.1 * mscale * log(self.factor) + 1


@dataclass(frozen=True, slots=True)
class Llama3Scaling(Unamplified):
    """Llama 3.1's: a ramp between plain and interpolated frequencies over the number of turns.

        turns[i]      = trained_length · frequency[i] / 2π
        plainness[i]  = clip((turns[i] - low) / (high - low), 0, 1)
        frequency'[i] = frequency[i] · (plainness[i] + (1 - plainness[i]) / factor)

    Raises:
        InputError: parameters that are not positive, or `high` not above `low`.

    Source: Meta 2024, `apply_scaling` in the code of Llama 3.1; Grattafiori et al. 2024, "The
        Llama 3 Herd of Models", section 3.4.2, gives the context stages it serves.

    Elsewhere: `rope_type="llama3"` in transformers, with `low_freq_factor` for low,
    `high_freq_factor` for high and `original_max_position_embeddings` for trained_length.

    Example:
        >>> scaling = Llama3Scaling(8.0, trained_length=64)
        >>> plain = np.array([1.0, 0.2, 0.01, 0.001])
        >>> (scaling.frequencies(plain, 10000.0, 0) / plain).round(4)
        array([1.    , 0.4275, 0.125 , 0.125 ])
    """

    factor: float
    trained_length: int
    low: float = 1.0
    high: float = 4.0

    def __post_init__(self) -> None:
        positive(DOING, factor=self.factor, low=self.low)
        count(DOING, "trained_length", self.trained_length)
        if number(DOING, "high", self.high) <= self.low:
            raise InputError(
                DOING,
                f"high {self.high} is not above low {self.low}",
                "give the larger number of turns as high",
            )

    def frequencies(self, plain: Frequencies, base: float, length: int) -> Frequencies:
        """Return plain frequencies where they turn often, divided ones where they hardly turn."""
        del base, length
        turns = self.trained_length * plain / (2 * pi)
        plainness = np.clip((turns - self.low) / (self.high - self.low), 0, 1)
        return plain * (plainness + (1 - plainness) / self.factor)


@dataclass(frozen=True, slots=True)
class LongRopeScaling:
    """LongRoPE: a factor of its own for each pair, one set up to the trained length, one beyond.

        frequency'[i] = frequency[i] / (short[i] if length ≤ trained_length else long[i])
        amplitude     = √(1 + ln(factor) / ln(trained_length))         (1 for factor ≤ 1)

    `factor` is the extended length over the trained one; `attention_factor` overrides amplitude.

    Raises:
        InputError: parameters that are not positive, or another number of factors than of pairs.

    Source: Ding et al. 2024, "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens",
        section 3.2; the amplitude is that of the code of Phi-3.

    Elsewhere: `rope_type="longrope"` (once "su") in transformers.

    Example:
        >>> scaling = LongRopeScaling((1.0, 1.0), (1.0, 4.0), trained_length=8, factor=2.0)
        >>> scaling.frequencies(np.array([1.0, 0.1]), 100.0, 8)
        array([1. , 0.1])
        >>> scaling.frequencies(np.array([1.0, 0.1]), 100.0, 9)
        array([1.   , 0.025])
    """

    short: tuple[float, ...]
    long: tuple[float, ...]
    trained_length: int
    factor: float
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        positive(DOING, factor=self.factor)
        count(DOING, "trained_length", self.trained_length, least=2)
        for name, factors in (("short", self.short), ("long", self.long)):
            listed = real(DOING, name, factors, axes=1)
            positive(DOING, **{f"{name}[{i}]": one for i, one in enumerate(listed.tolist())})

    @property
    def amplitude(self) -> float:
        """Return the factor of cos and sin."""
        if self.attention_factor is not None:
            return self.attention_factor
        return 1.0 if self.factor <= 1 else sqrt(1 + log(self.factor) / log(self.trained_length))

    def frequencies(self, plain: Frequencies, base: float, length: int) -> Frequencies:
        """Return each frequency divided by its own factor."""
        del base
        factors = self.long if length > self.trained_length else self.short
        if len(factors) != len(plain):
            raise InputError(
                DOING,
                f"{len(factors)} factors for {len(plain)} pairs of features",
                "give one factor for each pair of the features that turn",
            )
        return np.asarray(plain / np.array(factors))
