"""The walk through the stages: each of the candidate's computed from the reference's earlier ones.

So the first stage that is wrong by itself is told from all that follow it. The candidate's tape is
run again with the reference's values grafted into it, piece by piece, in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

from attnscope.differ.sides.layouts import Layout, layouts
from attnscope.differ.sides.outputs import OutputPair
from attnscope.differ.sides.side import Side
from attnscope.differ.walk.judging import Gap, Tolerance, compare
from attnscope.differ.walk.relevance import Relevance
from attnscope.differ.walk.scenery import model_scene
from attnscope.differ.walk.step import Difference, Step
from attnscope.errors import AttnscopeError
from attnscope.explain import Scene, settled

__all__ = ["Walk", "model_steps"]


@dataclass(eq=False)
class Walk:
    """Two sides on their way through the stages.

    graft and base: values of the candidate's and of the reference's tape that hold the reference's
    earlier stages. first: the first stage that is wrong by itself; clearest: the first that is so
    by more than constants in a half type can make it. layout: the name of the one in
    which a stage around the attention agreed.
    """

    candidate: Side
    reference: Side
    tolerance: Tolerance
    relevance: Relevance
    graft: dict[int, Tensor] = field(default_factory=dict)
    base: dict[int, Tensor] = field(default_factory=dict)
    first: Difference | None = None
    clearest: Difference | None = None
    layout: str | None = None

    def only_constants(self, ends: Sequence[Step]) -> bool:
        """Return whether the outputs differ by no more than constants in a half type make them."""
        if self.constants == 1.0 or self.clearest is not None:
            return False
        differ = any(not step.total.equal for step in ends)
        return differ and all(step.total.excess <= self.constants for step in ends)

    @cached_property
    def constants(self) -> float:
        """The excess that constants held in a half type can have."""
        return self.tolerance.excess_of(self.candidate.tables | self.reference.tables)

    def judge(self, stage: str, actual: Tensor, expected: Tensor) -> Gap:
        """Compare two tensors of a stage, rows without meaning left out, scores as they matter."""
        if actual.shape != expected.shape:
            return compare(actual, expected, self.tolerance)
        limit = self.limit(stage, expected)
        return compare(_plain(stage, actual), _plain(stage, expected), self.tolerance, limit)

    def limit(self, stage: str, expected: Tensor) -> Tensor:
        """Return how much of a difference is rounding, row by row."""
        own = self.tolerance.limit(_plain(stage, expected).double())
        return self.relevance.widen(stage, own, tuple(expected.shape))

    def note(self, step: Step, scene: Scene | None) -> Step:
        """Remember the first stage that is wrong by itself."""
        if step.at_fault and self.first is None:
            self.first = Difference(step, scene)
        clear = step.own is not None and step.own.excess > self.constants
        if step.at_fault and clear and self.clearest is None:
            self.clearest = Difference(step, scene)
        return step

    def own(self, values: list[int]) -> dict[int, Tensor] | None:
        """Compute values of the candidate from what is grafted; None where that can't be done."""
        if not self.candidate.is_faithful:
            return None
        try:
            return self.candidate.wide(values, self.graft)
        except (RuntimeError, AttnscopeError):
            return None

    def fit(self, own: Tensor, expected: Tensor, batch: int) -> Layout | None:
        """Return the layout in which a tensor of the candidate is the reference's.

        Where several are possible it is the one in which an earlier stage agreed; before any did,
        the one in which this stage is most alike.
        """
        found = list(layouts(tuple(own.shape), tuple(expected.shape), batch))
        known = [layout for layout in found if layout.name == self.layout]
        if known or not found:
            return known[0] if known else None
        best = min(found, key=lambda layout: _distance(layout.read(own), expected))
        if compare(best.read(own), expected, self.tolerance).equal:
            self.layout = best.name
        return best


def _distance(own: Tensor, expected: Tensor) -> float:
    return float((own - expected).abs().nan_to_num().mean())


def _plain(stage: str, tensor: Tensor) -> Tensor:
    """Return scores as far as they matter, any other stage as it is."""
    return settled(tensor) if stage == "scores" else tensor


def model_steps(walk: Walk, pairs: Sequence[OutputPair]) -> Iterator[Step]:
    """Compare the outputs of the models, all attention grafted."""
    for pair in pairs:
        ours, theirs = pair.sides
        expected = walk.reference.wide_output(theirs)
        total = walk.judge("model", walk.candidate.wide_output(ours), expected)
        value = walk.candidate.tape.value_of(ours)
        own = walk.own([value]) if value is not None else None
        gap = walk.judge("model", own[value], expected) if own and value is not None else total
        source = walk.candidate.source_of(value)
        step = Step("model", None, total, gap, part=pair.part, source=source)
        scene = None
        if step.at_fault and walk.clearest is None and ours.shape == theirs.shape:
            scene = _model_scene(walk, (ours, theirs), own, expected)
        yield walk.note(step, scene)


def _model_scene(
    walk: Walk,
    outputs: tuple[Tensor, Tensor],
    own: dict[int, Tensor] | None,
    expected: Tensor,
) -> Scene | None:
    sides = walk.candidate, walk.reference
    values = [side.tape.value_of(each) for side, each in zip(sides, outputs, strict=True)]
    ours, theirs = values
    if ours is None or theirs is None:
        return None
    actual = own[ours] if own else walk.candidate.wide_output(outputs[0])
    given = dict(walk.graft), dict(walk.base)
    limit = walk.limit("model", expected)
    return model_scene(sides, (ours, theirs), (actual, expected), given, limit)
