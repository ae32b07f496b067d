"""The error of the drop-in for what torch refuses too.

`torch.nn.MultiheadAttention` refuses bad arguments with AssertionError, RuntimeError or ValueError,
without a rule that one could rely on. Code that catches those goes on working.
"""

from __future__ import annotations

from attnscope.errors import InputError

__all__ = ["RefusedInputError"]


class RefusedInputError(InputError, AssertionError, RuntimeError, ValueError):
    """An argument can't be used: an `InputError` in three parts, and what torch would raise."""
