"""Decoding with a cache: token by token, and in two chunks, against the reference's full pass.

The faults of a cache (a position off by one, a mask aligned to the wrong corner, keys kept of the
wrong step) show in no full pass. A cache is Hugging Face's (`past_key_values` or `cache`, beside
`use_cache`), or what `expect["cache"]` says: the forward argument that takes the past, or "self",
where the module keeps it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnscope.calls.tolerance import unit_roundoff
from attnscope.differ.cases.trial import Trial, unmade
from attnscope.differ.cases.varying import Arrangement
from attnscope.differ.result import Case, FirstDifference
from attnscope.differ.sides.caches import (
    SELF,
    Cache,
    cache_in,
    cache_of,
    copied,
    emptied,
    empty_cache,
    fresh,
)
from attnscope.differ.sides.outputs import outputs_of
from attnscope.differ.sides.subject import Inputs, Subject, bind
from attnscope.errors import InputError

if TYPE_CHECKING:
    from attnscope.differ.comparison import Comparison

__all__ = ["decoding_cases"]

_MOST_PARAMETERS = 50_000_000
"""Models above this are not copied: they decode in their own type."""

_ROUNDINGS = 256.0
"""Roundings of a row's largest entry: models in float64 still round to float32 inside."""

_DOING = "decoding with a cache"


