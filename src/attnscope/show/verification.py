"""The result of a comparison for people: the verdict, the first difference, and the evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attnscope.differ.result import Case, FirstDifference, Verification
from attnscope.differ.shrinking.smallest import Shrunk
from attnscope.show import words
from attnscope.show.pairs import weight_parts
from attnscope.show.ruled import ruled_table
from attnscope.show.stages import every_stage, stage_parts

_OF_QUERY = ("batch", "head", "query", "feature")
_OF_KEY = ("batch", "head", "key", "feature")
_OF_PAIR = ("batch", "head", "query", "key")
_AXES = {
    "q": _OF_QUERY,
    "k": _OF_KEY,
    "v": _OF_KEY,
    "raw_scores": _OF_PAIR,
    "scores": _OF_PAIR,
    "weights": _OF_PAIR,
    "context": _OF_QUERY,
}
"""What an index counts, axis by axis, in the canonical layout of a stage."""

_VERDICTS = {
    "shape": "the shapes differ",
    "non-finite": "NaN or infinity where the other side has none",
    "missing": "attention calls of the reference have no counterpart",
    "extra": "the candidate makes attention calls that the reference doesn't",
    "rounding": "in float64 both agree, in its own type the candidate is off",
    "whole": "all parts agree, the whole does not",
}


def verification_view(
    result: Verification, *, whole: bool = False, width: int = 100
) -> RenderableType:
    """Return the verdict with its evidence, to be read from the top.

    Args:
        result: of `attnscope.verify`.
        whole: show every stage and every pair of weights, none of them in groups.
        width: columns of the terminal.
    """
    parts: list[list[RenderableType]] = [list(_verdict(result))]
    if result.first_difference is not None:
        parts.append(
            [Padding(each, (0, 0, 0, 2), expand=False) for each in _first(result.first_difference)]
        )
    parts.append([every_stage(result)] if whole else list(stage_parts(result, width)))
    parts.append(list(_cases(result.cases, whole=whole)))
    parts.append(list(_conditions(result)))
    if result.weights is not None:
        parts.append(list(weight_parts(result.weights, width, whole=whole)))
    parts.append([Text.assemble(("note ", "cyan"), note) for note in result.notes])
    lines: list[RenderableType] = []
    for part in parts:
        if part and lines:
            lines.append(Text())
        lines += part
    return Group(*lines)


def shrunk_view(small: Shrunk) -> RenderableType:
    """Return what became of the sizes when the inputs were made smaller, and what could not be."""
    lines = [Text(), Text.assemble(("smallest inputs that still fail: ", "bold"), str(small))]
    return Group(*lines, *(Text.assemble(("note ", "cyan"), note) for note in small.notes))


# -- the verdict ---------------------------------------------------------------------------------


def _verdict(result: Verification) -> Iterator[Text]:
    """Iterate over the lines on top: equal or not, and where first."""
    sides = f"{result.candidate} against {result.reference}: "
    if result.equal:
        yield Text.assemble((sides, "bold"), ("equal", "bold green"))
        yield Text(_what_was_compared(result))
        return
    yield Text.assemble((sides, "bold"), ("not equal", "bold red"))
    first = result.first_difference
    if first is not None:
        if first.case:
            yield Text(f"equal on the inputs, not in a further case: {first.case}")
        yield Text.assemble("first at ", (_stage(first), "bold red"), _place(first))
    elif not result.stages:
        yield Text("nothing could be compared", "bold red")
    else:
        failed = [case.name for case in result.cases if case.equal is False]
        yield Text(f"equal on the inputs, not with: {', '.join(failed)}")


def _what_was_compared(result: Verification) -> str:
    calls = len(result.alignment.pairs)
    said = [f"{result.compared} tensors compared"]
    if calls:
        said[0] += f" in {calls} attention {'call' if calls == 1 else 'calls'}"
    gradients = any(stage.stage.startswith("grad.") for stage in result.stages)
    said.append("gradients included" if gradients else "forward alone")
    held = [case for case in result.cases if case.equal]
    if held:
        said.append(f"{len(held)} more {'case' if len(held) == 1 else 'cases'} of inputs")
    return ", ".join(said)


def _stage(first: FirstDifference) -> str:
    name = "the model's own output" if first.stage == "model" else first.stage
    return f"{name} {first.part}".rstrip()


def _place(first: FirstDifference) -> str:
    """Return the call, its module and the line where the candidate made it."""
    said = []
    if first.call is not None:
        said.append(f"of call {first.call}")
    if first.module:
        said.append(first.module)
    if first.source is not None:
        said.append(f"at {words.place(first.source)}")
    return "".join(f"{' ' if not at else ', '}{each}" for at, each in enumerate(said))


# -- the first difference ------------------------------------------------------------------------


def _first(first: FirstDifference) -> Iterator[RenderableType]:
    """Iterate over what is known of it: why, the worst entry, its own and its inherited error."""
    explanation = first.explanation
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    if first.verdict in _VERDICTS:
        table.add_row("verdict", _VERDICTS[first.verdict])
    if explanation is not None:
        table.add_row("because", Text.assemble((explanation.key, "bold"), f": {explanation.text}"))
        table.add_row("tried", _remains(explanation.remains))
    else:
        table.add_row("because", "no change that attnscope knows makes it agree")
    if first.values is not None:
        ours, theirs = (words.number(value) for value in first.values)
        entry = f"{_entry(first)}: "
        table.add_row(
            "worst", Text.assemble(entry, (ours, "bold"), ", the reference ", (theirs, "bold"))
        )
    if math.isfinite(first.largest):
        table.add_row("error", _errors(first))
    yield table


def _remains(remains: float) -> str:
    if remains == 0:
        return "with this change the stage agrees exactly"
    left = words.number(remains, 2)
    return f"with this change the stage agrees: {left} of its largest entry remains"


def _entry(first: FirstDifference) -> str:
    """Return the index of the worst entry, axes by name where the layout is canonical."""
    names = _AXES.get(first.stage.removeprefix("grad."), ())
    if len(names) == len(first.index) and names:
        return ", ".join(f"{name} {at}" for name, at in zip(names, first.index, strict=True))
    return f"entry [{', '.join(map(str, first.index))}]"


def _errors(first: FirstDifference) -> str:
    """Return own and inherited error beside that of the run."""
    ran = f"{words.number(first.largest, 2)} of the reference's largest entry"
    if first.own_error is None or first.inherited_error is None:
        return f"{ran}, as both ran"
    own, inherited = words.number(first.own_error, 2), words.number(first.inherited_error, 2)
    if first.inherited_error == 0 and first.own_error == first.largest:
        return f"{ran}, all of it its own"
    return f"{ran} as both ran: {own} of its own, {inherited} inherited"


# -- the evidence --------------------------------------------------------------------------------


def _cases(cases: Sequence[Case], *, whole: bool) -> Iterator[RenderableType]:
    """Iterate over the cases of inputs: those that differ, then the others in a line each."""
    if not cases:
        return
    if whole:
        yield Text("other inputs", "bold")
        yield _case_table(cases)
        return
    wrong = [case for case in cases if case.equal is False]
    if wrong:
        yield Text("not equal with:", "bold")
        yield _case_table(wrong)
    held = [case.name for case in cases if case.equal]
    if held:
        yield Text.assemble(("equal also with: ", "bold"), ", ".join(held))
    for case in cases:
        if case.equal is None:
            yield Text(f"not compared with: {case.name}: {case.note}".removesuffix(": "), "dim")


def _case_table(cases: Sequence[Case]) -> Table:
    table = ruled_table()
    for name in ("case", "", "largest", "note"):
        table.add_column(name, overflow="fold", justify="right" if name == "largest" else "left")
    marks = {True: ("=", "green"), False: ("✗", "bold red"), None: ("–", "dim")}
    for case in cases:
        largest = "" if case.equal is None else words.number(case.largest, 2)
        table.add_row(case.name, Text(*marks[case.equal]), largest, case.note)
    return table


def _conditions(result: Verification) -> Iterator[Text]:
    """Iterate over the conditions that differ, a line each, then the others in one."""
    for condition in result.conditions:
        if not condition.equal:
            yield Text.assemble(("differs: ", "yellow"), str(condition))
    alike = [str(condition) for condition in result.conditions if condition.equal]
    if alike:
        yield Text(f"alike: {'; '.join(alike)}", "dim")
