"""Named transformations, and the search for the one that makes two stages of an attention agree."""

from __future__ import annotations

from attnscope.explain.attention import Attention
from attnscope.explain.change import Change, Explanation
from attnscope.explain.part import Part
from attnscope.explain.scene import Scene, Sight
from attnscope.explain.search import explain
from attnscope.explain.settling import settled

__all__ = ["Attention", "Change", "Explanation", "Part", "Scene", "Sight", "explain", "settled"]
