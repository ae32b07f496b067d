"""The condition that gives a call its mask in training alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnscope.checks.masking.frames import Frame
from attnscope.checks.masking.modes import line_of_mode

CONDITION = """
def forward(self, x):
    mask = None
    if self.training:
        mask = triangle(x)
    return self.attend(x, mask)
"""

CHOICE = """
def forward(self, x):
    mask = triangle(x)
    return self.attend(x, mask if self.training else None)
"""

OTHER_NAME = """
def forward(self, x):
    mask = triangle(x)
    if self.training:
        rate = 0.1
    return self.attend(x, mask)
"""

DROPOUT = """
def forward(self, x):
    return self.attend(x, dropout_p=self.rate if self.training else 0.0)
"""


def _line(folder: Path, text: str) -> str | None:
    file = folder / "modes.py"
    file.write_text(text)
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "self.attend" in each)
    found = line_of_mode([Frame("forward", str(file), line, None, {})])
    return found.code if found is not None else None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (CONDITION, "if self.training:"),
        (CHOICE, "return self.attend(x, mask if self.training else None)"),
    ],
)
def test_what_asks_for_the_mode_is_told(tmp_path: Path, text: str, wanted: str) -> None:
    assert _line(tmp_path, text) == wanted


@pytest.mark.parametrize("text", [OTHER_NAME, DROPOUT])
def test_what_the_mode_does_to_other_things_is_not(tmp_path: Path, text: str) -> None:
    assert _line(tmp_path, text) is None
