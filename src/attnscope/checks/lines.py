"""The line of an author's code that an exception came from, and which files are not his."""

from __future__ import annotations

import linecache
import re
import traceback

from attnscope.calls.source import Source
from attnscope.capture.place import is_the_users

__all__ = ["is_installed", "line_of"]

_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")


def is_installed(file: str) -> bool:
    """Return whether a file is of an installed package, and so not the author's own."""
    return _INSTALLED.search(file) is not None


def line_of(error: BaseException) -> Source | None:
    """Return the innermost line outside PyTorch and attnscope; None: there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if is_the_users(f.filename) and not f.filename.startswith("<")]
    if not own:
        return None
    last = own[-1]
    line = last.lineno or 0
    code = linecache.getline(last.filename, line).strip()
    return Source(last.filename, line, last.name, code)
