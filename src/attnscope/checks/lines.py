"""The line of an author's code that an exception came from."""

from __future__ import annotations

import linecache
import traceback
from pathlib import Path

import torch

from attnscope.calls.source import Source

__all__ = ["line_of"]

_NOT_THE_USERS = (
    str(Path(torch.__file__).resolve().parent),
    str(Path(__file__).resolve().parents[1]),
)


def line_of(error: BaseException) -> Source | None:
    """Return the innermost line outside PyTorch and attnscope; None: there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((*_NOT_THE_USERS, "<"))]
    if not own:
        return None
    last = own[-1]
    line = last.lineno or 0
    code = linecache.getline(last.filename, line).strip()
    return Source(last.filename, line, last.name, code)
