"""Warnings of PyTorch name the model's line, as they do where nothing watches the model."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import TextIO

from attnscope.capture.place import is_the_users, lies_in_attnscope

__all__ = ["warning_in_place"]


@contextlib.contextmanager
def warning_in_place() -> Iterator[None]:
    """Let warnings that carry a line of attnscope's carry that of the model, which they are about.

    A function of PyTorch warns of the line that called it. While it is watched, that is a line of
    attnscope's: the warning would be shown a second time, and filters by module would miss it.
    """
    before = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        frame = _users_frame() if lies_in_attnscope(filename) else None
        if frame is None:
            before(message, category, filename, lineno, file, line)
            return
        warnings.showwarning = before
        try:
            names = frame.f_globals
            warnings.warn_explicit(
                message,
                category,
                frame.f_code.co_filename,
                frame.f_lineno,
                names.get("__name__"),
                names.setdefault("__warningregistry__", {}),
            )
        finally:
            warnings.showwarning = show

    warnings.showwarning = show
    try:
        yield
    finally:
        if warnings.showwarning is show:
            warnings.showwarning = before


def _users_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  as in `place`
    while frame is not None:
        file = frame.f_code.co_filename
        if is_the_users(file) and file != warnings.__file__:
            return frame
        frame = frame.f_back
    return None
