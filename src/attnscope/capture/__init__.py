"""Sees attention: runs a model as it is and records every call."""

from attnscope.capture.entry import record, trace

__all__ = ["record", "trace"]
