"""Scores as far as they matter: an entry that can't get any weight is as good as hidden."""

from __future__ import annotations

from torch import Tensor

from attnscope.axes import Scores

__all__ = ["settled"]

_NO_WEIGHT = 104.0
"""exp(-104) is 0 in float32: a score so far below the largest of its row has no weight."""


def settled(scores: Scores) -> Tensor:
    """Return scores with -inf where the softmax gives exactly 0 in float32.

    Fills of -1e9, -1e4 and `finfo.min` hide as well as -inf where the row keeps another key; a row
    in which all keys are filled stays as it is.
    """
    largest = scores.amax(-1, keepdim=True) if scores.shape[-1] else scores
    return scores.masked_fill(scores < largest - _NO_WEIGHT, float("-inf"))
