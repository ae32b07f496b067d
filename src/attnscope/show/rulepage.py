"""The page of a rule: for a terminal, as Markdown, and as plain data; and the table of rules."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from attnscope.checks.formats.wording import first_sentence
from attnscope.checks.rule import Rule
from attnscope.checks.rules import rule_of
from attnscope.show.ruled import ruled_table

__all__ = ["markdown", "markdown_table", "page_json", "rule_page", "rule_table"]

_COLOURS = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}

_STEP = "  "

_CODE = re.compile(r"`[^`]+`")

# What Markdown would take for a sign of its own; an underscore inside a word is none.
_SIGN = re.compile(r"[\\*<\[\]|]|(?<!\w)_|_(?!\w)")


def page_json(rule: Rule) -> dict[str, Any]:
    """Return the page of a rule as plain data."""
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "what": _joined(rule.what),
        "why": _joined(rule.why),
        "proof": _joined(rule.proof),
        "fix": _joined(rule.fix),
        "bad": _program(rule.bad),
        "good": _program(rule.good),
        "limits": _joined(rule.limits),
        "explains": list(rule.explains),
        "sources": list(rule.sources),
    }


# -- for a terminal --------------------------------------------------------------------------------


def rule_table(rules: Iterable[Rule]) -> Table:
    """Return code, severity, name and first sentence of each rule."""
    table = ruled_table()
    table.add_column("code", style="bold", no_wrap=True)
    table.add_column("severity", no_wrap=True)
    table.add_column("name", no_wrap=True)
    table.add_column("what it means")
    for rule in rules:
        severity = Text(rule.severity, _COLOURS[rule.severity])
        table.add_row(rule.code, severity, rule.name, _marked(first_sentence(rule.what)))
    return table


def rule_page(rule: Rule) -> RenderableType:
    """Return the page of a rule, to be read from the top."""
    colour = _COLOURS[rule.severity]
    head = Text.assemble(
        (rule.code, "bold"), " ", (rule.name, "bold"), "  ", (rule.severity, colour)
    )
    lines: list[RenderableType] = [head, Text(), *(_Lines(each, "") for each in _said(rule.what))]
    for title, text in _parts(rule):
        lines += [Text(), Text(title, "bold"), *(_Lines(each) for each in _said(text))]
    for title, program in (("bad", rule.bad), ("good", rule.good)):
        lines += [Text(), Text(title, "bold red" if title == "bad" else "bold green")]
        lines.append(_Lines(_highlighted(_program(program))))
    lines += _ending(rule)
    return Group(*lines)


def _parts(rule: Rule) -> Iterator[tuple[str, str]]:
    """Iterate over the titles and texts between what is wrong and the two programs."""
    yield "why it matters", rule.why
    yield "how it is proved", rule.proof
    yield "fix", rule.fix
    if rule.limits:
        yield "limits", rule.limits


def _ending(rule: Rule) -> Iterator[RenderableType]:
    """Iterate over what follows from the fault, how to silence it, and the sources."""
    if rule.explains:
        yield Text()
        yield Text("folded under it where they follow", "bold")
        yield _Lines(Text(", ".join(_called(code) for code in rule.explains)))
    if rule.sources:
        yield Text()
        yield Text("sources", "bold")
        for source in rule.sources:
            yield _Lines(Text(source, "dim"))
    yield Text()
    yield Text("to silence it on a line", "bold")
    yield _Lines(Text(_comment(rule)))


class _Lines:
    """A text in lines, indented, without the blanks that rich would leave at their ends."""

    def __init__(self, text: Text, indent: str = _STEP) -> None:
        self.text = text
        self.indent = indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.wrap(console, max(1, options.max_width - len(self.indent))):
            line.rstrip()
            yield Text.assemble(self.indent if line.plain else "", line)


def _said(text: str) -> list[Text]:
    """Return the paragraphs of a text, with a line between them."""
    paragraphs = [_marked(each) for each in _joined(text).split("\n\n")]
    return [line for each in paragraphs for line in (Text(), each)][1:]


def _marked(text: str) -> Text:
    """Return a text whose pieces of code stand out."""
    made = Text(text)
    made.highlight_regex(_CODE, "cyan")
    return made


def _highlighted(program: str) -> Text:
    syntax = Syntax("", "python", theme="ansi_dark", background_color="default")
    made = syntax.highlight(program)
    made.rstrip()
    made.no_wrap = False  # a long line is broken, never cut
    return made


# -- as Markdown -----------------------------------------------------------------------------------


def markdown(rule: Rule, level: int = 2) -> str:
    """Return the page of a rule as Markdown.

    Args:
        rule: the rule.
        level: of its heading.
    """
    blocks = [f"{'#' * level} {rule.code} {rule.name}", f"*{rule.severity}*", _escaped(rule.what)]
    blocks += [f"**{title.capitalize()}.** {_escaped(text)}" for title, text in _parts(rule)]
    for title, program in (("Bad", rule.bad), ("Good", rule.good)):
        blocks += [f"{title}:", _fenced(_program(program))]
    if rule.explains:
        follows = ", ".join(_called(code, _link) for code in rule.explains)
        blocks.append(f"Folded under it where they follow: {follows}.")
    if rule.sources:
        blocks.append("Sources:")
        blocks.append("\n".join(f"- <{source}>" for source in rule.sources))
    blocks.append(f"To silence it on a line: `{_comment(rule)}`")
    return "\n\n".join(blocks) + "\n"


def markdown_table(rules: Iterable[Rule]) -> str:
    """Return code, severity, name and first sentence of each rule as a table in Markdown."""
    lines = ["| code | severity | name | what it means |", "|---|---|---|---|"]
    for rule in rules:
        what = re.sub(r"(?<!\\)\|", r"\|", _escaped(first_sentence(rule.what)))
        lines.append(f"| {_link(rule, rule.code)} | {rule.severity} | {rule.name} | {what} |")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Return a text in which nothing but code is Markdown."""
    text = _joined(text)
    made, at = [], 0
    for code in _CODE.finditer(text):
        made += [_SIGN.sub(r"\\\g<0>", text[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*made, _SIGN.sub(r"\\\g<0>", text[at:])])


def _fenced(program: str) -> str:
    longest = max((len(ticks) for ticks in re.findall(r"`+", program)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{program}\n{fence}"


# -- what both forms share -------------------------------------------------------------------------


def _joined(text: str) -> str:
    """Return a text with one line a paragraph and an empty line between paragraphs."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def _program(text: str) -> str:
    return textwrap.dedent(text).strip("\n").rstrip()


def _called(
    code: str, form: Callable[[Rule], str] = lambda rule: f"{rule.code} {rule.name}"
) -> str:
    """Return a code with its name, in some form; the bare code where there is no such rule."""
    found = rule_of(code)
    return code if found is None else form(found)


def _link(rule: Rule, text: str = "") -> str:
    return f"[{text or f'{rule.code} {rule.name}'}](#{rule.code.lower()}-{rule.name})"


def _comment(rule: Rule) -> str:
    return f"# attnscope: ignore[{rule.code}] the reason"
