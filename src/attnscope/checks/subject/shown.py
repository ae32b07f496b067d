"""What True means in a mask whose name doesn't say it: a run shows which tokens it hides."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Literal

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.checks.subject import names as habits
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.padded import stream_of
from attnscope.checks.subject.roles import Padding, Roles, Stream
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["shown_paddings", "untold_masks"]

_UNIFORM = 1e-6
"""Difference between the weights of a row, relative to their mean, that is rounding."""


def untold_masks(given: Given, roles: Roles) -> list[tuple[str, Stream, Tensor]]:
    """Return masks (batch, length) of a sequence of which nothing yet says where padding is."""
    found = []
    for name, value in given.values.items():
        if not isinstance(value, Tensor) or value.is_floating_point() or value.dim() != 2:
            continue
        stream = stream_of(name, given, roles) if habits.is_mask(name) else None
        if stream is None or roles.padding_of(stream) is not None:
            continue
        batch, length = stream.batch(given), stream.length(given)
        marked = value.bool()
        if tuple(value.shape) == (batch, length) and batch != length and _tells(marked):
            found.append((name, stream, marked))
    return found


def shown_paddings(given: Given, roles: Roles, calls: Iterable[Call]) -> Iterator[Padding]:
    """Iterate over what masks mean of which a call hides the marked tokens, or all others.

    Hidden: no query gives the token a weight, or the token itself weighs all keys alike.
    """
    masks = untold_masks(given, roles)
    for call in calls if masks else ():
        hidden = list(_hidden(call))
        for name, stream, marked in list(masks):
            meaning = next((m for each in hidden if (m := _meaning(marked, each))), None)
            if meaning is not None:
                masks = [mask for mask in masks if mask[0] != name]
                yield Padding(name, meaning, stream, why=f"{call.module or 'the model'} hides them")


def _tells(marked: Tensor) -> bool:
    return bool(marked.any()) and not bool(marked.all())


def _meaning(marked: Tensor, hidden: Tensor) -> Literal["keep", "drop"] | None:
    if marked.shape != hidden.shape:
        return None
    if torch.equal(marked, hidden):
        return "drop"
    return "keep" if torch.equal(~marked, hidden) else None


def _hidden(call: Call) -> Iterator[Tensor]:
    """Iterate over keys without any weight and queries without a choice, (batch, length)."""
    with contextlib.suppress(*UNREADABLE):
        weights = call.weights().detach().double().nan_to_num(0.0).cpu()
        yield (weights == 0).all(2).all(1)
        spread = weights.amax(-1) - weights.amin(-1)
        yield (spread <= _UNIFORM * weights.mean(-1)).all(1)
