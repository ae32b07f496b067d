"""A process that serves one part of the benchmark: it is made ready once, then asked by name.

Where it dies or doesn't answer, the question has an answer all the same: the reason. It is started
as a program of its own, since TorchLens refuses to work in a child of `multiprocessing`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing import Pipe
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.costing.served import shortened

_ROOT = Path(__file__).resolve().parent.parent.parent

Serve = Callable[[Any], Callable[[str], Any]]


class Failure(Exception):  # noqa: N818  what went wrong over there, in one line
    """The other process could not do what it was asked for."""


class Process:
    """A fresh process in which `serve(argument)` makes what answers the questions.

    Args:
        serve: a function of a module, so that the process can import it.
        argument: of `serve`; is pickled.
        environment: variables that the process starts with, beside those of this one.
        seconds: how long an answer may take.
    """

    def __init__(
        self,
        serve: Serve,
        argument: object,
        environment: Mapping[str, str] | None = None,
        seconds: float = 600.0,
    ) -> None:
        self._seconds = seconds
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed by close
        self._connection, there = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.costing.served", str(there.fileno())],
            pass_fds=[there.fileno()],
            cwd=_ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        there.close()
        self._connection.send((serve, argument))

    def ask(self, question: str) -> Any:
        """Return the answer.

        Raises:
            Failure: there was none; the message says why.
        """
        try:
            self._connection.send(question)
            if not self._connection.poll(self._seconds):
                self._process.kill()
                raise Failure(f"no answer in {self._seconds:.0f} s")
            error, answer = self._connection.recv()
        except (EOFError, OSError):
            raise Failure(f"the process ended ({self._process.wait()}): {self._last()}") from None
        if error:
            raise Failure(error)
        return answer

    def _last(self) -> str:
        """Return the last line that the process wrote."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        return shortened(next((line for line in reversed(lines) if line.strip()), "no message"))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._connection.close()
        self._log.close()

    def __enter__(self) -> Self:
        """Return the process itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        self.close()
