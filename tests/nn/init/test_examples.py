"""Every example in the docstrings of the initial values runs as written."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

from attnscope.nn import init

FOUND = [found.name for found in pkgutil.walk_packages(init.__path__, f"{init.__name__}.")]
EXAMPLES = [
    example
    for name in FOUND
    for example in doctest.DocTestFinder(exclude_empty=True).find(import_module(name))
    if example.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_examples_run(example: doctest.DocTest) -> None:
    told: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert not told


def test_every_scheme_shows_what_it_does() -> None:
    shown = {example.name.rpartition(".")[2] for example in EXAMPLES}
    schemes = {one.__name__ for one in vars(init).values() if isinstance(one, type)}
    assert {
        name for name in schemes if name.startswith(("Xav", "Kai", "Nor", "T5", "MuP"))
    } <= shown
