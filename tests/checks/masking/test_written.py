"""The line of the author's text that makes a mask, followed from where the run finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnscope.calls.source import Source
from attnscope.checks.masking.written import line_of_asked, line_of_counts

HELPER = """
def ahead(length):
    steps = torch.arange(length)
    later = steps[None] > steps[:, None]
    return later


def forward(self, scores):
    hidden = ahead(scores.shape[-1])
    return scores.masked_fill(hidden, -1e9)
"""

TURNED = """
def visible(length):
    table = torch.ones(length, length).tril(1)
    return table == 1


def forward(self, scores):
    return scores.masked_fill(~visible(scores.shape[-1]), -1e9)
"""

GIVEN = """
def forward(self, scores, hidden):
    return scores.masked_fill(hidden, -1e9)
"""

COUNTED = """
def places(ids):
    return torch.arange(ids.shape[1])


def forward(self, ids):
    at = places(ids)
    return self.tokens(ids) + self.places(at)
"""


def _at(folder: Path, text: str, code: str) -> Source:
    """Return the line of a file with that text on which some code stands."""
    file = folder / "written.py"
    file.write_text(text)
    line = next(n for n, each in enumerate(text.splitlines(), 1) if code in each)
    return Source(str(file), line, "forward")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (HELPER, "later = steps[None] > steps[:, None]"),  # in the function that is called
        (TURNED, "table = torch.ones(length, length).tril(1)"),  # not what makes it a boolean
    ],
)
def test_a_mask_is_followed_to_what_says_yes_and_no(tmp_path: Path, text: str, wanted: str) -> None:
    found = line_of_asked(_at(tmp_path, text, "scores.masked_fill"))
    assert found is not None
    assert found.code == wanted


def test_a_mask_that_is_given_is_made_nowhere(tmp_path: Path) -> None:
    assert line_of_asked(_at(tmp_path, GIVEN, "scores.masked_fill")) is None


def test_a_range_is_followed_through_a_function(tmp_path: Path) -> None:
    found = line_of_counts(_at(tmp_path, COUNTED, "self.tokens"))
    assert found is not None
    assert (found.function, found.code) == ("places", "return torch.arange(ids.shape[1])")
