"""The tokens are given a few at a time, with a cache: each result must be that of the full pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.checks.comparing import gap_of
from attnscope.checks.decoding.departure import Departure
from attnscope.checks.decoding.stepper import Stepper, cache_taken
from attnscope.checks.probe import probe
from attnscope.checks.probes.later_tokens import later_tokens
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along, other_tokens
from attnscope.checks.visibility.tokens import sequence_of
from attnscope.differ.sides.caches import SELF, Cache

__all__ = ["CachedSteps", "Raised", "cached_steps"]

_ROUNDINGS = 256.0
"""Roundings of a row's largest entry that are noise: other orders of sums, layer after layer."""

_MOST = 24
"""Tokens that are decoded one by one at most."""

_THREE = 3
"""Tokens above which there are three chunks."""

_RESETS = ("reset", "reset_cache", "clear_cache")


@dataclass(frozen=True, slots=True)
class Raised:
    """A way of decoding that raised, and what."""

    way: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class CachedSteps:
    """How decoding with a cache went: in which ways, which of them departed, which raised."""

    ways: tuple[str, ...]
    departures: tuple[Departure, ...]
    raised: tuple[Raised, ...]


@probe
def cached_steps(subject: Subject) -> CachedSteps:
    """Decode one token a step, in chunks, at once, and after another request.

    Raises:
        Skipped: there is no cache, no sequence, or a full pass lets positions see later ones.
    """
    cache, stream, axis = _asked(subject)
    stepper = Stepper.of(subject, stream, cache)
    full = stepper.whole()
    comparison = _Comparison(subject, stream, full, axis)
    departures, raised, done = [], [], []
    for way, ends in _ways(stream.length(subject.given), few=not stepper.wide):
        try:
            decoded = stepper.decoded(ends, axis)
        except Skipped as error:
            raised.append(Raised(way, error.__cause__ or error))
            continue
        if decoded.shape != full.shape:
            raised.append(Raised(way, Skipped(f"the outputs are {tuple(decoded.shape)}")))
            continue
        done.append(way)
        found = comparison.departs(way, ends, decoded, stepper)
        departures += [found] if found is not None else []
    if cache.argument == SELF:
        after = _after_another(subject, stream, stepper)
        if after is not None:
            done.append("after another request")
            found = comparison.departs(done[-1], [0, stream.length(subject.given)], after, None)
            departures += [found] if found is not None else []
    return CachedSteps(tuple(done), tuple(departures), tuple(raised))


def _asked(subject: Subject) -> tuple[Cache, Stream, int]:
    """Return how the cache is taken, the sequence that is decoded, and its axis in the output."""
    cache = cache_taken(subject)
    stream = sequence_of(subject)
    if stream is None or stream.sequence_axis is None:
        raise Skipped("no input is a sequence of tokens: give inputs that are")
    library = hasattr(subject.config, "model_type") and "cache" not in subject.expect
    if library and subject.given.values.get("use_cache") is False:
        raise Skipped("the inputs say use_cache False: where it is decoded, declare expect cache")
    if library and (subject.causal is None or subject.causal.value is not True):
        raise Skipped("nothing says that the model is causal: where it is, declare expect causal")
    if "cache" not in subject.expect and subject.given.values.get("use_cache") is False:
        raise Skipped("the inputs say use_cache=False: leave it out, or declare expect cache")
    if later_tokens(subject).leaks:
        raise Skipped("positions see later ones in the full pass, which no cache can agree with")
    _, axis = along(subject, subject.output, stream)
    if axis is None:
        raise Skipped("the output has no axis of tokens, to be compared with")
    return cache, stream, axis


def _ways(length: int, *, few: bool) -> Iterator[tuple[str, list[int]]]:
    """Iterate over ways to cut the sequence, with where the steps end.

    few: one way with single tokens and one with chunks have to do.
    """
    half = max(1, length // 2)
    if length < 2:
        yield "at once", [0, length]
        return
    most = 2 if few else _MOST
    rest = list(range(half + 1, min(length, half + most) + 1))
    if not few:
        yield "at once", [0, length]
        if length <= _MOST:
            yield "one token a step", list(range(length + 1))
    yield "a prompt, then one token a step", [0, half, *rest, *({length} - {half, *rest})]
    if not few:
        yield "in two chunks", [0, half, length]
    if length > _THREE:
        yield "in three chunks", [0, 2, length - 1, length]


@dataclass(frozen=True, slots=True, eq=False)
class _Comparison:
    """Compares outputs with those of the full pass; rows of padding don't count."""

    subject: Subject
    stream: Stream
    full: Tensor
    axis: int

    def departs(
        self, way: str, ends: list[int], decoded: Tensor, stepper: Stepper | None
    ) -> Departure | None:
        """Return where outputs depart, None where they don't."""
        wide = stepper is None or stepper.wide
        unit = torch.finfo(torch.float32).eps if wide else max(self.subject.base.roundoff, 1e-7)
        rows = self.full.abs().nan_to_num(0.0, 0.0, 0.0).amax(-1, keepdim=True)
        floor = 0.0 if wide else 4 * self.subject.noise
        limit = (_ROUNDINGS * unit * rows).clamp_min(max(floor, 1e-12))
        over = gap_of(self.full, decoded)
        over = over.masked_fill(self._padding(over), 0.0)
        by_token = (over > limit).movedim(self.axis, 0).flatten(1).any(1)
        if not bool(by_token.any()):
            return None
        position = int(by_token.int().argmax())
        step = next(at for at, end in enumerate(ends[1:]) if end > position)
        return Departure(
            way, tuple(ends), step, position, float(over.max()), float(limit.max()), stepper
        )

    def _padding(self, like: Tensor) -> Tensor:
        """Return True = belongs to a token of padding, of a shape that broadcasts."""
        padding = self.subject.roles.padding_of(self.stream)
        batch, _ = along(self.subject, self.full, self.stream)
        none = torch.zeros([1] * like.dim(), dtype=torch.bool)
        if padding is None or batch is None:
            return none
        real = padding.real(self.subject.given).cpu()
        shape = [1] * like.dim()
        shape[batch], shape[self.axis] = real.shape
        return ~(real if batch < self.axis else real.mT).reshape(shape)


def _after_another(subject: Subject, stream: Stream, stepper: Stepper) -> Tensor | None:
    """Return the output of a request after another one and a reset; None: there is no reset."""
    model = stepper.model()
    reset = next((found for n in _RESETS if callable(found := getattr(model, n, None))), None)
    if reset is None:
        return None
    where = torch.ones(stream.batch(subject.given), stream.length(subject.given), dtype=torch.bool)
    other: Given = other_tokens(subject, stream, where, stepper.inputs)
    try:
        stepper.call(model, other, None)
        reset()
        output = stepper.call(model, stepper.inputs, None)
    except Skipped:
        return None
    return stepper.result(output)
