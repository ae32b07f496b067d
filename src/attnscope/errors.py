"""The errors that attnscope raises, and the three parts that each of them has.

``AttnscopeError``
├── ``TargetError``         a TARGET, or the inputs made for it, can't be used
├── ``InputError``          an argument of the Python API can't be used
├── ``StoreError``          a trace folder is unreadable, truncated or of a newer version
├── ``MissingExtraError``   an optional package is not installed
└── ``ReplayError``         a value can't be derived from what a call kept

Catching ``AttnscopeError`` catches all of them; the command line turns each into one line on
standard error and exit status 2. This module imports nothing, so that any other may import it.
"""

from __future__ import annotations

__all__ = [
    "AttnscopeError",
    "InputError",
    "MissingExtraError",
    "ReplayError",
    "StoreError",
    "TargetError",
]


class AttnscopeError(Exception):
    """An error in three parts, which ``str`` joins to one line: ``doing: found; todo``.

    Args:
        doing: what was being done, e.g. ``"loading the trace runs/a"``.
        found: what was found: shapes, values, the first index, the convention.
        todo: what to do about it.

    Line breaks and runs of blanks inside a part (as in a message taken over from another
    library) become single blanks, so that the whole always stays one line.
    """

    def __init__(self, doing: str, found: str, todo: str) -> None:
        super().__init__(doing, found, todo)
        self.doing = _one_line(doing)
        self.found = _one_line(found)
        self.todo = _one_line(todo)

    def __str__(self) -> str:
        """Return the three parts in one line."""
        return f"{self.doing}: {self.found}; {self.todo}"


class TargetError(AttnscopeError):
    """A TARGET can't be found, imported, built or run, or its inputs don't fit it."""


class InputError(AttnscopeError):
    """An argument that was given to a public function can't be used."""


class StoreError(AttnscopeError):
    """A stored trace can't be read or written: unreadable, truncated, of a newer version."""


class MissingExtraError(AttnscopeError):
    """An optional package is needed and not installed.

    Args:
        doing: what was being done, e.g. ``"drawing the weights"``.
        package: the package that can't be imported, e.g. ``"matplotlib"``.
        extra: the extra of attnscope that brings it, e.g. ``"plots"``.
    """

    def __init__(self, doing: str, package: str, extra: str) -> None:
        super().__init__(
            doing,
            f"the package {package} is not installed",
            f"install it with: pip install 'attnscope[{extra}]'",
        )
        self.args = (doing, package, extra)  # what pickle and copy call the constructor with
        self.package = package
        self.extra = extra


class ReplayError(AttnscopeError):
    """A value can't be derived from a call, because what it follows from was not kept."""


def _one_line(text: str) -> str:
    return " ".join(text.split())
