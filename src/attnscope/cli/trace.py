"""`attnscope trace`: run a target once and list every attention call."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attnscope.cli.command import Command
from attnscope.cli.options import attention_option, expect_option, format_option
from attnscope.errors import InputError

if TYPE_CHECKING:
    from attnscope.calls import Call
    from attnscope.cli.running import Run


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be made of the trace."""

    format: str
    save: Path | None
    png: Path | None
    heads: str | None
    walk: tuple[str, ...]
    shapes: tuple[int, ...]
    module: str | None

    def check(self) -> None:
        """Refuse, before anything long begins, what can't go together or can't be written."""
        if self.format == "json" and (self.walk or self.shapes):
            raise click.UsageError("--walk and --shapes are for people: leave out --format json")
        if self.heads is not None and self.png is None:
            raise click.UsageError("--heads chooses what --png draws: say --png FILE too")
        for option, path in (("--png", self.png), ("--save", self.save)):
            if path is not None and not path.absolute().parent.is_dir():
                raise click.UsageError(f"{option} {path}: there is no folder {path.parent}")
        if self.png is not None and self.png.is_dir():
            raise click.UsageError(f"--png {self.png}: it is a folder, name a file")
        if self.save is not None and self.save.exists():
            raise click.UsageError(f"--save {self.save}: it exists already, name a new folder")


@click.command(
    cls=Command,
    name="trace",
    short_help="Run a target once and list every attention call.",
    example='attnscope trace sample:minilm --text "The cat sat." --walk 0:0:cat',
)
@click.argument("target")
@click.option(
    "--text", multiple=True, help="Text to tokenise; given several times, a padded batch."
)
@click.option(
    "--inputs", metavar="FILE:NAME", help="Inputs: a dict, a tuple, a tensor or a function."
)
@expect_option
@attention_option
@click.option(
    "--generate",
    type=click.IntRange(min=1),
    metavar="N",
    help="Generate N tokens instead of one forward pass.",
)
@click.option("--backward", is_flag=True, help="Run a backward on the sum of the outputs, too.")
@click.option(
    "--keep",
    type=click.Choice(["all", "qkv", "numbers"]),
    default="qkv",
    show_default=True,
    help="What is kept of each call: every tensor, q, k and v, or numbers per head alone.",
)
@click.option("--module", metavar="PREFIX", help="List only calls in this module or below it.")
@click.option(
    "--shapes", type=int, multiple=True, metavar="CALL", help="The shape sheet of a call."
)
@click.option("--walk", multiple=True, metavar="CALL:HEAD:QUERY", help="One query, step by step.")
@click.option(
    "--png", type=click.Path(path_type=Path), metavar="FILE", help="Draw weights as heat maps."
)
@click.option("--heads", metavar="CALL:HEAD,...", help="What --png draws, e.g. 0:3,5:1.")
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Save the trace into a new folder.",
)
@format_option
def command(target: str, **options: Any) -> None:
    """Run TARGET once and list every attention call that really happened.

    TARGET: see attnscope --help. CALL is the number in the first column of the table; QUERY is a
    position (negative ones count from the end) or the text of a token.
    """
    mode = {name: options.pop(name) for name in ("keep", "generate", "backward")}
    words = {name: options.pop(name) for name in ("text", "inputs", "expect", "attention")}
    asked = Asked(**options)
    asked.check()
    if mode["generate"] and mode["backward"]:
        raise click.UsageError("--generate and --backward: generation keeps no gradients, give one")
    with contextlib.redirect_stdout(sys.stderr):  # what models and libraries print is no result
        run = _run(target, words, mode)
        calls = _listed(run, asked.module)
        _measure(calls)
        if asked.save is not None:
            run.trace.save(asked.save)
            click.echo(f"saved {len(run.trace)} calls into {asked.save}", err=True)
        if asked.png is not None:
            _draw(run, calls, asked)
    _write(run, calls, asked)


def _run(target: str, words: dict[str, Any], mode: dict[str, Any]) -> Run:
    """Load the target and run it, with signs of life on standard error."""
    from attnscope.cli.progress import Progress
    from attnscope.cli.running import run
    from attnscope.targets import Wishes, resolve

    with Progress() as progress:
        progress.now(f"reading {target}")
        wishes = Wishes(
            inputs=words["inputs"],
            texts=words["text"],
            expect=words["expect"],
            attention=words["attention"],
            continued=mode["generate"] is not None,
            announce=progress.say,
        )
        found = resolve(target, wishes)
        progress.now(f"running {target}")
        return run(found, **mode)


FEW = 2
"""Up to so many calls, the shape sheet of the first is shown unasked."""


def _measure(calls: list[Call]) -> None:
    """Replay the calls and take their numbers, which each call then keeps."""
    from attnscope.cli.progress import Progress
    from attnscope.show.words import error_of, numbers_of

    with Progress() as progress:
        for done, call in enumerate(calls, start=1):
            progress.now(f"replaying call {done} of {len(calls)}")
            numbers_of(call)
            error_of(call)


def _listed(run: Run, module: str | None) -> list[Call]:
    """Return the calls that `--module` asks for."""
    calls = run.trace.select(module=module)
    if module and not calls and len(run.trace):
        from attnscope.cli.choosing import near

        names = list(dict.fromkeys(call.module for call in run.trace))
        raise InputError(
            f"choosing the calls of --module {module}",
            f"none of the {len(run.trace)} calls lies there",
            f"calls are in {near(module, names)}",
        )
    return calls


def _draw(run: Run, calls: list[Call], asked: Asked) -> None:
    """Draw the chosen heads, or say on standard error that there are none."""
    from attnscope.cli.choosing import chosen_heads, panels
    from attnscope.show import plots

    if asked.png is None or not calls:
        click.echo("attnscope: nothing to draw: no attention seen", err=True)
        return
    chosen = chosen_heads(run.trace, calls, asked.heads)
    plots.save(plots.draw(panels(run, chosen), run.target.name), asked.png)
    click.echo(f"drew {len(chosen)} heads into {asked.png}", err=True)


def _write(run: Run, calls: list[Call], asked: Asked) -> None:
    """Write the result to standard output."""
    if asked.format == "json":
        from attnscope.show.json import to_text, trace_json

        click.echo(to_text(trace_json(run.trace, run.target.name, calls)))
        return
    from attnscope.cli.choosing import walk_of
    from attnscope.cli.progress import result_console
    from attnscope.show.tables import shapes_table, trace_table
    from attnscope.show.walks import walk_view

    title = f"{run.target.name}  ({type(run.target.model).__name__})"
    console = result_console()
    views = [trace_table(run.trace, title, calls, console.width)]
    sheets = asked.shapes or ((calls[0].index,) if 0 < len(calls) <= FEW and not asked.walk else ())
    declared = {
        run.target.expect[f"{name}_axis"]: name
        for name in ("batch", "sequence")
        if f"{name}_axis" in run.target.expect
    }
    views += [shapes_table(run.trace[index].shapes(), declared) for index in sheets]
    views += [walk_view(*walk_of(run, place)) for place in asked.walk]
    for number, view in enumerate(views):
        if number:
            console.print()
        console.print(view)
