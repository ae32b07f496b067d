"""A model that is given its tokens a few at a time, with what it keeps of those before."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.checks.decoding.cutting import counted, cuts_masks, step_of
from attnscope.checks.decoding.rounding import unit_of_cache
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.caches import (
    SELF,
    Cache,
    cache_in,
    cache_of,
    copied,
    empty_cache,
    fresh,
)
from attnscope.differ.sides.outputs import outputs_of
from attnscope.differ.sides.side import Side, watch
from attnscope.differ.sides.subject import Subject as Watched
from attnscope.errors import AttnscopeError

__all__ = ["Stepper", "cache_taken"]

_POSITIONS = "position_ids"
"""What Hugging Face's `generate` hands to each step, though a forward does without."""

_LARGE = 50_000_000
"""Parameters above which a model is not copied into float64."""

_TAKES = re.compile(r"^(layer_)?past(_|$)|(^|_)(kv_?)?cache$|^past_kv|^kv$")


def cache_taken(subject: Subject) -> Cache:
    """Return how the forward takes the past: as declared, as Hugging Face's, or by its name.

    Raises:
        Skipped: it takes none.
    """
    if subject.model is None:
        raise Skipped("a function keeps nothing of earlier tokens")
    side = Watched(subject.name, subject.run)
    found = cache_of(side, subject.expect)
    if found is not None:
        return found
    if "cache" in subject.expect:
        raise Skipped(f"the forward has no argument {subject.expect['cache']}")
    for parameter in subject.given.parameters:
        if _TAKES.search(parameter.name.lower()) and parameter.default is None:
            return Cache(parameter.name, {})
    raise Skipped("no argument takes a cache: where the module has one, declare expect cache")


