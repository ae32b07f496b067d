"""The reference comes without torch, so that what it is compared with is something else.

Each case runs in a fresh process, because this one has long since imported torch.
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

from attnscope import reference

EVERY_MODULE = """
import importlib, pkgutil, attnscope.reference as room
for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
    importlib.import_module(found.name)
"""
AT_WORK = """
import numpy as np
from attnscope import reference
x = np.ones((1, 2, 3, 4))
np.asarray(reference.attention(x, x, x, causal=True))
reference.attention_backward(x, x, x, x)
"""


def loads_torch(code: str) -> bool:
    """Return whether a fresh process has torch in it after `code`."""
    report = "import sys; print('torch' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return {"True": True, "False": False}[run.stdout.split()[-1]]


@pytest.mark.parametrize(
    "code",
    ["import attnscope.reference", EVERY_MODULE, AT_WORK],
    ids=["import", "every-module", "at-work"],
)
def test_no_torch_is_loaded(code: str) -> None:
    assert not loads_torch(code)


@pytest.mark.parametrize("name", ["torch", "attnscope.axes"])
def test_torch_would_be_noticed(name: str) -> None:
    assert loads_torch(f"import attnscope.reference, {name}")


def test_every_public_name_can_be_had() -> None:
    assert len(set(reference.__all__)) == len(reference.__all__)
    for name in reference.__all__:
        value = getattr(reference, name)
        assert not isinstance(value, ModuleType), f"a module took the name of {name}"


def test_no_module_takes_the_name_of_a_function() -> None:
    walked = pkgutil.walk_packages(reference.__path__, f"{reference.__name__}.")
    modules = {found.name.rpartition(".")[2] for found in walked}
    assert len(modules) > 30
    assert not modules & set(reference.__all__)
