"""The walk through the stages: each of the candidate's computed from the reference's earlier ones.

So the first stage that is wrong by itself is told from all that follow it. The candidate's tape is
run again with the reference's values grafted into it, piece by piece, in float64.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.differ.sides.aligning import Pair
from attnscope.differ.sides.layouts import Layout, layouts
from attnscope.differ.sides.outputs import OutputPair
from attnscope.differ.sides.side import Side
from attnscope.differ.walk.judging import Gap, Tolerance, compare
from attnscope.differ.walk.relevance import Relevance
from attnscope.differ.walk.scenery import Scenery, model_scene
from attnscope.differ.walk.stages import INSIDE, PROJECTED
from attnscope.errors import AttnscopeError
from attnscope.explain import Scene, settled

__all__ = ["Difference", "Step", "Walk"]


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


@dataclass(eq=False)
class Walk:
    """Compares two sides stage by stage, in the order of the reference's calls."""

    candidate: Side
    reference: Side
    tolerance: Tolerance
    relevance: Relevance
    graft: dict[int, Tensor] = field(default_factory=dict)
    base: dict[int, Tensor] = field(default_factory=dict)
    first: Difference | None = None
    layout: str | None = None

    def steps(self, pairs: tuple[Pair, ...]) -> Iterator[Step]:
        """Compare all stages of all pairs, then the outputs of the models."""
        for pair in pairs:
            yield from _AttentionWalk(self, pair).steps()

    # -- what the parts of the walk share --------------------------------------------------------

    def judge(self, stage: str, actual: Tensor, expected: Tensor) -> Gap:
        """Compare two tensors of a stage, rows without meaning left out."""
        if actual.shape != expected.shape:
            return compare(actual, expected, self.tolerance)
        return compare(actual, expected, self.tolerance, self.limit(stage, expected))

    def limit(self, stage: str, expected: Tensor) -> Tensor:
        """Return how much of a difference is rounding, row by row."""
        own = self.tolerance.limit(expected.double())
        return self.relevance.widen(stage, own, tuple(expected.shape))

    def note(self, step: Step, scene: Scene | None) -> Step:
        """Remember the first stage that is wrong by itself."""
        if step.at_fault and self.first is None:
            self.first = Difference(step, scene)
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


