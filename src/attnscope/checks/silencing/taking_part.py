"""Which lines of the author's code belong to what was checked."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from attnscope.checks.silencing.comments import Comment, file_of

__all__ = ["Stretch", "stretches"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The lines of one function, decorators included."""

    file: str
    first: int
    last: int

    def touches(self, comment: Comment) -> bool:
        """Return whether a comment speaks of any of the lines."""
        return (
            comment.file == self.file and comment.first <= self.last and comment.last >= self.first
        )


def stretches(model: Any) -> Iterator[Stretch]:
    """Iterate over the methods of a model's modules, of those that they inherit too.

    model: a module; a function stands for itself; None has none.
    """
    modules = model.modules() if hasattr(model, "modules") else ()
    kinds = dict.fromkeys(kind for module in modules for kind in type(module).__mro__)
    members = [each for kind in kinds for each in vars(kind).values()] if kinds else [model]
    for member in members:
        if inspect.isfunction(member) or isinstance(member, staticmethod | classmethod):
            plain: Any = member
            code = getattr(inspect.unwrap(plain), "__code__", None)
            if isinstance(code, CodeType):
                yield Stretch(file_of(code.co_filename), code.co_firstlineno, _last_line(code))


def _last_line(code: CodeType) -> int:
    """Return the last line of a function, of functions inside it too."""
    own = [line for _, _, line in code.co_lines() if line is not None]
    inner = [_last_line(each) for each in code.co_consts if isinstance(each, CodeType)]
    return max([code.co_firstlineno, *own, *inner])
