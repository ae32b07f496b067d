"""A model that is given its tokens a few at a time, with what it keeps of those before."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

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

_LARGE = 50_000_000
"""Parameters above which a model is not copied into float64."""

_TAKES = re.compile(r"^(layer_)?past(_|$)|(^|_)(kv_?)?cache$|^past_kv|^kv$")
_KEEPS = re.compile(r"mask|^keep$|^pad")


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
    """

    subject: Subject
    stream: Stream
    cache: Cache
    inputs: Given
    wide: bool
    begun: Any = None

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
        """Return the inputs of some tokens; masks of keys reach from the first token on."""
        axes = self.subject.roles.length_axes

        def cut(name: str, tensor: Tensor) -> Tensor:
            own = [
                a for a, stream in sorted(axes.get(name, {}).items()) if stream == self.stream.name
            ]
            if name == self.stream.name:
                return tensor.narrow(self.stream.sequence_axis or 0, start, stop - start)
            keeps = bool(_KEEPS.search(name.lower())) and name not in {
                s.name for s in self.subject.roles.streams
            }
            for number, axis in enumerate(own):
                all_before = keeps and number == len(own) - 1
                tensor = tensor.narrow(axis, *((0, stop) if all_before else (start, stop - start)))
            return tensor

        return self.inputs.mapped(cut)

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
        return watch(Watched(self.subject.name, model), args, kwargs, self.subject.seed)

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
