"""`attnscope trace` on models of one's own: the table, JSON, pictures, walks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import attnscope as package

Runner = Callable[..., Any]


def test_the_table_goes_to_standard_output_and_noise_does_not(attnscope: Runner) -> None:
    done = attnscope("trace", "net.py")
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0] == "net.py  (Net)"
    assert max(map(len, lines)) <= 100
    assert "first" in done.out
    assert "second" in done.out
    assert any(line.startswith("2 calls, ") for line in lines)
    assert "prints while" not in done.out
    assert "a model prints while it runs" in done.err


def test_json_is_all_of_standard_output(attnscope: Runner) -> None:
    done = attnscope("trace", "net.py:Net", "--format", "json", "--inputs", "net.py:several")
    data = json.loads(done.out)
    assert (done.status, data["schema"], data["target"]) == (0, "attnscope.trace/1", "net.py:Net")
    assert [call["module"] for call in data["calls"]] == ["first", "second"]
    assert [call["heads"] for call in data["calls"]] == [4, 2]
    assert {call["queries"] for call in data["calls"]} == {5}
    assert len(data["calls"][0]["stats"]["entropy"]) == 4


def test_a_model_without_attention_is_no_error(attnscope: Runner) -> None:
    done = attnscope("trace", "net.py:Plain", "--png", "weights.png")
    assert done.status == 0
    assert "no attention seen, because no values were weighed by a softmax of q·k" in done.out
    assert "nothing to draw" in done.err
    assert json.loads(attnscope("trace", "net.py:Plain", "--format", "json").out)["calls"] == []


def test_a_picture_is_drawn(attnscope: Runner, here: Path) -> None:
    done = attnscope("trace", "net.py", "--png", "weights.png", "--heads", "0:3,1:-1")
    assert done.status == 0
    assert "drew 2 heads into weights.png" in done.err
    with Image.open(here / "weights.png") as image:
        assert image.format == "PNG"


def test_a_walk_and_a_shape_sheet_follow_the_table(attnscope: Runner) -> None:
    done = attnscope("trace", "net.py", "--walk", "1:0:-1", "--shapes", "0")
    assert done.status == 0
    assert "walk  call 1 second, head 0, query 6" in done.out
    assert "shapes of call 0  first" in done.out


def test_only_a_module_is_listed(attnscope: Runner) -> None:
    done = attnscope("trace", "net.py", "--module", "second", "--format", "json")
    assert [call["index"] for call in json.loads(done.out)["calls"]] == [1]


def test_a_trace_is_saved_and_can_be_loaded(attnscope: Runner) -> None:
    assert attnscope("trace", "net.py", "--save", "kept").status == 0
    again = package.load("kept")
    assert [call.module for call in again] == ["first", "second"]
    assert attnscope("trace", "net.py", "--save", "kept").status == 2


@pytest.mark.parametrize("keep", ["all", "qkv", "numbers"])
def test_every_way_of_keeping_gives_the_same_numbers(attnscope: Runner, keep: str) -> None:
    base = json.loads(attnscope("trace", "net.py:Net", "--format", "json").out)
    done = attnscope("trace", "net.py:Net", "--format", "json", "--keep", keep)
    assert done.status == 0
    assert len(json.loads(done.out)["calls"]) == len(base["calls"])
    assert all(call["stats"]["entropy"] for call in json.loads(done.out)["calls"])


def test_a_backward_runs(attnscope: Runner) -> None:
    assert attnscope("trace", "net.py", "--backward").status == 0
    done = attnscope("trace", "net.py:constant", "--backward")
    assert done.status == 2
    assert "no output depends on a parameter" in done.err


def test_help_and_version(attnscope: Runner) -> None:
    told = attnscope("--help")
    assert told.status == 0
    assert "\n      attnscope trace sample:minilm" in told.out
    assert attnscope().out == told.out
    assert "--walk CALL:HEAD:QUERY" in attnscope("trace", "--help").out
    assert package.__version__ in attnscope("--version").out


def test_a_closed_pipe_is_quiet(here: Path) -> None:
    code = "from attnscope.cli import main; main(['trace', 'net.py', '--format', 'json'])"
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as nowhere:
        run = subprocess.run(
            [sys.executable, "-c", code],
            stdout=nowhere,
            stderr=subprocess.PIPE,
            cwd=here,
            check=False,
        )
    assert run.returncode == 0
    assert b"Traceback" not in run.stderr
    assert b"BrokenPipe" not in run.stderr
    assert b"Broken pipe" not in run.stderr
