"""Lets compiled regions run eagerly while anything is recorded, so that their inside is seen."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

import torch


class _Stance:
    """The compiler's stance, one for a whole process.

    The first user that finds a compiler sets it, the last one restores it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._is_set = False
        self._stack = contextlib.ExitStack()

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if not self._is_set and _may_compile():
                self._is_set = True
                self._stack.enter_context(torch.compiler.set_stance("force_eager"))

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._is_set = False
                self._stack.close()


_stance = _Stance()


@contextlib.contextmanager
def opened_compiled() -> Iterator[None]:
    """Run compiled code eagerly; recordings may nest and overlap between threads."""
    _stance.enter()
    try:
        yield
    finally:
        _stance.leave()


def _may_compile() -> bool:
    """Return whether something may be compiled: nothing was, where the compiler is not loaded."""
    return bool({"torch._dynamo", "torch.nn.attention.flex_attention"} & set(sys.modules))
