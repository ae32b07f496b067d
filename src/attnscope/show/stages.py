"""The stages of a comparison: one row a call with a mark per stage, or every stage in full."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from attnscope.differ.result import FirstDifference, StageResult, Verification
from attnscope.differ.walk.judging import Gap
from attnscope.differ.walk.stages import FORWARD, GRADIENTS, INSIDE
from attnscope.show import words
from attnscope.show.ruled import ruled_table

EQUAL, FAULT, FOLLOWS, CANCELS, DIFFERS = "=", "✗", "↓", "≈", "≠"
MOST_NAMED = 8
LEAST_MODULE = 12
LEAST_DECIMAL = 0.01

_STYLES = {EQUAL: "green", FAULT: "bold red", FOLLOWS: "yellow", CANCELS: "cyan", DIFFERS: "red"}
_MEANINGS = {
    EQUAL: "equal",
    FAULT: "wrong by itself",
    FOLLOWS: "follows",
    CANCELS: "differs, cancels",
    DIFFERS: "differs",
}
_GRAD = "grad."
_NUMBERS = re.compile(r"\d+")
_PARTS = re.compile(r"[^.]+\.?")


def stage_parts(result: Verification, width: int) -> Iterator[RenderableType]:
    """Iterate over what shows the stages compactly: forward, gradients, what both end in."""
    marks = _marks(result)
    titles = {"": FORWARD[:-1], "gradients, from the last call back": GRADIENTS}
    for title, names in titles.items():
        inside = {stage: mark for stage, mark in marks.items() if stage.call is not None}
        inside = {stage: mark for stage, mark in inside.items() if stage.stage in names}
        if inside:
            if title:
                yield Text(title, "bold")
            yield _table(names, _merged(_rows(inside, result.first_difference)), width)
            yield Text()
    yield from _ends({stage: mark for stage, mark in marks.items() if stage.call is None})
    shown = set(marks.values())
    if shown - {EQUAL}:
        meanings = (f"{mark} {meaning}" for mark, meaning in _MEANINGS.items() if mark in shown)
        yield Text("  ".join(meanings), style="dim")
        sizes = "sizes: largest difference as both ran, in largest entries of the reference"
        yield Text(sizes, style="dim")


def every_stage(result: Verification) -> Table:
    """Return one row per stage: as both ran, by itself, and where the worst entry is."""
    table = ruled_table()
    for name in ("call", "stage", "where", "as both ran", "by itself", "", "worst entry"):
        right = name in {"call", "as both ran", "by itself"}
        fold = "fold" if name == "where" else "ellipsis"
        table.add_column(name, justify="right" if right else "left", overflow=fold)  # type: ignore[arg-type]
    above = ""
    for stage, mark in _marks(result).items():
        where = " ".join(part for part in (stage.module, stage.part) if part)
        table.add_row(
            "" if stage.call is None else str(stage.call),
            stage.stage,
            Text("″", "dim") if where and where == above else Text(where),
            _size(stage.largest, _sort(stage.gap)),
            _size(stage.own.largest, _sort(stage.own)) if stage.own is not None else "",
            Text(f"{mark} {_MEANINGS[mark]}", _STYLES[mark]),
            "" if mark == EQUAL else str(list(stage.gap.index)),
        )
        above = where
    return table


@dataclass(frozen=True, slots=True)
class _Cell:
    """The worst of the parts of one stage of one or more calls; sort: in place of the size."""

    mark: str
    largest: float
    sort: str

    def text(self) -> Text:
        """Return the mark, with the size of a difference."""
        size = "" if self.mark == EQUAL else _size(self.largest, self.sort)
        return Text(f"{self.mark}{size}", _STYLES[self.mark])


@dataclass(frozen=True, slots=True)
class _Row:
    """Calls whose stages have the same marks."""

    calls: tuple[int, ...]
    modules: tuple[str, ...]
    cells: dict[str, _Cell]
    alone: bool

    @property
    def marks(self) -> list[tuple[str, str]]:
        """The mark of each stage."""
        return [(stage, cell.mark) for stage, cell in self.cells.items()]


def _rows(marks: Mapping[StageResult, str], first: FirstDifference | None) -> list[_Row]:
    """Return one row per call, in the order in which they were compared."""
    rows: list[_Row] = []
    for call in dict.fromkeys(stage.call for stage in marks):
        own = [stage for stage in marks if stage.call == call]
        cells: dict[str, _Cell] = {}
        for stage in own:
            cell = _Cell(marks[stage], stage.largest, _sort(stage.gap))
            there = cells.get(stage.stage)
            if there is None or _rank(cell) > _rank(there):
                cells[stage.stage] = cell
        alone = first is not None and first.call == call
        rows.append(_Row((call or 0,), (own[0].module,), cells, alone))
    return rows


def _merged(rows: Sequence[_Row]) -> list[_Row]:
    """Return the rows with neighbours of the same marks in one, but for the first difference."""
    merged: list[_Row] = []
    for row in rows:
        last = merged[-1] if merged else None
        if last is None or last.alone or row.alone or last.marks != row.marks:
            merged.append(row)
            continue
        cells = {
            stage: max(cell, last.cells[stage], key=lambda each: each.largest)
            for stage, cell in row.cells.items()
        }
        merged[-1] = _Row(last.calls + row.calls, last.modules + row.modules, cells, alone=False)
    return merged


def _table(names: Sequence[str], rows: Sequence[_Row], width: int) -> Table:
    """Return the table in `width` columns: gaps get narrow first, then sizes are left out."""
    used = [name for name in names if any(name in row.cells for row in rows)]
    heads = [name.removeprefix(_GRAD) for name in used]
    texts = [
        [row.cells[name].text() if name in row.cells else Text() for name in used] for row in rows
    ]
    calls = [_span(row.calls) for row in rows]
    modules = [collapsed(row.modules) or words.THE_MODEL for row in rows]

    def room(gap: int) -> int:
        columns = zip(heads, *texts, strict=True)
        taken = sum(max(map(len, column)) + gap for column in columns)
        return width - taken - max(len("call"), *map(len, calls)) - gap

    gap = 2 if room(2) >= max(map(len, modules)) else 1
    if room(gap) < LEAST_MODULE:
        texts = [[text[:1] for text in row] for row in texts]
    table = ruled_table(gap)
    table.add_column("call", justify="right", style="dim", no_wrap=True)
    table.add_column("module", style="bold", overflow="fold")
    for head in heads:
        table.add_column(head, no_wrap=True)
    for call, module, cells in zip(calls, modules, texts, strict=True):
        table.add_row(call, Text(broken(module, room(gap))), *cells)
    return table


def _ends(marks: Mapping[StageResult, str]) -> Iterator[Text]:
    """Iterate over a line each for the models' outputs and the gradients where they end."""
    headings = {
        "model": "output of the model",
        "grad.input": "gradients of the inputs",
        "grad.parameter": "gradients of parameters",
    }
    for name, heading in headings.items():
        stages = [stage for stage in marks if stage.stage == name]
        if not stages:
            continue
        wrong = [stage for stage in stages if not stage.equal]
        line = Text(f"{heading}: ")
        if not wrong:
            count = f" all {len(stages)}," if len(stages) > 1 else ""
            largest = max(stage.largest for stage in stages)
            line.append(f"{EQUAL}{count} largest difference {_size(largest, '')}", _STYLES[EQUAL])
            yield line
            continue
        if len(stages) > 1:
            line.append(f"{len(wrong)} of {len(stages)} differ: ")
        parts = [_end(stage, marks[stage]) for stage in wrong[:MOST_NAMED]]
        line.append_text(Text(", ").join(parts))
        if len(wrong) > MOST_NAMED:
            line.append(f" and {len(wrong) - MOST_NAMED} more")
        yield line


