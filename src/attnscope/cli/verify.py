"""`attnscope verify`: a candidate against a reference, stage by stage."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attnscope.cli.command import Command
from attnscope.cli.options import attention_option, expect_option, format_option
from attnscope.cli.parameters import Factor, Weights
from attnscope.errors import AttnscopeError, TargetError

if TYPE_CHECKING:
    from attnscope.differ import Verification
    from attnscope.differ.shrinking.smallest import Shrunk
    from attnscope.targets import Both

_EQUAL, _DIFFERENT = 0, 1

_APART = 2_654_435_761
"""Keeps what nobody seeded apart from what somebody seeded with a small number: two models from
one seed share parameters by chance, which then look like a correspondence."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How to compare, and how to show it."""

    weights: str | Path
    seed: int
    tolerance: float
    gradients: bool
    matrix: bool
    shrink: bool
    script: Path | None
    format: str
    all: bool

    def check(self) -> None:
        """Refuse, before anything long begins, what can't go together or can't be written."""
        if self.script is not None and not self.shrink:
            raise click.UsageError("--script is where --shrink writes: say --shrink too")
        if self.script is not None and not self.script.absolute().parent.is_dir():
            raise click.UsageError(
                f"--script {self.script}: there is no folder {self.script.parent}"
            )
        if self.script is not None and self.script.exists():
            raise click.UsageError(f"--script {self.script}: it exists already, name a new file")
        if self.format == "json" and self.all:
            raise click.UsageError("--all is for people: JSON has every stage and pair anyway")


@click.command(
    cls=Command,
    name="verify",
    short_help="Compare an implementation with a reference, stage by stage.",
    example="attnscope verify examples/port_llama.py:mine arch:llama",
)
@click.argument("candidate")
@click.argument("reference")
@click.option("--inputs", metavar="FILE:NAME", help="Inputs of both sides.")
@click.option("--text", multiple=True, help="Text to tokenise; several times, a padded batch.")
@expect_option
@attention_option
@click.option(
    "--weights",
    type=Weights(),
    default="auto",
    show_default=True,
    help="As they are where they correspond, else copied by name; keep; copy; or as FILE says.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=2**32 - 1),
    metavar="N",
    default=0,
    show_default=True,
    help="Of parameters, inputs and dropout that nothing else seeds.",
)
@click.option(
    "--tolerance",
    type=Factor(),
    metavar="FACTOR",
    default=1.0,
    show_default=True,
    help="Widens every limit; 1 is what rounding explains.",
)
@click.option("--no-gradients", is_flag=True, help="Compare the forward pass alone.")
@click.option("--no-matrix", is_flag=True, help="Compare on the given inputs alone.")
@click.option("--shrink", is_flag=True, help="Find the smallest inputs that still fail.")
@click.option(
    "--script",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write what --shrink finds as a program; without it, it follows the result.",
)
@click.option("--all", is_flag=True, help="Show every stage and every pair of weights.")
@format_option
def command(candidate: str, reference: str, **options: Any) -> int:
    """Compare CANDIDATE with REFERENCE: exit 0 if equal, 1 with the first difference.

    Either is a TARGET (see attnscope --help) or a function of (q, k, v, …) in torch or NumPy:
    file.py:fn, torch.nn.functional:scaled_dot_product_attention, or attnscope.reference, the
    definition. Weights and inputs are made alike first; an explanation is a change that was
    tried and made the first wrong stage agree.
    """
    words = {name: options.pop(name) for name in ("text", "inputs", "expect", "attention")}
    options["gradients"] = not options.pop("no_gradients")
    options["matrix"] = not options.pop("no_matrix")
    asked = Asked(**options)
    asked.check()
    with contextlib.redirect_stdout(sys.stderr):  # what models and libraries print is no result
        result, small = _compare(candidate, reference, words, asked)
    script = small.script(candidate, reference, words["attention"]) if small is not None else None
    if asked.script is not None and script is not None:
        asked.script.write_text(script, encoding="utf-8")
        click.echo(f"wrote {asked.script}", err=True)
        script = None
    _write(result, asked, small, script)
    return _EQUAL if result.equal else _DIFFERENT


