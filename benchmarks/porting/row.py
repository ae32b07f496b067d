"""One port, verified and judged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

import attnscope
from tests.ports import PORTS, SOUND, Port, Verdict, judge
from tests.ports.unseen import UNSEEN, UNSEEN_SOUND

__all__ = ["Row", "rows"]


@dataclass(frozen=True, slots=True)
class Row:
    """What `verify` said about one port.

    verdict: None for a sound port, and where verify raised. equal: what it said; error: what it
    raised. unseen: the port was kept apart while verify was written.
    """

    port: Port
    unseen: bool
    seconds: float
    equal: bool = False
    verdict: Verdict | None = None
    error: str = ""

    @property
    def right(self) -> bool:
        """Whether all that was said is true."""
        if self.port.key is None:
            return self.equal
        return self.verdict is not None and self.verdict.right

    def line(self) -> str:
        """Return one line for the terminal."""
        state = "ok  " if self.right else "FAIL"
        return f"{state} {self.seconds:5.1f} s  {self.port.name:44} {self.told()}"

    def told(self) -> str:
        """Return what was said and, where that is wrong, what is not right about it."""
        if self.error:
            return self.error
        if self.verdict is None:
            return "equal" if self.equal else "a difference that is none"
        stage, key, text = self.verdict.said
        wrong = "" if self.right else f"  wrong: {', '.join(self.verdict.wrong)}"
        return f"{stage}  {key}: {text}{wrong}"


def rows(only: tuple[str, ...] = ()) -> Iterator[Row]:
    """Verify every port, or those whose names begin as asked for, in the order of the list."""
    torch.set_num_threads(1)
    for unseen, ports in ((False, (*PORTS, *SOUND)), (True, (*UNSEEN, *UNSEEN_SOUND))):
        for port in ports:
            if not only or port.name.startswith(only):
                yield _row(port, unseen=unseen)


def _row(port: Port, *, unseen: bool) -> Row:
    pair = port.make()
    start = time.perf_counter()
    try:
        result = attnscope.verify(
            pair.candidate, pair.reference, inputs=pair.inputs, weights=port.weights
        )
    except Exception as error:  # noqa: BLE001  whatever is raised makes a row that is wrong
        told = f"raised {type(error).__name__}: {error}"
        return Row(port, unseen, time.perf_counter() - start, error=told)
    seconds = time.perf_counter() - start
    if port.key is None:
        return Row(port, unseen, seconds, equal=result.equal)
    return Row(port, unseen, seconds, equal=result.equal, verdict=judge(port, result))
