"""The mask: missing or extra, inverted, of another corner, shifted, of other rows or axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

import torch

from attnscope.axes import Bias, Visible
from attnscope.calls.mask import Mask
from attnscope.calls.recipe import EmptyRow
from attnscope.explain.kinds.inside.course import Course
from attnscope.explain.kinds.inside.emptyrows import with_empty_rows
from attnscope.explain.kinds.inside.evaluating import Edit, Inside, Key
from attnscope.explain.kinds.inside.maskparts import MaskPart, MaskParts, equal, pairs, parts_of
from attnscope.explain.kinds.inside.maskrows import other_rows
from attnscope.explain.kinds.inside.windows import new_sizes, other_windows

__all__ = ["another", "another_window", "edits"]

Hypothesis: TypeAlias = tuple[Key, str, Visible]

_SHIFTS = (1, -1, 2, -2, 3, -3)


def edits(inside: Inside) -> Iterator[Edit]:
    """Iterate over the masks that people write by mistake, as far as they may be this one."""
    parts = parts_of(inside)
    if inside.hint is None or not equal(_dense(inside, inside.hint.mask), parts.whole):
        yield from _masks(inside, parts, _hypotheses(inside, parts))


def another_window(inside: Inside) -> Iterator[Edit]:
    """Iterate over windows of other sizes, and on both sides instead of one."""
    parts = parts_of(inside)
    yield from _masks(inside, parts, other_windows(inside, parts))


def another(inside: Inside) -> Iterator[Edit]:
    """Propose the candidate's own mask, where it was read and has no better name."""
    if inside.hint is None:
        return
    parts = parts_of(inside)
    theirs = _dense(inside, inside.hint.mask)
    more, fewer = theirs & ~parts.whole, parts.whole & ~theirs
    shown, hidden = pairs(more, theirs)[0], pairs(fewer, theirs)[0]
    key: Key = "mask" if shown and hidden else "mask-missing" if shown else "mask-extra"
    first = (more | fewer).nonzero()
    if not len(first):
        return
    place = first[0].tolist()
    text = (
        f"another mask ({inside.hint.mask.kind} where the reference has {inside.recipe.mask.kind}):"
        f" {shown} pairs more are visible and {hidden} pairs fewer, first at query {place[2]}, "
        f"key {place[3]} of sample {place[0]}, head {place[1]}"
    )
    yield from _masks(inside, parts, [(key, text, theirs)])


def _dense(inside: Inside, mask: Mask) -> Visible:
    return mask.dense(inside.sizes.queries, inside.sizes.keys)


def _masks(inside: Inside, parts: MaskParts, tried: Iterable[Hypothesis]) -> Iterator[Edit]:
    """Turn masks into edits; where the candidate's was read, those alone that are equal to it."""
    wanted = None if inside.hint is None else _dense(inside, inside.hint.mask)
    bias = _known_bias(inside, parts)
    known: list[tuple[Key | None, Visible]] = [(None, parts.whole)]
    for key, text, seen in tried:
        if any(other in {None, key} and equal(seen, mask) for other, mask in known):
            continue
        known.append((key, seen))
        if wanted is not None and not equal(seen, wanted):
            continue
        counted = f"{text} ({_counted(seen, parts.whole)})"
        for said, mask, empty in with_empty_rows(inside, parts, seen):
            touches = (seen != parts.whole).any(-1)
            yield Edit(key, counted + said, _Setter(mask, empty, bias), touches)


def _known_bias(inside: Inside, parts: MaskParts) -> Bias | None:
    """Return the reference's bias, and the candidate's where the reference hides it."""
    own, hint = inside.recipe.bias, inside.hint
    if own is None or hint is None or hint.bias is None:
        return own
    return torch.where(parts.whole, own.double(), hint.bias.double())


class _Setter:
    """Puts a mask into a course, and what becomes of the rows that see nothing under it."""

    def __init__(self, seen: Visible, empty: EmptyRow | None, bias: Bias | None) -> None:
        self._mask, self._empty = Mask(tensor=seen, kinds=frozenset({"custom"})), empty
        self._bias = bias

    def __call__(self, course: Course) -> Course:
        recipe = replace(course.recipe, mask=self._mask, bias=self._bias)
        if self._empty is not None:
            recipe = replace(recipe, empty_row=self._empty)
        return replace(course, recipe=recipe)


def _counted(seen: Visible, whole: Visible) -> str:
    theirs, total = pairs(seen, whole)
    ours, _ = pairs(whole, seen)
    return f"{theirs} of {total} pairs visible where the reference shows {ours}"


def _hypotheses(inside: Inside, parts: MaskParts) -> Iterator[Hypothesis]:
    if parts.parts:
        yield from _missing(parts)
        yield from _corner(inside, parts)
        yield from _inverted(parts)
        yield from _shifted(inside, parts)
        yield from _axes(inside, parts)
        yield from other_rows(inside, parts)
    else:
        yield "mask-inverted", "a mask that shows all keys is inverted: it hides all", ~parts.whole
    yield from _extra(inside, parts)


def _names(parts: Iterable[MaskPart]) -> str:
    return " and ".join(part.name for part in parts)


def _missing(parts: MaskParts) -> Iterator[Hypothesis]:
    for count in range(1, len(parts.parts) + 1):
        for dropped in combinations(parts.parts, count):
            rest = [part for part in parts.parts if part not in dropped]
            kept = f"; the {_names(rest)} is there" if rest else ""
            text = f"the {_names(dropped)} of the reference is missing{kept}"
            yield "mask-missing", text, parts.without(dropped)


