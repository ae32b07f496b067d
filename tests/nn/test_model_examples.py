"""Every example in the docstrings of layers, models and initial values runs as written."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = [
    "blocks",
    "design",
    "droprates",
    "embeddings",
    "encoder_decoder",
    "feedforward",
    "generation",
    "init.applying",
    "init.auditing",
    "init.fitting",
    "init.limits",
    "init.roles",
    "init.schemes",
    "language_model",
    "norms",
    "padded",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    module = import_module(f"attnscope.nn.{name}")
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0
