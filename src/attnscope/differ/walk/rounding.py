"""A candidate that agrees in float64 and rounds far more than its type makes it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from attnscope.calls.tolerance import unit_roundoff
from attnscope.differ.result import FirstDifference
from attnscope.differ.sides.aligning import Pair
from attnscope.differ.sides.outputs import OutputPair
from attnscope.differ.sides.side import Side
from attnscope.differ.walk.forward import Walk
from attnscope.errors import AttnscopeError
from attnscope.explain import Explanation, settled

__all__ = ["coarser"]

_TIMES = 16.0
"""How many times as much as the reference, in roundings, is more than another order of sums."""

_ALLOWED = 256.0
"""Roundings of the largest entry that any long computation may end with."""

_INSIDE = _ALLOWED / 4
"""The same for a stage inside an attention, which is a short one."""


def coarser(
    walk: Walk, outputs: Sequence[OutputPair], pairs: Sequence[Pair]
) -> FirstDifference | None:
    """Return where the candidate starts to round more than its type explains; None: nowhere.

    Both sides agree in float64. Each side's own rounding is its real output against that in
    float64; the candidate's is held to the reference's, each in units of its own type, the coarser
    of q's and the outputs': a model in bfloat16 may round as bfloat16 does.
    """
    ours, theirs = walk.candidate, walk.reference
    if not (ours.is_faithful and theirs.is_faithful):
        return None
    for pair in outputs:
        mine, other = pair.sides
        noise = _noise(mine, ours.wide_output(mine), walk, "model")
        usual = _noise(other, theirs.wide_output(other), walk, "model")
        if mine.dtype.is_floating_point and _is_excessive(noise, usual, ours, theirs):
            return _first_place(walk, pairs, noise, usual, pair.part)
    return None


def _noise(real: Tensor, wide: Tensor, walk: Walk, stage: str) -> float:
    """Return the largest rounding error relative to the largest entry; inf where it overflowed."""
    real = real.detach().double()
    rows = walk.relevance.rows(stage, tuple(real.shape))
    if rows is not None:
        keep = rows.expand_as(real)
        real, wide = real[keep], wide[keep]
    finite = wide.isfinite()
    if not bool(finite.any()):
        return 0.0
    if not bool(real[finite].isfinite().all()):
        return float("inf")
    scale = float(wide[finite].abs().max())
    return float((real - wide)[finite].abs().max()) / max(scale, 1e-30)


def _roundoff(side: Side) -> float:
    """Return the unit roundoff of the coarsest type among q and the outputs."""
    types = {
        side.tape.tensors[value].dtype
        for each in side.located
        for value, _ in each.spots.get("q", [])
    }
    types |= {tensor.dtype for tensor in side.outputs.values()}
    return max(unit_roundoff(dtype) for dtype in types)


def _is_excessive(noise: float, usual: float, ours: Side, theirs: Side) -> bool:
    """Return whether the candidate's rounding is more than its type and the reference explain."""
    own, other = _roundoff(ours), _roundoff(theirs)
    return noise > max(usual, _ALLOWED * own) and noise / own > _TIMES * usual / other


def _first_place(
    walk: Walk,
    pairs: Sequence[Pair],
    noise: float,
    usual: float,
    part: str,
) -> FirstDifference:
    """Return the first stage that rounds too much; the model's own output where none does."""
    allowed = _INSIDE * _roundoff(walk.candidate)
    for pair in pairs:
        for stage, error in _errors(walk, pair):
            if error > allowed:
                found = _difference(stage, error, _explanation(walk.candidate, error, usual))
                call = pair.candidate.calls[0]
                return replace(found, call=pair.number, module=call.module, source=call.source)
    found = _difference("model", noise, _explanation(walk.candidate, noise, usual))
    return replace(found, part=part)


def _difference(stage: str, error: float, explanation: Explanation) -> FirstDifference:
    """Return a difference that is all of the stage's own."""
    return FirstDifference(
        stage=stage,
        call=None,
        module="",
        source=None,
        index=(),
        values=None,
        largest=error,
        own_error=error,
        inherited_error=0.0,
        verdict="rounding" if error < float("inf") else "non-finite",
        explanation=explanation,
    )


def _errors(walk: Walk, pair: Pair) -> Iterator[tuple[str, float]]:
    """Iterate over the candidate's stages with how far each is from the same in float64."""
    located = pair.candidate
    if len(located.calls) != 1:
        return
    call = located.calls[0]
    with contextlib.suppress(AttnscopeError, RuntimeError):
        q, k, v = call.q, call.k, call.v
        for stage, real in (("scores", call.scores), ("weights", call.weights)):
            wide, value = located.rerun(stage, q, k, v), real()
            hidden = settled(wide).isneginf() if stage == "scores" else wide.isneginf()
            value, wide = value.double().masked_fill(hidden, 0), wide.masked_fill(hidden, 0)
            yield stage, _noise(value, wide, walk, stage)
        yield "context", _noise(call.context(), located.rerun("context", q, k, v), walk, "context")


def _explanation(side: Side, error: float, usual: float) -> Explanation:
    """Say how far a side is off in the coarsest of its types."""
    types = sorted(
        {t.dtype for t in side.tape.tensors.values() if t.is_floating_point()},
        key=unit_roundoff,
    )
    coarsest = types[-1] if types else torch.float32
    how = "overflows" if error == float("inf") else f"is off by {error:.1g} of its largest entry"
    text = (
        f"in float64 both agree; computed in {str(coarsest).removeprefix('torch.')} it {how}, "
        f"where the reference is off by {usual:.1g}"
    )
    return Explanation("rounding", text, 0.0)
