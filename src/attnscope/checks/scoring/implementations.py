"""The attention function that the configs of a Hugging Face model name, and who wrote it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.attributes import attribute
from attnscope.checks.lines import is_installed
from attnscope.checks.masking.frames import frames_at
from attnscope.checks.subject.subject import Subject

__all__ = ["configs_of", "has_own_function", "own_line", "set_to"]

_KEY = "_attn_implementation_internal"

_OF_LIBRARY = ("eager", "sdpa", "flex_attention", "flash_attention", "paged")


def has_own_function(subject: Subject) -> bool:
    """Return whether a config names an attention function that is none of the library's."""
    named = set(configs_of(subject.model).values())
    return any(not name.startswith(_OF_LIBRARY) for name in named)


def own_line(subject: Subject, operation: Operation | None) -> Source | None:
    """Return the innermost line around an operation that is not an installed package's."""
    frames = frames_at(subject, operation) if operation is not None else ()
    own = (frame.source() for frame in frames if frame.own and not is_installed(frame.file))
    return next(own, None)


def configs_of(model: nn.Module | None) -> dict[int, str]:
    """Return the implementation that each config of a model names, by the config's identity."""
    return {id(each): _vars(each)[_KEY] for each in _configs(model) if _vars(each)[_KEY]}


def _configs(model: nn.Module | None) -> list[Any]:
    """Return the configs of all parts of a model that say how attention is computed."""
    found: dict[int, Any] = {}
    waiting = [attribute(each, "config") for each in model.modules()] if model else []
    while waiting:
        config = waiting.pop()
        if config is None or id(config) in found or not isinstance(_vars(config).get(_KEY), str):
            continue
        found[id(config)] = config
        names = attribute(config, "sub_configs") or {}
        waiting += [attribute(config, name) for name in names]
    return list(found.values())


def _vars(config: Any) -> dict[str, Any]:
    """Return what an object holds; nothing where it is no object with attributes of its own."""
    held = attribute(config, "__dict__")
    return held if isinstance(held, dict) else {}


@contextlib.contextmanager
def set_to(model: nn.Module, implementation: str) -> Iterator[None]:
    """Have all configs of a model name an implementation, and put back what they named."""
    kept = [(config, _vars(config)[_KEY]) for config in _configs(model)]
    try:
        for config, _ in kept:
            _vars(config)[_KEY] = implementation
        yield
    finally:
        for config, name in kept:
            _vars(config)[_KEY] = name
