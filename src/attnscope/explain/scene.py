"""What is known of one stage on both sides, for the changes to be tried on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from attnscope.calls.call import Call
from attnscope.explain.attention import Attention
from attnscope.explain.part import Part
from attnscope.explain.settling import settled

__all__ = ["Scene", "Sight"]


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """One side of one attention, in float64.

    stages: tensors by the name of the stage ("input", "input_k" where keys and values come from
        another sequence, "q" … "context", "output", "model"), in the canonical layout.
    attention: q, k, v and the recipe; None where the recipe can't be read.
    parts: what makes a stage from the stages before it, where that is known.
    width: features of the input of the projections (d_model); None: not known.
    call: the recorded call; None where the side is a plain function.
    """

    stages: Mapping[str, Tensor]
    attention: Attention | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)
    width: int | None = None
    call: Call | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """The first stage at which two sides differ, each computed from the same earlier stages.

    stage: its name; candidate and reference: both sides, the candidate's stages computed from the
    reference's earlier ones; limit: largest difference of an entry that is rounding, per row
    (the stage's shape with a last axis of 1), absolute, infinite in rows that carry no meaning.
    """

    stage: str
    candidate: Sight
    reference: Sight
    limit: Tensor

    @property
    def actual(self) -> Tensor:
        """The candidate's stage."""
        return self.candidate.stages[self.stage]

    @property
    def expected(self) -> Tensor:
        """The reference's stage."""
        return self.reference.stages[self.stage]

    def agrees(self, value: Tensor, *, mends: bool = False) -> bool:
        """Return whether `value` is the candidate's stage (the reference's, for what mends)."""
        return self.gap(value, mends=mends) is not None

    def gap(self, value: Tensor, *, mends: bool = False) -> float | None:
        """Return the largest relative difference that is left; None: they don't agree.

        Equal infinities and NaN are equal; any other meeting with a non-finite value is not.
        """
        wanted = self.expected if mends else self.actual
        if value.shape != wanted.shape:
            return None
        if self.stage == "scores":
            value, wanted = settled(value), settled(wanted)
        same = (value == wanted) | (value.isnan() & wanted.isnan())
        gap = (value - wanted).abs()
        gap = gap.masked_fill(same | self.limit.isposinf(), 0.0)
        if not bool((gap <= self.limit).all()):  # NaN compares as False
            return None
        finite = wanted.abs()[wanted.isfinite()]
        largest = float(finite.max()) if finite.numel() else 1.0
        return float(gap.max()) / max(largest, 1e-30) if gap.numel() else 0.0
