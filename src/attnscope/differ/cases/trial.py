"""One case of the matrix: run, judged by the outputs, and confirmed before it is called different.

Outputs that agree end a case at once. Where they don't, the whole comparison is made, and then
asked whether a sound implementation could differ there too: in rows of padding, by the rounding
of code that can't be run in float64, or because its type rounds more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnscope.differ.result import Case, FirstDifference
from attnscope.differ.sides.outputs import OutputPair, compared_outputs
from attnscope.differ.sides.side import Side
from attnscope.differ.walk.forward import Walk
from attnscope.differ.walk.judging import Tolerance
from attnscope.errors import AttnscopeError, InputError

if TYPE_CHECKING:
    from attnscope.differ.comparison import Comparison

__all__ = ["Trial", "attempt", "in_words", "unmade"]

_LONG = 64.0
"""Roundings, times the root of the operations, that code which runs in its own type may be off."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A case, with its first difference where it differs.

    comparison: on the inputs of the case, to be run or shrunk again; None where it agrees, and for
    cached decoding, which is no single run.
    """

    case: Case
    first: FirstDifference | None = None
    comparison: Comparison | None = None


def unmade(name: str, why: str) -> Trial:
    """Return a case that was not run."""
    return Trial(Case(name, None, 0.0, why))


def attempt(name: str, comparison: Comparison, real: Tensor | None = None) -> Trial:
    """Return whether both sides agree on the inputs of a comparison.

    Args:
        name: of the case.
        comparison: on the inputs of the case.
        real: which tokens are no padding, (batch, length); others may differ.
    """
    try:
        if comparison.candidate.is_plain != comparison.reference.is_plain:
            return _whole(name, comparison)
        theirs = comparison.observed(comparison.reference)
        ours = comparison.observed(comparison.candidate)
        outputs = compared_outputs(ours.output, theirs.output)
        if not outputs:
            return unmade(name, "the sides return no tensors that match")
        walk = _walk(comparison, (ours, theirs), outputs)
        gaps = [
            walk.judge("model", ours.wide_output(mine), theirs.wide_output(other))
            for mine, other in (pair.sides for pair in outputs)
        ]
        if all(gap.equal for gap in gaps):
            return Trial(Case(name, equal=True, largest=max(gap.largest for gap in gaps)))
        trial = _whole(name, comparison)
        excuse = _excuse(trial, walk, outputs, real) if trial.case.equal is False else None
    except InputError as error:
        return unmade(name, _raised(error))
    except (AttnscopeError, RuntimeError) as error:
        return unmade(name, f"it can't be compared: {error}")
    return trial if excuse is None else Trial(excuse)


def in_words(first: FirstDifference) -> str:
    """Return where and why two sides differ, in one line."""
    place = f" of call {first.call}" if first.call is not None else ""
    module = f", {first.module}" if first.module else ""
    stage = "the model's own output" if first.stage == "model" else first.stage
    why = f": {first.explanation.text}" if first.explanation is not None else ""
    verdict = "" if first.verdict == "numbers" else f" ({first.verdict})"
    return f"first at {stage}{place}{module}{verdict}{why}"


def _whole(name: str, comparison: Comparison) -> Trial:
    result = comparison.run()
    first = result.first_difference
    if result.equal or first is None:
        ends = [stage.largest for stage in result.stages if stage.stage in {"model", "context"}]
        return Trial(Case(name, result.equal, max(ends, default=0.0)))
    return Trial(
        Case(name, equal=False, largest=first.largest, note=in_words(first)), first, comparison
    )


def _walk(
    comparison: Comparison, sides: tuple[Side, Side], outputs: tuple[OutputPair, ...]
) -> Walk:
    types = {tensor.dtype for tensor in outputs[0].sides}
    tolerance = Tolerance.of(types, comparison.options.factor)
    return Walk(*sides, tolerance, comparison.relevance())


def _excuse(
    trial: Trial, walk: Walk, outputs: tuple[OutputPair, ...], real: Tensor | None
) -> Case | None:
    """Return the case as it is to be judged, where a sound implementation may differ."""
    name, found, first = trial.case.name, trial.case, trial.first
    if first is not None and first.verdict == "rounding":
        return Case(
            name,
            equal=True,
            largest=found.largest,
            note="the candidate rounds more than the reference",
        )
    if real is not None and _agree_where_real(walk, outputs, real):
        return Case(name, equal=True, largest=found.largest, note="only rows of padding differ")
    for side in (walk.candidate, walk.reference):
        if side.is_faithful or side.subject.wants_arrays:
            continue
        steps = max(len(side.tape.operations), 1)
        if found.largest <= min(0.5, _LONG * side.roundoff * steps**0.5):
            why = f"{side.subject.name} can't be run again in float64: it may be rounding"
            return Case(name, None, found.largest, why)
    return None


def _agree_where_real(walk: Walk, outputs: tuple[OutputPair, ...], real: Tensor) -> bool:
    for pair in outputs:
        mine, other = pair.sides
        if mine.shape != other.shape:
            return False
        wide = [walk.candidate.wide_output(mine), walk.reference.wide_output(other)]
        if other.shape[: real.dim()] == real.shape:
            padding = ~real.to(other.device)
            wide = [_cleared(each, padding) for each in wide]
        if not walk.judge("model", *wide).equal:
            return False
    return True


def _cleared(tensor: Tensor, mask: Tensor) -> Tensor:
    view = mask.view(*mask.shape, *(1 for _ in range(tensor.dim() - mask.dim())))
    return torch.where(view, 0.0, tensor)


def _raised(error: InputError) -> str:
    """Return who raised and what."""
    who = error.doing.removeprefix("running ")
    if who == error.doing:
        return f"{who}: {error.found}"
    return f"{who} {error.found.removeprefix('it ')}"
