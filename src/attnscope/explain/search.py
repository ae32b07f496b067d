"""The search for the change that makes a stage agree."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from attnscope.errors import AttnscopeError
from attnscope.explain.change import Change, Explanation
from attnscope.explain.kinds import KINDS
from attnscope.explain.scene import Scene

__all__ = ["explain"]

Kind = Callable[[Scene], Iterator[Change]]

_DOES_NOT_FIT = (AttnscopeError, RuntimeError, LookupError, ValueError)
"""What a change raises whose parts or axes the scene does not have: it is not the one."""

_ALIKE = 100.0
"""Multiples of the least remainder up to which changes are the same arithmetic."""

_EXACT = 1e-10
"""Remainder below which a change agrees but for the rounding of float64."""


def explain(scene: Scene) -> Explanation | None:
    """Return the first kind of change that, when applied, makes the stage agree; None: none does.

    Where several changes of one kind leave as little, they are the same arithmetic here, and two
    of them are named.
    """
    for kind in KINDS:
        found = list(_agreeing(kind, scene))
        if found:
            enough = max(_EXACT, _ALIKE * min(remains for _, remains in found))
            best = [(change, remains) for change, remains in found if remains <= enough]
            change, remains = best[0]
            texts = list(dict.fromkeys(each.text for each, _ in best))
            text = texts[0] if len(texts) == 1 else f"{texts[0]} (here the same as: {texts[1]})"
            return Explanation(change.key, text, remains)
    return None


def _agreeing(kind: Kind, scene: Scene) -> Iterator[tuple[Change, float]]:
    """Iterate over the changes of a kind that make the stage agree, each with what remains."""
    with contextlib.suppress(*_DOES_NOT_FIT):
        for change in kind(scene):
            with contextlib.suppress(*_DOES_NOT_FIT):
                remains = scene.gap(change.make(), mends=change.mends)
                if remains is not None:
                    yield change, remains
