"""Which attentions of a run hide what should be seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.source import Source
from attnscope.checks.course import course_of
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.choosing import chooses_by_content
from attnscope.checks.visibility.faulty_line import line_of_pairs
from attnscope.checks.visibility.future import all_of_stream, hidden_rows
from attnscope.checks.visibility.layer import Layer
from attnscope.checks.visibility.layers import layers_of
from attnscope.checks.visibility.making import line_of_idle_edit
from attnscope.checks.visibility.prefix import prefix_of
from attnscope.checks.visibility.tokens import real_tokens, sequence_of

__all__ = [
    "Hidden",
    "hidden_as_padding",
    "hidden_later",
    "hidden_memory",
    "hidden_prefix",
    "hidden_self",
]

_MOST = 64
"""Tokens up to which every pair is looked at."""

_FEWEST = 3
"""Tokens from which a pattern can be told from chance."""


@dataclass(frozen=True, slots=True, eq=False)
class Hidden:
    """A layer, and pairs (batch, queries, keys) that it hides though they should be seen."""

    layer: Layer
    pairs: Tensor
    line: Source

    @property
    def count(self) -> int:
        """Number of hidden pairs."""
        return int(self.pairs.sum())

    @property
    def first(self) -> tuple[int, int, int]:
        """Sample, query and key of the first hidden pair."""
        sample, query, key = self.pairs.nonzero()[0].tolist()
        return sample, query, key


def hidden_later(subject: Subject, stream: Stream) -> Iterator[Hidden]:
    """Iterate over layers in which no position sees a later one, though earlier ones are seen."""
    layers = [each for each in _any_own_layers(subject, stream) if not bool(each.broken.any())]
    reals = [_real_in(subject, stream, each) for each in layers]
    found = list(zip(layers, reals, strict=True))
    ahead = [_sees_others(each, real, last=True) for each, real in found]
    back = [_sees_others(each, real, last=False) for each, real in found]
    if any(a and not b for a, b in zip(ahead, back, strict=True)):
        return  # some layers look ahead alone: the model reads in both directions in turn
    pairs = [_later_of(real) for real in reals]
    wrong = [
        (layer, later)
        for layer, later, a, b in zip(layers, pairs, ahead, back, strict=True)
        if b and not a and not bool((layer.visible & later).any())
    ]
    right = [layer for layer in layers if all(layer is not each for each, _ in wrong)]
    for layer, later in wrong:
        ways = [(later, later, layer.visible & later.mT)]
        yield Hidden(layer, later, line_of_pairs(subject, layer, ways, right))


def _later_of(real: Tensor) -> Tensor:
    """Return the pairs of real tokens of which the key is the later one."""
    later = torch.ones(real.shape[1], real.shape[1], dtype=torch.bool).triu(1)
    return later & real[:, :, None] & real[:, None, :]


def _real_in(subject: Subject, stream: Stream, layer: Layer) -> Tensor:
    """Return which tokens of a layer are real; what the model put in front of a sequence is."""
    real = real_tokens(subject, stream) if stream.sequence_axis is not None else None
    extra = layer.keys - (real.shape[1] if real is not None else 0)
    front = torch.ones(layer.rows.batch, extra, dtype=torch.bool)
    return front if real is None else torch.cat((front, real), 1)


def _sees_others(layer: Layer, real: Tensor, *, last: bool) -> bool:
    """Return whether any other real position sees the last (or the first) real one."""
    where = _edge(real, last=last)
    return bool((layer.reached_by(where) & real & ~where).any())


def _edge(real: Tensor, *, last: bool) -> Tensor:
    """Return the last (or the first) real token of each sample, boolean, (batch, length)."""
    counted = real.flip(-1).cumsum(-1).flip(-1) if last else real.cumsum(-1)
    return real & (counted == 1)


def hidden_as_padding(subject: Subject) -> Iterator[Hidden]:
    """Iterate over layers that hide real tokens, next to padding, from all queries."""
    for stream in subject.roles.streams:
        padding = subject.roles.padding_of(stream)
        if padding is None or not padding.given or stream.length(subject.given) < _FEWEST:
            continue
        layers = [each for each in _reading(subject, stream) if not bool(each.broken.any())]
        lost = [_lost(layer, real_tokens(subject, stream)) for layer in layers]
        right = [each for each, pairs in zip(layers, lost, strict=True) if not bool(pairs.any())]
        right += [each for each in layers_of(subject, few=True) if each not in layers]
        for layer, pairs in zip(layers, lost, strict=True):
            told = bool(pairs.any()) and not _outside_window(layer, pairs)
            if told and not chooses_by_content(subject, layer):
                ways = [(pairs, pairs, layer.visible & ~pairs)]
                yield Hidden(layer, pairs, line_of_pairs(subject, layer, ways, right))


def _lost(layer: Layer, real: Tensor) -> Tensor:
    """Return the pairs of real tokens that no query sees, (batch, queries, keys)."""
    asks = real if layer.own else torch.ones(len(real), layer.queries, dtype=torch.bool)
    several = real.sum(-1, keepdim=True) > 1
    edges = (_edge(real, last=last) for last in (True, False))
    if all(bool((layer.reached_by(edge) & asks).any(-1)[several[:, 0]].all()) for edge in edges):
        return torch.zeros(len(real), layer.queries, layer.keys, dtype=torch.bool)
    seen = (layer.visible & asks[:, :, None]).any(1)
    lost = real & ~seen & several
    sees_some = bool((seen & real).any()) and not (layer.own and _strict(layer, real))
    return asks[:, :, None] & lost[:, None, :] & sees_some


def _outside_window(layer: Layer, pairs: Tensor) -> bool:
    """Return whether lost tokens are no keys at all, the first ones of every sample alike.

    A cache with a window has dropped them, whoever is padding.
    """
    if layer.own:
        return False
    lost = pairs.any(1).any(0)
    front = torch.arange(layer.keys) <= int(lost.nonzero().max())
    return not layer.keys_moved_by(front.expand(layer.rows.batch, -1))


def hidden_self(subject: Subject, stream: Stream) -> Iterator[Hidden]:
    """Iterate over causal layers that hide each position from itself, the first one aside."""
    real = real_tokens(subject, stream)
    for layer in _own_layers(subject, stream):
        last = _edge(real, last=True)
        if bool((layer.reached_by(last) & last).any()) or not _strict(layer, real):
            continue
        first = _edge(real, last=False)
        itself = layer.visible.diagonal(dim1=1, dim2=2)[first].all()
        alone = bool(hidden_rows(layer)[first].all() | itself)
        designed = _blanked(layer, first) or _shares_keys(layer) or _falls_back(layer, first)
        if not alone or designed:
            continue
        pairs = torch.eye(layer.keys, dtype=torch.bool) & (real & ~first)[:, :, None]
        past = torch.ones(layer.keys, layer.keys, dtype=torch.bool).tril(-1)
        future = torch.ones(layer.keys, layer.keys, dtype=torch.bool).triu(1)
        seen = past & real[:, :, None] & real[:, None, :]
        ways = [(pairs, future.expand(pairs.shape), seen)]
        yield Hidden(layer, pairs, line_of_pairs(subject, layer, ways, []))


def hidden_memory(subject: Subject) -> Iterator[Hidden]:
    """Iterate over cross-attentions that hide later tokens of a memory.

    Only where the memory saw itself both ways, or has another length and no order of its own:
    streams that go side by side in time may hide.
    """
    main = sequence_of(subject)
    for memory in subject.roles.streams if main is not None else ():
        if main is not None and memory is not main and memory.sequence_axis is not None:
            yield from _hidden_of(subject, main, memory)


def _hidden_of(subject: Subject, main: Stream, memory: Stream) -> Iterator[Hidden]:
    encoders = [layer for layer in _own_layers(subject, memory) if layer.reads == {memory.name}]
    other = memory.length(subject.given) != main.length(subject.given)
    if not (any(_looks_ahead(layer) for layer in encoders) if encoders else other):
        return
    real = real_tokens(subject, memory)
    for layer in layers_of(subject, few=True):
        crosses = (
            not layer.own and layer.reads == {memory.name} and layer.keys == real.shape[1] <= _MOST
        )
        if not crosses or layer.queries < _FEWEST:
            continue
        ahead = torch.ones(layer.queries, layer.keys, dtype=torch.bool).triu(1) & real[:, None, :]
        behind = torch.ones(layer.queries, layer.keys, dtype=torch.bool).tril() & real[:, None, :]
        stairs = bool(ahead.any()) and not bool((layer.visible & ahead).any())
        if stairs and bool((layer.visible == behind)[:, _FEWEST - 1 :].all()):
            ways = [(ahead, ahead, behind & layer.visible)]
            own = all_of_stream(subject, main)
            yield Hidden(layer, ahead, line_of_pairs(subject, layer, ways, own))


def hidden_prefix(subject: Subject, stream: Stream) -> Iterator[Hidden]:
    """Iterate over the layers in which no token of a declared prefix sees a later one of it."""
    if "prefix" not in subject.expect:
        return
    layers = [each for each in _any_own_layers(subject, stream) if not bool(each.broken.any())]
    pairs = [_later_of(_prefix_in(subject, stream, each)) for each in layers]
    found = list(zip(layers, pairs, strict=True))
    if not any(bool(both.any()) for both in pairs):
        return
    if any(bool((layer.visible & both).any()) for layer, both in found):
        return
    for layer, both in found:
        later = torch.ones(both.shape[1:], dtype=torch.bool).triu(1)
        ways = [(both, later & ~both, layer.visible)]
        course = course_of(subject, layer.call)
        edit = line_of_idle_edit(course) if course is not None else None
        yield Hidden(layer, both, edit or line_of_pairs(subject, layer, ways, []))


def _prefix_in(subject: Subject, stream: Stream, layer: Layer) -> Tensor:
    """Return the real tokens of the prefix; it counts from the first of joined sequences."""
    real, said = _real_in(subject, stream, layer), subject.expect["prefix"]
    extra = layer.keys - stream.length(subject.given)
    if extra and isinstance(said, int):
        return real & (torch.arange(layer.keys) < said)
    front = torch.ones(layer.rows.batch, extra, dtype=torch.bool)
    return real & torch.cat((front, prefix_of(subject, stream)), 1)


def _own_layers(subject: Subject, stream: Stream) -> list[Layer]:
    length = stream.length(subject.given)
    return [
        layer
        for layer in all_of_stream(subject, stream, few=True)
        if _FEWEST <= layer.keys == length <= _MOST
    ]


def _any_own_layers(subject: Subject, stream: Stream) -> list[Layer]:
    """Return the layers in which a sequence, or what a model cuts a picture into, sees itself.

    Tokens of the model's own may lie in front of it where none is padding.
    """
    length = stream.length(subject.given)
    extra = not length or subject.roles.padding_of(stream) is None
    return [
        layer
        for layer in all_of_stream(subject, stream, few=True)
        if _FEWEST <= layer.keys <= _MOST
        and (layer.keys == length or (extra and layer.keys > length))
    ]


def _reading(subject: Subject, stream: Stream) -> Iterator[Layer]:
    """Iterate over the layers whose keys are the tokens of one sequence."""
    length = stream.length(subject.given)
    for layer in layers_of(subject, few=True):
        fits = layer.keys == length <= _MOST and layer.rows.batch == stream.batch(subject.given)
        if fits and stream.name in layer.carries and (layer.own or len(layer.carries) == 1):
            yield layer


def _strict(layer: Layer, real: Tensor) -> bool:
    """Return whether each position sees all before it, and neither itself nor any later one."""
    both = real[:, :, None] & real[:, None, :]
    none = (hidden_rows(layer) | _edge(real, last=False))[..., None]
    past = torch.ones(layer.keys, layer.keys, dtype=torch.bool).tril(-1) & both
    rest = both & ~past & ~none
    near = torch.eye(layer.keys, dtype=torch.bool).roll(-1, 1).mT & past
    return (
        bool(past.any())
        and bool(layer.visible[near].all())
        and not bool((layer.visible & rest).any())
    )


def _shares_keys(layer: Layer) -> bool:
    """Return whether queries are keys: in the Reformer a token would see mostly itself."""
    q, k = layer.call.q, layer.call.k
    return q.shape == k.shape and bool((q - k).abs().max() == 0)


def _falls_back(layer: Layer, first: Tensor) -> bool:
    """Return whether masks hide all from the first position, which then sees itself and no other.

    The fill that hides a token from itself is a weaker one than the others.
    """
    itself = torch.eye(layer.keys, dtype=torch.bool).expand(layer.visible.shape)[first]
    return bool(hidden_rows(layer)[first].all()) and torch.equal(layer.visible[first], itself)


def _blanked(layer: Layer, first: Tensor) -> bool:
    """Return whether code of the author's own sets the result of the first position to zero."""
    if layer.call.kind != "eager" or not layer.is_one_call:
        return False
    context = layer.call.context().transpose(1, 2).flatten(2)
    return bool((context[first.to(context.device)] == 0).all())


def _looks_ahead(layer: Layer) -> bool:
    ahead = torch.ones(layer.queries, layer.keys, dtype=torch.bool).triu(1)
    return bool((layer.visible & ahead).any())
