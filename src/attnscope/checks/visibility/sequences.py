"""Which of several sequences is the decoder's own: the one whose attention to itself looks back."""

from __future__ import annotations

import torch

from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.layer import Layer
from attnscope.checks.visibility.layers import layers_of
from attnscope.checks.visibility.tokens import real_tokens

__all__ = ["decoded", "goes_along"]

_MOST = 64
"""Tokens up to which every pair is looked at."""


def decoded(subject: Subject, stream: Stream) -> Stream:
    """Return the sequence that a causal model decodes: `stream`, unless only another looks back.

    Of two sequences that each attend to themselves, one both ways and the other mostly backwards,
    the latter is the decoder's own.
    """
    if _looks_back(subject, stream) is not False:
        return stream
    others = (s for s in subject.roles.streams if s is not stream and not s.memory)
    return next((each for each in others if _looks_back(subject, each)), stream)


def goes_along(subject: Subject, stream: Stream, other: Stream) -> bool:
    """Return whether two sequences are one, with an item each for every token.

    An encoder's sequence is another one, which attends to itself before the decoder reads it.
    """
    back, ahead = _looks_back(subject, stream), _looks_back(subject, other)
    return not (back is True and ahead is False)


def _looks_back(subject: Subject, stream: Stream) -> bool | None:
    """Return whether attention of a sequence to itself alone looks back more than ahead."""

    def found() -> bool | None:
        layers = [each for each in layers_of(subject, few=True) if _is_of(subject, stream, each)]
        if not layers:
            return None
        real = real_tokens(subject, stream)
        both = real[:, :, None] & real[:, None, :]
        later = torch.ones(both.shape[1:], dtype=torch.bool).triu(1)
        ahead = [int((each.visible & both & later).sum()) for each in layers]
        behind = [int((each.visible & both & later.mT).sum()) for each in layers]
        return sum(behind) > sum(ahead)

    return subject.once(("looks back", stream.name), found)


def _is_of(subject: Subject, stream: Stream, layer: Layer) -> bool:
    length, batch = stream.length(subject.given), stream.batch(subject.given)
    sizes = (layer.rows.batch, layer.queries, layer.keys)
    alone = layer.own and layer.reads == {stream.name}
    return alone and sizes == (batch, length, length) and 1 < length <= _MOST
