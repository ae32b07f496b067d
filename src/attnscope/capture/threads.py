"""Notices work that a model hands to other threads, where a recording sees no function.

Function modes of PyTorch belong to one thread, and a recorder follows one order of operations. So
what runs elsewhere is named, not followed.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from attnscope.capture.place import find_source

__all__ = ["noticed_threads"]

_WORDS = (
    "work for another thread at {}: attention there is not seen, since a recording follows one "
    "thread"
)

_here = threading.local()


class _Doors:
    """`Thread.start` and `ThreadPoolExecutor.submit`, watched while any recording is on."""

    def __init__(self) -> None:
        self._users = 0
        self._lock = threading.Lock()
        self._before: list[tuple[type, str, Callable[..., Any]]] = []

    def open(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                for kind, name in ((threading.Thread, "start"), (ThreadPoolExecutor, "submit")):
                    function = getattr(kind, name)
                    self._before.append((kind, name, function))
                    setattr(kind, name, _watched(function))

    def close(self) -> None:
        with self._lock:
            self._users -= 1
            while not self._users and self._before:
                kind, name, function = self._before.pop()
                setattr(kind, name, function)


_doors = _Doors()


def _watched(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def handing_on(*args: Any, **kwargs: Any) -> Any:
        notes = getattr(_here, "notes", ())
        _here.notes = ()  # a pool starts its threads itself
        try:
            for note in notes:
                with contextlib.suppress(Exception):  # the model runs on undisturbed
                    note(_WORDS.format(find_source()))
            return function(*args, **kwargs)
        finally:
            _here.notes = notes

    return handing_on


@contextlib.contextmanager
def noticed_threads(note: Callable[[str], None]) -> Iterator[None]:
    """Call `note`, with words and the line, whenever this thread hands work to another one."""
    before = getattr(_here, "notes", ())
    _here.notes = (*before, note)
    _doors.open()
    try:
        yield
    finally:
        _doors.close()
        _here.notes = before
