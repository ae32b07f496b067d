"""Weight that additive attention, of which no call is recorded, gives to padding."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attnscope.checks.masking.additive import Additive, additive_of
from attnscope.checks.masking.seen import NOTHING
from attnscope.checks.subject.subject import Subject

__all__ = ["Unrecorded", "unrecorded_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Unrecorded:
    """An additive attention that sees padding.

    weight: the largest on a padded key; sample: where; inverted: whether real keys of samples with
    padding get none.
    """

    additive: Additive
    weight: float
    sample: int
    inverted: bool


def unrecorded_of(subject: Subject, real: Tensor) -> Unrecorded | None:
    """Return the first additive attention that gives weight to padding (False in `real`)."""
    for each in additive_of(subject):
        weights = _by_key(each, real)
        if weights is None or not bool((~real).any()):
            continue
        on_padding = weights.masked_fill(real, 0.0).amax(1)
        if float(on_padding.max()) <= NOTHING:
            continue
        some = (~real).any(1)
        on_real = weights.masked_fill(~real, 0.0)[some]
        inverted = each.hiding is not None and float(on_real.max()) <= NOTHING
        return Unrecorded(each, float(on_padding.max()), int(on_padding.argmax()), inverted)
    return None


def _by_key(additive: Additive, real: Tensor) -> Tensor | None:
    """Return the largest weight of each key, (batch, keys), over queries that are no padding."""
    weights, axis = additive.weights.nan_to_num(0.0), additive.axis
    batch, length = real.shape
    if weights.dim() < 2 or axis == 0 or (weights.shape[0], weights.shape[axis]) != (batch, length):
        return None
    keys_last = weights.movedim(axis, -1)
    if keys_last.dim() > 2 and keys_last.shape[1] == length:
        shape = (batch, length, *[1] * (keys_last.dim() - 2))
        keys_last = keys_last.masked_fill(~real.view(shape), 0.0)
    return keys_last.flatten(1, -2).amax(1) if keys_last.dim() > 2 else keys_last
