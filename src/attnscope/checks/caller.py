"""The line at which one of several layers of one kind is called otherwise than the others."""

from __future__ import annotations

import contextlib
import linecache
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from torch import nn

from attnscope.calls.source import Source
from attnscope.checks.lines import is_installed, is_the_users
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject

__all__ = ["line_in_common_owner", "line_of_call", "users_line"]


def line_in_common_owner(subject: Subject, at_fault: str, right: Iterable[str]) -> Source | None:
    """Return the line that calls a module, in the forward of the module that it shares with others.

    Where one line serves layers that are right and layers that are wrong, what is wrong is said by
    whoever calls them. at_fault, right: dotted paths of modules; of those that are right the
    nearest counts. None: there is no such line.
    """
    if subject.model is None:
        return None
    own = at_fault.split(".")
    shared = max((_shared(own, path.split(".")) for path in right), default=len(own))
    if shared >= len(own):
        return None
    module = subject.module(at_fault)
    if module is None:
        return None
    owner = _owner(subject.model, own[:shared])
    return _first_line(subject, module, lambda frame: frame.f_locals.get("self") is owner)


def _shared(one: list[str], other: list[str]) -> int:
    """Return how many names two paths have in common at their beginning."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def line_of_call(subject: Subject, path: str) -> Source | None:
    """Return the line that calls a module; None: it is the model itself, or is never called."""
    module = subject.module(path) if path else None
    return _first_line(subject, module, lambda _frame: True) if module is not None else None


def users_line(subject: Subject, path: str, line: Source) -> Source:
    """Return the line of the user's own code that calls a module, where `line` is in a library.

    What a user wrote is at fault where a model is his and the attention inside is a library's; a
    model that is a library's itself is left with its own line.
    """
    model = subject.model
    if model is None or not is_installed(line.file) or not path:
        return line
    home = getattr(sys.modules.get(type(model).__module__), "__file__", None) or ""
    if is_installed(home):
        return line
    module = subject.module(path)
    if module is None:
        return line
    return (
        _first_line(subject, module, lambda frame: not is_installed(frame.f_code.co_filename))
        or line
    )


def _first_line(
    subject: Subject, module: nn.Module, wanted: Callable[[FrameType], bool]
) -> Source | None:
    """Return the innermost wanted line that is being run when a module is called."""
    found: list[Source] = []

    def look(*_: Any) -> None:
        if not found:
            found.extend(_lines(wanted))

    try:
        handle = module.register_forward_pre_hook(look)
    except RuntimeError:  # scripted modules take none
        return None
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


def _lines(wanted: Callable[[FrameType], bool]) -> Iterable[Source]:
    """Iterate over the wanted lines on the stack, innermost first."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  the stack itself is asked for
    while frame is not None:
        code = frame.f_code
        if is_the_users(code.co_filename) and wanted(frame):
            text = linecache.getline(code.co_filename, frame.f_lineno).strip()
            yield Source(code.co_filename, frame.f_lineno, code.co_name, text)
        frame = frame.f_back
