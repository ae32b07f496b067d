"""Puts packages that need a GPU within reach, as stand-ins with the same signatures."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

STAND_INS = Path(__file__).parent / "standins"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Return what imports a stand-in by the name of the real package."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(STAND_INS))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if name.split(".")[0] in {"flash_attn", "xformers"}:
            del sys.modules[name]
