"""The stages of an attention at which two implementations are compared, in order."""

from __future__ import annotations

__all__ = ["FORWARD", "GRADIENTS", "INSIDE", "PROJECTED"]

PROJECTED = ("q", "k", "v")
"""As they enter attention: projected, split into heads, normalised, rotated."""

INSIDE = ("raw_scores", "scores", "weights", "context")
"""What follows from q, k and v."""

FORWARD = ("input", *PROJECTED, *INSIDE, "output", "model")
"""`input` is what the projections receive, `output` follows the output projection, `model` is the
target's own output."""

GRADIENTS = tuple(f"grad.{stage}" for stage in reversed(FORWARD[:-1]))
"""The same in reverse: from `grad.output` to `grad.input`."""
