"""Which module made a call, and on which line: read off the Python stack, without any hook.

Hooks would be seen by the model and would switch off PyTorch's fused paths. Only the frames of
`nn.Module`'s own call machinery are looked into, so no local of the user's code is touched.
"""

from __future__ import annotations

import contextlib
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

import torch
from torch import nn

from attnscope.calls.source import Source

_MODULE_CALL = nn.Module._wrapped_call_impl.__code__  # noqa: SLF001  the frame to recognise
_CAPTURE = str(Path(__file__).resolve().parent)
_PACKAGE = str(Path(__file__).resolve().parent.parent)
_ENTRY = str(Path(__file__).resolve().parent / "entry.py")
_TORCH = str(Path(torch.__file__).resolve().parent)
_NN = str(Path(_PACKAGE) / "nn")
_RUNS_MODELS = str(Path(_NN) / "init")
_LIBRARIES = (_TORCH, _NN)
"""Modules of other people, whose own lines stand in where no line of the user is on the stack."""
_NOT_THE_USERS = (_PACKAGE, _TORCH, contextlib.__file__)


@dataclass(slots=True)
class Place:
    """Where an operation happened.

    modules: the modules around it, innermost first; root: the frame of the outermost module call
    that belongs to the recorded model (its identity tells one forward pass from the next).
    """

    source: Source
    modules: list[nn.Module]
    root: FrameType | None


def find_place(root: nn.Module | None) -> Place:
    """Read the stack of the caller."""
    source: Source | None = None
    fallback: FrameType | None = None
    modules: list[nn.Module] = []
    outermost: FrameType | None = None
    for frame in _frames():
        code = frame.f_code
        if code is _MODULE_CALL:
            module = frame.f_locals["self"]
            modules.append(module)
            if root is None or module is root:
                outermost = frame
            continue
        name = code.co_filename
        if source is not None:
            continue
        if is_the_users(name):
            source = _source(frame)
        elif fallback is None and _is_library(name):
            fallback = frame
    if source is None:
        source = _source(fallback) if fallback is not None else Source("<unknown>", 0, "")
    return Place(source, modules, outermost)


@cache
def is_the_users(file: str) -> bool:
    """Return whether a file is the user's or a library's, not attnscope's nor PyTorch's."""
    return not file.startswith(_NOT_THE_USERS)


@cache
def _is_library(file: str) -> bool:
    return file.startswith(_LIBRARIES)


def lies_in_attnscope(file: str) -> bool:
    """Return whether a file is attnscope's own."""
    return file.startswith(_PACKAGE)


def find_source() -> Source:
    """Return the nearest line outside attnscope and PyTorch."""
    fallback: FrameType | None = None
    for frame in _frames():
        name = frame.f_code.co_filename
        if is_the_users(name):
            return _source(frame)
        if fallback is None and _is_library(name):
            fallback = frame
    return _source(fallback) if fallback is not None else Source("<unknown>", 0, "")


def _frames() -> Iterator[FrameType]:
    """Iterate over the stack outwards, as far as attnscope's own call of the model."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        name = frame.f_code.co_filename
        if _watches(name):
            return
        yield frame
        frame = frame.f_back


@cache
def _watches(file: str) -> bool:
    """Return whether a file is attnscope's own and calls models, rather than being part of one."""
    if file == _ENTRY or file.startswith(_RUNS_MODELS):
        return True
    return file.startswith(_PACKAGE) and not file.startswith((_CAPTURE, _NN))


def _source(frame: FrameType) -> Source:
    code = frame.f_code
    line = linecache.getline(code.co_filename, frame.f_lineno).strip()
    return Source(code.co_filename, frame.f_lineno, code.co_qualname, line)