def decoding_cases(comparison: Comparison, arranged: Arrangement) -> Iterator[Trial]:
    """Iterate over the cases of cached decoding, where the candidate has a cache.

    Args:
        comparison: of two sides that agree on a full pass.
        arranged: its inputs.
    """
    cache = cache_of(comparison.candidate, comparison.options.expect)
    name = "cached decoding"
    if cache is None:
        if "cache" in comparison.options.expect:
            yield unmade(name, f"{comparison.candidate.name} takes no such cache")
        return
    count = _count(arranged)
    if count < 2 or not comparison.reference.model:
        yield unmade(name, "the inputs have no tokens to be given one by one")
        return
    try:
        runs = _Runs.of(comparison, arranged, cache)
        causal = runs.causal
    except InputError as error:
        yield unmade(name, f"{error.doing}: {error.found}")
        return
    if not causal:
        yield unmade(name, f"{comparison.reference.name} lets tokens see later ones")
        return
    ways = {f"{name}, one token a step": list(range(count + 1))}
    if count > 2:
        ways[f"{name}, in two chunks"] = [0, count // 2, count]
    for way, ends in ways.items():
        yield runs.trial(way, ends)


def _count(arranged: Arrangement) -> int:
    """Return the number of tokens that can be decoded."""
    sizes = [size for axes in arranged.stepped.values() for size in axes.values()]
    return sizes[0] if sizes else 0


@dataclass(eq=False)
class _Runs:
    """Both sides in float64, the reference's full pass, and how far apart is rounding."""

    comparison: Comparison
    arranged: Arrangement
    sides: tuple[Subject, Subject]
    cache: Cache
    full: Tensor
    limit: Tensor
    axis: int

    @classmethod
    def of(cls, comparison: Comparison, arranged: Arrangement, cache: Cache) -> _Runs:
        """Run both in full, in float64 where they can be run so.

        Raises:
            InputError: a side raises, or its output has no axis of tokens.
        """
        sides = comparison.candidate, comparison.reference
        wide = _widened(sides, arranged)
        given = arranged
        if wide is not None:
            sides, given = wide
        own, full = (
            _output(_called(emptied(side, comparison.options.expect), given.inputs, comparison, {}))
            for side in sides
        )
        axis = next((a for a in (1, 0) if full.dim() > a and full.shape[a] == _count(given)), None)
        if axis is None or own.shape != full.shape:
            raise InputError(_DOING, "the outputs have no axis of tokens", "return one per token")
        rows = full.abs().nan_to_num().amax(-1, keepdim=True)
        limit = _ROUNDINGS * _roundoff(sides) * comparison.options.factor * rows
        apart = (own - full).abs().nan_to_num().amax(-1, keepdim=True)
        return cls(comparison, given, sides, cache, full, torch.maximum(limit, 4 * apart), axis)

    @property
    def causal(self) -> bool:
        """Whether the reference gives the first half of the tokens the same without the rest."""
        half = _count(self.arranged) // 2
        part = self.arranged.step(0, half)
        side = emptied(self.sides[1], self.comparison.options.expect)
        output = _output(_called(side, part, self.comparison, {}))
        return self._first(output, self.full.narrow(self.axis, 0, half)) is None

    def trial(self, name: str, ends: list[int]) -> Trial:
        """Decode the tokens between `ends` one after another, and compare with the full pass."""
        ours, theirs = self.sides
        try:
            decoded = self._decoded(ours, self.cache, ends)
        except InputError as error:
            return unmade(name, f"{error.doing}: {error.found}")
        if decoded.shape != self.full.shape:
            found = f"{tuple(decoded.shape)} instead of {tuple(self.full.shape)}"
            return Trial(
                Case(name, equal=False, largest=float("inf"), note=f"the outputs are {found}")
            )
        place = self._first(decoded, self.full)
        scale = self.full.abs().nan_to_num().max().clamp_min(1e-30)
        largest = float(self._gap(decoded, self.full).max() / scale)
        if place is None:
            return Trial(Case(name, equal=True, largest=largest))
        step = next(at for at, end in enumerate(ends) if end > place[self.axis])
        note = f"step {step} of {len(ends) - 1} is the first to differ"
        if self._reference_too(theirs, ends, place[self.axis]):
            return unmade(name, f"{note}, and so does the cache of {theirs.name}")
        values = float(decoded[place]), float(self.full[place])
        first = FirstDifference(
            stage="model",
            call=None,
            module="",
            source=None,
            index=place,
            values=values,
            largest=largest,
            own_error=None,
            inherited_error=None,
            verdict="numbers" if all(map(math.isfinite, values)) else "non-finite",
            part=name,
        )
        return Trial(Case(name, equal=False, largest=largest, note=note), first)

    def _decoded(self, side: Subject, cache: Cache, ends: list[int]) -> Tensor:
        """Return the outputs of all steps, put together."""
        side = emptied(side, self.comparison.options.expect)
        past = empty_cache(side)
        outputs = []
        for start, stop in itertools.pairwise(ends):
            more = dict(cache.flags)
            if cache.argument != SELF:
                more[cache.argument] = past
            output = _called(side, self.arranged.step(start, stop), self.comparison, more)
            outputs.append(_output(output))
            past = cache_in(output, cache, past)
        return torch.cat(outputs, self.axis)

    def _reference_too(self, side: Subject, ends: list[int], place: int) -> bool:
        """Return whether the reference's own cache departs from its full pass by that token."""
        cache = cache_of(side, self.comparison.options.expect)
        if cache is None:
            return False
        try:
            if cache.argument == SELF and not self._keeps(side):
                return False
            decoded = self._decoded(side, cache, ends)
        except InputError:
            return False
        if decoded.shape != self.full.shape:
            return True
        found = self._first(decoded, self.full)
        return found is not None and found[self.axis] <= place

    def _keeps(self, side: Subject) -> bool:
        """Return whether a module remembers the first token when it is given the second."""
        side = emptied(side, self.comparison.options.expect)
        steps = [self.arranged.step(at, at + 1) for at in (0, 1, 1)]
        outputs = [_output(_called(side, step, self.comparison, {})) for step in steps[:2]]
        alone = emptied(side, self.comparison.options.expect)
        return not torch.equal(outputs[1], _output(_called(alone, steps[2], self.comparison, {})))

    def _first(self, actual: Tensor, expected: Tensor) -> tuple[int, ...] | None:
        """Return the worst entry of the first token that differs; rows of padding don't count."""
        limit = self.limit.narrow(self.axis, 0, expected.shape[self.axis])
        over = self._gap(actual, expected) / limit.clamp_min(1e-300)
        worst = over.amax([axis for axis in range(over.dim()) if axis != self.axis]) > 1
        if not bool(worst.any()):
            return None
        token = int(worst.int().argmax())
        row = over.select(self.axis, token)
        index = torch.unravel_index(row.argmax(), row.shape)
        found = [int(each) for each in index]
        found.insert(self.axis, token)
        return tuple(found)

    def _gap(self, actual: Tensor, expected: Tensor) -> Tensor:
        """Return the differences; none in rows of padding, infinite where NaN meets a number."""
        same = (actual == expected) | (actual.isnan() & expected.isnan())
        gap = (actual - expected).abs().masked_fill(same, 0.0)
        gap = gap.masked_fill(gap.isnan(), float("inf"))
        real = self.arranged.real
        if real is not None and self.axis == 1 and real.shape == self.full.shape[:2]:
            padding = ~real[:, : expected.shape[1]].to(gap.device)
            gap[padding] = 0.0
        return gap


# -- running a side ------------------------------------------------------------------------------


def _widened(
    sides: tuple[Subject, Subject], arranged: Arrangement
) -> tuple[tuple[Subject, Subject], Arrangement] | None:
    """Return copies in float64 and their inputs; None: a side can't be copied or run so."""
    models = [side.model for side in sides if side.model is not None]
    if sum(p.numel() for model in models for p in model.parameters()) > _MOST_PARAMETERS:
        return None
    try:
        both = [
            Subject(side.name, copied(side.model).double())
            for side in sides
            if side.model is not None
        ]
        inputs = arranged.cast(torch.float64)
        with torch.no_grad():
            for side in both:
                args, kwargs, _ = bind(fresh(side), inputs, _DOING)
                fresh(side).run(*args, **kwargs)
    except Exception:  # noqa: BLE001  code of others, which float64 may not suit
        return None
    return (both[0], both[1]), arranged.with_values(inputs)


def _roundoff(sides: tuple[Subject, Subject]) -> float:
    """Return the unit roundoff of the coarsest parameters, or of float32."""
    models = [side.model for side in sides if side.model is not None]
    types = {p.dtype for model in models for p in model.parameters() if p.is_floating_point()}
    return max(unit_roundoff(dtype) for dtype in {torch.float32, *types})


def _called(side: Subject, inputs: Inputs, comparison: Comparison, more: Mapping[str, Any]) -> Any:
    """Run a side without gradients, from the seed of the comparison.

    Raises:
        InputError: it raised.
    """
    args, kwargs, _ = bind(side, inputs, _DOING)
    kwargs = {**kwargs, **more}
    devices = list(range(torch.cuda.device_count()))
    with torch.no_grad(), torch.random.fork_rng(devices=devices):
        torch.manual_seed(comparison.options.seed)
        try:
            return side.run(*args, **kwargs)
        except Exception as error:
            found = f"{side.name} raised {type(error).__name__}: {error}"
            raise InputError(_DOING, found, "mend what raises first") from error


def _output(output: Any) -> Tensor:
    found = outputs_of(output)
    if not found:
        raise InputError(_DOING, f"it returns {type(output).__name__}", "return a tensor")
    return next(iter(found.values())).detach().double()
