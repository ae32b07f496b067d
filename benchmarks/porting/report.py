"""The page about the ports: figures on top, one row a fault below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.porting.row import Row

__all__ = ["page", "summary"]

INTRODUCTION = """# What `attnscope verify` finds in faulty ports

Each row is somebody's own code for what a known implementation computes, written in a style of its
own, with **one** thing wrong. `attnscope verify` got the port and its original, and nothing else.
*Stage* is the first stage at which it saw a difference, and the index of the attention call; the
explanation is reported only if applying it makes the stage agree. A row is right when stage, call,
explanation and its figures are.

Made by `python benchmarks/ports.py`.
"""


ROOT = Path(__file__).resolve().parents[2]


def share(rows: Sequence[Row]) -> str:
    """Return how many of the rows are right."""
    return f"{sum(row.right for row in rows)} of {len(rows)}"


def summary(rows: Sequence[Row]) -> str:
    """Return the figures in a few lines."""
    faulty = [row for row in rows if row.port.key is not None]
    sound = [row for row in rows if row.port.key is None]
    found = sum(row.verdict is not None and row.verdict.found for row in faulty)
    keys = {row.port.key for row in faulty if row.right}
    lines = [
        f"faults found: {found} of {len(faulty)}",
        f"faults placed and named right: {share(faulty)}, {len(keys)} different explanations",
        f"of them written apart from the tool: {share([row for row in faulty if row.unseen])}",
        f"sound ports called equal: {share(sound)}",
    ]
    return "\n".join(lines)


def page(rows: Sequence[Row]) -> str:
    """Return docs/verify.md."""
    faulty = sorted(
        (row for row in rows if row.port.key is not None),
        key=lambda row: (str(row.port.key), row.port.name),
    )
    sound = [row for row in rows if row.port.key is None]
    figures = "\n".join(f"- {line}" for line in summary(rows).splitlines())
    return "\n".join(
        [
            INTRODUCTION,
            figures,
            "",
            "## Ports with a fault",
            "",
            *_table(
                ("fault", "original", "style", "stage", "explanation", "right"),
                (_faulty(row) for row in faulty),
            ),
            "",
            "## Sound ports",
            "",
            "They compute the same, however unlike the original they look.",
            "",
            *_table(
                ("port", "original", "style", "equal"),
                (
                    (row.port.name, row.port.reference, row.port.style, _yes(said=row.right))
                    for row in sound
                ),
            ),
            "",
        ]
    )


def _faulty(row: Row) -> tuple[str, ...]:
    port, verdict = row.port, row.verdict
    stage, key, text = ("-", "-", row.error) if verdict is None else verdict.said
    wrong = "" if verdict is None else ", ".join(verdict.wrong)
    return (
        f"{port.key} (`{port.name}`)",
        port.reference,
        port.style,
        stage,
        f"**{key}** {text.replace(f'{ROOT}/', '')}",
        "yes" if row.right else f"no: {wrong or 'raised'}",
    )


def _yes(*, said: bool) -> str:
    return "yes" if said else "**no**"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [_line(head), _line(["---"] * len(head))]
    return lines + [_line([cell.replace("|", "\\|") for cell in row]) for row in rows]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
