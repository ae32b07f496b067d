"""How far entries of a stage may be apart where a change is read from them."""

from __future__ import annotations

from attnscope.explain.scene import Scene

__all__ = ["slack_of"]


def slack_of(scene: Scene) -> float:
    """Return the largest limit of a row that counts; rows that don't have an infinite one."""
    known = scene.limit[scene.limit.isfinite()]
    return float(known.max()) if known.numel() else 0.0
