"""`attnscope explain CODE`: the page of one rule. Nothing here imports torch."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING

import click

from attnscope.cli.command import Command
from attnscope.cli.options import format_option
from attnscope.errors import InputError

if TYPE_CHECKING:
    from attnscope.checks.rule import Rule

SCHEMA = "attnscope.rule/1"

_AT_MOST = 5


@click.command(
    cls=Command,
    name="explain",
    short_help="Show what a rule finds, why it matters, and how to mend it.",
    example="attnscope explain AS201",
)
@click.argument("code")
@format_option
def command(code: str, format: str) -> None:  # noqa: A002  click hands options over by their names
    """Show the page of the rule CODE, which is a code (AS201) or a name (future-leak).

    It says what is wrong, why it matters, how it is proved and with which threshold, what to write
    instead, with a bad and a good program, what it can't tell, and the sources.
    """
    from attnscope.checks.rules import rule_of
    from attnscope.show.rulepage import page_json, rule_page

    rule = rule_of(code)
    if rule is None:
        raise _unknown(code)
    if format == "json":
        data = {"schema": SCHEMA, **page_json(rule)}
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    from attnscope.cli.progress import result_console

    result_console().print(rule_page(rule))


def nearest(asked: str) -> tuple[Rule, ...]:
    """Return the rules that were perhaps meant, the likeliest first, at most five.

    Those that are spelt alike, whose name shares a word, or whose code begins as the one that was
    asked for (AS2 of AS299).
    """
    from attnscope.checks.rules import RULES

    word = asked.strip().lower()
    by_text = {text: rule for rule in RULES for text in (rule.code.lower(), rule.name)}
    alike = [by_text[text] for text in difflib.get_close_matches(word, by_text, n=3, cutoff=0.7)]
    parts = [part for part in word.replace("_", "-").replace(" ", "-").split("-") if len(part) > 2]
    sharing = [
        rule
        for rule in RULES
        if any(own.startswith(part) for own in rule.name.split("-") for part in parts)
    ]
    digits = word.removeprefix("as")
    family = [r for r in RULES if digits.isdecimal() and r.code.startswith(f"AS{digits[0]}")]
    return tuple(dict.fromkeys((*alike, *sharing, *family)))[:_AT_MOST]


def _unknown(asked: str) -> InputError:
    close = " or ".join(f"{rule.code} {rule.name}" for rule in nearest(asked))
    hint = f"did you mean {close}? " if close else ""
    return InputError(
        f"explaining {asked}", "there is no such rule", f"{hint}`attnscope rules` lists them all"
    )
