"""Moves what a call keeps to another device, such as from an accelerator to the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.held import Held
from attnscope.calls.program import Autocast, map_leaves, random_state
from attnscope.calls.recipe import Recipe
from attnscope.capture.fused import FusedEvidence
from attnscope.capture.provenance import Node
from attnscope.capture.recorded import RecordedEvidence
from attnscope.errors import ReplayError

__all__ = ["map_tensors", "move"]

_DEVICES = frozenset({"cpu", "cuda", "meta", "mps", "xpu", "hpu", "mtia", "xla"})


def move(call: Call, device: torch.device) -> None:
    """Move the tensors that `call` keeps to `device`, where they are not there already.

    The replay error is worked out before, where the model ran: it is the proof of the call. What is
    derived later is computed on `device`, so equal up to its rounding. Operations that drew random
    numbers can't draw them again there; what needs them raises ReplayError. A kernel whose scores
    are a function of the user's own stays where it is, since that function may hold tensors.
    """
    evidence = call.evidence
    if isinstance(evidence, RecordedEvidence):
        if _elsewhere(_held_by(evidence), device):
            _move_recorded(call, evidence, device)
    elif isinstance(evidence, FusedEvidence) and evidence.kernel.scores is None:
        kept = [evidence.q.held, evidence.k.held, evidence.v.held, evidence.output]
        kept += evidence.kernel.held
        if _elsewhere(kept, device):
            _move_fused(call, evidence, kept, device)


def _elsewhere(kept: list[Held], device: torch.device) -> bool:
    """Return whether some tensor of `kept` is not on `device` (any index, where it names none)."""
    places = {held.raw.device for held in kept}
    return any(
        place.type != device.type or device.index not in {None, place.index} for place in places
    )


def _held_by(evidence: RecordedEvidence) -> list[Held]:
    outputs = [product.output for product in evidence.products]
    return [*evidence.chain.program.inputs.values(), *outputs]


def _move_recorded(call: Call, evidence: RecordedEvidence, device: torch.device) -> None:
    _prove(call)
    for held in _held_by(evidence):
        held.replace(held.tensor.to(device))
    for node in evidence.chain.nodes:
        _retarget(node, device)
    for product in evidence.products:
        product.cotangent.send_to(device)
    for name in ("chain", "stages", "reading"):
        evidence.__dict__.pop(name, None)


def _move_fused(
    call: Call, evidence: FusedEvidence, kept: list[Held], device: torch.device
) -> None:
    _prove(call)
    for held in kept:
        held.replace(held.tensor.to(device))
    evidence.cotangent.send_to(device)
    evidence.__dict__.pop("recipe", None)


def _prove(call: Call) -> None:
    """Let the call work out its replay error, which it keeps."""
    with contextlib.suppress(ReplayError, RuntimeError):  # no values, as under vmap
        call.replay_error  # noqa: B018  a cached property


def _retarget(node: Node, device: torch.device) -> None:
    """Let a recorded operation run on `device`."""
    node.args = map_leaves(node.args, lambda leaf: device if _is_device(leaf) else leaf)
    node.kwargs = map_leaves(node.kwargs, lambda leaf: device if _is_device(leaf) else leaf)
    node.outputs = tuple(output.detach().to(device) for output in node.outputs)
    if node.autocast is not None:
        node.autocast = Autocast(device.type, node.autocast.dtype)
    if node.random is not None and node.random.device.type != device.type:
        node.function = partial(_unless_it_draws, node.function, device)
        node.random = random_state(device)


def _is_device(leaf: Any) -> bool:
    if isinstance(leaf, str):
        return leaf.split(":", maxsplit=1)[0] in _DEVICES
    return isinstance(leaf, torch.device)


def _unless_it_draws(
    function: Callable[..., Any], device: torch.device, *args: Any, **kwargs: Any
) -> Any:
    """Run an operation that may draw random numbers (dropout does not in eval mode)."""
    before = random_state(device).state
    output = function(*args, **kwargs)
    if torch.equal(before, random_state(device).state):
        return output
    raise ReplayError(
        "replaying a call that was moved to another device",
        "it drew random numbers (dropout), which can't be drawn again there",
        "record without device=, or look at the model in eval mode",
    )


def map_tensors(recipe: Recipe, change: Callable[[Tensor], Tensor]) -> Recipe:
    """Return `recipe` with `change` applied to each of its tensors."""
    changed: dict[str, Any] = {
        field.name: change(value)
        for field in fields(recipe)
        if isinstance(value := getattr(recipe, field.name), Tensor)
    }
    if recipe.mask.tensor is not None:
        changed["mask"] = replace(recipe.mask, tensor=change(recipe.mask.tensor))
    return replace(recipe, **changed)
