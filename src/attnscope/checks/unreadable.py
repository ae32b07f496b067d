"""What a stranger's call or tensors may raise when they are read: nothing is known of them then."""

from __future__ import annotations

from attnscope.errors import AttnscopeError

__all__ = ["UNREADABLE"]

UNREADABLE = (AttnscopeError, RuntimeError, LookupError, ValueError, TypeError)
