"""Backward hooks that hand on zeros, so that nothing behind them learns."""

from __future__ import annotations

import contextlib
import linecache
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from attnscope.calls.source import Source
from attnscope.checks.lines import is_the_users
from attnscope.checks.probes.backward import backward, gradient_sizes
from attnscope.checks.residual.owning import attending, own_parameters
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.outputs import outputs_of

__all__ = ["Hooked", "hooked_parameters"]

_MOST = 16
"""Hooks that are left out one at a time."""

_TABLES = ("_backward_hooks", "_backward_pre_hooks")


@dataclass(frozen=True, slots=True, eq=False)
class Hooked:
    """Parameters whose gradient a hook zeroes; without: its largest entry where it isn't called."""

    hook: str
    parameters: tuple[str, ...]
    without: float
    source: Source | None


@dataclass(frozen=True, slots=True, eq=False)
class _Hook:
    """A hook of a module (its table, its key there), or the one registered on a tensor as n-th."""

    function: Callable[..., Any]
    module: nn.Module | None = None
    table: str = ""
    key: int = 0


def hooked_parameters(subject: Subject) -> Iterator[Hooked]:
    """Iterate over hooks without which parameters of attention get a gradient, with which zeros.

    A hook on a parameter itself is there to freeze it, and is left alone.
    """
    model = subject.model
    if model is None:
        return
    found = backward(subject).parameters
    starved = {
        name: model.get_parameter(name)
        for owner in attending(subject, model)
        for name in own_parameters(model, owner)
        if _is_zero(found.get(name)) and not _own_hooks(model.get_parameter(name))
    }
    hooks = list(_hooks_of(subject, model))[:_MOST] if starved else []
    for hook in hooks:
        sizes = _sizes_without(subject, hook, starved)
        freed = tuple(name for name, size in sizes.items() if size > 0.0)
        if freed:
            name = getattr(hook.function, "__qualname__", type(hook.function).__name__)
            yield Hooked(name, freed, max(sizes.values()), _line(hook.function))
            return


def _is_zero(gradient: Tensor | None) -> bool:
    return gradient is not None and gradient.numel() > 0 and not bool(gradient.any())


def _hooks_of(subject: Subject, model: nn.Module) -> Iterator[_Hook]:
    for module in model.modules():
        for table in _TABLES:
            for key, function in getattr(module, table, {}).items():
                yield _Hook(function, module, table, key)
    seen = set()
    for tensor in subject.base.tape.tensors.values():
        for function in () if isinstance(tensor, nn.Parameter) else _own_hooks(tensor):
            code = getattr(function, "__code__", function)
            if code not in seen:
                seen.add(code)
                yield _Hook(function)


def _own_hooks(tensor: Tensor) -> tuple[Callable[..., Any], ...]:
    hooks = tensor._backward_hooks  # noqa: SLF001  there is no public way to list them
    return tuple((hooks or {}).values())


def _sizes_without(
    subject: Subject, hook: _Hook, parameters: dict[str, nn.Parameter]
) -> dict[str, float]:
    """Return the largest entry of each gradient of a run in which one hook is not called."""
    with _left_out(hook):
        return gradient_sizes(outputs_of(subject.raw(graded=True)).values(), parameters)


@contextlib.contextmanager
def _left_out(hook: _Hook) -> Iterator[None]:
    """Run a block without one hook; everything is as it was afterwards."""
    if hook.module is not None:
        table = getattr(hook.module, hook.table)
        rest = OrderedDict((k, v) for k, v in table.items() if k != hook.key)
        with mock.patch.object(hook.module, hook.table, rest):
            yield
        return
    register: Callable[..., RemovableHandle] = Tensor.register_hook
    code = getattr(hook.function, "__code__", hook.function)

    def other(tensor: Tensor, function: Callable[..., Any]) -> RemovableHandle:
        if getattr(function, "__code__", function) == code:
            return RemovableHandle(OrderedDict())
        return register(tensor, function)

    with mock.patch.object(Tensor, "register_hook", other):
        yield


def _line(function: Callable[..., Any]) -> Source | None:
    """Return the last line of a hook, which says what it hands on."""
    plain = getattr(function, "func", function)  # of functools.partial
    code = getattr(plain, "__code__", getattr(type(plain).__call__, "__code__", None))
    if code is None or not is_the_users(code.co_filename):
        return None
    last = max((line for *_, line in code.co_lines() if line), default=code.co_firstlineno)
    text = linecache.getline(code.co_filename, last).strip()
    return Source(code.co_filename, last, code.co_qualname, text)
