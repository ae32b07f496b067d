"""Which attentions of a run let a position see later ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.source import Source
from attnscope.checks.course import course_of
from attnscope.checks.masking.frames import frames_at
from attnscope.checks.masking.modes import line_of_mode
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.faulty_line import gives_weight, line_of_pairs
from attnscope.checks.visibility.flags import line_of_flag, line_of_keyword
from attnscope.checks.visibility.layer import Layer
from attnscope.checks.visibility.layers import layers_of
from attnscope.checks.visibility.prefix import prefix_of
from attnscope.checks.visibility.sequences import goes_along
from attnscope.checks.visibility.tokens import real_tokens
from attnscope.differ.sides.side import Side

__all__ = ["Future", "all_of_stream", "future_seen", "has_empty_rows", "hidden_rows"]

_MOST = 64
"""Tokens up to which every pair is looked at."""


@dataclass(frozen=True, slots=True, eq=False)
class Future:
    """A layer that lets the future in.

    seen: pairs (batch, queries, keys) that see later tokens though they shouldn't; query, key: the
    pair that looks ahead furthest. share: of all later pairs, those that are seen.
    """

    layer: Layer
    seen: Tensor
    query: int
    key: int
    share: float
    line: Source


def all_of_stream(
    subject: Subject,
    stream: Stream,
    side: Side | None = None,
    *,
    beside: bool = False,
    few: bool = False,
) -> list[Layer]:
    """Return the layers in which a sequence attends to itself.

    beside: those too in which it attends to another one of its length that goes along with it.
    few: see `layers_of`.
    """
    return [
        layer
        for layer in layers_of(subject, side, few=few)
        if (
            (layer.own and stream.name in layer.carries) or (beside and stream.name in layer.beside)
        )
        and layer.queries == layer.keys
        and layer.rows.batch == stream.batch(subject.given)
    ]


def future_seen(subject: Subject, stream: Stream, side: Side | None = None) -> Iterator[Future]:
    """Iterate over the layers of a sequence that let it see the future."""
    every = all_of_stream(subject, stream, side, beside=True)
    layers = [each for each in every if each.keys <= _MOST and _is_one(subject, stream, each)]
    seen = {id(layer): _seen(subject, stream, layer) for layer in layers}
    right = [layer for layer in layers if not bool(seen[id(layer)].any())]
    for layer in layers:
        pairs = seen[id(layer)]
        if not bool(pairs.any()) or not gives_weight(layer, pairs):
            continue
        ahead = torch.arange(layer.keys) - torch.arange(layer.queries)[:, None]
        later = (ahead > 0).expand(pairs.shape)
        query, key = _furthest(pairs * ahead)
        share = float(pairs.sum()) / max(1, int(later.sum()))
        yield Future(layer, pairs, query, key, share, _line(subject, layer, pairs, right))


def _is_one(subject: Subject, stream: Stream, layer: Layer) -> bool:
    """Return whether all that a layer reads goes along with a sequence: no encoder's does."""
    others = (s for s in subject.roles.streams if s.name in layer.beside and s is not stream)
    return layer.own or all(goes_along(subject, stream, other) for other in others)


def has_empty_rows(subject: Subject, stream: Stream) -> bool:
    """Return whether a real position is let see nothing, and so may see everything by accident."""
    real = real_tokens(subject, stream)
    return any(
        bool((hidden_rows(layer) & real).any())
        for layer in all_of_stream(subject, stream, beside=True, few=True)
        if layer.queries == real.shape[1]
    )


def _furthest(ahead: Tensor) -> tuple[int, int]:
    at = torch.unravel_index(ahead.argmax(), ahead.shape)
    return int(at[1]), int(at[2])


def _seen(subject: Subject, stream: Stream, layer: Layer) -> Tensor:
    """Return the pairs of a layer that see what they shouldn't, (batch, queries, keys)."""
    count, extra = layer.keys, layer.keys - stream.length(subject.given)
    at = torch.arange(count)
    later = at[None, :] > at[:, None]
    prefix, real = prefix_of(subject, stream), real_tokens(subject, stream)
    if extra > 0:  # tokens of the model's own before those of the sequence
        own = torch.ones(len(prefix), extra, dtype=torch.bool)
        prefix, real = torch.cat((own, prefix), 1), torch.cat((own, real), 1)
    pairs = layer.visible & later & ~hidden_rows(layer)[..., None]
    if extra >= 0:
        pairs = pairs & ~(prefix[:, :, None] & prefix[:, None, :]) & real[:, :, None]
    return pairs


def hidden_rows(layer: Layer) -> Tensor:
    """Return the rows, (batch, queries), that a mask lets see nothing.

    A low fill makes them uniform.
    """
    call = layer.call
    none = torch.zeros(layer.rows.batch, layer.queries, dtype=torch.bool)
    if not layer.is_one_call or "mask" in call.recipe.unknown:
        return none
    shown = call.recipe.mask.dense(call.queries, call.keys)
    return none | ~shown.any(-1).all(1)


def _line(subject: Subject, layer: Layer, pairs: Tensor, right: list[Layer]) -> Source:
    later = torch.ones(layer.queries, layer.keys, dtype=torch.bool).triu(1)
    sides = (pairs, layer.visible & ~later, later & ~layer.visible)
    line = line_of_pairs(subject, layer, [sides], right, ordered=True, whole=True)
    course = course_of(subject, layer.call) if layer.side is subject.base else None
    softmax = course.softmax if course is not None else None
    if softmax is None or course is None:
        return line
    bare = softmax.source == line and not course.hiding
    chosen = line_of_mode(frames_at(subject, softmax)) if bare else None
    if chosen is not None:
        return chosen
    flag = line_of_flag(subject, softmax) if softmax.source == line else None
    return line if flag is None and course.hiding else line_of_keyword(flag or line)
