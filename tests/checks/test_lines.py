"""The line that an exception came from is the author's, not PyTorch's."""

from __future__ import annotations

import torch
from torch import nn

from attnscope.checks.lines import line_of


def raised(run: object) -> BaseException:
    try:
        run()  # type: ignore[operator]
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
