"""The coverage page: what held for how many architectures, what did not and why, and a table."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
import transformers

from benchmarks.sweeping.row import SETTINGS, Row, Spot
from benchmarks.sweeping.store import Rows

_HEAD = """# Coverage: every Hugging Face architecture

Written by `make sweep` (torch {torch}, transformers {transformers}, CPU). Each model type of
transformers is built tiny with random weights and run in a process of its own, in three settings:
*eager* attention and the model's *default* attention in eval mode under `no_grad`, and *training*:
eager, train mode, with a backward from the sum of all outputs. Each run is made without and with
`attnscope.record`, from the same seeds, and compared bit for bit: outputs, gradients, parameters,
buffers, train/eval modes, hooks, random states, the settings of PyTorch. Softmaxes and fused
attentions are counted below attnscope, as PyTorch dispatches them, and matched with the recorded
calls and `trace.others` line by line. A hand-written call must replay bit for bit, a fused one
within the rounding of its type (`attnscope.calls.tolerance`).
"""

_Counter = Callable[[list[Row]], str]


def write_report(path: Path, rows: Rows) -> None:
    """Write the page."""
    sections = [
        _HEAD.format(torch=torch.__version__, transformers=transformers.__version__),
        _summary(rows),
        _faults(rows),
        _not_measured(rows),
        _notes(rows),
        _table(rows),
    ]
    path.write_text("\n".join(section for section in sections if section), encoding="utf-8")


# -- counts ----------------------------------------------------------------------------------------


def _summary(rows: Rows) -> str:
    every = [row for group in rows.values() for row in group]
    by_setting = [[row for row in every if row.setting == one.name] for one in SETTINGS]
    measured = [[row for row in some if row.status == "measured"] for some in by_setting]
    lines = [
        f"{len(rows)} model types.\n",
        _cells("", *(one.name for one in SETTINGS)),
        _cells("---", *("---:" for _ in SETTINGS)),
        _cells("not built", *(_status(some, "not built") for some in by_setting)),
        _cells("built, do not run", *(_status(some, "does not run") for some in by_setting)),
        _cells(
            "crashed or timed out", *(_status(some, "crashed", "timed out") for some in by_setting)
        ),
        _cells("recording raises", *(_status(some, "recording raises") for some in by_setting)),
        _cells("**measured**", *(f"**{len(some)}**" for some in measured)),
    ]
    lines += [_cells(name, *(count(some) for some in measured)) for name, count in _COUNTS]
    return "\n".join(lines) + "\n"


def _status(rows: Iterable[Row], *names: str) -> int:
    return sum(row.status in names for row in rows)


def _share(part: Callable[[Row], int], whole: Callable[[Row], int]) -> _Counter:
    def count(rows: list[Row]) -> str:
        return f"{sum(map(part, rows)):,} of {sum(map(whole, rows)):,}"

    return count


def _one(row: Row) -> int:
    return row is not None


def _has_softmax(row: Row) -> int:
    return bool(row.softmaxes)


def _left(row: Row) -> int:
    return sum(spot.count for spot in row.unaccounted)


def _apart(row: Row) -> int:
    return sum(spot.count for spot in row.others)


_COUNTS: tuple[tuple[str, _Counter], ...] = (
    ("unchanged by recording, bit for bit", _share(lambda row: not row.changed, _one)),
    ("compute a softmax", _share(_has_softmax, _one)),
    (
        "… every softmax accounted for",
        _share(lambda row: not _left(row) and row.softmaxes > 0, _has_softmax),
    ),
    ("attention calls seen in", _share(lambda row: row.calls > 0, _one)),
    (
        "softmaxes accounted for",
        _share(lambda row: row.softmaxes - _left(row), lambda row: row.softmaxes),
    ),
    ("… that are not attention", _share(_apart, lambda row: row.softmaxes)),
    ("calls that replay as they must", _share(lambda row: row.exact, lambda row: row.calls)),
    ("calls that have no values to replay", _share(lambda row: row.blank, lambda row: row.calls)),
    (
        "unread parts of recipes",
        lambda rows: f"{sum(s.count for row in rows for s in row.unknown):,}",
    ),
    ("no fault at all", _share(lambda row: not row.faults, _one)),
)


# -- what went wrong -------------------------------------------------------------------------------

_SPOTS: tuple[tuple[str, Callable[[Row], list[Spot]]], ...] = (
    ("Calls that are no attention: no softmax, no other normaliser", lambda row: row.phantoms),
    ("Softmaxes called attention here and something else there", lambda row: row.disputed),
    ("Softmaxes unaccounted for", lambda row: row.unaccounted),
    ("Softmaxes counted twice", lambda row: row.doubled),
    ("Replay differs", lambda row: row.misses),
    ("Replay raises", lambda row: row.raises),
    ("Recipe parts that could not be read", lambda row: row.unknown),
)


def _faults(rows: Rows) -> str:
    parts = ["## Faults\n"]
    raised = [(row, row.error) for row in _rows(rows) if row.status == "recording raises"]
    parts += _grouped("Recording raises", raised)
    changed = [(row, _kind(name)) for row in _rows(rows) for name in row.changed]
    parts += _grouped("Changed by recording", changed)
    for title, spots in _SPOTS:
        found = [
            (row, f"`{spot.source}` {_code(spot.text)}")
            for row in _rows(rows)
            for spot in spots(row)
        ]
        parts += _grouped(title, found)
    return "\n".join(parts) if len(parts) > 1 else "No fault was found.\n"


def _not_measured(rows: Rows) -> str:
    found = [
        (row, _reason(row))
        for row in _rows(rows)
        if row.status not in {"measured", "recording raises"}
    ]
    return "\n".join(_grouped("Not measured", found, level=2))


def _notes(rows: Rows) -> str:
    restless = [(row, _kind(name)) for row in _rows(rows) for name in row.restless]
    unseen = [(row, spot.text) for row in _rows(rows) for spot in row.unseen]
    parts = _grouped("Not the same in two plain runs", restless, level=2)
    return "\n".join(parts + _grouped("Named as unseen", unseen, level=2))


def _grouped(title: str, found: list[tuple[Row, str]], level: int = 3) -> list[str]:
    """Return a section that lists each text once, most frequent first, with the architectures."""
    if not found:
        return []
    names: defaultdict[str, dict[str, set[str]]] = defaultdict(dict)
    for row, text in found:
        names[text].setdefault(row.architecture, set()).add(row.setting)
    lines = [f"{'#' * level} {title}\n"]
    for text, where in sorted(names.items(), key=lambda item: (-len(item[1]), item[0])):
        listed = ", ".join(f"{name}{_in(where[name])}" for name in sorted(where))
        lines.append(f"- {text} — {listed}")
    return [*lines, ""]


def _in(settings: set[str]) -> str:
    if len(settings) == len(SETTINGS):
        return ""
    return f" ({', '.join(one.name for one in SETTINGS if one.name in settings)})"


def _kind(name: str) -> str:
    kind, _, rest = name.partition("/")
    return f"{kind}: {rest}" if kind in {"settings", "functions", "random"} else kind


def _reason(row: Row) -> str:
    """Return why a row was not measured, without what differs from one architecture to the next."""
    text = re.sub(r"`[^`]*`|'[^']*'|\d+", "…", row.error.partition(";")[0].partition("\n")[0])
    text = re.sub(r"^TargetError: building the architecture \S+: ?", "", text)
    return f"{row.status}: {_code(text)}"


def _code(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


# -- the table -------------------------------------------------------------------------------------


def _table(rows: Rows) -> str:
    """Return one line for each architecture that ran in at least one setting."""
    names = [one.name for one in SETTINGS]
    lines = [
        "## Architectures\n",
        "Per setting: attention calls, and after a `+` the softmaxes that are not attention.\n",
        _cells("architecture", "model", *names, "not attention", "faults"),
        _cells("---", "---", *("---:" for _ in names), "---", "---"),
    ]
    for name in sorted(rows):
        ran = {row.setting: row for row in rows[name] if row.status != "not built"}
        if not ran:
            continue
        roles = sorted({role for row in ran.values() for role in _roles(row)})
        faults = Counter(fault for row in ran.values() for fault in row.faults)
        model = next(iter(ran.values())).model_class
        listed = ", ".join(faults)
        lines.append(
            _cells(
                name, model, *(_numbers(ran.get(one)) for one in names), ", ".join(roles), listed
            )
        )
    return "\n".join(lines) + "\n"


def _numbers(row: Row | None) -> str:
    if row is None or row.status != "measured":
        return "–" if row is None else row.status
    others = _apart(row)
    return f"{row.calls}+{others}" if others else str(row.calls)


def _roles(row: Row) -> set[str]:
    return {spot.text for spot in row.others}


def _cells(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _rows(rows: Rows) -> Iterator[Row]:
    for name in sorted(rows):
        yield from rows[name]
