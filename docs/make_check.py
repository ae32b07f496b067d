"""Runs every block of docs/check.md and writes what it prints below it.

    python -m docs.make_check

The page is the source: its text and code are written by hand, its outputs by this file. Blocks
run in order, in an empty folder. ``python NAME.py`` and ``toml NAME`` are saved as that file;
``python`` runs, in one namespace for all; ``console`` runs its ``$`` lines; ``text`` below is what
was printed. ``tests/test_check_page.py`` runs the same and compares.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnscope import cli

PAGE = Path(__file__).parent / "check.md"

# A block, and the block of output that may stand below it.
_BLOCK = re.compile(
    r"^```(?P<language>python|toml|console)(?: (?P<file>\S+))?\n(?P<code>.*?)^```$"
    r"(?:\n\n```text\n(?P<output>.*?)^```$)?",
    flags=re.DOTALL | re.MULTILINE,
)

# A command, of whose lines the first or the last ones may be asked for alone.
_COMMAND = re.compile(r"^\$ (\w+)(?: (.*?))??(?: \| (head|tail) -n (\d+))?$", flags=re.MULTILINE)

# How long pytest took, which it says at the end.
_TOOK = re.compile(r" in \d+\.\d+s(?: \(.*\))?$")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the page.

    language: "python", "toml" or "console"; file: the name that it is saved under, or nothing.
    output: what the page says that it prints; of a console block, with the commands.
    line: of the page, at which the code begins.
    """

    language: str
    file: str
    code: str
    output: str
    line: int

    def __str__(self) -> str:
        """Return the block as it stands on the page."""
        fence = f"```{self.language} {self.file}".rstrip()
        if self.language == "console":
            return f"{fence}\n{self.output}```"
        below = f"\n\n```text\n{self.output}```" if self.output else ""
        return f"{fence}\n{self.code}```{below}"


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    return [_read(match) for match in _BLOCK.finditer(page)]


def executed(page: str) -> Iterator[Block]:
    """Run the blocks of a page in an empty folder, and iterate over each with what it printed."""
    names: dict[str, Any] = {"__name__": "check"}
    with _empty_folder():
        for block in blocks(page):
            yield replace(block, output=_run(block, names))


def rewritten(page: str, ran: list[Block]) -> str:
    """Return the page with the outputs of blocks that ran in the place of what it said."""
    new = iter(ran)
    return _BLOCK.sub(lambda _: str(next(new)), page)


def _read(match: re.Match[str]) -> Block:
    found = match.groupdict(default="")
    output = found["code"] if found["language"] == "console" else found["output"]
    line = match.string.count("\n", 0, match.start("code")) + 1
    return Block(found["language"], found["file"], found["code"], output, line)


def _run(block: Block, names: dict[str, Any]) -> str:
    """Run a block, or save it, and return what it printed."""
    if block.file:
        Path(block.file).write_text(block.code, encoding="utf-8")
        return ""
    if block.language == "console":
        return "\n".join(_answered(each) for each in _COMMAND.finditer(block.code))
    placed = "\n" * (block.line - 1) + block.code  # so that an error names the line of the page
    code = compile(placed, "docs/check.md", "exec")
    return _text(_printed(lambda: exec(code, names)))  # noqa: S102  the page's own code


def _answered(command: re.Match[str]) -> str:
    """Return a command line and, below it, what it printed."""
    program, arguments, end, count = command.groups()
    words = shlex.split(arguments or "")
    lines = _tested(words) if program == "pytest" else _printed(lambda: cli.run(words))
    if end:
        lines = lines[: int(count)] if end == "head" else lines[-int(count) :]
    return f"{command[0]}\n{_text(lines)}"


def _tested(words: list[str]) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603  pytest
    lines = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
    return [_TOOK.sub("", line) for line in lines]


def _printed(run: Callable[[], Any]) -> list[str]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        run()
    return [line.rstrip() for line in out.getvalue().rstrip().splitlines()]


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@contextlib.contextmanager
def _empty_folder() -> Iterator[None]:
    """Work in a new folder whose files can be imported, with a terminal of 100 columns."""
    before, path, modules = dict(os.environ), list(sys.path), set(sys.modules)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["COLUMNS"] = "100"
        os.environ.pop("CI", None)  # there, pytest does not shorten what it says
        os.environ.pop("BUILD_NUMBER", None)
        sys.path.insert(0, folder)
        try:
            yield
        finally:
            sys.path[:] = path
            os.environ.clear()
            os.environ.update(before)
            for name in set(sys.modules) - modules:
                if str(getattr(sys.modules[name], "__file__", None)).startswith(folder):
                    del sys.modules[name]


def main() -> None:
    """Write the page anew."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(rewritten(page, list(executed(page))), encoding="utf-8")
    print("wrote the outputs of docs/check.md")


if __name__ == "__main__":
    main()
