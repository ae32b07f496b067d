"""Sees every function of PyTorch that user code calls, with autograd still above it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch.overrides import TorchFunctionMode

from attnscope.capture.functions import Kind, kind_of

Handler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


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
        types: Iterable[type],  # noqa: ARG002  part of the protocol
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  what the function returns
        """Run `func` once and take note."""
        kind = kind_of(func)
        if kind is Kind.SKIP:
            return func(*args, **(kwargs or {}))
        handler = self._handlers.get(func)
        if handler is not None:
            return handler(func, args, kwargs or {})
        return self._follow(func, kind, args, kwargs or {})
