"""README.md holds: its code runs, its output is what comes out, its figures and links are there."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from attnscope import cli
from attnscope.targets.samples import SAMPLES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LEFT_OUT = "…"
SOMETHING_FOUND = re.compile(r": not equal$|^(?:error|warning) AS\d+ ")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def installed(sample: str) -> bool:
    """Return whether the package of a sample is there."""
    try:
        importlib.metadata.distribution(SAMPLES[sample].package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@dataclass(frozen=True)
class Command:
    """A line of a console block, and the lines of output that stand below it."""

    line: str
    output: tuple[str, ...]


def blocks(language: str) -> list[str]:
    """Return the text of each fenced block of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def commands() -> Iterator[Command]:
    """Return what the console blocks type after the prompt."""
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *output = part.splitlines()
            yield Command(line, tuple(output))


def marked(command: Command) -> object:
    """Return a case, skipped where it needs a trained model that is not installed."""
    sample = next((name for name in SAMPLES if f"sample:{name}" in command.line), None)
    marks = []
    if sample is not None and not installed(sample):
        marks.append(pytest.mark.skip(reason=f"{SAMPLES[sample].package} is not installed"))
    return pytest.param(command, id=command.line, marks=marks)


def agrees(said: list[str], shown: list[str]) -> bool:
    """Return whether `shown` is what is said; a line of `LEFT_OUT` stands for any lines."""
    if not said:
        return not shown
    if said[0] == LEFT_OUT:
        return any(agrees(said[1:], shown[start:]) for start in range(len(shown) + 1))
    return bool(shown) and said[0] == shown[0] and agrees(said[1:], shown[1:])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files that the page speaks of, as the working directory."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    own = tmp_path / "path" / "to" / "your_file.py"
    own.parent.mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "own_attention.py", own)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


TYPED = [command for command in commands() if command.line.startswith("attnscope ")]


@pytest.mark.parametrize("command", [marked(command) for command in TYPED])
@pytest.mark.usefixtures("place")
def test_a_command_runs_and_says_what_the_page_says(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    status = cli.run(shlex.split(command.line)[1:])
    shown = capsys.readouterr()
    found = any(SOMETHING_FOUND.search(line) for line in command.output)
    assert status == (1 if found else 0), shown.err
    lines = [line.rstrip() for line in shown.out.splitlines()]
    assert lines
    if command.output:
        assert agrees(list(command.output), lines), shown.out


def test_lines_left_out_stand_for_any_number_of_lines() -> None:
    assert agrees(["a", LEFT_OUT, "d"], ["a", "b", "c", "d"])
    assert agrees(["a", LEFT_OUT, "d"], ["a", "d"])
    assert not agrees(["a", "d"], ["a", "b", "d"])
    assert not agrees(["a", LEFT_OUT, "d"], ["a", "b"])


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"`make (\w+)`", README))
    targets |= {command.line.split()[1] for command in commands() if command.line[:5] == "make "}
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:.*##", MAKEFILE, flags=re.MULTILINE), target


@pytest.mark.parametrize("block", blocks("python"))
@pytest.mark.usefixtures("place")
def test_python_runs_and_gives_what_its_comments_say(block: str) -> None:
    """A comment `# → value` is the repr of the expression before it."""
    lines = block.splitlines()
    names: dict[str, object] = {}
    compared = 0
    for statement in ast.parse(block).body:
        said = re.search(r"# → (.*)$", lines[(statement.end_lineno or 1) - 1])
        if said is None:
            exec(compile(ast.Module([statement], []), "README.md", "exec"), names)  # noqa: S102  this page's own code
            continue
        assert isinstance(statement, ast.Expr)
        value = eval(compile(ast.Expression(statement.value), "README.md", "eval"), names)  # noqa: S307  the same
        assert repr(value) == said[1], lines[(statement.end_lineno or 1) - 1]
        compared += 1
    assert compared == block.count("# → ")


def test_figures_are_those_of_the_coverage_page() -> None:
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8").splitlines()
    figures = re.search(r"<!-- figures of .*? -->(.*?)<!-- end of figures", README, re.DOTALL)
    assert figures is not None
    stated = [line for line in figures[1].splitlines() if line]
    assert stated
    assert [line for line in stated if line not in page] == []


def test_links_and_pictures_lead_to_files() -> None:
    linked = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README) + re.findall(r'src="([^"]+)"', README)
    paths = [link for link in linked if "://" not in link]
    assert paths
    assert [path for path in paths if not (ROOT / path).is_file()] == []
