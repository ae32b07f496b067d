"""One way to run a model: as it is, watched by attnscope, or watched by another program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from benchmarks.costing.case import Setting


@dataclass(frozen=True, slots=True)
class Prepared:
    """A variant that is ready to run.

    run: one forward pass; whatever it returns is held by the caller.
    patterns: reads from that the weights (batch, heads, queries, keys) of each layer, in order;
        None where the variant keeps none.
    """

    run: Callable[[], Any]
    patterns: Callable[[Any], list[Tensor]] | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to run a model.

    tool: what watches; variants of one tool share a process while they are timed.
    package: the package of PyPI that the tool comes in, "" for what has to be there.
    keep: for attnscope, the value of `keep`.
    """

    name: str
    tool: str
    prepare: Callable[[Setting], Prepared]
    package: str = ""
    keep: str = ""

    def matches(self, words: Sequence[str]) -> bool:
        """Return whether one of `words` is part of the name or the tool."""
        text = f"{self.tool} {self.name}".lower()
        return any(word.lower() in text for word in words)
