"""What makes weights of scores: softmax and the others, each with its backward."""

from __future__ import annotations

from attnscope.reference.normalisers.named import (
    NORMALISERS,
    Normaliser,
    logsumexp,
    softmax,
    softmax_backward,
    softmax_off_by_one,
)
from attnscope.reference.normalisers.sparse import (
    entmax,
    entmax_backward,
    sparsemax,
    sparsemax_backward,
)

__all__ = [
    "NORMALISERS",
    "Normaliser",
    "entmax",
    "entmax_backward",
    "logsumexp",
    "softmax",
    "softmax_backward",
    "softmax_off_by_one",
    "sparsemax",
    "sparsemax_backward",
]
