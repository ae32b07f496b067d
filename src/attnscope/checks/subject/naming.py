"""What a function can reach by name: globals, what its closure holds, and its defaults."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

__all__ = ["functions_of", "names_of", "own_function"]


def own_function(value: object) -> FunctionType | None:
    """Return the Python function behind a method, a property or a decorated function."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    found = inspect.unwrap(value) if callable(value) else None
    return found if isinstance(found, FunctionType) else None


def functions_of(kind: type) -> Iterator[FunctionType]:
    """Iterate over the functions that a class defines."""
    for value in list(vars(kind).values()):
        found = own_function(value)
        if found is not None:
            yield found


@functools.lru_cache(maxsize=4096)
def names_of(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Return the global names that a function reads, and those that it binds anew.

    Functions that are made inside of it count.
    """
    read, bound = set(), set()
    inner: list[Any] = [code]
    while inner:
        each = inner.pop()
        for step in dis.get_instructions(each):
            if step.opname in {"LOAD_GLOBAL", "LOAD_NAME"}:
                read.add(step.argval)
            elif step.opname in {"STORE_GLOBAL", "DELETE_GLOBAL"}:
                bound.add(step.argval)
        inner += [part for part in each.co_consts if isinstance(part, CodeType)]
    return frozenset(read), frozenset(bound)
