"""The tokens are given a few at a time, with a cache: each result must be that of the full pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnscope.checks.attributes import attribute
from attnscope.checks.comparing import gap_of
from attnscope.checks.decoding.departure import Departure
from attnscope.checks.decoding.evicting import kept_of_middle_let_go
from attnscope.checks.decoding.locating import runs_of
from attnscope.checks.decoding.padded import left_padded
from attnscope.checks.decoding.stepper import Stepper, cache_taken
from attnscope.checks.probe import probe
from attnscope.checks.probes.later_tokens import later_tokens
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along, other_tokens
from attnscope.checks.visibility.tokens import sequence_of
from attnscope.differ.sides.caches import SELF, Cache, reset_of

__all__ = ["ANOTHER", "CachedSteps", "Raised", "cached_steps"]

ANOTHER = "after another request"
"""The way in which a request follows another one and a reset."""

_ROUNDINGS = 256.0
"""Roundings of a row's largest entry that are noise: other orders of sums, layer after layer."""

_KEPT_ROUNDINGS = 16.0
"""Roundings of a cache in half precision that are noise."""

_MOST = 24
"""Tokens that are decoded one by one at most."""

_THREE = 3
"""Tokens above which there are three chunks."""


@dataclass(frozen=True, slots=True)
class Raised:
    """A way of decoding that raised, and what."""

    way: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class CachedSteps:
    """How decoding with a cache went: in which ways, which of them departed, which raised.

    unplaced: departures of steps that are not told their positions, and agree when they are.
    middle_let_go: the cache is meant to keep that many of the first and of the last tokens alone.
    """

    ways: tuple[str, ...] = ()
    departures: tuple[Departure, ...] = ()
    raised: tuple[Raised, ...] = ()
    unplaced: tuple[Departure, ...] = ()
    middle_let_go: tuple[int, int] | None = None

    def and_way(self, way: str, departure: Departure | None) -> CachedSteps:
        """Return it with a way that ran to its end."""
        more = () if departure is None else (departure,)
        return replace(self, ways=(*self.ways, way), departures=(*self.departures, *more))

    def and_raised(self, way: str, error: BaseException) -> CachedSteps:
        """Return it with a way that raised."""
        return replace(self, raised=(*self.raised, Raised(way, error)))


@probe
def cached_steps(subject: Subject) -> CachedSteps:
    """Decode one token a step, in chunks, at once, after another request, and left-padded prompts.

    Raises:
        Skipped: there is no cache, no sequence, or a full pass lets positions see later ones.
    """
    cache, stream, axis = _asked(subject)
    stepper = Stepper.of(subject, stream, cache)
    padding = subject.roles.padding_of(stream)
    real = padding.real(subject.given) if padding is not None else None
    comparison = _Comparison(subject, stream, stepper.whole(), axis, real)
    length = stream.length(subject.given)
    found, stepper = _decoded(comparison, stepper, list(_ways(length, few=not stepper.wide)))
    if cache.argument == SELF:
        found = _and_request(comparison, stepper, found)
    if found.departures:
        return _told_of_middle(subject, found)
    return _of_padded(comparison, stepper, found)


def _decoded(
    comparison: _Comparison, stepper: Stepper, ways: list[tuple[str, list[int]]]
) -> tuple[CachedSteps, Stepper]:
    """Decode in some ways, with the steps called so that they agree with the full pass, if any."""
    found = _in_ways(comparison, stepper, ways)
    if not found.departures and not found.raised:
        return found, stepper
    for other in stepper.otherwise():
        again = _in_ways(comparison, other, ways)
        if again.ways and not again.departures:
            unplaced = found.departures if other.placed else ()
            return replace(again, unplaced=unplaced), other
    return found, stepper


def _told_of_middle(subject: Subject, found: CachedSteps) -> CachedSteps:
    """Take the departures away where the cache lets go of tokens that no accident would lose."""
    runs = runs_of(subject, found.departures[0])
    kept = kept_of_middle_let_go(*runs) if runs is not None else None
    return found if kept is None else replace(found, departures=(), middle_let_go=kept)


