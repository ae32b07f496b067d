"""attnscope: a debugger for attention in PyTorch.

``attnscope.trace(model, *args, **kwargs)`` runs a model once and returns every attention call
that really happened, each with its tensors, its recipe and the line that made it.

The names below are loaded when they are first used, so that ``import attnscope`` and
``attnscope --help`` don't wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from attnscope.errors import AttnscopeError

if TYPE_CHECKING:
    from attnscope import nn, reference
    from attnscope.calls import Call, Recipe, Source, Trace, load
    from attnscope.capture import record, trace
    from attnscope.checks.entry import check
    from attnscope.checks.finding import Finding
    from attnscope.checks.report import Report
    from attnscope.differ import Verification, verify

__version__ = "0.1.0"

__all__ = [
    "AttnscopeError",
    "Call",
    "Finding",
    "Recipe",
    "Report",
    "Source",
    "Trace",
    "Verification",
    "__version__",
    "check",
    "load",
    "nn",
    "record",
    "reference",
    "trace",
    "verify",
]

_ROOM_OF = {
    "Call": "attnscope.calls",
    "Finding": "attnscope.checks.finding",
    "Recipe": "attnscope.calls",
    "Report": "attnscope.checks.report",
    "Source": "attnscope.calls",
    "Trace": "attnscope.calls",
    "load": "attnscope.calls",
    "Verification": "attnscope.differ",
    "check": "attnscope.checks.entry",
    "record": "attnscope.capture",
    "trace": "attnscope.capture",
    "verify": "attnscope.differ",
}

_ROOMS = frozenset({"nn", "reference", "testing"})
"""Rooms that are public by their own names."""

if not TYPE_CHECKING:  # hidden from type checkers, so that they still report unknown names

    def __getattr__(name: str) -> object:
        """Import the room that holds ``name`` and hand out ``name`` (PEP 562)."""
        if name in _ROOMS:
            return import_module(f"attnscope.{name}")
        if name not in _ROOM_OF:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = getattr(import_module(_ROOM_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not, beside those of every module."""
    return sorted({*globals(), *__all__})
