"""Which code a library wrote: an author neither answers for it nor mends it."""

from __future__ import annotations

import inspect

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
"""Packages of whole models; their classes are read, too, as what a model is made of."""


def is_of_framework(written: object) -> bool:
    """Return whether a class, a function or the class of a module comes from a framework."""
    return _package(written) in FRAMEWORKS


def is_of_model_library(written: object) -> bool:
    """Return whether a class, a function or the class of a module comes from a model library."""
    return _package(written) in MODEL_LIBRARIES


def is_of_library(written: object) -> bool:
    """Return whether a class, a function or the class of a module comes from any library."""
    return _package(written) in FRAMEWORKS | MODEL_LIBRARIES


def _package(written: object) -> str:
    kind = written if inspect.isclass(written) or inspect.isroutine(written) else type(written)
    module = getattr(kind, "__module__", None)
    return str(module or "").partition(".")[0]