def _in_ways(
    comparison: _Comparison, stepper: Stepper, ways: list[tuple[str, list[int]]]
) -> CachedSteps:
    found, full = CachedSteps(), comparison.full
    for way, ends in ways:
        try:
            decoded = stepper.decoded(ends, comparison.axis)
        except Skipped as error:
            found = found.and_raised(way, error.__cause__ or error)
            continue
        if decoded.shape != full.shape:
            shapes = Skipped(f"the outputs are {tuple(decoded.shape)}")
            found = found.and_raised(way, shapes)
            continue
        found = found.and_way(way, comparison.departs(way, ends, decoded, stepper))
    return found


def _of_padded(comparison: _Comparison, stepper: Stepper, found: CachedSteps) -> CachedSteps:
    """Decode prompts that are padded on the left as well, where the inputs can say so."""
    subject, stream = comparison.subject, comparison.stream
    half = max(1, stream.length(subject.given) // 2)
    padded = left_padded(subject, stream, half) if stepper.begun is None else None
    if padded is None:
        return found
    given, real = padded
    fresh = Stepper.of(subject, stream, stepper.cache, given)
    other = replace(fresh, own_masks=stepper.own_masks, placed=stepper.placed)
    try:
        full = other.whole()
    except Skipped:
        return found
    if full.shape != comparison.full.shape:
        return found
    ends = next(ends for _, ends in _ways(stream.length(subject.given), few=True))
    ways = [("left-padded prompts, then one token a step", ends)]
    more, _ = _decoded(replace(comparison, full=full, real=real), other, ways)
    return replace(found, ways=found.ways + more.ways, departures=more.departures)


def _asked(subject: Subject) -> tuple[Cache, Stream, int]:
    """Return how the cache is taken, the sequence that is decoded, and its axis in the output."""
    cache = cache_taken(subject)
    stream = sequence_of(subject)
    if stream is None or stream.sequence_axis is None:
        raise Skipped("no input is a sequence of tokens: give inputs that are")
    library = subject.has_library_config and "cache" not in subject.expect
    off = (subject.given.values.get("use_cache"), attribute(subject.config, "use_cache"))
    if library and False in off:
        raise Skipped(
            "inputs or config say use_cache False: where it is decoded, declare expect cache"
        )
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
    """Compares outputs with those of the full pass.

    real: True = a token that counts, (batch, length); None: all do.
    """

    subject: Subject
    stream: Stream
    full: Tensor
    axis: int
    real: Tensor | None

    def departs(
        self, way: str, ends: list[int], decoded: Tensor, stepper: Stepper | None
    ) -> Departure | None:
        """Return where outputs depart, None where they don't."""
        wide = stepper is None or stepper.wide
        unit = torch.finfo(torch.float32).eps if wide else max(self.subject.base.roundoff, 1e-7)
        rows = self.full.abs().nan_to_num(0.0, 0.0, 0.0).amax(-1, keepdim=True)
        floor = 0.0 if wide else 4 * self.subject.noise
        kept = _KEPT_ROUNDINGS * stepper.unit if stepper is not None else 0.0
        limit = (max(_ROUNDINGS * unit, kept) * rows).clamp_min(max(floor, 1e-12))
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
        batch, _ = along(self.subject, self.full, self.stream)
        if self.real is None or batch is None:
            return torch.zeros([1] * like.dim(), dtype=torch.bool)
        real = self.real.cpu()
        shape = [1] * like.dim()
        shape[batch], shape[self.axis] = real.shape
        return ~(real if batch < self.axis else real.mT).reshape(shape)


def _and_request(comparison: _Comparison, stepper: Stepper, found: CachedSteps) -> CachedSteps:
    """Add how a request goes after another one and a reset, where there is one."""
    subject, stream, model = comparison.subject, comparison.stream, stepper.model()
    reset = reset_of(model)
    if reset is None:
        return found
    length = stream.length(subject.given)
    where = torch.ones(stream.batch(subject.given), length, dtype=torch.bool)
    other: Given = other_tokens(subject, stream, where, stepper.inputs)
    try:
        stepper.call(model, other, None)
        reset()
    except Skipped:
        return found
    try:
        output = stepper.result(stepper.call(model, stepper.inputs, None))
    except Skipped as error:
        return found.and_raised(ANOTHER, error.__cause__ or error)
    return found.and_way(ANOTHER, comparison.departs(ANOTHER, [0, length], output, None))
