"""The weights of a comparison: every pair, equal layers in one line, or each by itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attnscope.differ.weights import WeightMap
from attnscope.show.stages import broken, collapsed

Row = tuple[str, str, str, str, str, str]
"""Candidate, reference, how, by what it was found, proof, note."""

_NUMBER = re.compile(r"\d+")
_COPIED, _EQUAL, _ALONE = "copied", "equal values", "no counterpart"
_HOW, _METHOD = "whole", "name"
LEAST = 12


def weight_parts(weights: WeightMap, width: int, *, whole: bool) -> Iterator[RenderableType]:
    """Iterate over a line that counts the pairs, and the table of all of them.

    width: columns of the terminal. whole: a row for every pair; else pairs that differ in the
    number of their layer share one.
    """
    rows = weights.rows()
    yield _count(weights, rows)
    groups = [[row] for row in rows] if whole else _groups(rows)
    lines = [
        (
            collapsed([row[0] for row in group]),
            collapsed([row[1] for row in group]),
            _said(group[0]),
        )
        for group in groups
    ]
    widths = _widths(lines, width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("candidate", "reference", "weights"):
        table.add_column(name, overflow="fold")
    for (candidate, reference, said), group in zip(lines, groups, strict=True):
        names = broken(candidate, widths[0]), broken(reference, widths[1])
        usual = group[0][4] in {_COPIED, _EQUAL}
        table.add_row(*(Text(name) for name in names), Text(said, "" if usual else "yellow"))
    yield table


def _said(row: Row) -> str:
    """Return what holds of a pair, the usual left out."""
    _, _, how, method, proof, note = row
    parts = [proof]
    if how not in {_HOW, ""}:
        parts.append(how)
    if method not in {_METHOD, ""}:
        parts.append(f"by {method}")
    return ", ".join([*parts, *([note] if note else [])])


def _count(weights: WeightMap, rows: Sequence[Row]) -> Text:
    """Return how many pairs there are and what holds of them."""
    found = Counter[str](pair.proof for pair in weights)
    words = {"equal": "with equal values", "copied": "copied", "differs": "left different"}
    said = [f"{found[proof]} {word}" for proof, word in words.items() if found[proof]]
    left = len(rows) - len(weights)
    said += [f"{left} without counterpart"] if left else []
    pairs = "1 pair" if len(weights) == 1 else f"{len(weights)} pairs"
    return Text.assemble(
        ("weights: ", "bold"),
        f"{pairs}, {', '.join(said)}" if said else "none",
        ("; found by name and whole, unless said" if len(weights) else "", "dim"),
    )


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows in groups that differ in the number of their layer alone."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for number, row in enumerate(rows):
        candidate, reference, *rest = row
        layers = [_NUMBER.findall(name)[:1] for name in (candidate, reference)]
        template = [_NUMBER.sub("#", name, count=1) for name in (candidate, reference)]
        alone = number if layers[0] != layers[1] else -1
        groups.setdefault((*template, *rest, alone), []).append(row)
    return list(groups.values())


def _widths(lines: Sequence[tuple[str, str, str]], width: int) -> tuple[int, int]:
    """Return the columns for the names: what they need, or fair shares of what there is."""
    ours, theirs, said = (max((len(line[at]) for line in lines), default=0) for at in range(3))
    room = width - min(said, width // 3) - 3
    if ours + theirs <= room:
        return ours, theirs
    first = max(min(ours, room // 2), room - theirs, LEAST)
    return first, max(room - first, LEAST)
