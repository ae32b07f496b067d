"""One query of one head, step by step, for people who want to see where a weight comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscope.calls.walk import Walk, WalkRow
from attnscope.show import words
from attnscope.show.ruled import ruled_table

MOST_KEYS = 16
MOST_NUMBERS = 6


def walk_view(
    walk: Walk, keys: Sequence[str] | None = None, query: str | None = None
) -> RenderableType:
    """Return the numbers of one walk, with a sentence for each step.

    Args:
        walk: the numbers.
        keys: one label per key; None where positions have no words.
        query: the label of the query.
    """
    asked = f"query {walk.query}" + (f" “{query}”" if query else "")
    heading = Text.assemble(
        ("walk  ", "dim"),
        (f"call {walk.call}", "bold"),
        f" {walk.module or words.THE_MODEL}, head {walk.head}, {asked}",
    )
    rows, left = _chosen(walk)
    return Group(
        heading,
        *_sentences(walk, rows, keys),
        Text(),
        _table(walk, rows, left, keys),
        Text(),
        _context(walk),
    )


def _sentences(walk: Walk, rows: Sequence[WalkRow], keys: Sequence[str] | None) -> list[Text]:
    """Return the steps in words, each with the numbers of the key that gets most."""
    top = max(rows, key=lambda row: row.weight if math.isfinite(row.weight) else -1.0)
    named = f"key {top.key}" + (f" “{keys[top.key]}”" if keys else "")
    dim = len(walk.query_vector)
    lines = [
        ("1 dot products", f"q·k over {dim} features; for {named}: {_n(top.dot)}"),
        ("2 scale", _scaling(walk, top)),
        ("3 mask and bias", _masking(walk, top)),
        ("4 " + walk.normaliser, _normalising(walk, top)),
        (
            "5 weighted sum",
            f"the context is Σ weight · v; {named} gives {words.percent(_share(top))} of v",
        ),
    ]
    return [Text.assemble("  ", (f"{head:<17}", "bold cyan"), body) for head, body in lines]


def _scaling(walk: Walk, top: WalkRow) -> str:
    if walk.scale is None:
        return "how the dot products were scaled could not be read"
    dim = len(walk.query_vector)
    usual = math.isclose(walk.scale, dim**-0.5, rel_tol=1e-5)
    root = f" = 1/√{dim}" if usual else ""
    return f"× {words.number(walk.scale)}{root}: {_n(top.dot)} becomes {_n(top.scaled)}"


def _masking(walk: Walk, top: WalkRow) -> str:
    hidden = sum(not row.visible for row in walk.rows)
    text = f"{hidden} of {len(walk.rows)} keys are hidden (−∞)" if hidden else "no key is hidden"
    if any(row.bias for row in walk.rows):
        text += f"; bias {_n(top.bias)}"
    if top.visible and not math.isclose(
        top.score, top.scaled + top.bias, rel_tol=1e-3, abs_tol=1e-3
    ):
        text += "; soft-capped or changed on the way"
    return f"{text}; the score is {_n(top.score)}"


def _normalising(walk: Walk, top: WalkRow) -> str:
    total = (
        "" if math.isclose(walk.total, 1.0, abs_tol=1e-4) else f"; the row sums to {_n(walk.total)}"
    )
    if walk.normaliser == "softmax" and math.isclose(walk.total, 1.0, abs_tol=1e-4):
        return (
            f"exp(score − log Σ exp) = exp({_n(top.score)} − {_n(walk.logsumexp)}) = "
            f"{top.weight:.4f}; entropy {_n(walk.entropy)} nats"
        )
    return f"{_n(top.score)} becomes {top.weight:.4f}{total}; entropy {_n(walk.entropy)} nats"


def _table(walk: Walk, rows: Sequence[WalkRow], left: int, keys: Sequence[str] | None) -> Table:
    """Return one row a key, in the order of the keys."""
    biased = any(row.bias for row in walk.rows)
    table = ruled_table(gap=3)
    table.add_column("key", justify="right", style="dim")
    if keys:
        table.add_column("token", overflow="fold")
    for name in ("1 q·k", "2 scaled", *(("3 bias",) if biased else ()), "3 score", "4 weight"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    largest = max((row.weight for row in rows if math.isfinite(row.weight)), default=0.0)
    for row in rows:
        cells = [_n(row.dot), _n(row.scaled), *([_n(row.bias)] if biased else [])]
        cells += [_n(row.score) if row.visible else "hidden", f"{row.weight:.4f}"]
        label = [Text(keys[row.key])] if keys else []
        bar = (
            "█" * round(20 * row.weight / largest) if largest and math.isfinite(row.weight) else ""
        )
        style = "" if row.visible else "dim"
        table.add_row(str(row.key), *label, *cells, Text(bar, style="blue"), style=style)
    if left:
        rest = walk.total - sum(row.weight for row in rows if math.isfinite(row.weight))
        table.caption = f"and {left} other keys, together {rest:.4f}"
        table.caption_justify = "left"
    return table


def _context(walk: Walk) -> Text:
    shown = ", ".join(_n(value) for value in walk.context[:MOST_NUMBERS])
    more = f", … ({len(walk.context)} numbers)" if len(walk.context) > MOST_NUMBERS else ""
    return Text.assemble(("context  ", "bold cyan"), f"[{shown}{more}]")


def _chosen(walk: Walk) -> tuple[list[WalkRow], int]:
    """Return all rows, or those with the largest weights in the order of the keys."""
    if len(walk.rows) <= MOST_KEYS + 4:
        return list(walk.rows), 0
    known = sorted(walk.rows, key=lambda row: -row.weight if math.isfinite(row.weight) else 0.0)
    top = sorted(known[:MOST_KEYS], key=lambda row: row.key)
    return top, len(walk.rows) - len(top)


def _share(row: WalkRow) -> float:
    return row.weight if math.isfinite(row.weight) else 0.0


def _n(value: float) -> str:
    return words.number(value)
