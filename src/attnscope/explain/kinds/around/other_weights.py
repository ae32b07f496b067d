"""Projections with the weights of another: q made with those of k, from the sequence of q."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import combinations

import torch
from torch import Tensor

from attnscope.errors import AttnscopeError
from attnscope.explain.change import Change
from attnscope.explain.part import Part
from attnscope.explain.reading.flow import flow_of
from attnscope.explain.reading.slack import slack_of
from attnscope.explain.scene import Scene

__all__ = ["SPLIT", "other_weights"]

_NAMES = ("q", "k", "v")
SPLIT = "the fused projection is split in another order, as"


def other_weights(scene: Scene) -> Iterator[Change]:
    """Propose that a stage is computed with the weights of another, from its own sequence."""
    stage = scene.stage
    made = {name: list(_made_with(scene, name)) for name in _NAMES}
    used = {name: _used(scene, name, made[name]) for name in _NAMES}
    for name, tensor in made[stage]:
        text = f"{stage} is computed with what the reference computes {name} with"
        key = "k-for-v" if "v" in {stage, name} else "q-k-swapped"
        sources = used | {stage: name}
        if sorted(sources.values()) == sorted(_NAMES) and _is_packed(scene):
            split = " | ".join(next(n for n in _NAMES if sources[n] == each) for each in _NAMES)
            key = "split-order"
            text = f"{SPLIT} [{split}] where the reference has [q | k | v]: {text}"
        yield Change(key, text, lambda tensor=tensor: tensor)  # type: ignore[misc]


def _made_with(scene: Scene, stage: str) -> Iterator[tuple[str, Tensor]]:
    """Iterate over what the weights of the other stages make of what one of them receives."""
    own = scene.reference.parts.get(stage)
    for name in _NAMES:
        other = scene.reference.parts.get(name)
        if name == stage or own is None or other is None:
            continue
        if own.origin is None or other.origin is None:
            continue
        received, theirs = own.given.get(own.origin), other.given.get(other.origin)
        if received is not None and theirs is not None:
            with contextlib.suppress(AttnscopeError, RuntimeError):
                yield name, _fed(other, received, theirs)


def _fed(part: Part, received: Tensor, own: Tensor) -> Tensor:
    """Return what a projection makes of another sequence; it has learnt the length of its own."""
    assert part.origin is not None  # noqa: S101  those that are asked have one
    differing = [
        a
        for a, sizes in enumerate(zip(received.shape, own.shape, strict=False))
        if len({*sizes}) > 1
    ]
    if not differing or received.ndim != own.ndim:
        return part.run(given={part.origin: received})
    (axis,) = differing
    pieces = []
    for piece in received.split(own.shape[axis], axis):
        filled = torch.zeros_like(own)
        filled.narrow(axis, 0, piece.shape[axis]).copy_(piece)
        pieces.append(part.run(given={part.origin: filled})[:, :, : piece.shape[axis]])
    return torch.cat(pieces, 2)


def _used(scene: Scene, stage: str, made: list[tuple[str, Tensor]]) -> str:
    """Return with whose weights the candidate computes a stage; "": with nobody's."""
    part = scene.candidate.parts.get(stage)
    ours = part.run() if part is not None else scene.candidate.stages.get(stage)
    own = scene.reference.stages.get(stage)
    options = [*made, *([] if own is None else [(stage, own)])]
    for name, tensor in options:
        alike = ours is not None and ours.shape == tensor.shape
        if alike and ours is not None and float((ours - tensor).abs().max()) <= slack_of(scene):
            return name
    return ""


def _is_packed(scene: Scene) -> bool:
    """Return whether the candidate has the weights of several stages in one parameter."""
    weights = [
        {name for value, name in part.parameters.items() if value in flow_of(part).leaves}
        for stage in _NAMES
        if (part := scene.candidate.parts.get(stage)) is not None
    ]
    return any(not first.isdisjoint(second) for first, second in combinations(weights, 2))
