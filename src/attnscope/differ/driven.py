"""A module against a plain function of (q, k, v, …): the function gets what each call got."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnscope.differ.result import FirstDifference, Verification
from attnscope.differ.sides.aligning import Alignment, Pair
from attnscope.differ.sides.derived import derive
from attnscope.differ.sides.located import Located
from attnscope.differ.sides.outputs import outputs_of
from attnscope.differ.sides.seen import Seen
from attnscope.differ.sides.side import Side, observe
from attnscope.differ.sides.subject import Subject
from attnscope.differ.walk.attention import attention_steps
from attnscope.differ.walk.forward import Walk
from attnscope.differ.walk.judging import Tolerance
from attnscope.differ.walk.stages import PROJECTED
from attnscope.differ.walk.step import Step
from attnscope.errors import InputError

if TYPE_CHECKING:
    from attnscope.differ.comparison import Comparison

__all__ = ["compare_driven"]


def compare_driven(comparison: Comparison) -> Verification:
    """Compare each call of the module with what the function makes of its q, k and v.

    Raises:
        InputError: no attention was seen in the module, or the function returns no context.
    """
    plain_is_reference = comparison.reference.is_plain
    model = comparison.candidate if plain_is_reference else comparison.reference
    function = comparison.reference if plain_is_reference else comparison.candidate
    side = comparison.observed(model)
    if not side.located:
        raise InputError(
            f"comparing {comparison.candidate.name} with {comparison.reference.name}",
            f"no attention was seen in {model.name}",
            "look at what `attnscope trace` says of it",
        )
    steps: list[Step] = []
    pairs: list[Pair] = []
    first: FirstDifference | None = None
    tolerance = Tolerance.of(
        {side.tape.tensors[v].dtype for v in _q_values(side)}, comparison.options.factor
    )
    relevance = comparison.relevance()
    for number, located in enumerate(side.located):
        other = _run(function, side, located, comparison)
        there = _seen(other, function, side, located)
        sides = (side, other) if plain_is_reference else (other, side)
        both = (located, there) if plain_is_reference else (there, located)
        pair = Pair(number, both[0], both[1])
        walk = Walk(*sides, tolerance, relevance)
        inner = [
            step for step in attention_steps(walk, (pair,)) if step.stage not in {"input", "output"}
        ]
        steps += inner
        pairs.append(pair)
        wrong = next((step for step in inner if step.stage == "context"), inner[-1])
        if first is None and not wrong.equal:
            first = comparison.first(walk, Alignment((pair,)), [wrong])
    note = (
        f"{function.name} was given q, k and v of each call of {model.name}: what lies around the "
        "attention, and gradients, are not compared"
    )
    return comparison.result(steps, first, Alignment(tuple(pairs)), tolerance, [note])


def _q_values(side: Side) -> list[int]:
    return [value for each in side.located for value, _ in each.spots.get("q", [])]


def _run(function: Subject, side: Side, located: Located, comparison: Comparison) -> Side:
    """Call the function with q, k and v of a call, kv heads expanded where it needs that."""
    q, k, v = (side.stage_of(located, name) for name in PROJECTED)
    wanted = _arguments(function, comparison.options.expect)
    try:
        return observe(function, (q, k, v), wanted, comparison.options.seed)
    except InputError:
        if k.shape[1] == q.shape[1]:
            raise
    met = list(located.kv_head_of(k.shape[1]))
    return observe(function, (q, k[:, met], v[:, met]), wanted, comparison.options.seed)


def _arguments(function: Subject, expect: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was declared, under the names that the function takes."""
    taken = {parameter.name for parameter in function.parameters_of_run()}
    given: dict[str, Any] = {}
    if expect.get("causal"):
        for name in ("causal", "is_causal"):
            if name in taken:
                given[name] = True
    for name in ("scale", "softcap", "window"):
        if name in taken and name in expect:
            given[name] = expect[name]
    return given


def _seen(side: Side, function: Subject, model: Side, located: Located) -> Seen:
    """Return the function's own call, or what is known of it without one."""
    if len(side.located) == 1 and side.located[0].shape == located.shape:
        return side.located[0]
    outputs: dict[str, Tensor] = outputs_of(side.output)
    if outputs:
        output = next(iter(outputs.values()))
        with torch.no_grad():
            q, k, v = (model.stage_of(located, name) for name in PROJECTED)
            known = derive(q, k, v, output, {})
        if known is not None:
            return known
    raise InputError(
        f"comparing calls with {function.name}",
        f"it returned {type(side.output).__name__}, no context (batch, heads, queries, value_dim)",
        "let it return weights @ v for q, k and v in the canonical layout",
    )