@dataclass(eq=False)
class Stepper:
    """A copy of the model that keeps what its steps leave, in float64 where it can be run so.

    inputs: of the full pass, in the type of the copy. begun: the past that the inputs bring along.
    own_masks: a step's masks speak of its own tokens, not of those before. placed: a step is told
    its positions. unit: roundoff of the coarsest cache that steps have left.
    """

    subject: Subject
    stream: Stream
    cache: Cache
    inputs: Given
    wide: bool
    begun: Any = None
    own_masks: bool = False
    placed: bool = False
    unit: float = 0.0

    @classmethod
    def of(
        cls, subject: Subject, stream: Stream, cache: Cache, given: Given | None = None
    ) -> Stepper:
        """Return it; nothing has been run with it yet."""
        given = given or subject.given
        begun = given.values.get(cache.argument)
        values = {k: v for k, v in given.values.items() if k != cache.argument}
        plain = Given(values, given.parameters, _before(given, cache.argument))
        parameters = subject.model.parameters() if subject.model is not None else ()
        if begun is None and sum(p.numel() for p in parameters) <= _LARGE:
            wide = cls(subject, stream, cache, plain.mapped(_widened), wide=True)
            if wide._runs():
                return wide
        return cls(subject, stream, cache, plain, wide=False, begun=begun)

    def model(self) -> nn.Module:
        """Return a fresh copy."""
        subject = fresh(Watched(self.subject.name, self.subject.run))
        model = subject.model
        if model is None:
            raise Skipped("a function keeps nothing of earlier tokens")
        model.eval()
        return model.double() if self.wide else model

    def past(self, model: nn.Module) -> Any:
        """Return the cache to begin with."""
        if self.begun is not None:
            holder = nn.Module()
            holder.past = self.begun
            return copied(holder).past
        return empty_cache(Watched(self.subject.name, model))

    def whole(self) -> Tensor:
        """Return the output of the full pass (behind the given past, where there is one)."""
        model = self.model()
        if self.begun is not None:
            return self.result(self.call(model, self.inputs, self.past(model)))
        return self.result(self._run(model, self.inputs, {}))

    def decoded(self, ends: list[int], axis: int) -> Tensor:
        """Return the outputs of all steps, put together.

        Raises:
            Skipped: a step raised, or the cache doesn't come back.
        """
        model = self.model()
        past, outputs = self.past(model), []
        for start, stop in itertools.pairwise(ends):
            output = self.call(model, self.step(start, stop), past)
            outputs.append(self.result(output))
            past = self.kept(output, past)
            self.unit = max(self.unit, unit_of_cache(past, model))
        return torch.cat(outputs, axis)

    def watched_step(self, ends: list[int], number: int) -> Side:
        """Return step `number` (from 0) under watch, after those before it."""
        model, past = self._come_to(ends, number)
        return self._watch(model, self.step(*ends[number : number + 2]), self._more(past))

    def ready(self, ends: list[int], number: int) -> Callable[[], Any]:
        """Return what runs step `number` as it is, after those before it."""
        model, past = self._come_to(ends, number)
        return lambda: self.call(model, self.step(*ends[number : number + 2]), past)

    def _come_to(self, ends: list[int], number: int) -> tuple[nn.Module, Any]:
        """Return a model that has run the steps before a step, and what they left."""
        model = self.model()
        past = self.past(model)
        for start, stop in itertools.pairwise(ends[: number + 1]):
            past = self.kept(self.call(model, self.step(start, stop), past), past)
        return model, past

    def watched_whole(self) -> Side:
        """Return the full pass under watch."""
        model = self.model()
        more = {} if self.begun is None else self._more(self.past(model))
        return self._watch(model, self.inputs, more)

    def step(self, start: int, stop: int) -> Given:
        """Return the inputs of some tokens."""
        roles = self.subject.roles
        cut = step_of(self.inputs, roles, self.stream, start, stop, own_masks=self.own_masks)
        places = counted(self.inputs, start, stop, keeps_itself=self.cache.argument == SELF)
        if self.placed:
            batch = self.stream.batch(self.inputs)
            places[_POSITIONS] = torch.arange(start, stop).expand(batch, -1)
        return cut.with_values(**places)

    def otherwise(self) -> Iterator[Stepper]:
        """Iterate over other ways to call a step that are as right, where there are any."""
        if cuts_masks(self.inputs, self.subject.roles, self.stream) and not self.own_masks:
            yield replace(self, own_masks=True)
        library = self.subject.has_library_config
        takes = self.inputs.accepts(_POSITIONS) and self.inputs.values.get(_POSITIONS) is None
        if library and takes and self.stream.kind == "ids" and not self.placed:
            yield replace(self, placed=True)

    def call(self, model: nn.Module, inputs: Given, past: Any) -> Any:
        """Run one step."""
        return self._run(model, inputs, self._more(past))

    def kept(self, output: Any, past: Any) -> Any:
        """Return the cache that a step gave.

        Raises:
            Skipped: it gave none.
        """
        try:
            return cache_in(output, self.cache, past)
        except AttnscopeError as error:
            raise Skipped(f"no cache came back: {error}") from error

    def _more(self, past: Any) -> dict[str, Any]:
        more = dict(self.cache.flags)
        if self.cache.argument != SELF:
            more[self.cache.argument] = past
        return more

    def _run(self, model: nn.Module, inputs: Given, more: Mapping[str, Any]) -> Any:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.subject.seed)
            try:
                return inputs.with_values(**more).call(model)
            except Exception as error:
                text = " ".join(str(error).split())[:200]
                raise Skipped(
                    f"a step with a cache raised {type(error).__name__}: {text}"
                ) from error

    def _watch(self, model: nn.Module, inputs: Given, more: Mapping[str, Any]) -> Side:
        args, kwargs = inputs.with_values(**more).arguments()
        watched = Watched(self.subject.name, model)  # a copy: what it keeps is left to be seen
        return watch(watched, args, kwargs, self.subject.seed, restores=False)

    def result(self, output: Any) -> Tensor:
        """Return the main output, in float64."""
        found = outputs_of(output)
        if not found:
            raise Skipped("the model returns no float tensor: return what it computes")
        return next(iter(found.values())).detach().double()

    def _runs(self) -> bool:
        """Return whether the copy runs in its type."""
        try:
            self.whole()
        except Skipped:
            return False
        return True


def _before(given: Given, argument: str) -> tuple[str, ...]:
    """Return the names that are handed on by position, up to the cache."""
    names = given.positional
    return names[: names.index(argument)] if argument in names else names


def _widened(_name: str, tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
