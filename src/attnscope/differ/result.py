"""What a comparison returns: stages, the first difference, its explanation, and how it was made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from attnscope.calls.source import Source
from attnscope.differ.conditions import Condition
from attnscope.differ.sides.aligning import Alignment
from attnscope.differ.walk.judging import Gap, Tolerance, finite
from attnscope.differ.walk.step import Step
from attnscope.differ.weights import WeightMap
from attnscope.explain import Explanation

__all__ = ["Case", "FirstDifference", "StageResult", "Verification"]

SCHEMA = "attnscope.verify/1"


@dataclass(frozen=True, slots=True)
class StageResult:
    """One stage of one attention, compared.

    stage: its name; call: number of the attention, in the reference's order, None for the model's
    own output; module: where the candidate made it; part: which of several inputs or outputs.
    gap: both sides as they ran, in float64; own: the candidate's stage from the reference's earlier
    ones. cancelled: it differs and what follows does not.
    """

    stage: str
    call: int | None
    module: str
    gap: Gap
    own: Gap | None = None
    part: str = ""
    cancelled: bool = False
    factor: float = 1.0

    @classmethod
    def of(cls, step: Step) -> StageResult:
        """Return the numbers of a step."""
        module = step.call.module if step.call is not None else ""
        return cls(step.stage, step.number, module, step.total, step.own, step.part, step.cancelled)

    @property
    def largest(self) -> float:
        """Largest difference, relative to the reference's largest entry."""
        return self.gap.largest

    @property
    def equal(self) -> bool:
        """Whether the stage agrees, or what differs in it cancels."""
        return self.cancelled or self.gap.excess <= self.factor

    @property
    def at_fault(self) -> bool:
        """Whether the stage is wrong by itself."""
        own = self.own if self.own is not None else self.gap
        return not self.cancelled and own.excess > self.factor

    def to_json(self) -> dict[str, Any]:
        """Return the fields that the JSON format carries."""
        own = self.own.largest if self.own is not None else None
        return {
            "stage": self.stage,
            "call": self.call,
            "module": self.module,
            "part": self.part,
            "largest": finite(self.largest),
            "own": finite(own) if own is not None else None,
            "cancelled": self.cancelled,
            "equal": self.equal,
        }


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first stage that is wrong by itself.

    call, module, source: where the candidate made it. index: of the worst entry in the canonical
    layout; values: of candidate and reference there. largest: as both sides ran; own_error: from
    the reference's earlier stages; inherited_error: what came from before. All three relative to
    the reference's largest entry. case: the further inputs on which it shows, where it does not on
    those that were given. verdict: "numbers", "shape", "non-finite", "missing", "extra",
    "rounding" or "whole" (all parts agree, the whole does not).
    """

    stage: str
    call: int | None
    module: str
    source: Source | None
    index: tuple[int, ...]
    values: tuple[float, float] | None
    largest: float
    own_error: float | None
    inherited_error: float | None
    verdict: str
    explanation: Explanation | None = None
    part: str = ""
    case: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields that the JSON format carries."""
        source = self.source
        numbers = {
            name: finite(value) if (value := getattr(self, name)) is not None else None
            for name in ("largest", "own_error", "inherited_error")
        }
        return {
            "stage": self.stage,
            "call": self.call,
            "module": self.module,
            "source": (
                {"file": source.file, "line": source.line, "function": source.function}
                if source is not None
                else None
            ),
            "index": list(self.index),
            "values": [finite(value) for value in self.values] if self.values else None,
            **numbers,
            "verdict": self.verdict,
            "part": self.part,
            "case": self.case,
            "explanation": self.explanation.to_json() if self.explanation else None,
        }


