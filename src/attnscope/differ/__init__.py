"""`verify`: a candidate against a reference, stage by stage, with what differs first and why."""

from __future__ import annotations

from attnscope.differ.entry import verify
from attnscope.differ.result import Verification

__all__ = ["Verification", "verify"]