def _compare(
    candidate: str, reference: str, words: dict[str, Any], asked: Asked
) -> tuple[Verification, Shrunk | None]:
    """Load both sides, compare and shrink them, with signs of life on standard error."""
    import torch

    from attnscope.cli.progress import Progress
    from attnscope.targets import Wishes, both

    torch.manual_seed((asked.seed + _APART) % 2**32)  # the same next time, whatever nobody seeded
    with Progress() as progress:
        progress.now(f"reading {candidate} and {reference}")
        wishes = Wishes(
            inputs=words["inputs"],
            texts=words["text"],
            expect=words["expect"],
            attention=words["attention"],
            announce=progress.say,
        )
        sides = both(candidate, reference, wishes)
        progress.now(f"comparing {candidate} with {reference}")
        result = _verified(sides, asked)
        if not asked.shrink:
            return result, None
        from attnscope.cli.shrinking import shrunk

        progress.now("looking for the smallest inputs that still fail")
        small = shrunk(sides, result, asked.weights, gradients=asked.gradients)
        if small is None:
            progress.say("nothing to shrink: both sides agree on their inputs")
        return result, small


def _verified(sides: Both, asked: Asked) -> Verification:
    """Compare two sides; what is raised in the code of either is an error with its line."""
    import attnscope
    from attnscope.targets.blame import describe, place, raised_in

    names = sides.candidate.name, sides.reference.name
    _need_inputs(sides)
    folder = sides.candidate.folder or sides.reference.folder
    try:
        with sides.importing():
            return attnscope.verify(
                sides.candidate.run,
                sides.reference.run,
                inputs=sides.inputs,
                expect=sides.expect,
                weights=asked.weights,
                gradients=asked.gradients,
                matrix=asked.matrix,
                seed=asked.seed,
                factor=asked.tolerance,
                names=names,
            )
    except AttnscopeError as error:
        cause = error.__cause__
        if cause is None or not error.doing.startswith("running "):
            raise
        raise TargetError(
            error.doing, f"{error.found} at {place(cause, folder)}", error.todo
        ) from cause
    except (Exception, SystemExit) as error:
        if not raised_in(error, (sides.candidate.folder, sides.reference.folder)):
            raise
        found = f"{describe(error)} at {place(error, folder)}"
        doing = f"comparing {names[0]} with {names[1]}"
        raise TargetError(
            doing, found, "mend that line, or give other inputs with --inputs"
        ) from error


def _need_inputs(sides: Both) -> None:
    """Refuse a function of other arguments than q, k and v, for which no inputs can be made."""
    from attnscope.differ.sides.subject import takes_qkv

    if sides.inputs is not None:
        return
    for side in (sides.reference, sides.candidate):
        if not takes_qkv(side.run):
            raise TargetError(
                f"comparing {sides.candidate.name} with {sides.reference.name}",
                f"the arguments of {side.name} are not q, k, v, so no inputs can be made for it",
                "give --inputs file.py:name, or define `inputs` in its file",
            )


def _write(result: Verification, asked: Asked, small: Shrunk | None, script: str | None) -> None:
    """Write the result to standard output; script: what --shrink made, unless it has a file."""
    if asked.format == "json":
        from attnscope.show.json import plain, to_text

        data = result.to_json()
        if small is not None:
            data["shrunk"] = {**small.to_json(), "script": script}
        click.echo(to_text(plain(data)))
        return
    from attnscope.cli.progress import result_console
    from attnscope.show.verification import shrunk_view, verification_view

    console = result_console()
    console.print(verification_view(result, whole=asked.all, width=console.width))
    if small is not None:
        console.print(shrunk_view(small))
    if script is not None:
        click.echo(f"\n{script}", nl=False)
