"""The line at which one of several layers of one kind is called otherwise than the others."""

from __future__ import annotations

import contextlib
import linecache
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnscope.calls.source import Source
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject

__all__ = ["line_in_common_owner"]

_OTHERS = (str(Path(torch.__file__).resolve().parent), str(Path(__file__).resolve().parents[2]))


def line_in_common_owner(subject: Subject, at_fault: str, right: Iterable[str]) -> Source | None:
    """Return the line that calls a module, in the forward of the module that it shares with others.

    Where one line serves layers that are right and layers that are wrong, what is wrong is said by
    whoever calls them. at_fault, right: dotted paths of modules. None: there is no such line.
    """
    if subject.model is None:
        return None
    paths = [at_fault.split("."), *(path.split(".") for path in right)]
    shared = 0
    while all(len(path) > shared and path[shared] == paths[0][shared] for path in paths):
        shared += 1
    if len(paths) < 2 or shared >= len(paths[0]):
        return None
    try:
        module = subject.model.get_submodule(at_fault)
    except AttributeError:
        return None
    owner = _owner(subject.model, paths[0][:shared])
    found: list[Source] = []

    def look(*_: Any) -> None:
        if not found:
            found.extend(_lines_in(owner))

    handle = module.register_forward_pre_hook(look)
    try:
        with contextlib.suppress(Skipped):
            subject.raw()
    finally:
        handle.remove()
    return found[0] if found else None


def _owner(model: nn.Module, path: list[str]) -> nn.Module:
    """Return the module of a path, or the nearest around it that is no mere list of modules."""
    while path:
        module = model.get_submodule(".".join(path))
        if not isinstance(module, nn.ModuleList | nn.ModuleDict | nn.Sequential):
            return module
        path = path[:-1]
    return model


def _lines_in(owner: nn.Module) -> Iterable[Source]:
    """Iterate over the lines of an owner's own code that are being run, innermost first."""
    frame = sys._getframe(1)  # noqa: SLF001  the stack itself is what is asked for
    while frame is not None:
        code = frame.f_code
        if frame.f_locals.get("self") is owner and not code.co_filename.startswith(_OTHERS):
            text = linecache.getline(code.co_filename, frame.f_lineno).strip()
            yield Source(code.co_filename, frame.f_lineno, code.co_name, text)
        frame = frame.f_back  # type: ignore[assignment]
