"""The weights of a comparison: every pair, equal layers in one line, or each by itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from attnscope.differ.weights import WeightMap
from attnscope.show.ruled import ruled_table
from attnscope.show.stages import broken, collapsed

Row = tuple[str, str, str, str, str, str]
"""Candidate, reference, how, by what it was found, proof, note."""

_NUMBER = re.compile(r"\d+")
_COPIED, _EQUAL, _SHORT = "copied", "equal values", "equal"
_SAME = "same name"
_USUAL = {"", "whole", "name", "value"}
_HEAD = ("candidate", "reference", "weights")
LEAST, GAP = 12, 2


def weight_parts(weights: WeightMap, width: int, *, whole: bool) -> Iterator[RenderableType]:
    """Iterate over a line that counts the pairs, and the table of all of them.

    width: columns of the terminal. whole: a row for every pair; else pairs that differ in the
    number of their layer share one.
    """
    rows = weights.rows()
    yield _count(weights, rows)
    groups = [[row] for row in rows] if whole else _groups(rows)
    lines = [_line(group) for group in groups]
    ours, theirs, said = _widths(lines, width)
    table = ruled_table()
    for name, columns in zip(_HEAD, (ours, theirs, said), strict=True):
        table.add_column(name, overflow="fold", width=columns)
    for (candidate, reference, proof), group in zip(lines, groups, strict=True):
        usual = group[0][4] in {_COPIED, _EQUAL}
        table.add_row(
            Text(broken(candidate, ours)),
            Text(broken(reference, theirs), "dim" if reference == _SAME else ""),
            Text(proof, "" if usual else "yellow"),
        )
    yield table


def _line(group: Sequence[Row]) -> tuple[str, str, str]:
    """Return the texts of the row of some pairs."""
    ours, theirs = (collapsed([row[column] for row in group]) for column in (0, 1))
    return ours, _SAME if ours == theirs else theirs, _said(group[0])


def _said(row: Row) -> str:
    """Return what holds of a pair, the usual left out."""
    _, _, how, method, proof, note = row
    parts = [_SHORT if proof == _EQUAL else proof]
    parts += [how] if how not in _USUAL else []
    parts += [f"by {method}"] if method not in _USUAL else []
    parts += [note] if note else []
    return ", ".join(parts)


def _count(weights: WeightMap, rows: Sequence[Row]) -> Text:
    """Return how many pairs there are and what holds of them."""
    found = Counter[str](pair.proof for pair in weights)
    words = {"equal": "equal", "copied": "copied", "differs": "left different"}
    said = [f"{found[proof]} {word}" for proof, word in words.items() if found[proof]]
    left = len(rows) - len(weights)
    said += [f"{left} without counterpart"] if left else []
    pairs = "1 pair" if len(weights) == 1 else f"{len(weights)} pairs"
    return Text.assemble(
        ("weights: ", "bold"),
        f"{pairs}, {', '.join(said)}" if said else "none",
        ("; whole, by name or equal values, unless said" if len(weights) else "", "dim"),
    )


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows in groups that differ in the number of their layer alone."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for number, row in enumerate(rows):
        candidate, reference, *rest = row
        layers = [_NUMBER.findall(name)[:1] for name in (candidate, reference)]
        template = [_NUMBER.sub("#", name, count=1) for name in (candidate, reference)]
        alone = number if layers[0] != layers[1] else -1
        groups.setdefault((*template, *_said_of(rest), alone), []).append(row)
    return list(groups.values())


def _said_of(rest: Sequence[str]) -> list[str]:
    """Return what must be alike in a group: what is shown of how, method, proof and note."""
    return ["" if part in _USUAL else part for part in rest]


def _widths(lines: Sequence[tuple[str, str, str]], width: int) -> tuple[int, int, int]:
    """Return the columns' widths: what they need, or for the names fair shares of what is left."""
    columns = zip(_HEAD, *lines, strict=True)
    ours, theirs, said = (max(len(each) for each in column) for column in columns)
    said = min(said, width // 3)
    room = width - said - 2 * GAP
    if ours + theirs <= room:
        return ours, theirs, said
    first = max(min(ours, room // 2), room - theirs, LEAST)
    return first, max(room - first, LEAST), said
