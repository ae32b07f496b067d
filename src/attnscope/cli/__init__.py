"""The command line: `attnscope COMMAND TARGET [options]`.

Exit status: 0 done and nothing found, 1 findings, 2 the target or the options could not be used
(one line on standard error). Results go to standard output alone, all else to standard error.
Each command lives in a file of its own and is imported when it is asked for; nothing here or
there imports torch before a command runs.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import click

from attnscope import __version__
from attnscope.cli.command import Command
from attnscope.errors import AttnscopeError

COMMANDS = {
    "trace": "attnscope.cli.trace",
    "check": "attnscope.cli.check",
    "verify": "attnscope.cli.verify",
    "rules": "attnscope.cli.rules",
    "explain": "attnscope.cli.explain",
}

_OK, _UNUSABLE, _INTERRUPTED = 0, 2, 130


class _Commands(click.Group):
    """Finds each command in its own module, and shows an example of each in the help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            for name in self.list_commands(ctx):
                command = self.get_command(ctx, name)
                if isinstance(command, Command):
                    formatter.write_dl([(name, command.get_short_help_str(80))])
                    formatter.write(f"      {command.example}\n")


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", prog_name="attnscope")
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def _group() -> None:
    """See every attention call of a PyTorch model, number by number.

    TARGET is path/file.py:name, package.module:name, path/file.py (which defines `model`),
    a Hugging Face checkpoint folder, arch:NAME, sample:minilm or sample:smollm2.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave with its exit status.

    Args:
        arguments: the words after `attnscope`; None takes those of this process.
    """
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Run one command and return the exit status; an error becomes one line on standard error."""
    debug = "--debug" in arguments
    try:
        with _group.make_context("attnscope", arguments or ["--help"]) as context:
            result = _group.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as finished:  # --help and --version
        return finished.exit_code
    except click.ClickException as error:
        return _complain(error.format_message(), debug=debug)
    except AttnscopeError as error:
        return _complain(str(error), debug=debug)
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted", debug=debug)
        return _INTERRUPTED
    except BrokenPipeError:
        _silence()
        return _OK
    except Exception as error:  # noqa: BLE001  the last resort: no traceback unless it is asked for
        return _complain(_own_fault(error), debug=debug)
    return result if isinstance(result, int) else _OK


def _complain(message: str, *, debug: bool) -> int:
    """Write one line to standard error, after the traceback where that is wanted."""
    if debug:
        traceback.print_exc()
    click.echo(f"attnscope: {' '.join(message.split())}", err=True)
    return _UNUSABLE


def _own_fault(error: Exception) -> str:
    """Return what to say of an error that attnscope did not foresee."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"unforeseen {type(error).__name__} at {frame.filename}:{frame.lineno}: {error}; "
        "run it again with --debug and report what it prints"
    )


def _silence() -> None:
    """Let what is still to be written vanish: the reader of the pipe has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
