"""Names the arguments of a kernel, however the caller passed them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

__all__ = ["Signature", "bind_python"]


class Signature:
    """The parameters of a built-in function, which Python itself can't tell."""

    def __init__(self, required: str, **optional: Any) -> None:
        """Take the names of the required parameters, then the others with their defaults."""
        self._names = (*required.split(), *optional)
        self._defaults = optional

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, defaults included."""
        return {**self._defaults, **dict(zip(self._names, args, strict=False)), **kwargs}


def bind_python(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a Python function by name, defaults included."""
    bound = _signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


@lru_cache(maxsize=64)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)
