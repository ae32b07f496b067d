"""Lines of code are those that the file has now."""

from __future__ import annotations

import importlib.util
import linecache
import os
from pathlib import Path
from typing import Any

import torch

from attnscope.capture import trace

CODE = """
def attend(x):
    return (x @ x.mT).softmax(-1) @ x{}
"""


def load(path: Path) -> Any:
    """Import a file anew."""
    spec = importlib.util.spec_from_file_location("edited", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    path, x = tmp_path / "edited.py", torch.ones(1, 3, 2)
    path.write_text(CODE.format(""))
    first = trace(load(path).attend, x)[0].source.code
    assert first == linecache.getline(str(path), 3).strip()
    path.write_text(CODE.format("  # edited"))
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 10**9))
    assert trace(load(path).attend, x)[0].source.code == f"{first}  # edited"