def _inverted(parts: MaskParts) -> Iterator[Hypothesis]:
    swap = "it shows what the reference hides, and hides what the reference shows"
    if len(parts.parts) > 1:
        yield "mask-inverted", f"the mask is inverted: {swap}", ~parts.whole
    for part in parts.parts:
        seen = parts.instead(part, ~part.seen)
        yield "mask-inverted", f"the {part.name} is inverted: {swap}", seen


def _corner(inside: Inside, parts: MaskParts) -> Iterator[Hypothesis]:
    queries, keys = inside.sizes.queries, inside.sizes.keys
    reach = keys - queries
    if parts.high not in {0, reach} or not reach:
        return
    corners = {
        0: "top-left corner (query 0 sees key 0)",
        reach: f"bottom-right corner (query {queries - 1} sees key {keys - 1})",
    }
    other = reach if parts.high == 0 else 0
    low = None if parts.low is None else parts.low + other - parts.high
    text = (
        f"the causal mask is aligned to the {corners[other]} where the reference aligns it to the "
        f"{corners[parts.high]}, for {queries} queries and {keys} keys"
    )
    seen = parts.moved(low, other)
    yield "mask-corner", text, seen
    if inside.hint is not None:  # padding that the reference's corner hides anyway
        theirs = MaskParts.of(inside.hint.mask, queries, keys).part("padding mask")
        if theirs is not None:
            yield "mask-corner", text, seen & theirs.seen


def _shifted(inside: Inside, parts: MaskParts) -> Iterator[Hypothesis]:
    shifts = list(_SHIFTS)
    if inside.hint is not None:
        theirs = MaskParts.of(inside.hint.mask, inside.sizes.queries, inside.sizes.keys)
        if theirs.high is not None and parts.high is not None:
            shifts = [theirs.high - parts.high]
    causal = parts.part("causal mask")
    for shift in shifts if parts.high is not None and causal is not None else ():
        edge = f"sees {shift} later" if shift > 0 else _hides(-shift)
        text = f"the causal mask is shifted by {shift} (diagonal={shift:+d}): each position {edge}"
        high = (parts.high or 0) + shift
        yield "mask-shifted", text, parts.moved(parts.low, high)
        if parts.low is not None:
            moved = f"{text}; the window is shifted with it"
            yield "mask-shifted", moved, parts.moved(parts.low + shift, high)
    padding = parts.part("padding mask")
    if padding is not None:
        for shift in (1, -1):
            text = f"the padding mask is shifted by {shift} key{'' if shift == 1 else 's'}"
            seen = parts.instead(padding, padding.seen.roll(shift, -1))
            yield "mask-shifted", text, seen
        yield from _one_more_key(parts, padding)
        text = "the padding mask hides keys at the other end of the sequence"
        yield "mask-shifted", text, parts.instead(padding, padding.seen.flip(-1))


def _hides(places: int) -> str:
    return "does not see itself" if places == 1 else f"does not see itself nor {places - 1} before"


def _one_more_key(parts: MaskParts, padding: MaskPart) -> Iterator[Hypothesis]:
    """Grow or shrink the padding by one key: a length that is off by one."""
    seen = padding.seen
    before, after = seen.roll(1, -1), seen.roll(-1, -1)
    before[..., 0], after[..., -1] = seen[..., 0], seen[..., -1]
    more = "one padded key a sample is visible: the length is off by one"
    fewer = "one real key a sample is hidden as padding: the length is off by one"
    yield "mask-shifted", more, parts.instead(padding, seen | before)
    yield "mask-shifted", more, parts.instead(padding, seen | after)
    yield "mask-shifted", fewer, parts.instead(padding, seen & before)
    yield "mask-shifted", fewer, parts.instead(padding, seen & after)


def _axes(inside: Inside, parts: MaskParts) -> Iterator[Hypothesis]:
    if inside.sizes.queries != inside.sizes.keys:
        return
    padding = parts.part("padding mask")
    if padding is not None:
        text = "the padding mask hides padded queries (rows) instead of padded keys (columns)"
        yield "mask-axis", text, parts.instead(padding, padding.seen.mT)
    swapped = "queries and keys of the mask are swapped: a query sees the keys that may see it"
    yield "mask-axis", swapped, parts.whole.mT


def _extra(inside: Inside, parts: MaskParts) -> Iterator[Hypothesis]:
    queries, keys = inside.sizes.queries, inside.sizes.keys
    whole, none = parts.whole, "which the reference has not"
    if parts.high is None and queries == 1:
        text = (
            f"the causal mask is aligned to the top-left corner, where the one query sees key 0 "
            f"alone, not to the bottom-right one, where it sees all {keys} keys"
        )
        yield "mask-corner", text, whole & parts.band(None, 0)
    if parts.high is None and queries > 1:
        for corner, high in (("top-left", 0), ("bottom-right", keys - queries)):
            where = f" aligned to the {corner} corner" if keys != queries else ""
            text = f"a causal mask{where}, {none}"
            yield "mask-extra", text, whole & parts.band(None, high)
    if "prefix mask" in {part.name for part in parts.parts}:
        text = "a causal mask over the prefix, which sees itself both ways in the reference"
        yield "mask-extra", text, whole & parts.band(None, keys - queries)
    if parts.low is None:
        for size in new_sizes(inside, parts):
            text = f"a window of {size} keys, {none}"
            edge = parts.high if parts.high is not None else 0
            seen = whole & parts.band(edge - size + 1, None if parts.high is not None else size - 1)
            yield "mask-extra", text, seen
    if parts.high != 0:  # else it is the causal mask, shifted
        text = f"a mask that hides each position from itself, {none}"
        yield "mask-extra", text, whole & ~parts.band(0, 0)
    padding = parts.part("padding mask")
    if padding is not None and queries == keys:
        text = f"a mask over padded queries (rows beside columns), {none}"
        yield "mask-extra", text, whole & padding.seen.mT
