"""`attnscope check`: what is wrong with the attention of a target, where, why, and the fix."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attnscope.cli.command import Command
from attnscope.cli.options import attention_option, expect_option
from attnscope.errors import InputError

if TYPE_CHECKING:
    from attnscope.checks.report import Report
    from attnscope.checks.silencing import Settings

_SOUND, _FOUND = 0, 1
_SEED = 0
_FILE = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True, slots=True)
class Asked:
    """Which rules run, what is silenced, and how the result is written."""

    select: tuple[str, ...]
    ignore: tuple[str, ...]
    baseline: Path | None
    write_baseline: Path | None
    format: str
    output: Path | None
    verbose: bool

    def check(self) -> None:
        """Refuse, before anything long begins, what can't go together or can't be written."""
        if self.baseline is not None and self.write_baseline is not None:
            raise click.UsageError(
                "--baseline silences what --write-baseline would write: give one of them"
            )
        for option, path in (("--output", self.output), ("--write-baseline", self.write_baseline)):
            if path is not None and not path.absolute().parent.is_dir():
                raise click.UsageError(f"{option} {path}: there is no folder {path.parent}")
        if self.verbose and self.format != "table":
            raise click.UsageError("--verbose is for people: the other formats have everything")

    def settings(self, target: str) -> Settings:
        """Return the settings of the target's project with those of the command line.

        Raises:
            InputError: they name a rule that there is not, or a baseline that can't be read.
        """
        from attnscope.checks.silencing import read_baseline, read_settings

        file = Path(target.rpartition(":")[0] or target)
        found = read_settings(file if file.exists() else Path.cwd())
        found = found.with_words(_words(self.select), _words(self.ignore))
        if found.select and not set(found.select) - set(found.ignore):
            raise click.UsageError("every rule that is selected is ignored too: no rule is left")
        if self.write_baseline is not None:
            if self.write_baseline.exists():
                read_baseline(self.write_baseline, target, Path.cwd())
            return replace(found, baseline=None)
        found = found if self.baseline is None else replace(found, baseline=self.baseline)
        if found.baseline is not None:
            read_baseline(found.baseline, target, Path.cwd())
        return found


@click.command(
    cls=Command,
    name="check",
    short_help="Say what is wrong: the line, the numbers, why, and the fix.",
    example="attnscope check examples/article_attention.py",
)
@click.argument("target")
@click.option("--text", multiple=True, help="Text to tokenise; several times, a padded batch.")
@click.option(
    "--inputs", metavar="FILE:NAME", help="Inputs: a dict, a tuple, a tensor or a function."
)
@expect_option
@attention_option
@click.option("--select", multiple=True, metavar="RULES", help="Run these alone: AS2,softmax-axis.")
@click.option("--ignore", multiple=True, metavar="RULES", help="Don't run these.")
@click.option("--baseline", type=_FILE, metavar="FILE", help="Silence what this file lists.")
@click.option("--write-baseline", type=_FILE, metavar="FILE", help="List what there is now.")
@click.option(
    "--format",
    type=click.Choice(["table", "json", "sarif", "github"]),
    default="table",
    show_default=True,
    help="Cards for people; data for programs; SARIF; annotations of a pull request.",
)
@click.option("--output", type=_FILE, metavar="FILE", help="Write the result into a file.")
@click.option(
    "--verbose", is_flag=True, help="Notes in full, what was skipped or silenced and why."
)
def command(target: str, **options: Any) -> int:
    """Run the rules on TARGET: exit 0 without errors and warnings, else 1.

    TARGET: see attnscope --help. RULES are codes, beginnings of codes or names, with commas.
    `# attnscope: ignore[AS201] reason` silences a statement, or a function or class from its head;
    [tool.attnscope] in pyproject.toml a project: select, ignore, baseline, per-file-ignores.
    """
    words = {name: options.pop(name) for name in ("text", "inputs", "expect", "attention")}
    asked = Asked(**options)
    asked.check()
    settings = asked.settings(target)
    with contextlib.redirect_stdout(sys.stderr):  # what models and libraries print is no result
        report = _checked(target, words, asked, settings)
    _write(report, asked)
    return _SOUND if report.ok else _FOUND


def _words(options: tuple[str, ...]) -> list[str]:
    """Return the rules of an option that may be given several times, with commas."""
    return [word.strip() for option in options for word in option.split(",") if word.strip()]


def _checked(target: str, words: dict[str, Any], asked: Asked, settings: Settings) -> Report:
    """Load the target, run the rules and silence, with signs of life on standard error."""
    import torch

    from attnscope.checks.entry import check
    from attnscope.checks.silencing import silence, write_baseline
    from attnscope.cli.progress import Progress
    from attnscope.targets import Wishes, importing_from, resolve

    torch.manual_seed(_SEED)  # the same next time, whatever nobody seeded
    with Progress() as progress:
        progress.now(f"reading {target}")
        wishes = Wishes(
            inputs=words["inputs"],
            texts=words["text"],
            expect=words["expect"],
            attention=words["attention"],
            announce=progress.say,
        )
        found = resolve(target, wishes)
        progress.now(f"checking {target}")
        with importing_from(found.folder):
            report = check(
                found.model,
                found.inputs,
                expect=found.expect,
                select=settings.select,
                ignore=tuple(settings.ignore),
                name=found.name,
                announce=progress.now,
                seed=_SEED,
                maker=found.maker,
            )
        result = silence(report, settings, Path.cwd(), model=found.model)
        if asked.write_baseline is not None:
            count = write_baseline(result, asked.write_baseline, Path.cwd())
            progress.say(f"wrote {count} finding{'s' * (count != 1)} into {asked.write_baseline}")
            settings = replace(settings, baseline=asked.write_baseline)
            result = silence(report, settings, Path.cwd(), model=found.model)
        if asked.format != "table":  # which shows them itself
            for note in result.notes:
                if note not in report.notes:
                    progress.say(f"attnscope: {note}")
    return result


def _write(report: Report, asked: Asked) -> None:
    """Write the result to standard output, or into the file that was asked for."""
    if asked.format == "table" and asked.output is None:
        from attnscope.cli.progress import result_console
        from attnscope.show.report import report_view

        console = result_console()
        console.print(report_view(report, verbose=asked.verbose, width=console.width))
        return
    text = _text(report, asked)
    if asked.output is None:
        click.echo(text, nl=bool(text))
        return
    try:
        asked.output.write_text(f"{text}\n" if text else "", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"writing {asked.output}", error.strerror or str(error), "name another file"
        ) from error
    from attnscope.checks.formats.wording import counted

    click.echo(f"wrote {asked.output}: {counted(report, '')}", err=True)


def _text(report: Report, asked: Asked) -> str:
    """Return the report in a format that is text."""
    if asked.format == "table":
        from attnscope.checks.formats.text import plain

        return plain(report, verbose=asked.verbose)
    if asked.format == "github":
        from attnscope.checks.formats.github import github

        return github(report)
    from attnscope.show.json import plain as finite
    from attnscope.show.json import to_text

    if asked.format == "sarif":
        return to_text(report.to_sarif())
    return to_text(finite(report.to_json()))
