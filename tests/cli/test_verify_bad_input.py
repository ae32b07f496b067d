"""What `verify` can't use: exit status 2, one line on standard error, no result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Runner = Callable[..., Any]

SIDES = """
import torch
from torch import nn
import torch.nn.functional as F

def sound(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)

def raises(q, k, v):
    return q @ torch.zeros(99, 99)

def leaves(q, k, v):
    raise SystemExit(3)

class Bad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("two\\nlines")

def raises_backward(q, k, v):
    return sound(Bad.apply(q), k, v)

def gives_nothing(q, k, v):
    return None

def takes_others(x, mask):
    return x

def makes_number():
    return 3

class Deep(nn.Module):
    def __init__(self, count=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.MultiheadAttention(16, 4) for _ in range(count))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x, x, x)[0]
        return x

def deeper():
    return Deep(3)

odd = 3
three = torch.randn(2, 5, 16)
narrow = torch.randn(2, 5, 7)
"""

SOUND = "sides.py:sound"
WRONG: dict[str, tuple[list[str], str]] = {
    "no reference": ([SOUND], "Missing argument 'REFERENCE'"),
    "no option": ([SOUND, SOUND, "--tolerence", "2"], "--tolerance"),
    "no file": ([SOUND, "side.py:sound"], "did you mean sides.py?"),
    "no name": (["sides.py:sond", SOUND], "did you mean sound?"),
    "no model": (["sides.py", SOUND], "the file defines no `model`"),
    "no form": ([SOUND, "whatever"], "a TARGET is path/file.py:name"),
    "no architecture": (["arch:llama9", SOUND], "llama"),
    "no sample": (["sample:minilmm", SOUND], "did you mean sample:minilm?"),
    "syntax": (["syntax.py:x", SOUND], "at syntax.py:2"),
    "raises": (["sides.py:raises", SOUND], "at sides.py:10"),
    "raises as reference": ([SOUND, "sides.py:raises"], "running sides.py:raises"),
    "leaves": (["sides.py:leaves", SOUND], "sys.exit(3) at sides.py:13"),
    "raises backward": (["sides.py:raises_backward", SOUND], "two lines at sides.py:21"),
    "gives nothing": (["sides.py:gives_nothing", SOUND], "NoneType"),
    "takes others": (["sides.py:takes_others", SOUND], "are not q, k, v"),
    "makes a number": (["sides.py:makes_number", SOUND], "returned int"),
    "a number": (["sides.py:odd", SOUND], "it is of type int"),
    "needs arguments": (["torch.nn:Linear", SOUND], "it needs the arguments in_features"),
    "inputs": (["sides.py:Deep", "sides.py:Deep", "--inputs", "sides.py:odd"], "of type int"),
    "inputs name": ([SOUND, SOUND, "--inputs", "sides.py"], "--inputs file.py:name"),
    "inputs not made": (["sides.py:Deep", "sides.py:deeper", "--inputs", "no.py:x"], "no.py"),
    "inputs that do not fit": (
        ["sides.py:Deep", "sides.py:Deep", "--inputs", "sides.py:narrow"],
        "running sides.py:Deep: it raised",
    ),
    "text": ([SOUND, SOUND, "--text", "hello"], "neither side has a tokenizer"),
    "expect": ([SOUND, SOUND, "--expect", "casual=true"], "did you mean causal?"),
    "attention": ([SOUND, SOUND, "--attention", "eager"], "Hugging Face"),
    "weights": ([SOUND, SOUND, "--weights", "move"], "none of auto, keep, copy, map=FILE"),
    "weights file": ([SOUND, SOUND, "--weights", "map=no.json"], "there is no file 'no.json'"),
    "weights syntax": (
        ["sides.py:Deep", "sides.py:Deep", "--inputs", "sides.py:three", "--weights", "map=a.json"],
        "a.json",
    ),
    "weights unpaired": (
        ["sides.py:deeper", "sides.py:Deep", "--inputs", "sides.py:three"],
        "layers.2.in_proj_weight",
    ),
    "tolerance": ([SOUND, SOUND, "--tolerance", "nan"], "not a finite number above 0"),
    "tolerance sign": ([SOUND, SOUND, "--tolerance", "-1"], "not a finite number above 0"),
    "tolerance word": ([SOUND, SOUND, "--tolerance", "wide"], "'wide' is not a number"),
    "seed": ([SOUND, SOUND, "--seed", "-1"], "-1 is not in the range"),
    "format": ([SOUND, SOUND, "--format", "yaml"], "'yaml' is not one of"),
    "script alone": ([SOUND, SOUND, "--script", "new.py"], "say --shrink too"),
    "script folder": ([SOUND, SOUND, "--shrink", "--script", "no/s.py"], "there is no folder no"),
    "script file": ([SOUND, SOUND, "--shrink", "--script", "sides.py"], "it exists already"),
    "all and json": ([SOUND, SOUND, "--all", "--format", "json"], "--all is for people"),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_line_and_status_2(attnscope: Runner, here: Path, name: str) -> None:
    (here / "sides.py").write_text(SIDES)
    (here / "syntax.py").write_text("import torch\nx = (\n")
    (here / "a.json").write_text("{")
    words, said = WRONG[name]
    done = attnscope("verify", *words)
    assert done.status == 2
    complaints = [line for line in done.err.splitlines() if line.startswith("attnscope: ")]
    assert len(complaints) == 1
    assert said in complaints[0]
    assert "unforeseen" not in complaints[0]
    assert done.err.splitlines()[-1] == complaints[0]
    assert "Traceback" not in done.err
    assert done.out == ""


def test_debug_shows_the_traceback(attnscope: Runner, here: Path) -> None:
    (here / "sides.py").write_text(SIDES)
    done = attnscope("verify", "sides.py:raises", SOUND, "--debug")
    assert done.status == 2
    assert "Traceback (most recent call last)" in done.err
