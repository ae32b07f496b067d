"""How numbers, recipes and places are put into a few words."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from attnscope.calls import Call, Recipe, Source, tolerance
from attnscope.calls.numbers import HeadNumbers
from attnscope.errors import ReplayError

_INSTALLED = re.compile(r"^.*/(?:site|dist)-packages/")


def number(value: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits, without an exponent where that is short."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    return f"{value:.{digits}g}".replace("-", "−")


def span(values: Sequence[float], digits: int = 2) -> str:
    """Return the smallest and the largest of some numbers, as one where they look the same."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return "—" if not values else "NaN"
    low, high = f"{min(finite):.{digits}f}", f"{max(finite):.{digits}f}"
    return low if low == high else f"{low}–{high}"


def highest(values: Sequence[float], digits: int = 2) -> str:
    """Return the largest of some numbers."""
    finite = [value for value in values if math.isfinite(value)]
    return f"{max(finite):.{digits}f}" if finite else ("NaN" if values else "—")


def percent(share: float) -> str:
    """Return a share of 1 as a percentage that says 0 and 100 only where it is."""
    text = f"{100 * share:.0f}"
    if text == "100" and share < 1:
        text = ">99"
    if text == "0" and share > 0:
        text = "<1"
    return f"{text}%"


def scale(value: float | Tensor | None) -> str:
    """Return what the dot products are multiplied by."""
    if value is None:
        return "?"
    if isinstance(value, Tensor):
        return span(value.flatten().tolist(), 3)
    return number(value)


def recipe(made: Recipe) -> str:
    """Return the mask and everything unusual of a recipe, the usual left out."""
    mask = made.mask
    parts = [mask.kind if mask.kind == "none" else f"{mask.kind} {percent(mask.visible)}"]
    if made.bias is not None:
        parts.append("bias")
    if made.softcap is not None:
        parts.append(f"cap {number(made.softcap)}")
    if made.sinks is not None:
        count = made.sinks.shape[-1] if made.sinks.ndim else 1
        parts.append("sink" if count == 1 else f"{count} sinks")
    if made.dropout:
        parts.append(f"dropout {number(made.dropout)}")
    if made.normaliser != "softmax":
        parts.append(made.normaliser)
    if made.normaliser_axis != "keys":
        parts.append(f"over {made.normaliser_axis}")
    if made.unknown:
        parts.append(f"unread: {', '.join(made.unknown)}")
    return ", ".join(parts)


def replay(error: float | None) -> str:
    """Return how far the replay of a call is from what the model computed."""
    if error is None:
        return "none"
    return "exact" if error == 0 else f"{error:.0e}"


def beyond_rounding(call: Call) -> bool:
    """Return whether the replay of a call is further off than the arithmetic of its type explains.

    Hand-written attention runs again as it was recorded, so there any difference is too large.
    """
    error = error_of(call)
    if not error:
        return False
    if call.kind == "eager":
        return True
    try:
        dtype = call.q.dtype
    except ReplayError:  # numbers alone were kept
        return False
    return error > tolerance.replay(dtype, call.keys, call.head_dim)


def path(file: str) -> str:
    """Return a file as a person would name it: from the working directory, or from its package."""
    relative = os.path.relpath(file) if Path(file).is_absolute() else file
    if not relative.startswith(os.pardir):
        file = relative
    return _INSTALLED.sub("", file)


def place(source: Source) -> str:
    """Return `file:line in function`."""
    inside = f" in {source.function}" if source.function else ""
    return f"{path(source.file)}:{source.line}{inside}"


THE_MODEL = "(the model itself)"
"""How the root is named where a module's path is empty."""

UNREAD = Recipe(None, normaliser="unknown", unknown=("scale", "mask", "bias", "normaliser"))
"""What is said of a call whose tensors can't be read any more."""


def recipe_of(call: Call) -> Recipe:
    """Return a call's recipe, or `UNREAD` where its tensors were changed since."""
    try:
        return call.recipe
    except ReplayError:
        return UNREAD


def error_of(call: Call) -> float | None:
    """Return how far the replay is off, or None where it can't be run."""
    try:
        return call.replay_error
    except ReplayError:
        return None


def numbers_of(call: Call) -> HeadNumbers | None:
    """Return a call's numbers per head, or None where what they follow from was not kept."""
    try:
        return call.numbers()
    except ReplayError:
        return None
