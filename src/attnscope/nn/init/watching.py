"""What entered and left each module while a model ran, and between which attention calls.

The parameters behind q, k and v can be read off a call. The output projection comes after it, and
is found here: the module that received the very context that the call made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.calls.trace import Trace

__all__ = ["Run", "Runs", "watching"]

_FIRST = 12
"""Modules with weights that ran since the last call, whose input is kept for comparison."""


@dataclass(slots=True, eq=False)
class Run:
    """One run of one module.

    name: its path; weighted: whether it owns a matrix itself; before, after: how many calls had
    happened when it began and ended; input_std, output_std: over all entries of its first float
    tensor; entered: that tensor, kept for the first modules after a call.
    """

    name: str
    weighted: bool
    before: int
    after: int = -1
    input_std: float = float("nan")
    output_std: float = float("nan")
    entered: Tensor | None = None


@dataclass(slots=True, eq=False)
class Runs:
    """All runs of a model's modules, in the order in which they began."""

    runs: list[Run] = field(default_factory=list)

    def last(self, name: str, calls: int) -> Run | None:
        """Return the last run of `name` that began when at most `calls` calls had happened."""
        found = [run for run in self.runs if run.name == name and run.before <= calls]
        return found[-1] if found else None

    def around(self, index: int) -> Run | None:
        """Return the innermost run in which call `index` happened."""
        found = [run for run in self.runs if run.before <= index < run.after]
        return found[-1] if found else None

    def following(self, index: int) -> list[Run]:
        """Return the first runs of modules with weights after call `index`."""
        return [run for run in self.runs if run.weighted and run.before == index + 1][:_FIRST]


@contextlib.contextmanager
def watching(model: nn.Module, trace: Trace) -> Iterator[Runs]:
    """Note every module's run inside the block; all hooks are gone after it."""
    log = Runs()
    begun: list[Run] = []

    def enter(name: str, *, weighted: bool) -> Any:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            run = Run(name, weighted, len(trace))
            first = _float_in((args, kwargs))
            if first is not None:
                run.input_std = _std(first)
                run.entered = first.detach() if weighted and run.before else None
            log.runs.append(run)
            begun.append(run)

        return hook

    def leave(_module: nn.Module, _args: Any, _kwargs: Any, output: Any) -> None:
        run = begun.pop()
        run.after = len(trace)
        first = _float_in(output)
        run.output_std = _std(first) if first is not None else float("nan")

    handles = []
    try:
        for name, module in model.named_modules():
            if isinstance(module, torch.jit.ScriptModule):
                continue
            hook = enter(name, weighted=_owns_matrix(module))
            handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
            handles.append(module.register_forward_hook(leave, with_kwargs=True))
        yield log
    finally:
        for handle in handles:
            handle.remove()


def _owns_matrix(module: nn.Module) -> bool:
    if isinstance(module, nn.Embedding):
        return False
    return any(parameter.dim() > 1 for parameter in module.parameters(recurse=False))


def _float_in(tree: Any) -> Tensor | None:
    if isinstance(tree, Tensor):
        return tree if tree.is_floating_point() and not tree.is_nested else None
    items = tree.values() if isinstance(tree, dict) else tree
    if not isinstance(tree, (tuple, list, dict)):
        return None
    return next((found for found in map(_float_in, items) if found is not None), None)


def _std(tensor: Tensor) -> float:
    """Return the standard deviation over all entries, unseen by whoever records."""
    with torch.no_grad(), torch._C.DisableTorchFunction():  # noqa: SLF001  our own work
        return float(tensor.detach().double().std(correction=0))
