"""Which code a library wrote: an author neither answers for it nor mends it."""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

from attnscope.checks.lines import is_installed

__all__ = [
    "FRAMEWORKS",
    "MODEL_LIBRARIES",
    "is_of_framework",
    "is_of_library",
    "is_of_model_library",
]

FRAMEWORKS = frozenset({"attnscope", "torch", "torchaudio", "torchvision"})
"""Packages of parts, out of which authors build; what they are made of is never read."""

MODEL_LIBRARIES = frozenset({"diffusers", "timm", "transformers"})
"""Packages of whole models; their classes are read, too, as what a model is made of.

Whatever else is installed is one of them.
"""


def is_of_framework(written: object) -> bool:
    """Return whether a class, a function or the class of a module comes from a framework."""
    return _package(written) in FRAMEWORKS


def is_of_model_library(written: object) -> bool:
    """Return whether a class, a function or the class of a module comes from a model library."""
    package = _package(written)
    return package in MODEL_LIBRARIES or (package not in FRAMEWORKS and _is_installed(_of(written)))


def is_of_library(written: object) -> bool:
    """Return whether a class, a function or the class of a module comes from any library."""
    return is_of_framework(written) or is_of_model_library(written)


def _package(written: object) -> str:
    module = getattr(_of(written), "__module__", None)
    return str(module or "").partition(".")[0]


def _of(written: object) -> Any:
    """Return a class or function itself, and of anything else its class."""
    return written if inspect.isclass(written) or inspect.isroutine(written) else type(written)


@lru_cache(maxsize=4096)
def _is_installed(kind: Any) -> bool:
    try:
        return is_installed(inspect.getfile(kind))
    except (OSError, TypeError):  # made at run time, or built in
        return False
