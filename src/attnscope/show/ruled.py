"""The look of every table with a head: no frame, a line below the head."""

from __future__ import annotations

from rich import box
from rich.table import Table

__all__ = ["ruled_table"]


def ruled_table(gap: int = 2) -> Table:
    """Return an empty table with a line below its head; `gap` blanks between columns."""
    padding = (0, gap - 1, 0, 0)
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=padding, show_edge=False)
