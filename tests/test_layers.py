"""The layers hold, and the contracts that hold them would notice what breaks them.

Each case checks a copy of the package, with one module added or changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a folder with the contracts and a copy of the package."""
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def contracts_of(folder: Path) -> subprocess.CompletedProcess[str]:
    """Return the finished run of import-linter over the package in ``folder``."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def add(folder: Path, module: str, code: str) -> None:
    """Append ``code`` to the module at the path ``module`` inside the package."""
    path = folder / "src" / "attnscope" / module
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{code}\n")


def test_the_layers_hold(copy: Path) -> None:
    run = contracts_of(copy)
    assert run.returncode == 0, run.stdout
    assert "0 broken" in run.stdout


@pytest.mark.parametrize(
    ("module", "code", "named"),
    [
        ("errors.py", "import attnscope.calls", "attnscope.errors -> attnscope.calls"),
        ("calls/__init__.py", "import attnscope.capture", "attnscope.calls -> attnscope.capture"),
        ("capture/__init__.py", "import attnscope.show", "attnscope.capture -> attnscope.show"),
        ("calls/__init__.py", "import rich", "attnscope.calls -> rich"),
        ("capture/__init__.py", "import transformers", "attnscope.capture -> transformers"),
        ("errors.py", "import torch", "attnscope.errors -> torch"),
        ("measure/__init__.py", "import matplotlib", "attnscope.measure -> matplotlib"),
        ("measure/__init__.py", "import attnscope.show", "attnscope.measure -> attnscope.show"),
    ],
)
def test_a_wrong_import_is_noticed(copy: Path, module: str, code: str, named: str) -> None:
    add(copy, module, code)
    run = contracts_of(copy)
    assert run.returncode == 1, run.stdout
    assert named in run.stdout


def test_a_module_without_a_layer_is_noticed(copy: Path) -> None:
    add(copy, "gadgets.py", '"""A module that no layer names."""')
    run = contracts_of(copy)
    assert run.returncode == 1, run.stdout
    assert "gadgets" in run.stdout
