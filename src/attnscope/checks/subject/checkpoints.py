"""Reentrant checkpoints, opened: what they wrap is called by itself.

They compute a part again on the way back, and refuse `torch.autograd.grad`; forward gives the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch.utils.checkpoint
from torch import Tensor

from attnscope.calls.source import Source
from attnscope.checks.lines import calling_line

__all__ = ["opened_checkpoints"]


@contextlib.contextmanager
def opened_checkpoints(*, replaced: bool = False) -> Iterator[list[Source | None]]:
    """Call by itself what a reentrant checkpoint wraps; note the lines of those that lose any.

    One that is given no tensor which needs a gradient gives none: what it wraps is called without,
    unless `replaced`.
    """
    lines: list[Source | None] = []

    class Watching:
        @staticmethod
        def apply(function: Callable[..., Any], preserve: bool, *args: Any) -> Any:  # noqa: FBT001  as torch has it
            del preserve
            given = [each for each in args if isinstance(each, Tensor)]
            lost = torch.is_grad_enabled() and not any(each.requires_grad for each in given)
            if lost:
                lines.append(calling_line())
            with torch.set_grad_enabled(torch.is_grad_enabled() and (replaced or not lost)):
                return function(*args)

    with mock.patch.object(torch.utils.checkpoint, "CheckpointFunction", Watching):
        yield lines
