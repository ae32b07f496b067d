"""Writes down, for every tensor, how its axes came about and whether it is a mere weight."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnscope.calls.program import map_leaves
from attnscope.capture.functions import Kind
from attnscope.capture.operands import pairing_of, two_sides
from attnscope.capture.registry import Registry
from attnscope.capture.step import MIXES, Step, flat, shapes_of
from attnscope.capture.trail import DEEPEST, LAYOUT, Trail, Unfollowed

_MAKES_ACTIVATIONS = frozenset("linear conv1d conv2d conv3d embedding layer_norm rms_norm".split())
_CONVOLUTIONS = frozenset({"conv1d", "conv2d"})
_DEEPEST_PROJECTION = 12
_LONGEST_TABLE = 256


class Describer:
    """Trails of tensors, and what is a parameter or only rearranges such."""

    def __init__(self, registry: Registry, parameters: dict[int, tuple[Tensor, str]]) -> None:
        """Describe into `registry`; parameters (and buffers, until written to) by identity."""
        self.registry = registry
        self.parameters = parameters

    def is_weight(self, tensor: Tensor) -> bool:
        """Return whether `tensor` is a parameter, a buffer, or only rearranges such."""
        return self._parameter_name(tensor) is not None or self.registry.is_weight(tensor)

    def _parameter_name(self, tensor: Tensor) -> str | None:
        known = self.parameters.get(id(tensor))
        return known[1] if known is not None and known[0] is tensor else None

    def describe(self, step: Step) -> None:
        """Write down how the outputs' axes came about, and whether they are mere weights."""
        outputs = [tensor for tensor in flat(step.output) if tensor.dim()]
        if not outputs:
            return
        if step.name == "setitem":
            return
        raw = step.name not in _MAKES_ACTIVATIONS and all(
            self.is_weight(tensor) or _is_number(tensor) for tensor in step.tensors
        )
        parents = {id(tensor): self._trail(tensor) for tensor in step.tensors}
        names = tuple(name for name in map(self._parameter_name, step.tensors) if name is not None)
        if step.kind is Kind.CONTRACTION or step.name in MIXES:
            trail = self._projection(step, parents)
        else:
            trail = _continued(step, parents)
        trail.parameters = names
        for index, tensor in enumerate(outputs):
            entry = self.registry.entry(tensor)
            own = trail if not index else replace(trail)
            own.shape, own.output_index = tuple(tensor.shape), index
            entry.trail, entry.raw, entry.node = own, raw, None

    def _projection(self, step: Step, parents: dict[int, Trail | Unfollowed]) -> Trail:
        """Return the trail of features made from an activation and a weight."""
        shape = shapes_of(step.output)[0]
        source, kept = step.tensors[0], _leading(len(shape))
        features: tuple[int, ...] = (len(shape) - 1,)
        if step.name in _CONVOLUTIONS:
            features, kept = (1,), ((0, 0),)
        elif step.name != "linear":
            pair = two_sides(step.name, step.args, step.kwargs)
            weights = [self.is_weight(side) for side in pair] if pair is not None else []
            if pair is None or sum(weights) != 1:
                return Trail(step.name, shape)
            at = weights.index(False)
            source = pair[at]
            pairs = pairing_of(step.name, step.args, step.kwargs, pair)
            if pairs is None:
                return Trail(step.name, shape)
            features = tuple(out for _, out in (pairs.right if at == 0 else pairs.left))
            kept = tuple((both[at], both[2]) for both in pairs.batch if both[at] >= 0)
            kept += pairs.left if at == 0 else pairs.right
        before = parents[id(source)]
        known = isinstance(before, Trail) and (before.pure or before.is_origin)
        if not known or not isinstance(before, Trail) or before.depth > _DEEPEST_PROJECTION:
            return Trail(step.name, shape, features=features)
        return Trail(
            step.name, shape, (before,), depth=before.depth + 1, features=features, kept=kept
        )

    def _trail(self, tensor: Tensor) -> Trail | Unfollowed:
        if tensor.numel() == 1 or (tensor.dim() == 1 and _is_small_table(tensor)):
            return Unfollowed(tuple(tensor.shape), value=tensor.detach().clone())
        entry = self.registry.find(tensor)
        if entry is not None and entry.trail is not None:
            return entry.trail
        if entry is None and not self.is_weight(tensor):
            entry = self.registry.entry(tensor)
            entry.trail = Trail("input", tuple(tensor.shape))
            return entry.trail
        return Unfollowed(tuple(tensor.shape), tensor.dtype == torch.bool)


def _leading(rank: int) -> tuple[tuple[int, int], ...]:
    return tuple((axis, axis) for axis in range(rank - 1))


def _continued(step: Step, parents: dict[int, Trail | Unfollowed]) -> Trail:
    """Return the trail of an operation that leaves its argument's axes readable."""
    trails = [trail for trail in parents.values() if isinstance(trail, Trail)]
    depth = 1 + max((trail.depth for trail in trails), default=0)
    keeps = step.kind is not Kind.BOUNDARY or step.name in {"layer_norm", "rms_norm"}
    if not keeps or depth > DEEPEST:
        return Trail(step.name, ())
    return Trail(
        step.name,
        (),
        map_leaves(step.args, lambda leaf: _noted(leaf, parents)),
        map_leaves(step.kwargs, lambda leaf: _noted(leaf, parents)),
        depth=depth,
        pure=step.name in LAYOUT and all(trail.pure or trail.is_origin for trail in trails),
    )


def _is_small_table(tensor: Tensor) -> bool:
    """Return whether `tensor` may say which kv head each query head meets."""
    return tensor.dtype == torch.int64 and tensor.numel() <= _LONGEST_TABLE


def _is_number(tensor: Tensor) -> bool:
    """Return whether `tensor` is one whole number, such as the index of an expert."""
    return tensor.numel() == 1 and not tensor.is_floating_point()


def _noted(leaf: Any, parents: dict[int, Trail | Unfollowed]) -> Any:
    return parents[id(leaf)] if isinstance(leaf, Tensor) else leaf
