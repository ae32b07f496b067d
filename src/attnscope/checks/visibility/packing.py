"""Which attentions of a run let packed documents see each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.source import Source
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.faulty_line import line_of_pairs
from attnscope.checks.visibility.future import all_of_stream
from attnscope.checks.visibility.layer import Layer

__all__ = ["Across", "across_documents"]

_MOST = 64
"""Tokens up to which every pair is looked at."""


@dataclass(frozen=True, slots=True)
class Across:
    """A layer in which a token attends to one of another document: the first such pair."""

    layer: Layer
    query: int
    key: int
    line: Source


def across_documents(subject: Subject, stream: Stream, of: Tensor) -> Iterator[Across]:
    """Iterate over the layers in which documents see each other.

    of: the document of each token, (batch, length).
    """
    other = of[:, :, None] != of[:, None, :]
    layers = [
        layer
        for layer in all_of_stream(subject, stream)
        if layer.keys == of.shape[1] <= _MOST and layer.rows.batch == len(of)
    ]
    right = [layer for layer in layers if not bool((layer.visible & other).any())]
    for layer in layers:
        seen = layer.visible & other
        if not bool(seen.any()):
            continue
        _, query, key = (int(at) for at in seen.nonzero()[0])
        ahead = torch.ones(layer.keys, layer.keys, dtype=torch.bool).triu(1)
        causal = not bool((layer.visible & ahead).any())
        hidden = other & ~layer.visible & ~(ahead & causal)
        ways = [(seen, layer.visible & ~other, hidden)]
        if causal:  # a mask of documents in the making may hide later ones alone
            ways.append((seen, (~other).expand(seen.shape), (other & ahead).expand(seen.shape)))
        line = line_of_pairs(subject, layer, ways, right, whole=True)
        yield Across(layer, query, key, line)
