"""Small hand-written attentions in many people's styles, each with the truth about it."""

from __future__ import annotations

from . import (
    einsum,
    einsum_of_many,
    grouped,
    layouts,
    masks,
    mixing,
    normalisers,
    online,
    padding,
    plain,
    positions,
    relative,
    scales,
    sinks,
    spatial,
    streams,
    wild_masks,
    wild_models,
    wild_products,
    wild_scores,
    wild_sparse,
    wild_unlaid,
    wild_vision,
    windows,
)
from .lookalikes import LOOKALIKES
from .truth import LookAlike, Style, Truth

__all__ = ["LOOKALIKES", "STYLES", "WILD", "WILD_LOOKALIKES", "LookAlike", "Style", "Truth"]

STYLES: tuple[Style, ...] = (
    *plain.STYLES,
    *einsum.STYLES,
    *einsum_of_many.STYLES,
    *layouts.STYLES,
    *spatial.STYLES,
    *masks.STYLES,
    *padding.STYLES,
    *scales.STYLES,
    *normalisers.STYLES,
    *relative.STYLES,
    *positions.STYLES,
    *windows.STYLES,
    *grouped.STYLES,
    *streams.STYLES,
    *mixing.STYLES,
    *sinks.STYLES,
    *online.STYLES,
)

WILD: tuple[Style, ...] = (
    *wild_products.STYLES,
    *wild_scores.STYLES,
    *wild_masks.STYLES,
    *wild_models.STYLES,
    *wild_vision.STYLES,
    *wild_sparse.STYLES,
)
"""Further styles, as unlike the first ones as could be thought of."""

WILD_LOOKALIKES: tuple[LookAlike, ...] = wild_unlaid.LOOKALIKES
