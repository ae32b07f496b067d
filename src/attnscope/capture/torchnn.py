"""Lets torch.nn's own attention modules run under a function mode as they run without one.

Two things in `torch.nn` ask whether anything overrides PyTorch's functions, and a function mode
makes the answer yes:

- `nn.MultiheadAttention`, `nn.TransformerEncoderLayer` and `nn.TransformerEncoder` then leave their
  fused inference path. The result differs in the last bits, and with padding the encoder no
  longer zeroes and trims padded rows. `patched_modules` gives the Python modules that define them
  a `torch` whose `overrides` answer as if no interceptor were there. No class is changed.
- `F.multi_head_attention_forward` hands itself over as a whole, which hides all that it does.
  `opened` returns the same code with globals that answer "nothing overrides": each inner call is
  then seen, and runs bit for bit.

A checkpointed region runs again in the backward, where autograd has taken all function modes off;
`patched_modules` puts the interceptors back on for it.

Overrides that are not attnscope's (another function mode, a tensor subclass) are answered as ever.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import overrides
from torch.nn import functional
from torch.nn.modules import activation, transformer
from torch.utils import checkpoint
from torch.utils._device import DeviceContext

from attnscope.capture.interceptor import Interceptor, recording_here
from attnscope.capture.modes import without_modes

__all__ = ["opened", "patched_modules"]

Function = Callable[..., Any]


def opened(function: Function) -> Function:
    """Return `function` in a form whose inner calls are seen; itself where it needs none.

    The form runs the very code of `function`, so that its results are bit for bit the same. It has
    to be called with the interceptor active.
    """
    if function is not functional.multi_head_attention_forward or not isinstance(
        function, FunctionType
    ):
        return function
    answers = {"has_torch_function": _is_overridden, "handle_torch_function": _hand_over}
    copy = FunctionType(
        function.__code__,
        {**function.__globals__, **answers},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


@contextlib.contextmanager
def patched_modules() -> Iterator[None]:
    """Keep torch.nn's fused inference paths open while an interceptor is active.

    Counts its uses, so that recordings may nest and overlap between threads; a thread that does not
    record sees no difference. After the last one everything is as it was before the first.
    """
    _patch.enter()
    try:
        yield
    finally:
        _patch.leave()


class _Namespace(ModuleType):
    """A module in all but the few names that are answered differently."""

    def __init__(self, original: ModuleType, **answers: Any) -> None:
        super().__init__(original.__name__, original.__doc__)
        self.__dict__.update(answers)
        self.__dict__["_original"] = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_original"], name)


class _Patch:
    """Gives the modules of torch.nn their namespace, once, however many recordings there are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._originals: dict[ModuleType, ModuleType] = {}

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            asked = _Namespace(overrides, has_torch_function=_has_torch_function)
            namespace = _Namespace(torch, overrides=asked)
            graph = _Namespace(torch.autograd, enable_grad=_Recomputing)
            recomputing = _Namespace(torch, enable_grad=_Recomputing, autograd=graph)
            for module, answers in (
                (activation, namespace),
                (transformer, namespace),
                (checkpoint, recomputing),
            ):
                self._originals[module] = module.__dict__["torch"]
                module.__dict__["torch"] = answers

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            for module, original in self._originals.items():
                module.__dict__["torch"] = original
            self._originals.clear()


class _Recomputing(torch.enable_grad):
    """`torch.enable_grad` around a checkpointed region that is run again, and seen.

    Autograd takes all function modes off the stack during a backward.
    """

    def __enter__(self) -> None:
        """Let the recordings of this thread see what runs inside."""
        super().__enter__()
        self._seen = contextlib.ExitStack()
        for interceptor in recording_here():
            self._seen.enter_context(interceptor)

    def __exit__(self, *error: object) -> None:
        """Take them off again."""
        self._seen.close()
        super().__exit__(*error)


_patch = _Patch()


def _has_torch_function(tensors: Iterable[Any]) -> bool:
    """Answer what `torch.overrides.has_torch_function` answers when nothing is recorded."""
    with without_modes(Interceptor):
        return bool(overrides.has_torch_function(tensors))


def _is_overridden(tensors: Iterable[Any]) -> bool:
    """Return whether somebody else has to be handed the function.

    A default device is a function mode as well; it has nothing to say about the functions that are
    opened, because they name the device of whatever they make.
    """
    with without_modes(Interceptor, DeviceContext):
        return bool(overrides.has_torch_function(tensors))


def _hand_over(function: Function, tensors: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Hand `function` to whoever overrides it, past the interceptors."""
    with without_modes(Interceptor):
        return overrides.handle_torch_function(function, tensors, *args, **kwargs)
