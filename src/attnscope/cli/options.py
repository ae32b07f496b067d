"""Options that several commands have, alike in name, values and help."""

from __future__ import annotations

import click

expect_option = click.option(
    "--expect", multiple=True, metavar="KEY=VALUE", help="What the author intends."
)
attention_option = click.option(
    "--attention",
    type=click.Choice(["eager", "sdpa", "flex"]),
    help="Kernel of Hugging Face models.",
)
format_option = click.option(
    "--format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="A table for people, or JSON for programs.",
)
