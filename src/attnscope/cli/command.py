"""What every command has: an example for the help, and `--debug` after its name too."""

from __future__ import annotations

from typing import Any

import click


class Command(click.Command):
    """A command with a one-line example, which `attnscope --help` shows.

    Args:
        example: the line as it is typed.
        args, kwargs: those of click.Command.
    """

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example
        self.params.append(
            click.Option(
                ["--debug"],
                is_flag=True,
                expose_value=False,
                help="Show the traceback of an error.",
            )
        )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        """Write the example on a line of its own, never wrapped."""
        formatter.write(f"\nExample:\n  {self.example}\n")
