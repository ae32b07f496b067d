"""docs/check.md holds: its blocks run and print what stands below them, its table is complete.

When an output changes for a good reason, `python -m docs.make_check` writes the page anew.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from attnscope.checks.expect import KEYS
from docs.make_attention import agrees as agrees_to_the_digits
from docs.make_check import PAGE, Block, blocks, executed, rewritten

TEXT = PAGE.read_text(encoding="utf-8")
WRITTEN = blocks(TEXT)

_ROUNDING = re.compile(r"\d+(?:\.\d+)?e[-−]\d+")


def agrees(said: str, shown: str) -> bool:
    """Return whether two outputs are the same but for rounding, and for figures of rounding."""
    return agrees_to_the_digits(_ROUNDING.sub("~", said), _ROUNDING.sub("~", shown))


@pytest.fixture(scope="module")
def ran() -> dict[int, Block]:
    """Run the whole page once; return its blocks by the line at which they begin."""
    return {block.line: block for block in executed(TEXT)}


@pytest.mark.parametrize(
    "block",
    [pytest.param(each, id=f"line {each.line}") for each in WRITTEN if not each.file],
)
def test_a_block_prints_what_the_page_says(block: Block, ran: dict[int, Block]) -> None:
    assert agrees(block.output, ran[block.line].output), ran[block.line].output


def test_every_key_of_expect_has_its_row_and_no_other() -> None:
    sections = TEXT.split("\n## ")
    (section,) = (part for part in sections if part.startswith("What you intend\n"))
    rows = re.findall(r"^\| (`[^|]+`) \|", section, flags=re.MULTILINE)
    assert sorted(key for row in rows for key in re.findall(r"`(\w+)`", row)) == sorted(KEYS)


def test_links_lead_to_files_and_the_contents_to_the_headings() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", TEXT)
    assert links
    assert [link for link in links if not (PAGE.parent / link).is_file()] == []
    prose = re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^## (.*)$", prose, flags=re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", each).replace(" ", "-").lower() for each in headings]
    assert re.findall(r"\]\(#([^)]+)\)", prose) == anchors
    assert anchors


@pytest.mark.parametrize(
    ("said", "shown", "same"),
    [
        ("moved 0.4235 (noise 2e-05)", "moved 0.4236 (noise 7e-06)", True),
        ("moved 0.4235 (noise 2e-05)", "moved 0.4435 (noise 2e-05)", False),
        ("noise 2.093e−05", "noise 1.9e−05", True),
        ("1 failed, 12 skipped", "1 failed, 13 skipped", False),
        ("error AS201", "error AS202", False),
    ],
)
def test_outputs_agree_but_for_rounding(said: str, shown: str, *, same: bool) -> None:
    assert agrees(said, shown) is same


SMALL = """\
Text.

```python helper.py
NUMBER = 5
```

```python
import helper

print(helper.NUMBER)
```

```text
was 4
```

```console
$ attnscope --help | head -n 1
something else

$ attnscope rules | tail -n 2
```

The end.
"""


def test_the_builder_writes_outputs_in_their_place_and_is_done_after_one_run() -> None:
    before = Path.cwd(), list(sys.path), dict(os.environ)
    once = rewritten(SMALL, list(executed(SMALL)))
    assert (Path.cwd(), list(sys.path), dict(os.environ)) == before
    assert "helper" not in sys.modules
    assert "print(helper.NUMBER)\n```\n\n```text\n5\n```" in once
    shown = once[once.index("$ attnscope --help") : once.index("```\n\nThe end.")].splitlines()
    assert shown[1].startswith("Usage: ")
    assert shown[2:4] == ["", "$ attnscope rules | tail -n 2"]
    assert len(shown) == 6
    assert rewritten(once, list(executed(once))) == once
