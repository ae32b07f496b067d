"""Starting is fast: heavy packages are loaded only by what uses them.

Each case runs in a fresh process, because this one has long since imported torch.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import attnscope

HEAVY = frozenset({"matplotlib", "rich", "torch", "torch._dynamo", "transformers"})

IMPORT = "import attnscope"
VERSION = "import attnscope; attnscope.__version__; attnscope.AttnscopeError; dir(attnscope)"
HELP = """
import sys
sys.argv = ["attnscope", "--help"]
from attnscope.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""


def loaded_by(code: str) -> set[str]:
    """Return which of the heavy packages a fresh process has loaded after ``code``."""
    report = f"import sys\nprint('\\nloaded', *{{*{sorted(HEAVY)}}} & {{*sys.modules}})"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{code}\n{report}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    marker, *names = run.stdout.splitlines()[-1].split()
    assert marker == "loaded"
    return set(names)


@pytest.mark.parametrize("code", [IMPORT, VERSION], ids=["import", "version"])
def test_importing_attnscope_loads_nothing_heavy(code: str) -> None:
    assert loaded_by(code) == set()


def test_the_help_of_the_command_line_loads_no_torch() -> None:
    assert not loaded_by(HELP) & {"matplotlib", "torch", "transformers"}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (f"{IMPORT}; import torch", {"torch"}),
        (f"{IMPORT}; import matplotlib, rich", {"matplotlib", "rich"}),
        (f"{IMPORT}; attnscope.trace", {"torch"}),
    ],
    ids=["torch", "matplotlib-rich", "first-use"],
)
def test_a_heavy_import_would_be_noticed(code: str, expected: set[str]) -> None:
    assert loaded_by(code) == expected


def test_a_check_does_not_load_the_compiler() -> None:
    check = "import torch, attnscope; m = torch.nn.MultiheadAttention(8, 2, batch_first=True)"
    run = f"{check}; x = torch.randn(1, 3, 8); attnscope.check(m, (x, x, x))"
    for more, expected in (("", set()), ("; import torch._dynamo", {"torch._dynamo"})):
        assert loaded_by(f"{run}{more}") & {"torch._dynamo"} == expected


@pytest.mark.parametrize("name", attnscope.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    assert name in dir(attnscope)
    assert getattr(attnscope, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    name = "tracee"
    with pytest.raises(AttributeError, match="no attribute 'tracee'"):
        getattr(attnscope, name)


def test_no_public_name_is_hidden_by_a_room() -> None:
    for name in ("trace", "record", "load"):
        value = getattr(attnscope, name)
        assert callable(value), f"attnscope.{name} is a module: a room took the function's name"
