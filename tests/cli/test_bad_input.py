"""Whatever can't be used: exit status 2, one line on standard error, nothing on standard output."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Runner = Callable[..., Any]

WRONG: dict[str, tuple[list[str], str]] = {
    "no target": (["trace"], "Missing argument 'TARGET'"),
    "no command": (["traces", "net.py"], "No such command 'traces'"),
    "no option": (["trace", "net.py", "--wlak", "0:0:0"], "--walk"),
    "no file": (["trace", "nett.py"], "did you mean net.py?"),
    "no name": (["trace", "net.py:Nett"], "did you mean Net?"),
    "no form": (["trace", "whatever"], "a TARGET is path/file.py:name"),
    "no sample": (["trace", "sample:minilmm"], "did you mean sample:minilm?"),
    "no architecture": (["trace", "arch:llama9"], "llama"),
    "syntax": (["trace", "syntax.py"], "at syntax.py:2"),
    "raises": (["trace", "raises.py"], "at raises.py:3"),
    "arguments": (["trace", "net.py:needs"], "it needs the arguments width"),
    "inputs": (["trace", "net.py", "--inputs", "net.py:odd"], "of type int"),
    "inputs name": (["trace", "net.py", "--inputs", "net.py"], "--inputs file.py:name"),
    "text": (["trace", "net.py", "--text", "hello"], "only checkpoints and samples"),
    "expect": (["trace", "net.py", "--expect", "casual=true"], "did you mean causal?"),
    "format": (["trace", "net.py", "--format", "yaml"], "'yaml' is not one of"),
    "attention": (["trace", "net.py", "--attention", "eager"], "Hugging Face"),
    "generate": (["trace", "net.py", "--generate", "3"], "can't generate"),
    "generate 0": (["trace", "net.py", "--generate", "0"], "0 is not in the range"),
    "both": (["trace", "net.py", "--generate", "3", "--backward"], "give one"),
    "walk form": (["trace", "net.py", "--walk", "0:1"], "it is not CALL:HEAD:QUERY"),
    "walk call": (["trace", "net.py", "--walk", "9:0:0"], "the trace has 2 calls"),
    "walk head": (["trace", "net.py", "--walk", "0:4:0"], "call 0 has 4 heads"),
    "walk query": (["trace", "net.py", "--walk", "0:0:99"], "the call has 7"),
    "walk token": (["trace", "net.py", "--walk", "0:0:cat"], "no words to find 'cat' in"),
    "walk json": (["trace", "net.py", "--walk", "0:0:0", "--format", "json"], "leave out"),
    "shapes": (["trace", "net.py", "--shapes", "7"], "the trace has 2 calls"),
    "shapes form": (["trace", "net.py", "--shapes", "x"], "'x' is not a valid integer"),
    "module": (["trace", "net.py", "--module", "fist"], "calls are in first"),
    "heads": (["trace", "net.py", "--png", "a.png", "--heads", "x"], "is not CALL:HEAD"),
    "heads number": (["trace", "net.py", "--png", "a.png", "--heads", "a:0"], "'a' is not a whole"),
    "heads alone": (["trace", "net.py", "--heads", "0:0"], "say --png FILE"),
    "png folder": (["trace", "net.py", "--png", "no/a.png"], "there is no folder no"),
    "save folder": (["trace", "net.py", "--save", "no/kept"], "there is no folder no"),
    "save file": (["trace", "net.py", "--save", "net.py"], "it exists already"),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_line_and_status_2(attnscope: Runner, here: Path, name: str) -> None:
    (here / "syntax.py").write_text("import torch\nx = (\n")
    (here / "raises.py").write_text("import torch\n\nraise ValueError('two\\nlines')\n")
    words, said = WRONG[name]
    done = attnscope(*words)
    assert done.status == 2
    complaints = [line for line in done.err.splitlines() if line.startswith("attnscope: ")]
    assert len(complaints) == 1
    assert said in complaints[0]
    assert done.err.splitlines()[-1] == complaints[0]
    assert "Traceback" not in done.err
    assert done.out == ""


def test_a_model_that_raises_names_its_line_and_what_was_seen(attnscope: Runner) -> None:
    done = attnscope("trace", "net.py:Fails")
    assert done.status == 2
    line = done.err.splitlines()[-1]
    assert "running net.py:Fails: RuntimeError: two lines at net.py:21" in line
    assert "2 attention calls before it, the last in second at " in line
    assert "Traceback" not in done.err


@pytest.mark.parametrize("words", [("--debug", "trace"), ("trace", "--debug")])
def test_debug_shows_the_traceback(attnscope: Runner, words: tuple[str, ...]) -> None:
    done = attnscope(*words, "net.py:Fails")
    assert done.status == 2
    assert "Traceback (most recent call last)" in done.err
    assert done.err.splitlines()[-1].startswith("attnscope: running net.py:Fails")


@pytest.mark.parametrize(
    ("blocked", "words", "extra"),
    [
        ("transformers", ["arch:llama"], "attnscope[hf]"),
        ("matplotlib", ["net.py", "--png", "a.png"], "attnscope[plots]"),
    ],
)
def test_a_missing_extra_is_named(here: Path, blocked: str, words: list[str], extra: str) -> None:
    code = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
from attnscope.cli import main
main(["trace", *{words!r}])
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=here, check=False
    )
    assert run.returncode == 2
    assert run.stdout == ""
    assert f"pip install '{extra}'" in run.stderr.splitlines()[-1]
    assert "Traceback" not in run.stderr
