"""attnscope's own work between two operations of the model: unseen by it, and harmless to it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Self

import torch
from torch.utils._python_dispatch import _disable_current_modes


class OwnWork:
    """Runs a block without the user's modes, subclasses and autograd, and swallows its faults.

    Function and dispatch modes that count, draw or change things act on the model's operations
    only. An error inside goes to `on_fault`, never to the model.
    """

    __slots__ = ("_functions", "_grad", "_modes", "_on_fault")

    def __init__(self, on_fault: Callable[[Exception], None]) -> None:
        """Report errors to `on_fault`."""
        self._on_fault = on_fault
        self._functions = torch._C.DisableTorchFunction()  # noqa: SLF001
        self._modes: contextlib.AbstractContextManager[object] | None = None
        self._grad = True

    def __enter__(self) -> Self:
        """Step out of the model's world."""
        self._functions.__enter__()
        self._grad = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # noqa: SLF001, FBT003  no_grad costs three times as much
        if torch._C._len_torch_dispatch_stack():  # noqa: SLF001
            self._modes = _disable_current_modes()
            self._modes.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Step back in; True where an error was swallowed."""
        del kind, traceback
        try:
            if isinstance(error, Exception):
                with contextlib.suppress(Exception):
                    self._on_fault(error)
        finally:
            if self._modes is not None:
                self._modes.__exit__(None, None, None)
            torch._C._set_grad_enabled(self._grad)  # noqa: SLF001
            self._functions.__exit__(None, None, None)
        return isinstance(error, Exception)
