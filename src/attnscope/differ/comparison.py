"""One comparison on one set of inputs, from the conditions to the gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attnscope.differ.causes.axes import explain_output
from attnscope.differ.causes.cuts import explain_gradient, ungraded
from attnscope.differ.causes.emptyrows import from_empty_rows
from attnscope.differ.causes.values import explain_weights
from attnscope.differ.conditions import Condition, compare_conditions
from attnscope.differ.result import FirstDifference, StageResult, Verification, first_of
from attnscope.differ.sides.aligning import Alignment, Pair, align
from attnscope.differ.sides.derived import Derived, derive
from attnscope.differ.sides.outputs import OutputPair, compared_outputs
from attnscope.differ.sides.seen import Seen
from attnscope.differ.sides.side import Side, observe
from attnscope.differ.sides.subject import Inputs, Subject, bind
from attnscope.differ.walk.attention import attention_steps
from attnscope.differ.walk.backward import Backward
from attnscope.differ.walk.forward import Walk, model_steps
from attnscope.differ.walk.judging import Tolerance
from attnscope.differ.walk.relevance import Relevance
from attnscope.differ.walk.rounding import coarser
from attnscope.differ.walk.stages import PROJECTED
from attnscope.differ.walk.step import Difference, Step
from attnscope.differ.weights import WeightMap
from attnscope.errors import AttnscopeError, InputError
from attnscope.explain import explain

__all__ = ["Comparison", "Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for; see `verify`."""

    expect: Mapping[str, Any] = field(default_factory=dict)
    gradients: bool = True
    seed: int = 0
    factor: float = 1.0
    weights: Any = "auto"


