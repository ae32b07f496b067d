"""What a walk through the stages says of each, and of the first that is wrong by itself."""

from __future__ import annotations

from dataclasses import dataclass

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.differ.walk.judging import Gap
from attnscope.explain import Scene

__all__ = ["Difference", "Step"]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One stage of one attention, compared.

    number: of the attention, in the reference's order; None for the model's own output. part: which
    of q, k and v, where `input` stands for several. total: as both sides ran; own: the candidate's
    stage from the reference's earlier ones; None where it can't be computed alone. cancelled: it
    differs, and what follows does not.
    """

    stage: str
    number: int | None
    total: Gap
    own: Gap | None
    call: Call | None = None
    part: str = ""
    cancelled: bool = False
    source: Source | None = None

    @property
    def equal(self) -> bool:
        """Whether the stage agrees, or what differs in it cancels."""
        return self.cancelled or self.total.equal

    @property
    def at_fault(self) -> bool:
        """Whether the stage is wrong by itself."""
        return not self.cancelled and self.own is not None and not self.own.equal


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """The first stage that is wrong by itself, with what is needed to explain it."""

    step: Step
    scene: Scene | None
