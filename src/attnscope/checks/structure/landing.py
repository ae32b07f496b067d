"""What the landings of coded tokens say about the axes that a call runs over."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from torch import Tensor

from attnscope.checks.probes.coded import Coded, Side, Token

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
    the way out the sample that each head goes to.
    """

    side: Side
    token: Token
    places: tuple[Cell, ...]
    heads: int
    samples: tuple[int, ...] = ()


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
    if len(landings) < 2 or landings[0].entries.shape[-1] < 2:
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
    for side in ("q", "k", "v"):
        found = _split_wrongly(coded, side)
        if found is not None:
            return found
    return _merged_wrongly(coded)


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
    if len(rows) < 2 or int(held.sum(-1).max()) < 2:
        return False
    alike = len(held) > 1 and bool((held == held[:1]).all())
    return not alike


def _merged_wrongly(coded: Coded) -> Scramble | None:
    """Return a position of the context whose heads go to different tokens of the output."""
    inward = [each for each in coded.landings.get("q", ()) if each.token[0] == 0]
    if not inward or any(len({at for _, at in _cells(each.entries)}) != 1 for each in inward):
        return None
    if not all(bool(each.entries[0].any(-1).all()) for each in inward):
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


def _rows_of(entries: Tensor) -> frozenset[Cell]:
    """Return the rows (batch, head) or the tokens (sample, position) that moved."""
    some = entries.any(-1) if entries.dim() == 3 else entries
    return frozenset((int(a), int(b)) for a, b in some.nonzero())


def _cells(entries: Tensor) -> frozenset[Cell]:
    heads = entries.shape[1]
    return frozenset((int(b) * heads + int(h), int(p)) for b, h, p in entries.nonzero())
