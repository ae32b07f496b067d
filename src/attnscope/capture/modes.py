"""Takes function modes off this thread's stack for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import overrides

from attnscope.capture.interceptor import Interceptor

__all__ = ["unobserved", "without_modes"]


@contextlib.contextmanager
def without_modes(*kinds: type) -> Iterator[None]:
    """Take the innermost function modes of these kinds off the stack, and put them back."""
    taken = []
    while isinstance(overrides._get_current_function_mode(), kinds):  # noqa: SLF001
        taken.append(overrides._pop_mode())  # noqa: SLF001
    try:
        yield
    finally:
        for mode in reversed(taken):
            overrides._push_mode(mode)  # noqa: SLF001


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Run PyTorch as the user's code would see it: overrides at work, but no interceptor.

    Also inside `torch._C.DisableTorchFunction`, for code that itself relies on a function mode.
    """
    with torch._C._EnableTorchFunction(), without_modes(Interceptor):  # noqa: SLF001
        yield