class Comparison:
    """Compares two subjects on one set of inputs.

    tolerance: follows from the types of the first outputs that were compared, and stays for other
    inputs.
    """

    def __init__(
        self,
        candidate: Subject,
        reference: Subject,
        inputs: Inputs,
        options: Options,
        pairs: WeightMap | None = None,
    ) -> None:
        self.candidate, self.reference = candidate, reference
        self.inputs, self.options, self.pairs = inputs, options, pairs
        self.tolerance: Tolerance | None = None

    def on(self, inputs: Inputs) -> Comparison:
        """Return the same comparison on other inputs."""
        other = Comparison(self.candidate, self.reference, inputs, self.options, self.pairs)
        other.tolerance = self.tolerance
        return other

    def run(self) -> Verification:
        """Run both sides and compare."""
        if self.candidate.is_plain != self.reference.is_plain:
            return self._driven()
        sides = self.observed(self.candidate), self.observed(self.reference)
        return self._compared(*sides)

    def observed(self, subject: Subject) -> Side:
        """Run one side on the inputs, fitted to its signature."""
        doing = f"comparing {self.candidate.name} with {self.reference.name}"
        args, kwargs, dropped = bind(subject, self.inputs, doing)
        side = observe(subject, args, kwargs, self.options.seed)
        side.dropped = tuple(dropped)
        return side

    def relevance(self) -> Relevance:
        """Return which rows count, by the masks among the inputs."""
        inputs = self.inputs
        named = inputs if isinstance(inputs, Mapping) else dict(enumerate(inputs))
        return Relevance(named, self.options.expect.get("padding"))

    # -- two of a kind ---------------------------------------------------------------------------

    def _compared(self, ours: Side, theirs: Side) -> Verification:
        outputs = compared_outputs(ours.output, theirs.output)
        if not outputs:
            raise InputError(
                f"comparing {self.candidate.name} with {self.reference.name}",
                f"they return {_kind(ours)} and {_kind(theirs)}, of which no float tensors match",
                "let both return a tensor, or the same structure of tensors",
            )
        if self.tolerance is None:
            self.tolerance = Tolerance.of(_types(outputs), self.options.factor)
        tolerance = self.tolerance
        relevance = self.relevance()
        alignment = self._aligned(ours, theirs, tolerance, outputs)
        relevance.see(_scores(alignment))
        walk = Walk(ours, theirs, tolerance, relevance)
        steps = list(attention_steps(walk, alignment.pairs))
        ends = list(model_steps(walk, outputs))
        if walk.only_constants(ends):
            wider = replace(tolerance, factor=tolerance.factor * walk.constants)
            self.tolerance = wider
            return self._compared(ours, theirs)
        first = self.first(walk, alignment, ends) or coarser(walk, outputs, alignment.pairs)
        if first is not None and first.stage == "model" and first.explanation is None:
            mine, other = outputs[0].sides
            turned = explain_output(ours.wide_output(mine), theirs.wide_output(other), tolerance)
            first = replace(first, explanation=turned)
        steps += ends
        notes = self._notes(ours, theirs)
        if tolerance.factor != self.options.factor:
            held = ", ".join(str(each) for each in sorted(ours.tables | theirs.tables, key=str))
            notes.append(f"limits are {tolerance.factor:.3g} times as wide: buffers hold {held}")
        if first is None and self.options.gradients:
            more, first, said = self._backward(walk, outputs, alignment)
            steps += more
            notes += said
        return self.result(steps, first, alignment, tolerance, notes)

    def _aligned(
        self, ours: Side, theirs: Side, tolerance: Tolerance, outputs: Sequence[OutputPair]
    ) -> Alignment:
        """Pair the calls; a plain function that can't be looked into is its context."""
        plain = self.candidate.is_plain and self.reference.is_plain
        if not plain or len(ours.located) == len(theirs.located) == 1:
            return align(ours, theirs, tolerance)
        located: list[Seen] = []
        for side, output in zip((ours, theirs), outputs[0].sides, strict=True):
            if len(side.located) == 1:
                located.append(side.located[0])
                continue
            known = _by_context(side, self.inputs, output)
            if known is None or len(side.located) > 1:
                return align(ours, theirs, tolerance)
            located.append(known)
        return Alignment((Pair(0, *located),))

    def first(self, walk: Walk, alignment: Alignment, ends: list[Step]) -> FirstDifference | None:
        """Return the first difference, if the outputs differ."""
        if all(step.total.equal for step in ends):
            return None
        first = walk.clearest or walk.first
        if first is not None:
            return self._explained(first)
        worst = next(step for step in ends if not step.total.equal)
        result = StageResult.of(worst)
        lost = alignment.missing or alignment.extra
        if worst.total.verdict in {"shape", "non-finite"}:
            verdict = worst.total.verdict
        elif lost:
            verdict = "missing" if alignment.missing else "extra"
        else:
            verdict = "whole"
        found = replace(first_of(result, None, None), verdict=verdict)
        if verdict == "non-finite" and worst.own is not None and worst.own.equal:
            return from_empty_rows(found, alignment.pairs, worst.own.largest)
        return found

    def _explained(self, difference: Difference) -> FirstDifference:
        step, scene = difference.step, difference.scene
        explanation = None
        if scene is not None:
            explanation = explain_weights(scene, self.pairs) or explain(scene)
        return first_of(StageResult.of(step), step.source, explanation)

    def _backward(
        self, walk: Walk, outputs: Sequence[OutputPair], alignment: Alignment
    ) -> tuple[list[Step], FirstDifference | None, list[str]]:
        """Compare gradients: what decides first, then where they part."""
        backward = Backward(
            (walk.candidate, walk.reference),
            outputs,
            walk.tolerance,
            walk.relevance,
            self.options.seed,
        )
        refused = backward.refused()
        if refused is not None:
            first = ungraded(backward)
            return [], first, [] if first else [f"gradients not compared: {refused}"]
        try:
            ends = list(backward.ends(self.pairs))
        except RuntimeError as error:
            return [], None, [f"gradients not compared: a backward raised {error}"]
        steps = list(backward.steps(alignment.pairs))
        if all(step.total.equal for step in ends):
            return steps + ends, None, []
        worst = next((step for step in steps if not step.total.equal), None)
        worst = worst or next(step for step in ends if not step.total.equal)
        result = StageResult.of(worst)
        source = worst.call.source if worst.call is not None else None
        what = worst.part or worst.stage.removeprefix("grad.")
        explanation = explain_gradient(backward, self.pairs, what)
        return steps + ends, first_of(result, source, explanation), []

    # -- a module against a function -------------------------------------------------------------

    def _driven(self) -> Verification:
        """Give the q, k and v of each call of the module to the function."""
        from attnscope.differ.driven import compare_driven

        return compare_driven(self)

    # -- what is said about it -------------------------------------------------------------------

    def conditions(self) -> tuple[Condition, ...]:
        """Compare what should be alike before anything runs."""
        return compare_conditions(
            self.candidate.run,
            self.reference.run,
            inputs=(self.inputs, self.inputs),
            weights=self.pairs,
            seeds=(self.options.seed, self.options.seed),
        )

    def _notes(self, ours: Side, theirs: Side) -> list[str]:
        notes = [
            f"{side.subject.name} takes no {name}: it was left out"
            for side in (ours, theirs)
            for name in side.dropped
        ]
        for side in (ours, theirs):
            notes += [
                f"{side.subject.name}: {module} is compared as a whole" for module in side.unread
            ]
            if not side.is_faithful and not side.subject.wants_arrays:
                notes.append(
                    f"{side.subject.name} can't be run again in float64: compared as it ran"
                )
        return notes

    def result(
        self,
        steps: list[Step],
        first: FirstDifference | None,
        alignment: Alignment,
        tolerance: Tolerance,
        notes: list[str],
    ) -> Verification:
        """Put the result together."""
        stages = tuple(replace(StageResult.of(step), factor=1.0) for step in steps)
        return Verification(
            candidate=self.candidate.name,
            reference=self.reference.name,
            equal=first is None and bool(stages),
            conditions=self.conditions(),
            first_difference=first,
            stages=stages,
            alignment=alignment,
            tolerance=tolerance,
            weights=self.pairs,
            notes=tuple(notes),
            seed=self.options.seed,
        )


def _scores(alignment: Alignment) -> Iterator[Tensor]:
    """Iterate over the reference's scores, where they can be had."""
    for pair in alignment.pairs:
        with contextlib.suppress(AttnscopeError, RuntimeError):
            q, k, v = (pair.reference.value(name) for name in PROJECTED)
            yield pair.reference.rerun("scores", q, k, v)


def _types(outputs: Sequence[OutputPair]) -> set[torch.dtype]:
    return {tensor.dtype for tensor in outputs[0].sides}


def _by_context(side: Side, inputs: Inputs, output: Tensor) -> Derived | None:
    """Return what is known of a plain function that can't be looked into."""
    args, kwargs, _ = bind(side.subject, inputs, "deriving stages")
    names = [parameter.name for parameter in side.subject.parameters_of_run()]
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    q, k, v = list(named.values())[:3]
    return derive(q, k, v, output, named)


def _kind(side: Side) -> str:
    return type(side.output).__name__
