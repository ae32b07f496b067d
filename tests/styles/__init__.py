"""Small hand-written attentions in many people's styles, each with the truth about it."""

from __future__ import annotations

from . import (
    einsum,
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
    windows,
)
from .lookalikes import LOOKALIKES
from .truth import LookAlike, Style, Truth

__all__ = ["LOOKALIKES", "STYLES", "LookAlike", "Style", "Truth"]

STYLES: tuple[Style, ...] = (
    *plain.STYLES,
    *einsum.STYLES,
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