def _end(stage: StageResult, mark: str) -> Text:
    cell = _Cell(mark, stage.largest, _sort(stage.gap)).text()
    return Text.assemble(f"{stage.part} " if stage.part else "", cell)


def _marks(result: Verification) -> dict[StageResult, str]:
    """Return the mark of each stage.

    The stages inside a call are made from the reference's q, k and v, so that the first of them
    that is wrong by itself is marked so, and those behind it follow.
    """
    marks: dict[StageResult, str] = {}
    faulty: set[int | None] = set()
    for stage in result.stages:
        mark = _mark(stage, result.first_difference)
        if mark == FAULT and stage.stage in INSIDE:
            mark = FOLLOWS if stage.call in faulty else FAULT
            faulty.add(stage.call)
        marks[stage] = mark
    return marks


def _mark(stage: StageResult, first: FirstDifference | None) -> str:
    """Return the mark of one stage; gradients have no error of their own but the first."""
    if stage.cancelled:
        return CANCELS
    if stage.equal:
        return EQUAL
    if not stage.stage.startswith(_GRAD):
        return FAULT if stage.at_fault else FOLLOWS
    place = (stage.stage, stage.call, stage.part)
    is_first = first is not None and place == (first.stage, first.call, first.part)
    return FAULT if is_first else DIFFERS


def _rank(cell: _Cell) -> tuple[int, float]:
    return [EQUAL, CANCELS, FOLLOWS, DIFFERS, FAULT].index(cell.mark), cell.largest


def _sort(gap: Gap) -> str:
    """Return what to say in place of a size: other shapes, NaN or infinity on one side."""
    if gap.verdict == "shape":
        return "shape"
    if gap.verdict != "non-finite":
        return ""
    return "NaN" if gap.values is None or any(map(math.isnan, gap.values)) else "∞"


def _size(largest: float, sort: str) -> str:
    """Return a difference in a few characters."""
    if sort or not largest:
        return sort or "0"
    if not math.isfinite(largest):
        return words.number(largest)
    text = f"{largest:.2g}" if largest >= LEAST_DECIMAL else f"{largest:.0e}"
    return text.replace("-", "−")


def _span(numbers: Sequence[int]) -> str:
    """Return numbers as 3, 0–5, or 0, 2, 5."""
    low, high = min(numbers), max(numbers)
    if low == high:
        return str(low)
    if sorted(numbers) == list(range(low, high + 1)):
        return f"{low}–{high}"
    return ", ".join(map(str, numbers))


def collapsed(names: Sequence[str]) -> str:
    """Return names that differ in one number as one: `layers.{0–3}.attention`."""
    if len(set(names)) == 1:
        return names[0]
    numbers = [_NUMBERS.findall(name) for name in names]
    alike = len({_NUMBERS.sub("#", name) for name in names}) == 1
    varying = (
        [at for at in range(len(numbers[0])) if len({own[at] for own in numbers}) > 1]
        if alike
        else []
    )
    if len(varying) != 1:
        return f"{names[0]} … {names[-1]}"
    place = varying[0]
    span = _span([int(own[place]) for own in numbers])
    count = iter(range(len(numbers[0])))
    return _NUMBERS.sub(lambda found: f"{{{span}}}" if next(count) == place else found[0], names[0])


def broken(name: str, width: int) -> str:
    """Return a dotted name in lines of at most `width`, broken after dots."""
    lines = [""]
    for part in _PARTS.findall(name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
