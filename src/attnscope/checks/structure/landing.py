"""What the landings of coded tokens say about the axes that a call runs over."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from torch import Tensor

from attnscope.checks.probes.coded import Coded, Landing, Side, Token

__all__ = [
    "OverHeads",
    "OverSamples",
    "Scramble",
    "runs_over_heads",
    "runs_over_samples",
    "scrambled",
]

Cell = tuple[int, int]
"""(row, position): a row is one head of one sample."""


@dataclass(frozen=True, slots=True)
class OverSamples:
    """The keys of a query are the samples of the batch."""

    samples: int
    keys: int


@dataclass(frozen=True, slots=True)
class OverHeads:
    """The keys of a query are the heads of one and the same token."""

    side: Side
    token: Token
    positions: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Scramble:
    """One token is spread over several positions, another part of its features at each.

    side: "q", "k" or "v" where heads are split, "out" where they are merged. token: (sample,
    position); places: (head, position) of each part, or, on the way out, (head, token). samples: on
    the way out the sample that each head goes to. cut: whether single features of one head go to
    different positions.
    """

    side: Side
    token: Token
    places: tuple[Cell, ...]
    heads: int
    samples: tuple[int, ...] = ()
    cut: bool = False


def runs_over_samples(coded: Coded) -> OverSamples | None:
    """Return what says that the same position of two samples is two keys of one row."""
    by_token = {landing.token: landing for landing in coded.landings.get("k", ())}
    for (sample, position), landing in by_token.items():
        other = by_token.get((1, position))
        if sample or other is None:
            continue
        first, second = landing.entries, other.entries
        if int(first.sum(-1).max()) > 1:
            continue  # spread over several positions: a scramble, which mixes samples too
        rows = first.any(-1) & second.any(-1)
        if bool(rows.any()) and not bool((first & second).any()):
            return OverSamples(coded.sizes["k"][0], coded.call.keys)
    return None


def runs_over_heads(coded: Coded) -> OverHeads | None:
    """Return what says that all keys of a row come from one token."""
    landings = [each for each in coded.landings.get("k", ()) if each.token[0] == 0]
    if len(landings) < 2 or landings[0].entries.shape[-1] < 2 or "k" in coded.slabs:
        return None
    rows = [_rows_of(each.entries) for each in landings]
    alone = all(not (a & b) for a, b in combinations(rows, 2))
    full = all(bool(each.entries[each.entries.any(-1)].all()) for each in landings)
    if not (alone and full and all(rows)):
        return None
    first = landings[0]
    return OverHeads("k", first.token, first.entries.shape[-1], coded.sizes["k"][1])


def scrambled(coded: Coded) -> Scramble | None:
    """Return the first side at which heads are mixed with tokens."""
    for side in _SPLIT:
        found = _split_wrongly(coded, side)
        if found is not None:
            return found
    return _merged_wrongly(coded) or _cut_in(coded) or _cut_out(coded)


_SPLIT: tuple[Side, ...] = ("q", "k", "v")


def _cut_in(coded: Coded) -> Scramble | None:
    """Return a side at which the features of one head of a token go to different positions.

    They are as many as before, so nothing was added to them: a sum over neighbours has more.
    Channels that attend to one another have their tokens so in q, k and v alike.
    """
    sides = {side: _own(coded, side) for side in _SPLIT}
    cut = {side: own for side, own in sides.items() if own and all(map(_is_cut, own))}
    channels = all(own and all(map(_is_everywhere, own)) for own in sides.values())
    for side, own in cut.items():
        if channels or len(own) < 2:
            continue
        first = own[1]
        heads = first.entries.shape[1]
        places = tuple(sorted((row % heads, at) for row, at in _cells(first.entries)))
        return Scramble(side, first.token, places, heads, cut=True)
    return None


def _own(coded: Coded, side: Side) -> list[Landing]:
    return [each for each in coded.landings.get(side, ()) if each.token[0] == 0]


def _is_cut(landing: Landing) -> bool:
    """Return whether all features moved, one of each, and some row has them at many positions."""
    return landing.count == landing.whole and int(landing.entries.sum(-1).max()) > 1


def _is_everywhere(landing: Landing) -> bool:
    rows = landing.entries[landing.entries.any(-1)]
    return landing.entries.shape[-1] > 1 and bool(rows.all())


def _cut_out(coded: Coded) -> Scramble | None:
    """Return a position of the context whose features in one head go to different tokens."""
    merged = _own(coded, "merged")
    if len(merged) < 2 or not _has_places(coded):
        return None
    for landing in merged:
        tokens = [each for each in map(_rows_of, landing.entries) if each]
        if landing.count != landing.whole or any(len(each) < 2 for each in tokens) or not tokens:
            return None
    cells = [(h, at) for h, head in enumerate(merged[1].entries) for _, at in _rows_of(head)]
    samples = [s for head in merged[1].entries for s, _ in _rows_of(head)]
    return Scramble(
        "out", merged[1].token, tuple(cells), len(merged[1].entries), tuple(samples), cut=True
    )


def _split_wrongly(coded: Coded, side: Side) -> Scramble | None:
    landings = [each for each in coded.landings.get(side, ()) if each.token[0] == 0]
    if len(landings) < 2:
        return None
    cells = [_cells(each.entries) for each in landings]
    if any(a & b for a, b in combinations(cells, 2)):
        return None  # neighbours share places: a convolution, a pooling
    heads = landings[0].entries.shape[1]
    for landing, own in zip(landings, cells, strict=True):
        if _is_spread(landing.entries):
            where = tuple(sorted((row % heads, at) for row, at in own))
            return Scramble(side, landing.token, where, heads)
    return None


def _is_spread(entries: Tensor) -> bool:
    """Return whether a token lies in pieces at several positions of a row, otherwise in each row.

    Keys that are repeated, or that lie in two windows, lie so in all heads alike.
    """
    if entries.shape[1] > 1 and bool((entries == entries[:, :1]).all()):
        return False
    rows = entries.reshape(-1, entries.shape[-1])
    held = rows[rows.any(-1)]
    if len(rows) < 2 or not len(held) or int(held.sum(-1).max()) < 2:
        return False
    alike = len(held) > 1 and bool((held == held[:1]).all())
    return not alike


def _merged_wrongly(coded: Coded) -> Scramble | None:
    """Return a position of the context whose heads go to different tokens of the output."""
    if not _has_places(coded):
        return None
    for landing in coded.landings.get("out", ()):
        tokens = [_rows_of(head) for head in landing.entries]
        single = all(len(each) == 1 for each in tokens)
        if single and len(set(map(frozenset, tokens))) > 1:
            cells = [min(each) for each in tokens]
            places = tuple((head, at) for head, (_, at) in enumerate(cells))
            samples = tuple(sample for sample, _ in cells)
            return Scramble("out", landing.token, places, len(tokens), samples)
    return None


def _has_places(coded: Coded) -> bool:
    """Return whether each token has one position, its own in all heads, of the queries."""
    inward = _own(coded, "q")
    return bool(inward) and all(
        len({at for _, at in _cells(each.entries)}) == 1 and bool(each.entries[0].any(-1).all())
        for each in inward
    )


def _rows_of(entries: Tensor) -> frozenset[Cell]:
    """Return the rows (batch, head) or the tokens (sample, position) that moved."""
    some = entries.any(-1) if entries.dim() == 3 else entries
    return frozenset((int(a), int(b)) for a, b in some.nonzero())


def _cells(entries: Tensor) -> frozenset[Cell]:
    heads = entries.shape[1]
    return frozenset((int(b) * heads + int(h), int(p)) for b, h, p in entries.nonzero())
