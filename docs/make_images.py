"""Makes the pictures of README.md with attnscope itself, into docs/images/.

`make images` runs this file. The heads are those of `make demo`, over the same sentence: one that
looks at the token before, one at the token after, and two that give "it" the word it stands for.
The report is that of the article's attention.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

import attnscope
from attnscope.checks.report import Report
from attnscope.cli.choosing import chosen_heads, panels, walk_of
from attnscope.cli.running import Run, run
from attnscope.show import plots
from attnscope.show.report import report_view
from attnscope.show.tables import trace_table
from attnscope.show.walks import walk_view
from attnscope.targets import Wishes, resolve

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"

SENTENCE = "The animal didn't cross the street because it was too tired."
HEADS = "0:2,1:8,3:1,5:11"
WALK = "3:1:it"
FAULTY, RULES = "examples/article_attention.py", "AS1"

COLUMNS = 100

# The picture of a terminal, with fonts of the reader's own: a page that shows it fetches nothing.
SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> None:
    """Write every picture and say which."""
    IMAGES.mkdir(exist_ok=True)
    minilm = _run("sample:minilm", SENTENCE)
    heads = chosen_heads(minilm.trace, minilm.trace.calls, HEADS)
    plots.save(plots.draw(panels(minilm, heads), minilm.target.name), IMAGES / "heads.png")
    walk = walk_view(*walk_of(minilm, WALK))
    _terminal("walk.svg", f"trace sample:minilm --walk {WALK}", [_table(minilm), walk])
    with contextlib.chdir(ROOT):  # so that files are named as from there
        report = report_view(_checked(FAULTY, RULES), width=COLUMNS)
        _terminal("check.svg", f"check {FAULTY} --select {RULES}", [report])
    print(f"wrote heads.png, walk.svg and check.svg into {IMAGES.relative_to(ROOT)}/")


def _run(target: str, *texts: str) -> Run:
    return run(resolve(target, Wishes(texts=texts)), keep="qkv", generate=None, backward=False)


def _checked(target: str, rules: str) -> Report:
    found = resolve(target)
    return attnscope.check(
        found.model, found.inputs, expect=found.expect, select=[rules], name=found.name
    )


def _table(seen: Run) -> RenderableType:
    title = f"{seen.target.name}  ({type(seen.target.model).__name__})"
    return trace_table(seen.trace, title, width=COLUMNS)


def _terminal(name: str, arguments: str, views: Sequence[RenderableType]) -> None:
    """Write what a terminal shows of these views, below the command that asked for them."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False, markup=False)
    console.print(Text.assemble(("$ ", "dim"), (f"attnscope {arguments}", "bold")))
    for view in views:
        console.print()
        console.print(view)
    drawn = console.export_svg(title="attnscope", code_format=SVG)
    text = "\n".join(line.rstrip() for line in drawn.splitlines())
    (IMAGES / name).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
