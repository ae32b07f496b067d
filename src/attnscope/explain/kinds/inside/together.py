"""Two faults at once: pairs of changes that make the stage agree only together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice, repeat, zip_longest

from attnscope.explain.change import Change
from attnscope.explain.kinds.inside.evaluating import Edit, Edits, Inside
from attnscope.explain.scene import Scene

__all__ = ["together"]

_A_KIND = 3
"""Edits of each kind that are tried; kinds put the likely ones first."""

_RANKED = 21
"""Edits that are tried alone."""

_LEAD = 10
"""How much the rank of the nearer of two edits counts beside that of the other."""

_PAIRS = 24
"""Pairs that are tried."""


def together(kinds: Sequence[tuple[Edits, str]]) -> Callable[[Scene], Iterator[Change]]:
    """Return the kind of change that applies two edits of different kinds.

    The edit that by itself comes nearest to the candidate is taken as one of them, then the next
    nearest. The key is that of the larger fault, which is the one that alone leaves less.
    """

    def changes(scene: Scene) -> Iterator[Change]:
        whole = Inside.of(scene)
        if whole is None or not whole.reaches("scores"):
            return
        inside = Inside(whole.scene, whole.course, whole.hint, fits=False)
        ranked = _ranked(inside, kinds)
        left = min(_PAIRS, inside.affordable)
        near = sorted(combinations(range(len(ranked)), 2), key=_distance)
        for first, second in near:
            (_, lead, one), (_, other, two) = ranked[first], ranked[second]
            if lead == other:
                continue
            for change in inside.changes([_both(one, two)]):
                yield change
                if scene.agrees(change.make()):
                    return
            left -= 1
            if left <= 0:
                return

    return changes


def _ranked(inside: Inside, kinds: Sequence[tuple[Edits, str]]) -> list[tuple[float, int, Edit]]:
    """Return the edits of all kinds with their kind, those first that leave least."""
    tried = [
        zip(repeat(index), islice(edits(inside), _A_KIND))
        for index, (edits, acts_at) in enumerate(kinds)
        if inside.reaches(acts_at)
    ]
    in_turn = (each for turn in zip_longest(*tried) for each in turn if each is not None)
    ranked = [
        (inside.misfit(edit.apply(inside.course)), index, edit)
        for index, edit in islice(in_turn, min(_RANKED, inside.affordable))
    ]
    return sorted(ranked, key=lambda entry: entry[0])


def _distance(pair: tuple[int, int]) -> int:
    """Return how late a pair of ranks is tried: the nearer of the two counts most."""
    return _LEAD * pair[0] + pair[1]


def _both(one: Edit, two: Edit) -> Edit:
    text = f"two faults: {one.text}; and {two.text}"
    return Edit(one.key, text, lambda course: two.apply(one.apply(course)))
