"""The table of a trace and the shape sheet of a call, for a terminal of 100 columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscope.calls import Call, Source, Trace
from attnscope.calls.shapes import ShapeRow, ShapeSheet
from attnscope.show import words
from attnscope.show.ruled import ruled_table

SAME = "″"
MOST_LISTED = 12
LEAST_MODULE = 16
LEAST_MASK = 12

_HEAD = (
    "#",
    "step",
    "module",
    "kind",
    "batch",
    "heads",
    "q×k",
    "dim",
    "scale",
    "mask",
    "entropy",
    "max",
    "replay",
)
_LEFT = frozenset({"module", "kind", "mask"})
_FOLDED = frozenset({"module", "mask"})
_REPEATED = frozenset({"kind", "batch", "heads", "q×k", "dim", "scale", "mask"})
_SIDES = frozenset({"q", "k", "v"})
_STYLES = {"#": "dim", "module": "bold"}
_PARTS = re.compile(r"(?:[^.+,]|\.(?=\d))+[.+,]?\s*")


def trace_table(
    trace: Trace, title: str, calls: Sequence[Call] | None = None, width: int = 100
) -> RenderableType:
    """Return one row per call, where each was made, what was not attention, and a verdict.

    A cell that says the same as the one above it holds `SAME`, so that 30 equal layers read as
    one, and each is still listed.

    Args:
        trace: what was seen.
        title: the TARGET.
        calls: the calls to list; None lists all.
        width: columns of the terminal.
    """
    listed = list(trace) if calls is None else list(calls)
    parts: list[RenderableType] = [Text(title, style="bold")]
    if listed:
        parts += [_calls(listed, width), _places(listed), _legend(listed)]
    parts += [*_unseen(trace), *_others(trace), *_notes(trace)]
    parts.append(_verdict(trace, listed))
    return Group(*parts)


def shapes_table(sheet: ShapeSheet, declared: Mapping[int, str] | None = None) -> RenderableType:
    """Return the live shape sheet of one call, one row a step.

    Names of parameters are those inside the call's module. Where all lines lie in one file, the
    heading names it and the rows have the numbers alone. A gap follows the steps that end in q, k
    and v. declared: what the axes of the input are, by number, as the author says.
    """
    files = {words.path(row.source.file) for row in sheet.rows if row.source}
    one = next(iter(files)) if len(files) == 1 else ""
    table = ruled_table()
    table.add_column("step", no_wrap=True)
    table.add_column("tensor", style="bold", no_wrap=True)
    table.add_column("shape", no_wrap=True)
    table.add_column("parameters", style="cyan", overflow="fold")
    table.add_column("line" if one else "at", style="dim", overflow="fold", justify="right")
    last = ""
    for row in sheet.rows:
        where = _line(row.source, named=not one)
        shown = SAME if where and where == last else where
        last = where
        parameters = ", ".join(name.removeprefix(f"{sheet.module}.") for name in row.parameters)
        table.add_row(Text(row.step), Text(row.name), _axes(row), Text(parameters), Text(shown))
        if row.name in _SIDES:
            table.add_section()
    origins = _origins(sheet, declared or {})
    heading = Text.assemble(
        ("shapes of call ", "dim"),
        (str(sheet.index), "bold"),
        f"  {sheet.module or words.THE_MODEL}",
        (f"  lines of {one}" if one else "", "dim"),
    )
    return Group(heading, table, *([Text()] if origins else []), *origins)


def _origins(sheet: ShapeSheet, declared: Mapping[int, str]) -> list[Text]:
    """Return one line each for what runs over an axis of the input: batch, queries, keys."""
    lines: dict[str, Text] = {}
    for row in sheet.rows:
        for name, origin in zip(row.axes, row.origins, strict=False):
            found = re.fullmatch(r"axis (\d+) of the input", origin)
            if found is None or name in lines:
                continue
            meant = declared.get(int(found[1]))
            said = f", which is declared as the {meant}" if meant else ""
            odd = bool(meant) and (meant == "batch") != (name == "batch")
            runs = f"the {name} runs" if name == "batch" else f"{name} run"
            lines[name] = Text(f"{runs} over {origin}{said}", "bold red" if odd else "dim")
    return [line for name, line in lines.items() if "·" not in name]


def _axes(row: ShapeRow) -> Text:
    """Return the sizes of a tensor, each with the name of its axis where that is known."""
    return Text(" × ").join(
        Text.assemble(("" if name == "?" else f"{name} ", "dim"), (str(size), "bold"))
        for name, size in zip(row.axes, row.shape, strict=True)
    )


def _line(source: Source | None, *, named: bool) -> str:
    if source is None:
        return ""
    name = words.path(source.file).rpartition("/")[2]
    return f"{name}:{source.line}" if named else str(source.line)


def _calls(calls: Sequence[Call], width: int) -> Table:
    """Return the table of the calls alone, in `width` columns."""
    letters = _letters(calls)
    head, rows = list(_HEAD), [_cells(call, letters) for call in calls]
    if len({call.step for call in calls}) == 1:
        unused = head.index("step")
        head, *rows = [row[:unused] + row[unused + 1 :] for row in (head, *rows)]
    widths = _widths(head, rows, width)
    table = ruled_table(gap=1)
    for name, columns in zip(head, widths, strict=True):
        table.add_column(
            name,
            justify="left" if name in _LEFT else "right",
            style=_STYLES.get(name),
            width=columns,
            no_wrap=name not in _FOLDED,
            overflow="fold",
        )
    above: list[str] = [""] * len(head)
    for call, row in zip(calls, rows, strict=True):
        shown = [
            _cell(name, text, columns, same=name in _REPEATED and text == last)
            for name, text, columns, last in zip(head, row, widths, above, strict=True)
        ]
        above = row
        shown[-1].stylize(_trust(call))
        table.add_row(*shown)
    return table


def _cell(name: str, text: str, width: int, *, same: bool) -> Text:
    """Return one cell; `SAME` where it repeats the cell above it."""
    if same:
        return Text(SAME, style="dim")
    return Text(_broken(text, width) if name in _FOLDED else text)


def _trust(call: Call) -> str:
    """Return the colour of a replay."""
    if words.error_of(call) is None:
        return "yellow"
    return "red" if words.beyond_rounding(call) else "green"


def _widths(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the columns' widths: folded ones share what the others leave."""
    longest = [max(len(text) for text in column) for column in zip(head, *rows, strict=True)]
    module, mask = head.index("module"), head.index("mask")
    rest = width - len(head) - sum(longest) + longest[module] + longest[mask]
    longest[mask] = min(longest[mask], max(rest - longest[module], LEAST_MASK))
    longest[module] = min(longest[module], max(rest - longest[mask], LEAST_MODULE))
    return longest


