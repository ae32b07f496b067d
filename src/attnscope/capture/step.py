"""One operation of the model, while it is being noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnscope.calls.held import Held
from attnscope.calls.program import Autocast, RandomState
from attnscope.capture.functions import SOFTMAXES, Kind, changes_in_place
from attnscope.capture.operands import tensors_in
from attnscope.capture.provenance import Output

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

MIXES = frozenset({"linear", "conv1d", "conv2d"})
"""Projections that may also mix heads."""

_NEAR = 8
"""Operations behind q·k within which a layer norm is taken for part of the scores."""

_WRITES_LISTS = "_foreach_"
"""How the names of functions begin that change whole lists of tensors."""


class Step:
    """One operation: what it was given and, once it ran, what it made.

    sources: the arguments that are outputs of a chain, by identity; shapes: those of the output
    where it is not kept itself; kept: the old self of the tensor that it changes in place.
    stands_in: whether the output only stands for a tensor that the model never made; rest: what one
    function does after this part of it.
    """

    __slots__ = (
        "args",
        "function",
        "graded",
        "kept",
        "kind",
        "kwargs",
        "name",
        "output",
        "plain",
        "random",
        "rest",
        "shapes",
        "sources",
        "stands_in",
        "tensors",
    )

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        kind: Kind,
        args: Args,
        kwargs: Kwargs,
        tensors: list[Tensor],
    ) -> None:
        self.name, self.function, self.kind = name, function, kind
        self.args, self.kwargs, self.tensors = args, kwargs, tensors
        self.sources: dict[int, Output] = {}
        self.output: Any = None
        self.plain = False  # whether all tensors are
        self.random: RandomState | None = None
        self.kept: Held | None = None
        self.graded = torch.is_grad_enabled()
        self.shapes: list[tuple[int, ...]] = []
        self.stands_in = False
        self.rest: list[Step] = []

    def without_output(self, shapes: list[tuple[int, ...]]) -> Step:
        """Return the operation without the tensor that it made, which may go."""
        step = Step(self.name, self.function, self.kind, self.args, self.kwargs, self.tensors)
        step.shapes = shapes
        return step

    def targets(self) -> list[Tensor]:
        """Return the tensors that the operation writes to."""
        out = self.kwargs.get("out")
        if out is not None:
            return list(tensors_in((out,)))
        if self.name.startswith(_WRITES_LISTS):
            return list(tensors_in(self.args[:1]))
        if changes_in_place(self.name) or self.kwargs.get("inplace") is True:
            return self.tensors[:1]
        return []

    def target(self) -> Tensor | None:
        """Return the one tensor that the operation wrote to, where it wrote to one."""
        targets = self.targets()
        return targets[0] if len(targets) == 1 else None


def normalises_scores(step: Step) -> bool:
    """Return whether a layer norm stands right behind a product, on its way to a softmax."""
    outs = list(step.sources.values())
    near = len(outs) == 1 and outs[0].node.depth <= _NEAR and not outs[0].node.normalised
    return near and step.name in {"layer_norm", "rms_norm"}


def may_follow(step: Step) -> bool:
    """Return whether a chain goes on through an operation; a projection is the next layer."""
    if step.name.startswith(_WRITES_LISTS) or not has_floats(step):
        return False
    if step.name in MIXES:  # between heads
        shape = step.tensors[0].shape
        return len(shape) >= 4 and tuple(shapes_of(step.output)[0]) == tuple(shape)
    return True


def leaves_pooled(step: Step) -> bool:
    """Return whether pooled values become features of a next layer here, rather than scores."""
    if not all(out.node.pooled for out in step.sources.values()):
        return False
    activates = step.kind is Kind.NORMALISER and step.name.removesuffix("_") not in SOFTMAXES
    return activates or step.kind is Kind.CONTRACTION


def both_sides(step: Step) -> tuple[Tensor, Tensor] | None:
    """Return the two arguments of an operation that takes two tensors and nothing else."""
    if len(step.args) == 2 and all(isinstance(arg, Tensor) for arg in step.args):
        return step.args[0], step.args[1]
    return None


def strong(step: Step, tensor: Tensor) -> Output | None:
    """Return where `tensor` stands in a chain; None for a mere projection by a parameter."""
    out = step.sources.get(id(tensor))
    return None if out is None or (out.node.weak and not out.node.normalised) else out


def divides_by_itself(step: Step) -> bool:
    """Return whether a value of a chain is divided by another of the same chain."""
    return step.name in {"div", "div_", "rdiv"} and len(step.sources) > 1


def divides_sums(step: Step) -> bool:
    """Return whether summed-up contexts are divided by something of the same chain."""
    if len(step.args) < 2:
        return False
    first, second = (
        step.sources.get(id(leaf)) if isinstance(leaf, Tensor) else None for leaf in step.args[:2]
    )
    if first is None or second is None or bool(first.node.carries) == bool(second.node.carries):
        return False
    if step.name in {"div", "div_"}:
        return bool(first.node.carries)
    divisor = second if first.node.carries else first
    return step.kind is Kind.PRODUCT and divisor.node.name in {"reciprocal", "rdiv", "div", "pow"}


def flat(output: Any) -> list[Tensor]:
    """Return the tensors of an output whose axes can be followed, in order."""
    if isinstance(output, Tensor):
        return [output] if is_plain(output) else []
    if isinstance(output, (tuple, list)):
        return [tensor for tensor in tensors_in(output) if is_plain(tensor)]
    return []


def shapes_of(output: Any) -> list[tuple[int, ...]]:
    """Return the shapes of the tensors of `flat`."""
    return [tuple(tensor.shape) for tensor in flat(output)]


def has_floats(step: Step) -> bool:
    """Return whether an operation made, or wrote to, a tensor of real or complex numbers."""
    if step.name == "setitem":
        return True
    return any(tensor.is_floating_point() or tensor.is_complex() for tensor in flat(step.output))


def is_plain(tensor: Tensor) -> bool:
    """Return whether `tensor` has axes to follow: nested and sparse ones have none."""
    return tensor.layout is torch.strided and not tensor.is_nested


def autocast_on(device_type: str) -> Autocast | None:
    """Return the autocast that operations on such a device now run under."""
    if not torch.amp.is_autocast_available(device_type):
        return None
    if torch.is_autocast_enabled(device_type):
        return Autocast(device_type, torch.get_autocast_dtype(device_type))
    return None
