"""The kinds of change that are tried: inside an attention, around it, two at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attnscope.explain.change import Change
from attnscope.explain.kinds.around.table import KINDS_AROUND
from attnscope.explain.kinds.inside.table import KINDS_INSIDE, TWO_FAULTS
from attnscope.explain.scene import Scene

__all__ = ["KINDS"]

KINDS: tuple[Callable[[Scene], Iterator[Change]], ...] = (*KINDS_INSIDE, *KINDS_AROUND, TWO_FAULTS)
