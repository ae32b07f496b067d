"""Puts a model back after a run: modes, buffers, caches, gradients, random state.

A probe runs a model that is somebody's own, often many times. Whatever such a run leaves behind (a
cache that grew, running statistics, a counter, gradients) would change the next run, and the
author's model. So each run starts from what was there, and leaves it there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.calls.held import version

__all__ = ["restored"]

_SMALL = 100_000_000
"""Elements of parameters up to which copies are kept, so that one that a run writes to comes back."""

_DEEPEST = 4
"""Containers in containers that are followed in a module's own attributes."""


@contextlib.contextmanager
def restored(run: Callable[..., Any]) -> Iterator[None]:
    """Put everything back that running a model may have changed; the random state too."""
    devices = list(range(torch.cuda.device_count()))
    undo = _kept(run) if isinstance(run, nn.Module) else []
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        for put_back in reversed(undo):
            put_back()


def _kept(model: nn.Module) -> list[Callable[[], None]]:
    undo: list[Callable[[], None]] = []
    total = sum(p.numel() for p in model.parameters())
    for parameter in model.parameters():
        undo.append(_gradient(parameter))
        if total <= _SMALL:
            undo.append(_values(parameter))
    undo += [_values(buffer) for buffer in model.buffers()]
    undo += [_attributes(module) for module in model.modules()]
    return undo


def _gradient(parameter: nn.Parameter) -> Callable[[], None]:
    gradient, requires = parameter.grad, parameter.requires_grad
    before = None if gradient is None else gradient.detach().clone()

    def put_back() -> None:
        parameter.requires_grad_(requires)
        parameter.grad = gradient
        if gradient is not None and before is not None and not torch.equal(gradient, before):
            with torch.no_grad():
                gradient.copy_(before)

    return put_back


def _values(tensor: Tensor) -> Callable[[], None]:
    """Keep a tensor's values; kernels write running statistics without a new version."""
    storage = tensor.data
    before, made = tensor.detach().clone(), version(tensor)
    is_parameter = isinstance(tensor, nn.Parameter)

    def put_back() -> None:
        if tensor.data_ptr() != storage.data_ptr():
            tensor.data = storage
        if is_parameter and version(tensor) == made:
            return
        same = torch.equal(tensor.detach(), before)
        if not same and tensor.shape == before.shape:
            tensor.data.copy_(before)

    return put_back


def _attributes(module: nn.Module) -> Callable[[], None]:
    """Keep a module's own attributes: plain values, tensors, and containers of them."""
    known = vars(module)
    plain = {name: _frozen(value, 0) for name, value in known.items()}

    def put_back() -> None:
        for name in list(known):
            if name not in plain:
                del known[name]
        for name, (value, contents) in plain.items():
            known[name] = value
            contents()

    return put_back


def _frozen(value: Any, depth: int) -> tuple[Any, Callable[[], None]]:
    """Return a value and what puts its contents back."""
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        return value, _values(value) if value.layout == torch.strided else _nothing
    if depth > _DEEPEST or not isinstance(value, (dict, list, set)) or isinstance(value, nn.Module):
        return value, _inside(value, depth)
    items = value.items() if isinstance(value, dict) else enumerate(value)
    inner = [_frozen(each, depth + 1)[1] for _, each in items]
    before = value.copy()

    def put_back() -> None:
        value.clear()
        if isinstance(value, list):
            value.extend(before)
        else:
            value.update(before)
        for contents in inner:
            contents()

    return value, put_back


def _inside(value: Any, depth: int) -> Callable[[], None]:
    """Put back the attributes of a plain object that a module holds, such as a cache."""
    own = type(value).__module__.partition(".")[0]
    if depth > _DEEPEST or own in {"builtins", "torch", "numpy"} or isinstance(value, type):
        return _nothing
    if callable(value) or isinstance(value, nn.Module) or not hasattr(value, "__dict__"):
        return _nothing
    known = vars(value)
    plain = {name: _frozen(each, depth + 1) for name, each in known.items()}

    def put_back() -> None:
        known.clear()
        for name, (each, contents) in plain.items():
            known[name] = each
            contents()

    return put_back


def _nothing() -> None:
    """There is nothing to put back."""
