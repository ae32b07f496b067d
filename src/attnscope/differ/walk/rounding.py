"""A candidate that agrees in float64 and rounds far more than its type makes it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from attnscope.calls.tolerance import unit_roundoff
from attnscope.differ.result import FirstDifference
from attnscope.differ.sides.aligning import Pair
from attnscope.differ.sides.derived import Derived
from attnscope.differ.sides.outputs import OutputPair
from attnscope.differ.sides.side import Side
from attnscope.differ.walk.forward import Walk
from attnscope.errors import AttnscopeError
from attnscope.explain import Explanation

__all__ = ["coarser"]

_TIMES = 16.0
"""How many times as much as the reference, in roundings, is more than another order of sums."""

_ALLOWED = 256.0
"""Roundings of the largest entry that any long computation may end with."""


def coarser(
    walk: Walk, outputs: Sequence[OutputPair], pairs: Sequence[Pair]
) -> FirstDifference | None:
    """Return where the candidate starts to round more than its type explains; None: nowhere.

    Both sides agree in float64. Each side's own rounding is its real output against that in
    float64; the candidate's is held to the reference's, each in units of its own type, which is
    that of q where attention was seen: a model in bfloat16 may round as bfloat16 does.
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
    """Return the unit roundoff of q, or of the output where no attention was seen."""
    types = {
        side.tape.tensors[value].dtype
        for each in side.located
        for value, _ in each.spots.get("q", [])
    }
    types |= {tensor.dtype for tensor in side.outputs.values()}
    return max(unit_roundoff(dtype) for dtype in types)


def _is_excessive(noise: float, usual: float, ours: Side, theirs: Side) -> bool:
    own, other = _roundoff(ours), _roundoff(theirs)
    return noise > _ALLOWED * own and noise / own > _TIMES * usual / other


def _first_place(
    walk: Walk,
    pairs: Sequence[Pair],
    noise: float,
    usual: float,
    part: str,
) -> FirstDifference:
    own = _roundoff(walk.candidate)
    for pair in pairs:
        for stage, error in _errors(walk, pair):
            if error > _ALLOWED / 4 * own:
                call = pair.candidate.calls[0]
                explanation = _explanation(walk.candidate, error, usual)
                verdict = "rounding" if error < float("inf") else "non-finite"
                return FirstDifference(
                    stage, pair.number, call.module, call.source, (), None, error, error, 0.0,
                    verdict, explanation,
                )  # fmt: skip
    explanation = _explanation(walk.candidate, noise, usual)
    verdict = "rounding" if noise < float("inf") else "non-finite"
    return FirstDifference(
        "model", None, "", None, (), None, noise, noise, 0.0, verdict, explanation, part
    )


def _errors(walk: Walk, pair: Pair) -> Iterator[tuple[str, float]]:
    """Iterate over the candidate's stages with how far each is from the same in float64."""
    located = pair.candidate
    if isinstance(located, Derived) or len(located.calls) != 1:
        return
    call = located.calls[0]
    with contextlib.suppress(AttnscopeError, RuntimeError):
        q, k, v = call.q, call.k, call.v
        for stage, real in (("scores", call.scores), ("weights", call.weights)):
            wide = located.rerun(stage, q, k, v)
            value, hidden = real(), wide.isneginf()
            if stage == "scores":
                largest = wide.masked_fill(hidden, -float("inf")).amax(-1, keepdim=True)
                hidden = hidden | (wide < largest - 104.0)
            value, wide = value.double().masked_fill(hidden, 0), wide.masked_fill(hidden, 0)
            yield stage, _noise(value, wide, walk, stage)
        yield "context", _noise(call.context(), located.rerun("context", q, k, v), walk, "context")


def _explanation(side: Side, error: float, usual: float) -> Explanation:
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
