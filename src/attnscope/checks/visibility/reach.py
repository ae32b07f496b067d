"""How far back, and ahead, each attention of a run really looks, against a declared window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.source import Source
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.faulty_line import line_of_pairs
from attnscope.checks.visibility.future import all_of_stream, hidden_rows
from attnscope.checks.visibility.layer import Layer
from attnscope.checks.visibility.tokens import real_tokens

__all__ = ["Misfit", "windows_missed"]

_MOST = 128
"""Tokens up to which every pair is looked at."""

_SINKS = 8
"""Leading tokens that may be visible to all on purpose."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A layer that looks further, or less far, than its window says.

    number: of the layer; window: the keys that a query should see (None: all); reach: the number
    that it does see at most, the query itself counted. query, key: the first pair that is wrong;
    far: whether it is seen though out of the window.
    """

    layer: Layer
    number: int
    window: int | None
    reach: int
    query: int
    key: int
    far: bool
    line: Source


def windows_missed(
    subject: Subject, stream: Stream, window: int | Sequence[int | None]
) -> Iterator[Misfit]:
    """Iterate over the layers that don't keep to a window: one for all, or one for each.

    Raises:
        Skipped: there is no layer to be looked at, or another number of them than of windows.
    """
    length = stream.length(subject.given)
    layers = [each for each in all_of_stream(subject, stream) if each.keys == length <= _MOST]
    if not layers:
        raise Skipped("no attention of a sequence of at most 128 tokens to itself was seen")
    widths = [window] * len(layers) if isinstance(window, int) else list(window)
    if len(widths) != len(layers):
        raise Skipped(
            f"{len(widths)} windows are declared for the {len(layers)} layers that were seen: "
            "give one for each"
        )
    fitting = [
        each
        for each, width in zip(layers, widths, strict=True)
        if _fits(subject, stream, each, width)
    ]
    for number, (layer, width) in enumerate(zip(layers, widths, strict=True)):
        if layer not in fitting:
            right = [
                each
                for each, own in zip(layers, widths, strict=True)
                if each in fitting and own == width
            ]
            found = _misfit(subject, stream, layer, width, number, right)
            if found is not None:
                yield found


def _fits(subject: Subject, stream: Stream, layer: Layer, window: int | None) -> bool:
    far, near = _wrong(subject, stream, layer, window)
    if not bool(far.any()) and not bool(near.any()):
        return True
    if window is None or _is_causal(layer):
        return False
    for other in {window // 2 + 1, (window + 1) // 2}:  # half of it to each side
        far, near = _wrong(subject, stream, layer, other)
        if not bool(far.any()) and not bool(near.any()):
            return True
    return False


def _wrong(
    subject: Subject, stream: Stream, layer: Layer, window: int | None
) -> tuple[Tensor, Tensor]:
    """Return pairs that are seen out of the window, and pairs in it that are hidden."""
    distance = _distance(layer)
    real = real_tokens(subject, stream)
    asks = real & ~hidden_rows(layer) & ~layer.broken
    counted = asks[:, :, None] & real[:, None, :]
    counted = counted & (distance >= 0) if _is_causal(layer) else counted
    inside = distance.abs() < (window if window is not None else layer.keys)
    far = layer.visible & counted & ~inside
    near = ~layer.visible & counted & inside
    return far & ~_for_all(layer, counted & ~inside), near


def _for_all(layer: Layer, outside: Tensor) -> Tensor:
    """Return the leading tokens that all see on purpose, where other tokens are out of reach."""
    lost = outside & ~layer.visible
    columns = ~lost.any(1) & outside.any(1)
    columns[:, _SINKS:] = False
    others = outside.any(1) & ~columns
    keeps = bool(others.any()) and not bool((layer.visible & outside & others[:, None, :]).any())
    return columns[:, None, :] & keeps


def _misfit(
    subject: Subject,
    stream: Stream,
    layer: Layer,
    window: int | None,
    number: int,
    right: list[Layer],
) -> Misfit | None:
    far, near = _wrong(subject, stream, layer, window)
    distance, ahead = _distance(layer), _distance(layer) < 0
    looks_ahead = not _is_causal(layer)
    beyond = ~layer.visible & (distance.abs() >= (window or layer.keys)) & (looks_ahead | ~ahead)
    seen = layer.visible & ~far & (looks_ahead | ~ahead)
    is_far = bool(far.any())
    pairs = far if is_far else near
    ways = [(far, seen, beyond)] if is_far else [(near, near, seen)]
    _, query, key = (int(each) for each in pairs.nonzero()[0])
    reach = int((layer.visible * distance.abs()).max()) + 1
    return Misfit(
        layer, number, window, reach, query, key, is_far, line_of_pairs(subject, layer, ways, right)
    )


def _distance(layer: Layer) -> Tensor:
    return torch.arange(layer.queries)[:, None] - torch.arange(layer.keys)


def _is_causal(layer: Layer) -> bool:
    return not bool((layer.visible & (_distance(layer) < 0) & ~hidden_rows(layer)[..., None]).any())
