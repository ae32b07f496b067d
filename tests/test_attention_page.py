"""docs/attention.md holds: its blocks run and print what stands below them, its pictures are drawn.

When a number changes for a good reason, `python docs/make_attention.py` writes the page anew.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from attnscope.targets.samples import SAMPLES
from docs import make_attention
from docs.make_attention import IMAGES, PAGE, PICTURES, Block, agrees, blocks, executed, rewritten

TEXT = PAGE.read_text(encoding="utf-8")
WRITTEN = blocks(TEXT)


def installed(sample: str) -> bool:
    """Return whether the package of a sample is there."""
    try:
        importlib.metadata.distribution(SAMPLES[sample].package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


MISSING = tuple(name for name in SAMPLES if not installed(name))


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """Return the namespace in which the page runs, filled by `ran`."""
    return {}


@pytest.fixture(scope="module")
def ran(names: dict[str, Any]) -> dict[int, Block]:
    """Run the whole page once; return its blocks by the line at which they begin."""
    return {block.line: block for block in executed(TEXT, names, without=MISSING)}


def case(block: Block) -> object:
    """Return a case, skipped where it needs a trained model that is not installed."""
    marks = []
    if block.sample in MISSING:
        reason = f"{SAMPLES[block.sample].package} is not installed"
        marks.append(pytest.mark.skip(reason=reason))
    return pytest.param(block, id=f"line {block.line}", marks=marks)


@pytest.mark.parametrize("block", [case(block) for block in WRITTEN if not block.file])
def test_a_block_prints_what_the_page_says(block: Block, ran: dict[int, Block]) -> None:
    assert agrees(block.output, ran[block.line].output), ran[block.line].output


@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_shows_the_numbers_of_the_page(
    picture: str, ran: dict[int, Block], names: dict[str, Any]
) -> None:
    if picture == "attention-heads.png" and "minilm" in MISSING:
        pytest.skip(f"{SAMPLES['minilm'].package} is not installed")
    assert ran
    figure, numbers = PICTURES[picture](names)
    with Image.open(IMAGES / picture) as drawn:
        width, height = figure.get_size_inches() * figure.dpi
        assert drawn.size == (int(width), int(height))
        assert agrees(drawn.info["Description"], make_attention.caption(numbers))


def test_every_picture_is_on_the_page_and_every_link_leads_to_a_file() -> None:
    pictures = re.findall(r'src="images/([^"]+)"', TEXT)
    assert sorted(pictures) == sorted(PICTURES)
    assert [name for name in pictures if not (IMAGES / name).is_file()] == []
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert links
    assert [link for link in links if not (PAGE.parent / link).is_file()] == []


def test_the_contents_lead_to_the_headings() -> None:
    prose = re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^## (.*)$", prose, flags=re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", each).replace(" ", "-").lower() for each in headings]
    assert re.findall(r"\]\(#([^)]+)\)", prose) == anchors
    assert anchors


def unproven(page: str) -> list[str]:
    """Return the numbers with a decimal point in the text that no block of its section holds."""
    found = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE):
        parts = re.split(r"^(```.*?^```)$", section, flags=re.DOTALL | re.MULTILINE)
        said = re.findall(r"\d+\.\d+", " ".join(parts[::2]))
        shown = set(re.findall(r"\d+\.\d+", " ".join(parts[1::2])))
        found += [number for number in said if number not in shown]
    return found


def test_the_text_states_no_measured_number_that_is_not_shown() -> None:
    assert unproven(TEXT) == []
    assert unproven("## One\n\n0.5 and 0.7\n\n```text\n0.5\n```\n\n## Two\n\n0.5\n") == [
        "0.7",
        "0.5",
    ]


@pytest.mark.parametrize(
    ("said", "shown", "same"),
    [
        ("std 0.85 of 3", "std  0.85 of 3\n", True),
        ("std 0.85 of 3", "std 0.86 of 3", True),
        ("std 0.85 of 3", "std 0.87 of 3", False),
        ("std 0.85 of 3", "std 0.85 of 4", False),
        ("std 0.85 of 3", "std 0.85 of", False),
        ("[0.849 0.05]", "[0.849 0.051]", True),
        ("0.00", "-0.01", True),
        ("nan", "0.00", False),
        ("grad.q 0.10", "grad.k 0.10", False),
        ("1.5 1.5", "1.5", False),
    ],
)
def test_outputs_agree_to_the_digits_shown(said: str, shown: str, *, same: bool) -> None:
    assert agrees(said, shown) is same


SMALL = """\
Text.

```python
print(1 + 1)
```

```text
3
```

```python helper.py
NUMBER = 5
```

```python
import helper
```

```text
was printed once
```

```python
print(helper.NUMBER)
```

```console
$ attnscope --version
something else
```

The end.
"""


def test_the_builder_writes_outputs_in_their_place_and_is_done_after_one_run() -> None:
    once = rewritten(SMALL, list(executed(SMALL, {})))
    assert "```python\nprint(1 + 1)\n```\n\n```text\n2\n```" in once
    assert "import helper\n```\n\n```python\nprint(helper.NUMBER)\n```\n\n```text\n5\n```" in once
    assert re.search(r"\$ attnscope --version\nattnscope.* \d+\.\d+.*\n```\n\nThe end.\n$", once)
    assert once.startswith("Text.\n\n```python\n")
    assert rewritten(once, list(executed(once, {}))) == once


def test_the_builder_leaves_folder_paths_and_modules_as_they_were() -> None:
    before = Path.cwd(), list(sys.path), dict(os.environ)
    list(executed(SMALL, {}))
    assert (Path.cwd(), list(sys.path), dict(os.environ)) == before
    assert "helper" not in sys.modules


def test_an_error_on_the_page_names_its_line() -> None:
    page = "One.\n\n```python\nx = 1\nraise KeyError\n```\n"
    with pytest.raises(KeyError) as raised:
        list(executed(page, {}))
    assert raised.traceback[-1].lineno == page.splitlines().index("raise KeyError")
    assert str(raised.traceback[-1].path).endswith("docs/attention.md")


def test_blocks_of_a_sample_that_is_missing_are_left_out() -> None:
    page = "```python sample:minilm\nprint(1)\n```\n\n```python\nprint(2)\n```\n"
    assert [block.output for block in executed(page, {}, without=("minilm",))] == ["2\n"]
    assert [block.output for block in executed(page, {})] == ["1\n", "2\n"]
