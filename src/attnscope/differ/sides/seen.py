"""What is known of one attention of one side: on its tape, or by its context alone.

Both have one face: shapes, stages, reruns, the recipe. What lies on no tape has no spots, no
inputs and no output, and none of its values can be read or written there.
"""

from __future__ import annotations

from typing import TypeAlias

from attnscope.differ.sides.derived import Derived
from attnscope.differ.sides.located import Located

__all__ = ["Seen"]

Seen: TypeAlias = Located | Derived
"""One attention of one side."""
