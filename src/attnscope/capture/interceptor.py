"""Sees every function of PyTorch that user code calls, with autograd still above it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from attnscope.capture.functions import Kind, kind_of

Handler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


_here = threading.local()


def recording_here() -> tuple[Interceptor, ...]:
    """Return this thread's interceptors that are off the stack, outermost first."""
    active = set(map(id, _get_current_function_mode_stack()))
    return tuple(i for i in getattr(_here, "interceptors", ()) if id(i) not in active)


@contextlib.contextmanager
def recording(interceptor: Interceptor) -> Iterator[None]:
    """Let `interceptor` see this thread's functions."""
    before = getattr(_here, "interceptors", ())
    _here.interceptors = (*before, interceptor)
    try:
        with interceptor:
            yield
    finally:
        _here.interceptors = before


def _is_traced() -> bool:
    """Return whether `torch.jit.trace` is writing down what happens: it must not see more."""
    return torch._C._get_tracing_state() is not None  # noqa: SLF001


class Interceptor(TorchFunctionMode):
    """Hands each function call to whoever asked for it; everything else runs as it is."""

    def __init__(
        self,
        follow: Callable[[Callable[..., Any], Kind, tuple[Any, ...], dict[str, Any]], Any],
        handlers: dict[Callable[..., Any], Handler],
    ) -> None:
        """Run `handlers[function]` where there is one, else `follow`; both return the output."""
        super().__init__()
        self._follow = follow
        self._handlers = handlers

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run `func` once and take note."""
        kind = kind_of(func)
        if kind is Kind.SKIP or _is_traced():
            return func(*args, **(kwargs or {}))
        handler = self._handlers.get(func)
        if handler is not None:
            return handler(func, args, kwargs or {})
        return self._follow(func, kind, args, kwargs or {})
