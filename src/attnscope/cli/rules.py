"""`attnscope rules`: the list of rules. Nothing here imports torch."""

from __future__ import annotations

import json

import click

from attnscope.cli.command import Command
from attnscope.cli.options import format_option

SCHEMA = "attnscope.rules/1"


@click.command(
    cls=Command,
    name="rules",
    short_help="List the rules that check runs.",
    example="attnscope rules",
)
@format_option
def command(format: str) -> None:  # noqa: A002  click hands options over by their names
    """List every rule: its code, its usual severity, its name and what it means.

    An error or a warning makes `attnscope check` fail, a note does not.
    `attnscope explain CODE` shows the page of one rule.
    """
    from attnscope.checks.formats.wording import first_sentence
    from attnscope.checks.rules import RULES
    from attnscope.show.rulepage import rule_table

    if format == "json":
        listed = [
            {
                "code": rule.code,
                "severity": rule.severity,
                "name": rule.name,
                "what": first_sentence(rule.what),
            }
            for rule in RULES
        ]
        click.echo(json.dumps({"schema": SCHEMA, "rules": listed}, indent=2, ensure_ascii=False))
        return
    from attnscope.cli.progress import result_console

    result_console().print(rule_table(RULES))
