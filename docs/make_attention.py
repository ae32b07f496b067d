"""Runs every block of docs/attention.md and writes what it prints below it, and draws its pictures.

    python docs/make_attention.py

The page is the source: its text and code are written by hand, its outputs by this file. Blocks
share one namespace and run in order, in an empty folder. ``python`` runs; ``python NAME.py`` is
saved as that file instead; ``console`` runs its ``$ attnscope`` lines; ``text`` below is the
output. ``tests/test_attention_page.py`` runs the same and compares.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnscope import cli

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "attention.md"
IMAGES = ROOT / "docs" / "images"

Names: TypeAlias = dict[str, Any]
Numbers: TypeAlias = NDArray[np.floating[Any]]
Drawn: TypeAlias = "tuple[Figure, Numbers]"

# A block, and the block of output that may stand below it.
_BLOCK = re.compile(
    r"^```(?P<language>python|console)(?: (?P<argument>\S+))?\n(?P<code>.*?)^```$"
    r"(?:\n\n```text\n(?P<output>.*?)^```$)?",
    flags=re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?![\w.])")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the page.

    language: "python" or "console"; argument: the word after it, a file to save or a sample that
    the block needs. output: what the page says that it prints; of a console block, with commands.
    line: of the page, at which the code begins.
    """

    language: str
    argument: str
    code: str
    output: str
    line: int

    @property
    def file(self) -> str:
        """Name of the file that the block is saved as, or nothing."""
        return self.argument if self.argument.endswith(".py") else ""

    @property
    def sample(self) -> str:
        """Name of the sample model without which the block can't run, or nothing."""
        return self.argument.removeprefix("sample:") if ":" in self.argument else ""

    def __str__(self) -> str:
        """Return the block as it stands on the page."""
        fence = f"```{self.language} {self.argument}".rstrip()
        if self.language == "console":
            return f"{fence}\n{self.output}```"
        below = f"\n\n```text\n{self.output}```" if self.output else ""
        return f"{fence}\n{self.code}```{below}"


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    return [_read(match) for match in _BLOCK.finditer(page)]


def executed(page: str, names: Names, without: tuple[str, ...] = ()) -> Iterator[Block]:
    """Run the blocks of a page in one namespace and return each with what it printed.

    Args:
        page: Markdown.
        names: the namespace.
        without: samples that are not installed; blocks that need them are left out.
    """
    names.setdefault("__name__", "attention")
    with _empty_folder():
        for block in blocks(page):
            if block.sample not in without:
                yield replace(block, output=_run(block, names))


def rewritten(page: str, ran: list[Block]) -> str:
    """Return the page with the outputs of blocks that ran in the place of what it said."""
    new = iter(ran)
    return _BLOCK.sub(lambda _: str(next(new)), page)


def agrees(said: str, shown: str) -> bool:
    """Return whether two outputs are the same but for rounding of the last digit that is shown.

    Only numbers with a decimal point may differ, by one unit of their last digit: sums that run in
    another order on another processor end in other bits.
    """
    if _NUMBER.sub("#", " ".join(said.split())) != _NUMBER.sub("#", " ".join(shown.split())):
        return False
    pairs = zip(_NUMBER.findall(said), _NUMBER.findall(shown), strict=True)
    return all(_near(first, second) for first, second in pairs)


def _near(first: str, second: str) -> bool:
    digits = min(len(each.partition(".")[2]) for each in (first, second))
    return abs(float(first) - float(second)) < 1.5 * 10.0**-digits


def _read(match: re.Match[str]) -> Block:
    found = match.groupdict(default="")
    console = found["language"] == "console"
    output = found["code"] if console else found["output"]
    line = match.string.count("\n", 0, match.start("code")) + 1
    return Block(found["language"], found["argument"], found["code"], output, line)


def _run(block: Block, names: Names) -> str:
    """Run a block and return what it printed."""
    if block.file:
        Path(block.file).write_text(block.code, encoding="utf-8")
        return ""
    if block.language == "python":
        placed = "\n" * (block.line - 1) + block.code  # so that an error names the line of the page
        code = compile(placed, "docs/attention.md", "exec")
        return _printed(lambda: exec(code, names))  # noqa: S102  the page's own code
    lines = re.findall(r"^\$ (attnscope .*)$", block.code, flags=re.MULTILINE)
    return "\n".join(f"$ {line}\n{_command(line)}" for line in lines)


def _command(line: str) -> str:
    return _printed(lambda: cli.run(shlex.split(line)[1:]))


