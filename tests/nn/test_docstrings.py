"""Every example in a docstring of attnscope.nn runs and shows what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest
import torch

import attnscope.nn

MODULES = [
    "attnscope.nn",
    *(m.name for m in pkgutil.walk_packages(attnscope.nn.__path__, "attnscope.nn.")),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    names = {**vars(attnscope.nn), **vars(module), "torch": torch}
    result = doctest.testmod(module, extraglobs=names, report=True)
    assert result.failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = {
        example.name
        for name in MODULES
        for example in finder.find(importlib.import_module(name))
        if example.examples
    }
    assert {f"attnscope.nn.multihead.{n}" for n in ("MultiheadAttention",)} <= found
    assert len(found) >= 20


def test_an_example_that_is_wrong_fails() -> None:
    example = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(example, out=lambda _: 0).failed == 1
