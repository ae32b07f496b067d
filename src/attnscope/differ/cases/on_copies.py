"""Cases on copies of the models: parameters in another type, and the mode they are not in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from attnscope.differ.cases.trial import Trial, attempt, unmade
from attnscope.differ.cases.varying import Arrangement
from attnscope.differ.sides.caches import copied, emptied
from attnscope.differ.sides.outputs import outputs_of
from attnscope.differ.sides.subject import Inputs, Subject
from attnscope.differ.walk.judging import Tolerance
from attnscope.errors import InputError

if TYPE_CHECKING:
    from attnscope.differ.comparison import Comparison

__all__ = ["other_mode", "types"]

_MOST_PARAMETERS = 50_000_000
"""Models above this are not copied."""


def _models(comparison: Comparison) -> list[nn.Module]:
    sides = comparison.candidate, comparison.reference
    return [side.model for side in sides if side.model is not None]


def _copied(comparison: Comparison, inputs: Inputs) -> Comparison:
    """Return the comparison of deep copies.

    Raises:
        InputError: a module is too large, or can't be copied.
    """
    from attnscope.differ.comparison import Comparison as Same

    doing = f"copying {comparison.candidate.name} and {comparison.reference.name}"
    count = sum(p.numel() for model in _models(comparison) for p in model.parameters())
    if count > _MOST_PARAMETERS:
        raise InputError(doing, f"they have {count:,} parameters", "try it with smaller ones")
    sides = []
    for side in (comparison.candidate, comparison.reference):
        try:
            run = copied(side.model) if side.model is not None else side.run
        except (RuntimeError, TypeError) as error:
            raise InputError(doing, f"it raised {error}", "build them anew") from error
        sides.append(Subject(side.name, run, side.inputs))
    expect = comparison.options.expect
    ours, theirs = (emptied(side, expect) for side in sides)
    return Same(ours, theirs, inputs, comparison.options)


def types(comparison: Comparison, arranged: Arrangement) -> Iterator[Trial]:
    """Try parameters and inputs in float64 and in bfloat16; buffers stay in their own type."""
    models = _models(comparison)
    now = {p.dtype for model in models for p in model.parameters() if p.is_floating_point()}
    if len(now) != 1:  # of two types, the weights already differ by rounding
        return
    for dtype in (torch.float64, torch.bfloat16):
        if now == {dtype}:
            continue
        name = str(dtype).removeprefix("torch.")
        try:
            other = _copied(comparison, arranged.cast(dtype))
        except InputError as error:
            yield unmade(name, error.found)
            return
        for model in _models(other):
            for parameter in model.parameters():
                if parameter.is_floating_point():
                    parameter.data = parameter.data.to(dtype)
        other.options = replace(other.options, factor=_as_float32(dtype, other.options.factor))
        trial = attempt(name, other, arranged.real)
        if trial.case.equal is False and _parts_by_rounding(comparison, arranged, dtype):
            why = f"parameters rounded to {name} no longer say the same on both sides"
            trial = unmade(name, why)
        yield trial


def _parts_by_rounding(comparison: Comparison, arranged: Arrangement, dtype: torch.dtype) -> bool:
    """Return whether the rounding of the parameters alone makes the sides differ.

    It does where one side holds them scaled, turned or folded into others.
    """
    other = _copied(comparison, arranged.inputs)
    for model in _models(other):
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.data = parameter.data.to(dtype).to(parameter.dtype)
    return attempt("rounded", other, arranged.real).case.equal is False


def _as_float32(dtype: torch.dtype, factor: float) -> float:
    """Return the factor with which limits are those of float32: tables stay in their own type."""
    own, usual = (Tolerance.of({each}).roundoff for each in (dtype, torch.float32))
    return factor * usual / own


def other_mode(comparison: Comparison, arranged: Arrangement) -> Iterator[Trial]:
    """Try the mode in which the models are not, on copies: a mode may change what they keep."""
    models = _models(comparison)
    if not models or len({model.training for model in models}) > 1:
        return
    name = "eval mode" if models[0].training else "train mode"
    try:
        other = _copied(comparison, arranged.inputs)
    except InputError as error:
        yield unmade(name, error.found)
        return
    for model in _models(other):
        model.train(not model.training)
    random = [side.name for side in (other.candidate, other.reference) if _is_random(side, other)]
    if random:
        yield unmade(name, f"random in it: {', '.join(dict.fromkeys(random))}")
        return
    yield attempt(name, other, arranged.real)


def _is_random(side: Subject, comparison: Comparison) -> bool:
    """Return whether a side gives other outputs for another seed; False where it raises."""
    outputs = []
    for seed in (comparison.options.seed, comparison.options.seed + 1):
        other = comparison.on(comparison.inputs)
        other.options = replace(comparison.options, seed=seed)
        with contextlib.suppress(InputError):
            found: Any = outputs_of(other.observed(emptied(side, comparison.options.expect)).output)
            outputs.append(next(iter(found.values()), torch.zeros(1)).detach())
    return len(outputs) == 2 and not torch.equal(outputs[0], outputs[1])
