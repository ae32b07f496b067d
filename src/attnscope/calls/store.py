"""Traces on disk: a folder with a manifest and safetensors, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from attnscope.calls.trace import Trace


def save(trace: Trace, path: Path) -> None:
    """Write."""


def load(path: str | Path) -> Trace:
    """Read."""
    raise NotImplementedError
