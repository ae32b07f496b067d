"""Signs of life on standard error, and the console that results are written to."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

import rich.console
import rich.status

LEAST_COLUMNS = 100


class Progress:
    """Shows what is being done: a spinner on a terminal, nothing but notes elsewhere."""

    def __init__(self) -> None:
        self._console = rich.console.Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: rich.status.Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._stop()

    def now(self, doing: str) -> None:
        """Show what is being done from now on."""
        if self._status is not None:
            self._status.update(f"{doing} …")
        elif self._console.is_terminal:
            self._status = self._console.status(f"{doing} …")
            self._status.start()

    def say(self, note: str) -> None:
        """Write a note that stays; what a library shows after it has the terminal to itself."""
        self._stop()
        self._console.print(note, style="dim", markup=False)

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def result_console() -> rich.console.Console:
    """Return the console of results: as wide as the terminal, at least 100 columns in a pipe."""
    console = rich.console.Console(highlight=False, emoji=False, markup=False)
    if not sys.stdout.isatty():
        console.width = max(console.width, LEAST_COLUMNS)
    return console