def _printed(run: Callable[[], Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        run()
    lines = [line.rstrip() for line in out.getvalue().rstrip().splitlines()]
    return "".join(f"{line}\n" for line in lines)


@contextlib.contextmanager
def _empty_folder() -> Iterator[None]:
    """Work in a new folder whose files can be imported, with a terminal of 100 columns."""
    before, path, modules = dict(os.environ), list(sys.path), set(sys.modules)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["COLUMNS"] = "100"
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


# --- pictures: each draws numbers that the page has computed, and returns them, too ---------------

INK, PALE, HIDDEN = "#27272a", "#a1a1aa", "#d4d4d8"
LINES = ("#1d4ed8", "#b45309", "#047857")

FEW, HALF = 4, 0.6


def masks(names: Mapping[str, Any]) -> Drawn:
    """Draw the weights of the four words without a mask, with a causal one, and with padding."""
    figure = _figure(8.4, 2.9)
    panels = names["under"]
    _heat_maps(figure, panels, names["words"])
    return figure, np.stack(list(panels.values()))


def entropy(names: Mapping[str, Any]) -> Drawn:
    """Draw entropy against head_dim, with and without the scale."""
    figure = _figure(5.6, 3.4)
    axes = _plain(figure.subplots())
    widths, shares = names["widths"], {"1/√head_dim": names["scaled"], "no scale": names["bare"]}
    for (label, share), colour in zip(shares.items(), LINES, strict=False):
        axes.plot(widths, share, marker="o", markersize=4, color=colour)
        axes.annotate(
            label, (widths[-2], share[-2]), (0, 8), textcoords="offset points", color=colour
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(widths, [str(width) for width in widths])
    axes.set_ylim(0, 1)
    axes.set_xlabel("head_dim")
    axes.set_ylabel("entropy, share of log(keys)")
    return figure, np.stack(list(shares.values()))


def rotary(names: Mapping[str, Any]) -> Drawn:
    """Draw q·k of a query and an equal key against their distance, for several bases."""
    figure = _figure(6.4, 3.4)
    axes = _plain(figure.subplots())
    for (base, fits), colour in zip(names["by_base"].items(), LINES, strict=True):
        axes.plot(fits, color=colour, linewidth=1.2, label=f"base {base:,}")
    axes.axhline(0, color=PALE, linewidth=0.8)
    axes.set_xlabel("distance of query and key, tokens")
    axes.set_ylabel("q·k, share of that at distance 0")
    axes.set_ylim(top=1.02)
    axes.legend(frameon=False, fontsize=9, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure, np.stack(list(names["by_base"].values()))


def heads(names: Mapping[str, Any]) -> Drawn:
    """Draw the weights of some heads of a trained model."""
    figure = _figure(8.4, 3.3)
    panels = names["heads_of_minilm"]
    _heat_maps(figure, panels, names["tokens"])
    return figure, np.stack(list(panels.values()))


PICTURES: Mapping[str, Callable[[Mapping[str, Any]], Drawn]] = {
    "attention-entropy.png": entropy,
    "attention-masks.png": masks,
    "attention-rotary.png": rotary,
    "attention-heads.png": heads,
}


def caption(numbers: Numbers) -> str:
    """Return the numbers of a picture as text, which is kept inside its file."""
    return " ".join(f"{number:.2f}" for number in np.nan_to_num(numbers).ravel() + 0.0)


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=150)


def _plain(axes: Axes) -> Axes:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=9)
    axes.grid(axis="y", color=HIDDEN, linewidth=0.5)
    return axes


def _heat_maps(figure: Figure, panels: Mapping[str, Numbers], words: list[str]) -> None:
    """Draw weights side by side, with their numbers where there is room; hidden pairs are grey."""
    places = figure.subplots(1, len(panels))
    few = len(words) <= FEW
    for axes, (title, weights) in zip(places, panels.items(), strict=True):
        axes.imshow(np.ma.masked_equal(weights, 0.0), cmap="Blues", vmin=0.0, vmax=1.0)
        axes.set_facecolor(HIDDEN)
        axes.set_title(title, fontsize=9, color=INK)
        axes.set_xticks(range(len(words)), words, fontsize=8, rotation=0 if few else 90)
        axes.set_yticks(range(len(words)), words, fontsize=8)
        axes.set_xlabel("keys", fontsize=8, color=INK)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        for query, key in np.argwhere(weights > 0) if few else ():
            ink = "white" if weights[query, key] > HALF else INK
            text = f"{weights[query, key]:.2f}"
            axes.text(key, query, text, ha="center", va="center", fontsize=8, color=ink)
    places[0].set_ylabel("queries", fontsize=8, color=INK)


def main() -> None:
    """Write the outputs into the page and draw the pictures, and say what was written."""
    import torch

    torch.set_num_threads(1)
    names: Names = {}
    page = PAGE.read_text(encoding="utf-8")
    ran = list(executed(page, names))
    PAGE.write_text(rewritten(page, ran), encoding="utf-8")
    for file, draw in PICTURES.items():
        figure, numbers = draw(names)
        figure.savefig(IMAGES / file, metadata={"Description": caption(numbers)})
    print(f"ran {len(ran)} blocks of docs/attention.md, drew {', '.join(PICTURES)}")


if __name__ == "__main__":
    main()
