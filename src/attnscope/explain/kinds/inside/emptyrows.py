"""Rows of the mask that see nothing: what the weights of such a query are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from attnscope.axes import Visible
from attnscope.calls.mask import Mask
from attnscope.calls.recipe import EmptyRow
from attnscope.explain.kinds.inside.course import Course
from attnscope.explain.kinds.inside.evaluating import Edit, Inside
from attnscope.explain.kinds.inside.maskparts import MaskParts, equal, parts_of

__all__ = ["empty_rows", "with_empty_rows"]

ROWS: dict[EmptyRow, str] = {
    "nan": "weights of NaN",
    "zero": "weights of 0",
    "uniform": "equal weights over all keys, hidden ones too",
}
"""What the weights of a row that sees nothing are, in words."""


def empty_rows(inside: Inside) -> Iterator[Edit]:
    """Iterate over what the weights of a query may be that sees no key."""
    whole = parts_of(inside).whole
    empty = ~whole.any(-1)
    count = int(empty.count_nonzero())
    if not count:
        return
    said = f"the {count} queries that see no key have"
    theirs = ROWS[inside.recipe.empty_row]
    rows: tuple[EmptyRow, ...] = ("nan", "zero", "uniform")
    for row in rows:
        if row != inside.recipe.empty_row:
            text = f"{said} {ROWS[row]} where the reference has {theirs}"
            yield Edit("empty-rows", text, _WithRow(row), empty)
    text = (
        f"{said} weights over all keys, as if nothing were hidden from them (a finite fill is "
        f"added to all of their scores), where the reference has {theirs}"
    )
    yield Edit("empty-rows", text, lambda course: _open_rows(course, empty[..., None]), empty)


_Rows: TypeAlias = tuple[str, Visible, EmptyRow | None]


def with_empty_rows(inside: Inside, parts: MaskParts, seen: Visible) -> Iterator[_Rows]:
    """Iterate over what rows that see nothing may have become: said, the mask, their weights."""
    empty = ~seen.any(-1, keepdim=True)
    if not bool(empty.any()):
        yield "", seen, None
        return
    found = _weights_of(inside, empty)
    for row in found:
        said = f"; rows that see nothing have {ROWS[row]}" if row is not None else ""
        yield said, seen, row
    if not found or inside.scene.stage != "scores":
        said = "; rows that see nothing are open: a finite number is added to all of their scores"
        opened: list[Visible] = []
        for mask in (seen | empty, seen | (empty & parts.band(None, parts.high))):
            if not any(equal(mask, other) for other in opened):
                opened.append(mask)
                yield said, mask, None


def _weights_of(inside: Inside, empty: Visible) -> tuple[EmptyRow | None, ...]:
    """Return what the weights of empty rows may be; None: what those of the reference are."""
    actual, hint = inside.scene.actual, inside.hint
    read = None if hint is None or "empty-row" in hint.unknown else hint.empty_row
    if inside.scene.stage == "scores":
        rows = actual[empty[..., 0].expand(actual.shape[:-1])]
        if bool((rows.isfinite() & (rows == rows[..., :1])).all()):
            return ("uniform",)
        return (read,) if bool(rows.isneginf().all()) else ()
    if read is not None:
        return (read,)
    if bool(actual.isnan().any()):
        return ("nan",)
    if inside.scene.stage in {"weights", "context"}:
        rows = actual[empty[..., 0].expand(actual.shape[:-1])]
        return ("uniform",) if bool(rows.any()) else ("zero",)
    return ("uniform", "zero")


class _WithRow:
    """Says what the weights of a row are that sees nothing."""

    def __init__(self, row: EmptyRow) -> None:
        self._row = row

    def __call__(self, course: Course) -> Course:
        return replace(course, recipe=replace(course.recipe, empty_row=self._row))


def _open_rows(course: Course, empty: Visible) -> Course:
    seen = course.recipe.mask.dense(course.q.shape[-2], course.k.shape[-2]) | empty
    return replace(course, recipe=replace(course.recipe, mask=_mask(seen)))


def _mask(seen: Visible) -> Mask:
    return Mask(tensor=seen, kinds=frozenset({"custom"}))
