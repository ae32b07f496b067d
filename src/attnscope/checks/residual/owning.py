"""Which parameters belong to attention: to the modules that make calls, and to those around."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch import nn

from attnscope.checks.subject.subject import Subject

__all__ = ["around", "attending", "own_parameters"]

_PARTS = 8
"""Modules in a part up to which it belongs to the attention that holds it."""


def attending(subject: Subject, model: nn.Module) -> list[str]:
    """Return the modules that made calls, or the nearest one around that has parameters."""
    found: list[str] = []
    for call in subject.calls:
        path = call.module
        while path and not any(True for _ in model.get_submodule(path).parameters()):
            path = path.rpartition(".")[0]
        found.append(path)
    return list(dict.fromkeys(found))


def own_parameters(model: nn.Module, owner: str) -> Iterator[str]:
    """Iterate over the parameters of a module and of its small parts."""
    module = model.get_submodule(owner)
    prefix = f"{owner}." if owner else ""
    for name, _ in module.named_parameters(recurse=False):
        yield prefix + name
    for child, part in module.named_children():
        inner = list(part.modules())
        if len(inner) <= _PARTS and (owner or _is_simple(part)):
            for name, _ in part.named_parameters():
                yield f"{prefix}{child}.{name}"


def around(model: nn.Module, owners: list[str]) -> Iterator[tuple[str, str]]:
    """Iterate over the parameters, and those of leaves, that the modules around hold themselves."""
    outer = {owner[: dot.start()] if dot else "" for owner in owners for dot in _dots(owner)}
    for path in sorted(outer - set(owners)):
        module, prefix = model.get_submodule(path), f"{path}." if path else ""
        for name, _ in module.named_parameters(recurse=False):
            yield path, prefix + name
        for child, part in module.named_children():
            for name, _ in part.named_parameters() if not list(part.children()) else ():
                yield path, f"{prefix}{child}.{name}"


def _dots(path: str) -> list[re.Match[str] | None]:
    return [None, *re.finditer(r"\.", path)] if path else []


def _is_simple(part: nn.Module) -> bool:
    """Return whether a part of the model itself is a leaf, or a list or wrapper of leaves."""
    return all(not any(True for _ in each.children()) for each in part.children())