def _broken(text: str, width: int) -> str:
    """Return text in lines of at most `width`, broken after dots, plus signs and commas."""
    lines = [""]
    for part in _PARTS.findall(text):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _cells(call: Call, letters: dict[tuple[str, str], str]) -> list[str]:
    """Return the texts of one row, in the order of all columns."""
    module = call.module or words.THE_MODEL
    again = " again" if call.recomputed else ""
    return [
        str(call.index),
        str(call.step),
        f"{module}{again}",
        *_facts(call, letters),
        *_measured(call),
    ]


def _facts(call: Call, letters: dict[tuple[str, str], str]) -> list[str]:
    """Return the cells that tend to be the same in every layer."""
    heads = f"{call.heads}/{call.kv_heads}" if call.kv_heads != call.heads else str(call.heads)
    dim = (
        f"{call.head_dim}/{call.value_dim}"
        if call.value_dim != call.head_dim
        else str(call.head_dim)
    )
    letter = letters[call.kind, words.place(call.source)]
    made = words.recipe_of(call)
    return [
        f"{call.kind} {letter}".strip(),
        str(call.batch),
        heads,
        f"{call.queries}×{call.keys}",
        dim,
        words.scale(made.scale),
        words.recipe(made),
    ]


def _measured(call: Call) -> list[str]:
    """Return the cells with numbers of this very call: entropy, largest weight, replay."""
    numbers = words.numbers_of(call)
    entropy = words.span(numbers.entropy) if numbers else "—"
    largest = words.highest(numbers.max_weight) if numbers else "—"
    return [entropy, largest, words.replay(words.error_of(call))]


