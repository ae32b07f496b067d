"""The gradients of one side under given cotangents: in float64 where its run can be followed so."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.program import Operation, Program
from attnscope.differ.sides.seen import Seen
from attnscope.differ.sides.side import Side
from attnscope.errors import AttnscopeError

__all__ = ["COARSE", "Gradients", "gradients_of", "leaves_of", "stage_gradient", "tape_gradients"]

COARSE = 512.0
"""Roundings of the model's own type that gradients of two backwards may be apart."""

Edit = Callable[[Operation], Operation]


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """Gradients of one side by value of its tape.

    own: they are those of the side's own backward, rounded in its type: what it computes has
    another derivative, or can't be run again in float64.
    """

    by_value: Mapping[int, Tensor]
    own: bool = False


def gradients_of(side: Side, outputs: Sequence[Tensor], cotangents: Sequence[Tensor]) -> Gradients:
    """Return the gradients of a weighted sum of outputs, float64.

    The tape's way back is proven in the model's own type: there it gives what the side's own
    backward gives. Then the gradients are those of the run in float64.
    """
    own = _own_gradients(side, outputs, cotangents)
    if side.is_faithful:
        with contextlib.suppress(RuntimeError, AttnscopeError, TypeError):
            again = tape_gradients(side, outputs, cotangents, wide=False)
            if _agree(again, own, side):
                return Gradients(tape_gradients(side, outputs, cotangents))
    return Gradients(own, own=True)


def leaves_of(side: Side) -> list[int]:
    """Return the values that are parameters or inputs with a gradient."""
    return [value for value in side.tape.inputs if side.tape.tensors[value].requires_grad]


def _stages_of(side: Side) -> list[int]:
    """Return the values that are stages of a call and have a gradient."""
    found = dict.fromkeys(value for each in side.located for value in each.stage_values)
    return [value for value in found if side.tape.tensors[value].requires_grad]


def _own_gradients(
    side: Side, outputs: Sequence[Tensor], cotangents: Sequence[Tensor]
) -> dict[int, Tensor]:
    """Return the gradients of the side's own backward."""
    values = list(dict.fromkeys((*leaves_of(side), *_stages_of(side))))
    if not values:
        return {}
    graded = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if o.requires_grad]
    gradients = torch.autograd.grad(
        [output for output, _ in graded],
        [side.tape.tensors[value] for value in values],
        [cotangent.to(output.dtype) for output, cotangent in graded],
        allow_unused=True,
        retain_graph=True,
    )
    return _known(values, gradients)


def tape_gradients(
    side: Side,
    outputs: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    edit: Edit | None = None,
    *,
    wide: bool = True,
) -> dict[int, Tensor]:
    """Return the gradients of the tape, in float64 or in the model's own type, as float64.

    edit: changes its operations first.
    """
    program = side.tape.exact if wide else side.tape.program
    leaves = leaves_of(side)
    if edit is not None:
        program = Program(program.inputs, tuple(map(edit, program.operations)))
    held = {value: side.tape.tensors[value].detach() for value in leaves}
    given = {v: (t.double() if wide else t.clone()).requires_grad_() for v, t in held.items()}
    ends = [side.tape.value_of(output) for output in outputs]
    wanted = list(dict.fromkeys((*leaves, *_stages_of(side))))
    with torch.enable_grad():
        values = program.run(
            [*(end for end in ends if end is not None), *wanted], given, graded=True
        )
        graded = [
            (values[end], cotangent)
            for end, cotangent in zip(ends, cotangents, strict=True)
            if end is not None and values[end].requires_grad
        ]
        sources = [value for value in wanted if values[value].requires_grad]
        gradients = torch.autograd.grad(
            [output for output, _ in graded],
            [values[value] for value in sources],
            [cotangent.to(output.dtype) for output, cotangent in graded],
            allow_unused=True,
        )
    return _known(sources, gradients)


def _known(values: Sequence[int], gradients: Sequence[Tensor | None]) -> dict[int, Tensor]:
    """Return the gradients that there are, in float64."""
    return {
        value: gradient.double()
        for value, gradient in zip(values, gradients, strict=True)
        if gradient is not None
    }


def _agree(wide: Mapping[int, Tensor], own: Mapping[int, Tensor], side: Side) -> bool:
    """Return whether gradients are those of the side's own backward but for rounding."""
    bound = min(0.5, COARSE * side.roundoff)
    scale = max((float(g.abs().max()) for g in wide.values() if g.numel()), default=0.0)
    for value in leaves_of(side):
        zero = torch.zeros((), dtype=torch.float64)
        gap = (wide.get(value, zero) - own.get(value, zero)).abs()
        if gap.numel() and float(gap.max()) > bound * scale:
            return False
    return True


def stage_gradient(
    side: Side, seen: Seen, stage: str, gradients: Mapping[int, Tensor]
) -> Tensor | None:
    """Return the gradient of a stage of an attention, canonical; None: there is none, or unknown.

    Those of scores and weights follow from that of the context by the recipe, where the model did
    not make them as tensors of its own.
    """
    parts = [
        spot.read_gradient(gradients[value])
        for value, spot in seen.spots.get(stage, [])
        if value in gradients
    ]
    if parts and len(parts) == len(seen.spots[stage]):
        return seen.join(stage, parts)
    if stage in seen.spots or stage not in {"weights", "scores"}:
        return None
    return _carried_back(side, seen, stage, gradients)


def _carried_back(
    side: Side, seen: Seen, stage: str, gradients: Mapping[int, Tensor]
) -> Tensor | None:
    """Carry the gradient of the context back to weights or scores."""
    context = stage_gradient(side, seen, "context", gradients)
    if context is None:
        return None
    with contextlib.suppress(AttnscopeError, RuntimeError), torch.enable_grad():
        q, k, v = (side.stage_of(seen, name) for name in ("q", "k", "v"))
        attention = seen.attention(q, k, v)
        if attention is None:
            return None
        scores = attention.stage("scores").detach().requires_grad_()
        weights = attention.recipe.normalise(scores)
        made = attention.weigh(weights)
        wanted = weights if stage == "weights" else scores
        (gradient,) = torch.autograd.grad(made, [wanted], context.to(made.device))
        return gradient
    return None
