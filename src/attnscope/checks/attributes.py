"""Attributes of objects that others wrote: reading one runs code that may raise anything."""

from __future__ import annotations

from typing import Any

__all__ = ["attribute"]


def attribute(owner: object, name: str, default: Any = None) -> Any:
    """Return an attribute of an object; the default where it has none, or can't tell."""
    try:
        return getattr(owner, name, default)
    except Exception:  # noqa: BLE001  a config's __getattr__ may look the name up in a dict
        return default
