"""Lets plain Python functions be observed, which no function mode is handed.

flash-attn and xformers are called as ordinary functions, often imported by name. For the time of a
recording every module global that is the very function is bound to a stand-in; the stand-in hands
the call to this thread's interceptor, or straight on where this thread does not record.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from torch import overrides

from attnscope.capture.interceptor import Interceptor

__all__ = ["original_of", "rebound"]

Function = Callable[..., Any]


@contextlib.contextmanager
def rebound(functions: Iterable[Function]) -> Iterator[None]:
    """Bind every module global that is one of `functions` to a stand-in, and back on the way out.

    Counts its uses per function, so that recordings may nest and overlap between threads. Globals
    of modules that were imported meanwhile are bound back as well.
    """
    originals = [original_of(function) for function in functions]
    _bindings.enter(originals)
    try:
        yield
    finally:
        _bindings.leave(originals)


def original_of(function: Function) -> Function:
    """Return the function that `function` stands in for; itself where it is no stand-in."""
    return _bindings.originals.get(function, function)


class _Bindings:
    """The stand-ins that are in place, and how many recordings need each of them."""

    def __init__(self) -> None:
        self.originals: dict[Function, Function] = {}  # by stand-in
        self._stand_ins: dict[Function, Function] = {}
        self._users: dict[Function, int] = {}
        self._lock = threading.Lock()

    def enter(self, functions: Iterable[Function]) -> None:
        with self._lock:
            new = []
            for function in functions:
                self._users[function] = self._users.get(function, 0) + 1
                if function not in self._stand_ins:
                    stand_in = self._stand_ins[function] = _stand_in_for(function)
                    self.originals[stand_in] = function
                    new.append(function)
            _replace({function: self._stand_ins[function] for function in new})

    def leave(self, functions: Iterable[Function]) -> None:
        with self._lock:
            old = {}
            for function in functions:
                self._users[function] -= 1
                if not self._users[function]:
                    del self._users[function]
                    stand_in = self._stand_ins.pop(function)
                    old[stand_in] = self.originals.pop(stand_in)
            _replace(old)


_bindings = _Bindings()


def _replace(changes: Mapping[Function, Function]) -> None:
    """Bind every module global that is a key of `changes` to its value."""
    if not changes:
        return
    by_identity = {id(old): (old, new) for old, new in changes.items()}
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict):
            continue
        for name, value in list(names.items()):
            pair = by_identity.get(id(value))
            if pair is not None and pair[0] is value:
                names[name] = pair[1]


def _stand_in_for(function: Function) -> Function:
    call = _Dispatched(function)

    @functools.wraps(function)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    return stand_in


class _Dispatched:
    """A function that asks the interceptors of this thread first, the innermost before the others.

    Interceptors look their handlers up by function: so it equals the function that it calls.
    """

    def __init__(self, function: Function) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mode = overrides._get_current_function_mode()  # noqa: SLF001  a function mode's only trace
        if not isinstance(mode, Interceptor):
            return self._function(*args, **kwargs)
        overrides._pop_mode()  # noqa: SLF001
        try:
            return mode.__torch_function__(self, (), args, kwargs)
        finally:
            overrides._push_mode(mode)  # noqa: SLF001

    def __eq__(self, other: object) -> bool:
        return other is self._function or other is self

    def __hash__(self) -> int:
        return hash(self._function)
