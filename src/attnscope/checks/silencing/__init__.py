"""Silencing findings with a reason: comments in the code, the project's settings, a baseline.

``# attnscope: ignore[AS201] reason`` speaks of one statement, or of a whole function or class;
``[tool.attnscope]`` in pyproject.toml of rules and files; a baseline file of what was there before.
What is silenced stays in the report, with what silenced it and why. What silences nothing is told.
"""

from __future__ import annotations

from attnscope.checks.silencing.applying import silence
from attnscope.checks.silencing.baseline import read_baseline, write_baseline
from attnscope.checks.silencing.settings import Settings, read_settings

__all__ = ["Settings", "read_baseline", "read_settings", "silence", "write_baseline"]
