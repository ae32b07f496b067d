"""Finding the line of somebody's own code that an exception came from."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path

_INSTALLED = tuple(
    {str(Path(sysconfig.get_path(kind)).resolve()) for kind in ("purelib", "platlib", "stdlib")}
)
_OWN = str(Path(__file__).resolve().parents[1])


def describe(error: BaseException) -> str:
    """Return the exception's type and its message in one line, at most 300 characters."""
    message = " ".join(str(error).split())
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return text if len(text) <= 300 else f"{text[:299]}…"


def place(error: BaseException, folder: Path | None = None) -> str:
    """Return `file:line` of the innermost line of the user's own code, or "" where none took part.

    Lines below `folder` count first, then lines outside installed packages, Python and attnscope,
    then the innermost line of any installed package but attnscope.

    Args:
        error: the exception, with its traceback.
        folder: the folder of the file that defines the model.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown(error.filename)}:{error.lineno or 1}"
    frames = [
        (frame.filename, frame.lineno or 0)
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<")
    ]
    frames = [frame for frame in frames if not _below(frame[0], _OWN)]
    mine = [frame for frame in frames if folder is not None and _below(frame[0], str(folder))]
    mine = [frame for frame in mine if not _installed(frame[0])] or mine
    chosen = mine or [frame for frame in frames if not _installed(frame[0])] or frames
    return f"{shown(chosen[-1][0])}:{chosen[-1][1]}" if chosen else ""


def raised_in(error: BaseException, folders: Sequence[Path | None]) -> bool:
    """Return whether code below one of some folders raised an exception, not attnscope's own.

    What it called in other packages counts as its own doing.
    """
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    for file in reversed(frames):
        if _below(file, _OWN):
            return False
        if any(folder is not None and _below(file, str(folder)) for folder in folders):
            return not _installed(file)
    return False


def shown(path: str | Path) -> str:
    """Return the path as a person standing in the working directory would write it."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return str(path)
    return str(path) if relative.startswith(os.pardir) else relative


def _installed(file: str) -> bool:
    return any(_below(file, root) for root in _INSTALLED)


def _below(file: str, folder: str) -> bool:
    return str(Path(file).resolve()).startswith(str(Path(folder).resolve()) + os.sep)
