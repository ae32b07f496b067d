"""The line of an author's code that an exception came from, and which files are not his."""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from types import FrameType

import torch

from attnscope.calls.source import Source

__all__ = [
    "asking_line",
    "at_line",
    "calling_line",
    "is_installed",
    "is_the_users",
    "line_of",
]

_ATTNSCOPE = str(Path(__file__).resolve().parents[1])
_NOT_THE_USERS = (str(Path(torch.__file__).resolve().parent), _ATTNSCOPE)
_CELL = "<ipython-input"
"""How IPython names what is typed; other names in brackets are of code made at run time."""

_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")


def line_of(error: BaseException) -> Source | None:
    """Return the innermost line outside PyTorch and attnscope; None: there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_the_users(frame.filename)]
    if not own:
        return None
    last = own[-1]
    line = last.lineno or 0
    code = linecache.getline(last.filename, line).strip()
    return Source(last.filename, line, last.name, code)


def calling_line() -> Source | None:
    """Return the innermost line of the running stack outside PyTorch and attnscope."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  the stack itself is asked for
    while frame is not None:
        if is_the_users(frame.f_code.co_filename):
            return _source_of(frame)
        frame = frame.f_back
    return None


def asking_line() -> Source | None:
    """Return the author's line that calls the function that asks; None: attnscope calls it."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  the stack itself is asked for
    while frame is not None and not frame.f_code.co_filename.startswith(_ATTNSCOPE):
        file = frame.f_code.co_filename
        if is_the_users(file) and not is_installed(file):
            return _source_of(frame)
        frame = frame.f_back
    return None


def _source_of(frame: FrameType) -> Source:
    code = frame.f_code
    text = linecache.getline(code.co_filename, frame.f_lineno).strip()
    return Source(code.co_filename, frame.f_lineno, code.co_qualname, text)


def is_the_users(file: str) -> bool:
    """Return whether a file is neither PyTorch's nor attnscope's own, nor made at run time."""
    return not file.startswith(_NOT_THE_USERS) and (file[:1] != "<" or file.startswith(_CELL))


def is_installed(file: str) -> bool:
    """Return whether a file is of an installed package, and so not the author's own."""
    return _INSTALLED.search(file) is not None


def at_line(source: Source, line: int) -> Source:
    """Return another line of the same function."""
    return replace(source, line=line, code=linecache.getline(source.file, line).strip())
