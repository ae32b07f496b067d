"""The smallest inputs that still fail, and a program that shows it."""

from __future__ import annotations

from attnscope.differ.shrinking.smallest import Shrunk, shrink

__all__ = ["Shrunk", "shrink"]
