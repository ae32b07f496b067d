"""The line that an exception came from is the author's, not PyTorch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import attnscope
from attnscope.checks.lines import is_installed, is_the_users, line_of


def raised(run: Callable[[], object]) -> BaseException:
    try:
        run()
    except Exception as error:  # noqa: BLE001  whichever it is
        return error
    raise AssertionError


def test_it_is_the_innermost_line_outside_of_pytorch() -> None:
    source = line_of(raised(lambda: nn.Linear(2, 2)(torch.zeros(3))))
    assert source is not None
    assert source.file == __file__
    assert "nn.Linear(2, 2)(torch.zeros(3))" in source.code


def test_there_is_none_where_nothing_was_raised() -> None:
    assert line_of(ValueError("kept, not raised")) is None


def test_the_authors_files_are_neither_pytorchs_nor_made_at_run_time() -> None:
    assert is_the_users(__file__)
    assert is_the_users("<ipython-input-1-0a1b>")
    others = [nn.__file__, attnscope.__file__, "<frozen importlib._bootstrap>", "<string>"]
    assert not [file for file in others if is_the_users(file)]


@pytest.mark.parametrize(
    ("file", "installed"),
    [
        ("/env/lib/python3.11/site-packages/timm/layers/attention.py", True),
        ("/usr/lib/python3/dist-packages/timm/layers/attention.py", True),
        ("C:\\env\\Lib\\site-packages\\timm\\layers.py", True),
        ("/home/me/site-packages.py", False),
        ("/home/me/model.py", False),
    ],
)
def test_installed_files_are_known_by_their_folder(file: str, *, installed: bool) -> None:
    assert is_installed(file) is installed