@dataclass(frozen=True, slots=True)
class Case:
    """One point of the matrix of inputs: what was varied, and whether the sides agreed there."""

    name: str
    equal: bool | None
    largest: float
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
        return {
            "name": self.name,
            "equal": self.equal,
            "largest": finite(self.largest),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of comparing a candidate with a reference.

    equal: outputs, and gradients of float inputs and paired parameters, agree within tolerance, in
    every case that was run. compared: tensors that were compared; conditions: what was alike and
    what not before anything ran; stages: in order; first_difference: None where equal.
    """

    candidate: str
    reference: str
    equal: bool
    conditions: tuple[Condition, ...]
    first_difference: FirstDifference | None
    stages: tuple[StageResult, ...]
    alignment: Alignment
    tolerance: Tolerance
    weights: WeightMap | None = None
    cases: tuple[Case, ...] = ()
    notes: tuple[str, ...] = ()
    seed: int = 0

    @property
    def compared(self) -> int:
        """Number of tensors that were compared with a partner."""
        return len(self.stages)

    def judged(self, factor: float) -> Verification:
        """Return the same numbers judged with limits `factor` times as wide.

        An explanation stands as long as the first difference stays the same.
        """
        stages = tuple(replace(stage, factor=factor) for stage in self.stages)
        first = next((stage for stage in stages if stage.at_fault), None)
        kept = self.first_difference
        if first is None:
            stays = kept is not None and (kept.verdict in _NOT_NUMBERS or kept.case)
            kept = kept if stays else None
        elif kept is None or (kept.stage, kept.call) != (first.stage, first.call):
            kept = first_of(first, None, None)
        tolerance = replace(self.tolerance, factor=factor)
        cases = all(case.equal is not False for case in self.cases)
        equal = kept is None and self.compared > 0 and cases
        return replace(self, stages=stages, first_difference=kept, tolerance=tolerance, equal=equal)

    def to_json(self) -> dict[str, Any]:
        """Return the result as `verify --format json` writes it."""
        first = self.first_difference
        return {
            "schema": SCHEMA,
            "candidate": self.candidate,
            "reference": self.reference,
            "equal": self.equal,
            "compared": self.compared,
            "conditions": [condition.to_json() for condition in self.conditions],
            "first_difference": first.to_json() if first is not None else None,
            "stages": [stage.to_json() for stage in self.stages],
            "weights": self.weights.to_json() if self.weights is not None else None,
            "alignment": self.alignment.to_json(),
            "tolerance": self.tolerance.to_json(),
            "cases": [case.to_json() for case in self.cases],
            "notes": list(self.notes),
            "seed": self.seed,
        }

    def __str__(self) -> str:
        """Return the verdict in a few lines."""
        head = f"{self.candidate} against {self.reference}"
        if self.equal:
            return f"{head}: equal, {self.compared} tensors compared"
        first = self.first_difference
        if first is None:
            failed = ", ".join(case.name for case in self.cases if case.equal is False)
            return f"{head}: not equal ({failed or 'nothing could be compared'})"
        if first.case:
            head = f"{head}, case {first.case}"
        place = f"call {first.call}" if first.call is not None else "the model's own output"
        lines = [f"{head}: not equal, first at {first.stage} ({place})"]
        lines.append(f"  largest difference {first.largest:.2g} of the largest entry")
        if first.explanation is not None:
            lines.append(f"  {first.explanation.key}: {first.explanation.text}")
        return "\n".join(lines)


_NOT_NUMBERS = frozenset({"missing", "extra", "shape", "non-finite", "rounding", "whole"})


def first_of(
    stage: StageResult, source: Source | None, explanation: Explanation | None
) -> FirstDifference:
    """Return the first difference that a stage is."""
    own = stage.own
    worst = own if own is not None and own.values is not None else stage.gap
    inherited = None if own is None else max(0.0, stage.gap.largest - own.largest)
    if own is not None and own.largest == stage.gap.largest:
        inherited = 0.0
    return FirstDifference(
        stage=stage.stage,
        call=stage.call,
        module=stage.module,
        source=source,
        index=worst.index,
        values=worst.values,
        largest=stage.gap.largest,
        own_error=own.largest if own is not None else None,
        inherited_error=inherited,
        verdict=worst.verdict if worst.verdict != "equal" else "numbers",
        explanation=explanation,
        part=stage.part,
    )
