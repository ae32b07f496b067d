"""Where each stage of a call lies on its tape, found out when somebody asks.

q, k, v and the context are known at once; where scores and weights lie takes reading the recipe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attnscope.calls.call import Call
from attnscope.calls.evidence import Spot
from attnscope.capture.tape import Tape
from attnscope.differ.walk.stages import PROJECTED

__all__ = ["Spots"]

_STAGES = (*PROJECTED, "scores", "weights", "context")


class Spots(Mapping[str, list[tuple[int, Spot]]]):
    """By stage: the value that it is, for each of the calls, and how that is laid out.

    A stage that lies on no value of the tape, in any of the calls, is not there.
    """

    def __init__(self, calls: Sequence[Call], tape: Tape) -> None:
        """Find nothing yet."""
        self._calls, self._tape = calls, tape
        self._known: dict[str, list[tuple[int, Spot]] | None] = {}

    def __getitem__(self, name: str) -> list[tuple[int, Spot]]:
        """Return the values of one stage."""
        if name not in self._known:
            self._known[name] = self._find(name) if name in _STAGES else None
        found = self._known[name]
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        """Iterate over the stages that are there, in order."""
        return (name for name in _STAGES if name in self)

    def __len__(self) -> int:
        """Return how many stages are there."""
        return sum(1 for _ in self)

    def _find(self, name: str) -> list[tuple[int, Spot]] | None:
        spots = [call.evidence.spot(name) for call in self._calls]
        values = [self._tape.value_of(s.held) if s is not None else None for s in spots]
        found = [
            (value, spot)
            for value, spot in zip(values, spots, strict=True)
            if value is not None and spot is not None
        ]
        return found if len(found) == len(self._calls) else None
