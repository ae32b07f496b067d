"""The shapes that functions declare are those that their examples have: beartype checks them.

A fresh process imports the modules anew, since a type checker has to be there before them.
"""

from __future__ import annotations

import subprocess
import sys

ROOM = "attnscope.reference"
MODULES = "approximations given patterns positions".split()

EXAMPLES = """
import doctest, importlib, pkgutil, sys
from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, as for mypy
{before}
names = {names}
with install_import_hook(names, "__main__.check"):
    import attnscope.reference as room
    found = [m.name for m in pkgutil.walk_packages(room.__path__, room.__name__ + ".")]
    modules = [importlib.import_module(m) for m in found if m.startswith(tuple(names))]
results = [doctest.testmod(module) for module in modules]
print(len(modules), sum(r.attempted for r in results), sum(r.failed for r in results))
"""


def checked(before: str = "") -> tuple[int, int, int, int]:
    """Return how many modules, examples, failures, and failures for a wrong shape there were."""
    names = [f"{ROOM}.{name}" for name in MODULES]
    code = EXAMPLES.format(names=names, before=before)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    modules, attempted, failed = run.stdout.splitlines()[-1].split()
    return int(modules), int(attempted), int(failed), run.stdout.count("TypeCheckError")


def test_examples_keep_to_the_declared_shapes() -> None:
    modules, attempted, failed, wrong = checked()
    assert modules > len(MODULES)
    assert attempted > 80
    assert (failed, wrong) == (0, 0)


def test_another_shape_would_be_noticed() -> None:
    *_, wrong = checked("import numpy as np\nnp.clip = lambda *_: np.zeros(3, dtype=np.int64)")
    assert wrong > 0