class _AttentionWalk:
    """The stages of one pair."""

    def __init__(self, walk: Walk, pair: Pair) -> None:
        self.walk, self.pair = walk, pair
        self.ours, self.theirs = pair.candidate, pair.reference
        self.scenery = Scenery(
            walk.candidate, walk.reference, pair, dict(walk.graft), dict(walk.base)
        )
        self.expected = self.scenery.expected
        self.total = self.scenery.total

    def steps(self) -> Iterator[Step]:
        yield from self._inputs()
        cancels = self._attention_agrees()
        yield from self._projected(cancels=cancels)
        yield from self._inside(cancels=cancels)
        yield from self._output()

    def _step(
        self, stage: str, own: Tensor | None, *, cancelled: bool = False, part: str = ""
    ) -> Step:
        walk, key = self.walk, stage + (f"_{part}" if part else "")
        expected = self.expected[key]
        total = walk.judge(stage, _plain(stage, self.total[key]), _plain(stage, expected))
        gap = total
        if own is not None:
            gap = walk.judge(stage, _plain(stage, own), _plain(stage, expected))
        known = own if own is not None else self.total[key]
        cancelled = cancelled and not (total.equal and gap.equal)
        self.scenery.own[key] = known
        call = self.ours.calls[0] if self.ours.calls else None
        source = self._source(stage, part)
        step = Step(stage, self.pair.number, total, gap, call, part, cancelled, source)
        scene = None
        if step.at_fault and walk.first is None and known.shape == expected.shape:
            scene = self.scenery.scene(key, walk.limit(stage, _plain(stage, expected)))
        return walk.note(step, scene)

    def _source(self, stage: str, part: str) -> Source | None:
        """Return the candidate's line that made a stage: for those inside, where they met v."""
        ours, value = self.ours, None
        if stage == "input":
            value = ours.received.get(part or "q")
        elif stage in PROJECTED and stage in ours.spots:
            value = ours.spots[stage][0][0]
        elif stage == "output":
            value = ours.output
        made = self.walk.candidate.source_of(value)
        return made or (ours.calls[0].source if ours.calls else None)

    # -- the stages ------------------------------------------------------------------------------

    def _inputs(self) -> Iterator[Step]:
        ours, theirs = self.ours.inputs, self.theirs.inputs
        parts = theirs if set(ours) == set(theirs) else {}
        if not parts and self.ours.received.keys() == self.theirs.received.keys():
            ours, parts = self.ours.received, self.theirs.received
        for part, value in parts.items():
            key = "input" + (f"_{part}" if part else "")
            expected = self.walk.reference.own_value(value)
            own = self.walk.own([ours[part]])
            actual = self.walk.candidate.own_value(ours[part])
            layout = self.walk.fit(
                own[ours[part]] if own else actual, expected, self.pair.reference.shape[0]
            )
            if layout is None:
                continue
            self.expected[key], self.total[key] = expected, layout.read(actual)
            self.scenery.place(key, ours[part], value, layout)
            yield self._step("input", layout.read(own[ours[part]]) if own else None, part=part)
            self.walk.graft[ours[part]] = layout.write(expected)
            self.walk.base[value] = expected

    def _attention_agrees(self) -> bool:
        """Return whether, from the same input, the candidate's attention gives the same output.

        Then whatever differs inside cancels: features permuted in q and k alike, a factor moved.
        """
        ours, theirs = self.ours, self.theirs
        if ours.output is not None and theirs.output is not None:
            expected = self.walk.reference.own_value(theirs.output)
            own = self.walk.own([ours.output])
            if own is None:
                return False
            layout = self.walk.fit(own[ours.output], expected, theirs.shape[0])
            if layout is None:
                return False
            return self.walk.judge("output", layout.read(own[ours.output]), expected).equal
        if "context" not in ours.spots or "context" not in theirs.spots:
            return False
        own = self.walk.own([value for value, _ in ours.spots["context"]])
        if own is None:
            return False
        actual = ours.read("context", own)
        return self.walk.judge("context", actual, self.expected["context"]).equal

    def _projected(self, *, cancels: bool) -> Iterator[Step]:
        walk = self.walk
        own = {name: self._own_projected(name) for name in PROJECTED}
        agree = {
            name: own[name] is None
            or walk.judge(name, self._like(name, own[name]), self.expected[name]).equal
            for name in PROJECTED
        }
        product = not cancels and not (agree["q"] and agree["k"]) and self._product_agrees(own)
        for name in PROJECTED:
            cancelled = cancels or (product and name != "v")
            mine = own[name]
            tensor = self._like(name, mine) if mine is not None else None
            yield self._step(name, tensor, cancelled=cancelled and not agree[name])
        kept = tuple(n for n in PROJECTED if cancels and not agree[n])
        self._use(own, keep=("q", "k") if product else kept)

    def _own_projected(self, name: str) -> Tensor | None:
        spots = self.ours.spots.get(name)
        own = self.walk.own([value for value, _ in spots]) if spots else None
        return self.ours.read(name, own) if own is not None else None

    def _like(self, name: str, tensor: Tensor | None) -> Tensor:
        """Return k or v with the heads of the query where the two sides have other kv heads."""
        assert tensor is not None  # noqa: S101  asked for where there is one
        return self.scenery.like(name, tensor)

    def _product_agrees(self, own: dict[str, Tensor | None]) -> bool:
        """Return whether q·k, or the scores, agree although q and k don't."""
        q, k = own["q"], own["k"]
        if q is None or k is None:
            return False
        v = own["v"] if own["v"] is not None else self.ours.value("v").double()
        with contextlib.suppress(AttnscopeError, RuntimeError):
            for stage in ("raw_scores", "scores"):
                if stage not in self.expected:
                    continue
                made = _plain(stage, self.ours.rerun(stage, q, k, v))
                if self.walk.judge(stage, made, _plain(stage, self.expected[stage])).equal:
                    return True
        return False

    def _use(self, own: dict[str, Tensor | None], keep: tuple[str, ...]) -> None:
        """Graft the reference's q, k and v, but for those whose difference cancels."""
        for name in PROJECTED:
            mine = own[name]
            theirs = self.scenery.given(name, mine) if mine is not None else None
            if mine is None:
                mine = self.ours.value(name).double()
            self.scenery.used[name] = mine
            if theirs is None or name in keep:
                continue
            self.scenery.used[name] = theirs
            with contextlib.suppress(AttnscopeError, RuntimeError):
                self.walk.graft.update(self.ours.write(name, theirs))

    def _inside(self, *, cancels: bool) -> Iterator[Step]:
        stages = [s for s in INSIDE if s in self.expected and s in self.total]
        made = {stage: self._own_inside(stage) for stage in stages}
        agree = {
            stage: value is None
            or self.walk.judge(
                stage, _plain(stage, value), _plain(stage, self.expected[stage])
            ).equal
            for stage, value in made.items()
        }
        for stage in stages:
            value = made.get(stage)
            later = cancels
            if not cancels and not agree[stage] and value is not None:
                later = stage in {"raw_scores", "scores"} and agree.get("weights", False)
                later = later or (stage == "scores" and self._shifted(value))
            yield self._step(stage, made.get(stage), cancelled=later)
        if "context" in self.ours.spots and not cancels:
            with contextlib.suppress(AttnscopeError, RuntimeError):
                self.walk.graft.update(self.ours.write("context", self.expected["context"]))

    def _shifted(self, scores: Tensor) -> bool:
        """Return whether scores agree but for a constant in each row, which cancels."""
        both = [_plain("scores", each) for each in (scores, self.expected["scores"])]
        own, expected = (each - each.amax(-1, keepdim=True) for each in both)
        return own.shape == expected.shape and self.walk.judge("scores", own, expected).equal

    def _own_inside(self, stage: str) -> Tensor | None:
        used = self.scenery.used
        q, k, v = (used.get(name) for name in PROJECTED)
        if q is None or k is None or v is None:
            return None
        with contextlib.suppress(AttnscopeError, RuntimeError):
            return self.ours.rerun(stage, q, k, v)
        return None

    def _output(self) -> Iterator[Step]:
        ours, theirs = self.ours.output, self.theirs.output
        if ours is None or theirs is None:
            return
        expected, actual = (
            self.walk.reference.own_value(theirs),
            self.walk.candidate.own_value(ours),
        )
        own = self.walk.own([ours])
        layout = self.walk.fit(own[ours] if own else actual, expected, self.theirs.shape[0])
        if layout is None:
            return
        self.expected["output"], self.total["output"] = expected, layout.read(actual)
        self.scenery.place("output", ours, theirs, layout)
        yield self._step("output", layout.read(own[ours]) if own else None)
        self.walk.graft[ours] = layout.write(expected)
        self.walk.base[theirs] = expected


def _plain(stage: str, tensor: Tensor) -> Tensor:
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
        if step.at_fault and walk.first is None and ours.shape == theirs.shape:
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
