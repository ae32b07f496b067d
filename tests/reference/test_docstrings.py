"""Every example in a docstring of the reference runs, and every public function has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from types import ModuleType

import numpy as np
import pytest

from attnscope import reference

MODULES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(reference.__path__, f"{reference.__name__}.")
]
EXAMPLES = [
    example
    for module in MODULES
    for example in doctest.DocTestFinder(exclude_empty=True).find(
        module, extraglobs={"np": np}, module=module
    )
    if example.examples
]


def failures(example: doctest.DocTest) -> str:
    """Return what an example printed where it was to print something else, else ""."""
    told: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    return "".join(told)


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_the_example_prints_what_it_says(example: doctest.DocTest) -> None:
    assert not failures(example)


def test_an_example_that_is_wrong_would_be_noticed() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert "Expected" in failures(wrong)


ROOMS = [reference, *(one for one in MODULES if hasattr(one, "__path__"))]


@pytest.mark.parametrize("room", ROOMS, ids=[room.__name__ for room in ROOMS])
def test_public_functions_have_examples(room: ModuleType) -> None:
    shown = {example.name for example in EXAMPLES}
    public = [value for name in room.__all__ if inspect.isfunction(value := getattr(room, name))]
    assert public
    missing = [f.__qualname__ for f in public if f"{f.__module__}.{f.__qualname__}" not in shown]
    assert not missing
