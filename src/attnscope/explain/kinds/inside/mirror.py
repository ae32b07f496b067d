"""The same changes from the other side, where the candidate alone can be looked into.

A reference in NumPy has a context and no recipe. Then the candidate's recipe is what is changed,
until it gives what the reference has, and the text speaks of the two the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from attnscope.explain.change import Change
from attnscope.explain.scene import Scene

__all__ = ["from_both_sides"]

Kind = Callable[[Scene], Iterator[Change]]

_TURNED = {
    "mask-missing": "mask-extra",
    "mask-extra": "mask-missing",
    "bias-missing": "bias-extra",
    "bias-extra": "bias-missing",
}


def from_both_sides(kind: Kind) -> Kind:
    """Return the kind that changes the candidate where there is no recipe of the reference."""

    def changes(scene: Scene) -> Iterator[Change]:
        if scene.reference.attention is not None or scene.candidate.attention is None:
            yield from kind(scene)
            return
        turned = Scene(scene.stage, scene.reference, scene.candidate, scene.limit)
        for change in kind(turned):
            key = _TURNED.get(change.key, change.key)
            text = f"in the reference: {change.text.replace('the reference', 'the candidate')}"
            yield replace(change, key=key, text=text, mends=not change.mends)

    return changes
