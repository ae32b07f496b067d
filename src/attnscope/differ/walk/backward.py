"""Gradients of both sides under one fixed cotangent: at the ends, and stage by stage in reverse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnscope.differ.sides.aligning import Pair
from attnscope.differ.sides.layouts import layouts
from attnscope.differ.sides.outputs import OutputPair
from attnscope.differ.sides.side import Side
from attnscope.differ.walk.gradients import (
    COARSE,
    Gradients,
    gradients_of,
    leaves_of,
    stage_gradient,
)
from attnscope.differ.walk.judging import Gap, Tolerance, compare
from attnscope.differ.walk.relevance import Relevance
from attnscope.differ.walk.step import Step
from attnscope.differ.weights import WeightMap

__all__ = ["Backward"]

_INSIDE = ("context", "weights", "scores", "v", "k", "q")
_SMALL = 1e-3
"""Share of the largest gradient of all below which a stage's gradient is noise."""


@dataclass(eq=False)
class Backward:
    """Both sides' gradients of the same weighted sum of their outputs; sides 0 and 1."""

    sides: tuple[Side, Side]
    outputs: Sequence[OutputPair]
    tolerance: Tolerance
    relevance: Relevance
    seed: int
    _made: dict[int, Gradients] = field(default_factory=dict)

    def refused(self) -> str | None:
        """Return why gradients can't be compared; None: they can."""
        for at, side in enumerate(self.sides):
            if not self.reached(at):
                return f"no gradient reaches the output of {side.subject.name}"
        return None

    def reached(self, at: int) -> bool:
        """Return whether the outputs of side 0 or 1 have a gradient to go back by."""
        return any(pair.sides[at].requires_grad for pair in self.outputs)

    def cotangents(self) -> list[Tensor]:
        """Return the fixed random weights of the outputs; rows that don't count have 0."""
        made = []
        for number, pair in enumerate(self.outputs):
            like = pair.sides[1].detach()
            generator = torch.Generator().manual_seed(self.seed + number)
            weights = torch.randn(like.shape, generator=generator, dtype=torch.float64)
            made.append((weights * self.relevance.cotangent(weights)).to(like.device))
        return made

    def of(self, at: int) -> Gradients:
        """Return the gradients of the candidate (0) or the reference (1)."""
        if at not in self._made:
            outputs = [pair.sides[at] for pair in self.outputs]
            self._made[at] = gradients_of(self.sides[at], outputs, self.cotangents())
        return self._made[at]

    # -- at the ends -----------------------------------------------------------------------------

    def ends(
        self, pairs: WeightMap | None, candidate: Mapping[int, Tensor] | None = None
    ) -> Iterator[Step]:
        """Compare the gradients of float inputs and of paired parameters.

        candidate: gradients of the candidate to judge instead of its own.
        """
        floor = self._largest()
        ours = self.of(0).by_value if candidate is None else candidate
        theirs = self.of(1).by_value
        for name, mine, other in self._inputs():
            gap = self._compare(ours.get(mine), theirs.get(other), floor)
            yield Step("grad.input", None, gap, gap, part=name)
        for name, mine_, other_ in self._parameters(pairs, ours, theirs):
            gap = self._compare(mine_, other_, floor)
            yield Step("grad.parameter", None, gap, gap, part=name)

    def remains(self, candidate: Mapping[int, Tensor], pairs: WeightMap | None) -> float | None:
        """Return the largest difference left with other gradients; None: more than rounding."""
        gaps = [step.total for step in self.ends(pairs, candidate)]
        if not gaps or not all(gap.equal for gap in gaps):
            return None
        return max(gap.largest for gap in gaps)

    def reaches(self) -> bool:
        """Return whether every leaf of the candidate gets some gradient."""
        known = self.of(0).by_value
        return all(
            value in known and bool(known[value].any()) for value in leaves_of(self.sides[0])
        )

    def _inputs(self) -> Iterator[tuple[str, int, int]]:
        """Iterate over float inputs of both sides: of one name, else in order."""
        ours, theirs = (side.leaves for side in self.sides)
        names = [(name, name) for name in theirs if name in ours]
        for mine, other in names or zip(ours, theirs, strict=False):
            left = self.sides[0].tape.value_of(ours[mine])
            right = self.sides[1].tape.value_of(theirs[other])
            if left is not None and right is not None:
                yield other, left, right

    def _parameters(
        self, pairs: WeightMap | None, ours: Mapping[int, Tensor], theirs: Mapping[int, Tensor]
    ) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Iterate over paired parameters with both gradients in one layout; none at all is 0."""
        if pairs is None:
            return
        mine, other = _by_name(self.sides[0], ours), _by_name(self.sides[1], theirs)
        for one in pairs.gradient_pairs():
            if not (mine.keys() >= set(one.candidate) and other.keys() >= set(one.reference)):
                continue  # frozen on one side
            both = one.of(mine, other)
            if both is not None:
                yield one.name, *both

    # -- stage by stage --------------------------------------------------------------------------

    def steps(self, pairs: Sequence[Pair]) -> Iterator[Step]:
        """Compare the stages' gradients, from the last attention's output to the first's input."""
        floor = self._largest() * _SMALL
        for pair in reversed(pairs):
            call = pair.candidate.calls[0] if pair.candidate.calls else None
            for stage, ours, theirs in self._stages(pair):
                gap = self._compare(ours, theirs, floor)
                yield Step(f"grad.{stage}", pair.number, gap, gap, call)

    def _stages(self, pair: Pair) -> Iterator[tuple[str, Tensor | None, Tensor | None]]:
        ours, theirs = self.of(0).by_value, self.of(1).by_value
        left, right = pair.candidate, pair.reference
        batch = right.shape[0]
        if left.output is not None and right.output is not None:
            yield "output", *_fitted(batch, ours.get(left.output), theirs.get(right.output))
        for stage in _INSIDE:
            mine = stage_gradient(self.sides[0], left, stage, ours)
            other = stage_gradient(self.sides[1], right, stage, theirs)
            alike = mine is None or other is None or mine.shape == other.shape
            if alike and not (mine is None and other is None):
                yield stage, mine, other
        if set(left.inputs) == set(right.inputs):
            for part, value in right.inputs.items():
                yield "input", *_fitted(batch, ours.get(left.inputs[part]), theirs.get(value))

    # -- judging ---------------------------------------------------------------------------------

    def _compare(self, actual: Tensor | None, expected: Tensor | None, floor: float) -> Gap:
        """Compare two gradients; none at all is 0. floor: what is 0 in theory, absolute."""
        known = expected if expected is not None else actual
        if known is None:
            return Gap(0.0, 0.0)
        actual = torch.zeros_like(known) if actual is None else actual
        expected = torch.zeros_like(known) if expected is None else expected
        if actual.shape != expected.shape or not expected.numel():
            return compare(actual, expected, self.tolerance)
        largest = float(expected.abs().nan_to_num().max()) + floor
        limit = self.tolerance.limit(expected) + self.tolerance.around(largest)
        if self.of(0).own or self.of(1).own:
            limit = limit + COARSE * max(side.roundoff for side in self.sides) * largest
        return compare(actual, expected, self.tolerance, limit)

    def _largest(self) -> float:
        """Return the largest entry of any gradient of the reference's parameters and inputs."""
        known = self.of(1).by_value
        found = (known[value] for value in leaves_of(self.sides[1]) if value in known)
        return max((float(each.abs().max()) for each in found if each.numel()), default=0.0)


def _fitted(
    batch: int, ours: Tensor | None, theirs: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return the candidate's gradient in the reference's layout."""
    if ours is None or theirs is None:
        return ours, theirs
    read = [layout.read(ours) for layout in layouts(tuple(ours.shape), tuple(theirs.shape), batch)]
    if not read:
        return ours, theirs
    return min(read, key=lambda one: float((one - theirs).abs().mean())), theirs


def _by_name(side: Side, gradients: Mapping[int, Tensor]) -> dict[str, Tensor | None]:
    """Return the gradients of the parameters that can have one; none at all is 0."""
    tensors = side.tape.tensors
    return {
        name: gradients.get(value, torch.zeros_like(tensors[value], dtype=torch.float64).detach())
        for value, name in side.parameters.items()
        if tensors[value].requires_grad
    }