def _letters(calls: Iterable[Call]) -> dict[tuple[str, str], str]:
    """Return a letter for each kind and place; none where all calls were made at one."""
    places = list(dict.fromkeys((call.kind, words.place(call.source)) for call in calls))
    if len(places) == 1:
        return {places[0]: ""}
    return {place: _letter(number) for number, place in enumerate(places)}


def _letter(number: int) -> str:
    """Return a to z, then aa, ab and so on."""
    more, last = divmod(number, 26)
    return (_letter(more - 1) if more else "") + chr(ord("a") + last)


def _places(calls: Sequence[Call]) -> Text:
    """Return where the calls were made, in full."""
    lines = [
        Text.assemble((f"{kind} {letter}".strip(), "bold"), ("  at ", "dim"), place)
        for (kind, place), letter in _letters(calls).items()
    ]
    return Text("\n").join([Text(), *lines])


def _legend(calls: Sequence[Call]) -> Text:
    grouped = any(call.kv_heads != call.heads for call in calls)
    heads = "heads: query/kv heads; " if grouped else ""
    return Text(
        f"{heads}mask: share of pairs that may attend; entropy: nats, lowest–highest head; max: "
        "largest weight of a row in the sharpest head (means over queries); replay: largest "
        "relative difference from the model's own output",
        style="dim",
    )


def _unseen(trace: Trace) -> list[Text]:
    return _listing(
        "could not be looked into", "yellow", [(item.module, item.reason) for item in trace.unseen]
    )


def _others(trace: Trace) -> list[Text]:
    entries = [
        (item.module, f"{item.role}: {item.reason} ({words.place(item.source)})")
        for item in trace.others
    ]
    return _listing("softmaxes that are not attention", "cyan", entries)


def _notes(trace: Trace) -> list[Text]:
    return [Text.assemble(("note ", "cyan"), note) for note in trace.notes]


def _listing(heading: str, style: str, entries: list[tuple[str, str]]) -> list[Text]:
    """Return a heading and one line an entry, equal reasons together."""
    if not entries:
        return []
    modules: dict[str, list[str]] = {}
    for module, reason in entries:
        modules.setdefault(reason, []).append(module or words.THE_MODEL)
    lines = [Text(f"{heading}:", style=style)]
    for reason, names in modules.items():
        more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
        lines.append(
            Text.assemble("  ", (", ".join(names[:MOST_LISTED]) + more, "bold"), f": {reason}")
        )
    return lines


def _verdict(trace: Trace, calls: Sequence[Call]) -> Text:
    """Return one line: how many calls, how many of them proven."""
    if not calls:
        reasons = "; ".join(dict.fromkeys(item.reason for item in trace.unseen))
        why = reasons or "no values were weighed by a softmax of q·k"
        return Text(f"no attention seen, because {why}", style="bold yellow")
    beyond = [call for call in calls if words.beyond_rounding(call)]
    errors = [words.error_of(call) for call in calls if call not in beyond]
    exact = sum(error == 0 for error in errors)
    near = [error for error in errors if error]
    without = sum(error is None for error in errors)
    said = []
    if exact:
        said.append(f"{_share(exact, calls)}replayed exactly")
    if near:
        within = f"within {words.replay(max(near))} of the model's own output (rounding)"
        said.append(f"{_share(len(near), calls)}{within}")
    if beyond:
        furthest = words.replay(max(words.error_of(call) or 0.0 for call in beyond))
        off = f"off by up to {furthest}, which is more than rounding"
        said.append(f"{_share(len(beyond), calls)}{off}")
    if without:
        said.append(f"{_share(without, calls)}without a replay")
    whole = f" of {len(trace)}" if len(calls) != len(trace) else ""
    style = "bold red" if beyond else "bold yellow" if without else "bold green"
    return Text(
        f"{len(calls)}{whole} {'call' if len(trace) == 1 else 'calls'}, {', '.join(said)}", style
    )


def _share(count: int, calls: Sequence[Call]) -> str:
    """Return how many of the calls: nothing where there is one, "all", or the number."""
    if len(calls) == 1:
        return ""
    return "all " if count == len(calls) else f"{count} "
