"""Which parameters take no part in an output: those that its autograd graph does not reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn


def idle_parameters(module: nn.Module, output: object) -> frozenset[str]:
    """Return the names of the parameters that no tensor of an output follows from.

    Args:
        module: the module that was run with gradients on.
        output: what it returned: a tensor, or tensors in dicts, lists, tuples.

    A parameter that is frozen (`requires_grad=False`) leaves no trace in the graph and counts as
    taking part. Nothing is computed: the graph is walked, no gradient is made.

    Example:
        >>> model = nn.ModuleDict({"used": nn.Linear(2, 2), "unused": nn.Linear(2, 2)})
        >>> import torch
        >>> sorted(idle_parameters(model, model["used"](torch.ones(2))))
        ['unused.bias', 'unused.weight']
    """
    reached = _leaves(_tensors(output))
    return frozenset(
        name
        for name, parameter in module.named_parameters()
        if parameter.requires_grad and id(parameter) not in reached
    )


def _tensors(output: object) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output]
    inner: Iterable[Any] = ()
    if isinstance(output, Mapping):
        inner = output.values()
    elif isinstance(output, list | tuple | set):
        inner = output
    return [tensor for entry in inner for tensor in _tensors(entry)]


def _leaves(outputs: list[Tensor]) -> set[int]:
    """Return the identity of every leaf that the graphs of some tensors end in."""
    found = {id(tensor) for tensor in outputs if tensor.is_leaf}
    waiting: list[Any] = [tensor.grad_fn for tensor in outputs if tensor.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found.add(id(leaf))
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return found
