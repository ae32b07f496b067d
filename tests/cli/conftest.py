"""Running the command line inside this process, and files for it to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from attnscope.cli import run

NET = """
import torch
from torch import nn

print("a library prints while it is imported")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.MultiheadAttention(16, 4, batch_first=True)
        self.second = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x):
        print("a model prints while it runs")
        x = self.first(x, x, x)[0]
        return self.second(x, x, x)[0]

class Fails(Net):
    def forward(self, x):
        x = super().forward(x)
        raise RuntimeError("two\\nlines")

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)

def constant():
    return Plain().requires_grad_(False)

def needs(width):
    return Plain()

model = Net
inputs = None
several = {"x": torch.randn(2, 5, 16)}
odd = 3
"""


@dataclass(frozen=True)
class Outcome:
    """What one run of the command line left."""

    status: int
    out: str
    err: str


Runner = Callable[..., Outcome]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with the file net.py."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    return tmp_path


@pytest.fixture
def attnscope(here: Path, capsys: pytest.CaptureFixture[str]) -> Runner:
    """Return a function that runs `attnscope` with the given words."""
    assert here.is_dir()

    def runner(*words: str) -> Outcome:
        capsys.readouterr()
        status = run(list(words))
        said = capsys.readouterr()
        return Outcome(status, said.out, said.err)

    return runner
