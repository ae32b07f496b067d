"""The run in train mode, watched: what is active only there."""

from __future__ import annotations

from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.side import Side

__all__ = ["train_mode"]


@probe
def train_mode(subject: Subject) -> Side:
    """Run the subject in train mode, every operation written down.

    Raises:
        Skipped: it is no module, or raises in train mode.
    """
    if subject.model is None:
        raise Skipped("a function has no train mode: give a module")
    side = subject.watched(subject.given, train=True)
    if side.error is not None:
        text = " ".join(str(side.error).split())[:200]
        raise Skipped(f"in train mode the model raised {type(side.error).__name__}: {text}")
    return side
