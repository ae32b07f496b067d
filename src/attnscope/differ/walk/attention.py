"""The stages of one attention, from what its projections receive to what follows its context."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from torch import Tensor

from attnscope.calls.source import Source
from attnscope.differ.sides.aligning import Pair
from attnscope.differ.walk.forward import Walk
from attnscope.differ.walk.scenery import Scenery
from attnscope.differ.walk.stages import INSIDE, PROJECTED
from attnscope.differ.walk.step import Step
from attnscope.errors import AttnscopeError
from attnscope.explain import settled

__all__ = ["attention_steps"]


def attention_steps(walk: Walk, pairs: Sequence[Pair]) -> Iterator[Step]:
    """Compare all stages of all pairs, in the order of the reference's calls."""
    for pair in pairs:
        yield from _Attention(walk, pair).steps()


class _Attention:
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
        walk, key = self.walk, _key(stage, part)
        expected = self.expected[key]
        total = walk.judge(stage, self.total[key], expected)
        gap = walk.judge(stage, own, expected) if own is not None else total
        known = own if own is not None else self.total[key]
        cancelled = cancelled and not (total.equal and gap.equal)
        self.scenery.own[key] = known
        call = self.ours.calls[0] if self.ours.calls else None
        source = self._source(stage, part)
        step = Step(stage, self.pair.number, total, gap, call, part, cancelled, source)
        scene = None
        if step.at_fault and walk.clearest is None and known.shape == expected.shape:
            scene = self.scenery.scene(key, walk.limit(stage, expected))
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
            yield from self._around("input", ours[part], value, part)

    def _output(self) -> Iterator[Step]:
        ours, theirs = self.ours.output, self.theirs.output
        if ours is not None and theirs is not None:
            yield from self._around("output", ours, theirs)

    def _around(self, stage: str, ours: int, theirs: int, part: str = "") -> Iterator[Step]:
        """Compare a stage by its values on both tapes, then graft the reference's."""
        walk, key = self.walk, _key(stage, part)
        expected, actual = walk.reference.own_value(theirs), walk.candidate.own_value(ours)
        made = walk.own([ours])
        own = made[ours] if made is not None else None
        layout = walk.fit(actual if own is None else own, expected, self.theirs.shape[0])
        if layout is None:
            return
        self.expected[key], self.total[key] = expected, layout.read(actual)
        self.scenery.place(key, ours, theirs, layout)
        yield self._step(stage, layout.read(own) if own is not None else None, part=part)
        walk.graft[ours] = layout.write(expected)
        walk.base[theirs] = expected

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
        like = {n: self.scenery.like(n, made) for n, made in own.items() if made is not None}
        agree = {
            name: name not in like or walk.judge(name, like[name], self.expected[name]).equal
            for name in PROJECTED
        }
        product = not cancels and not (agree["q"] and agree["k"]) and self._product_agrees(own)
        for name in PROJECTED:
            cancelled = cancels or (product and name != "v")
            yield self._step(name, like.get(name), cancelled=cancelled and not agree[name])
        kept = tuple(name for name in PROJECTED if cancels and not agree[name])
        self._use(own, keep=("q", "k") if product else kept)

    def _own_projected(self, name: str) -> Tensor | None:
        spots = self.ours.spots.get(name)
        own = self.walk.own([value for value, _ in spots]) if spots else None
        return self.ours.read(name, own) if own is not None else None

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
                made = self.ours.rerun(stage, q, k, v)
                if self.walk.judge(stage, made, self.expected[stage]).equal:
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
            stage: own is None or self.walk.judge(stage, own, self.expected[stage]).equal
            for stage, own in made.items()
        }
        for stage, own in made.items():
            later = cancels
            if not cancels and not agree[stage] and own is not None:
                later = stage in {"raw_scores", "scores"} and agree.get("weights", False)
                later = later or (stage == "scores" and self._shifted(own))
            yield self._step(stage, own, cancelled=later)
        if "context" in self.ours.spots and not cancels:
            with contextlib.suppress(AttnscopeError, RuntimeError):
                self.walk.graft.update(self.ours.write("context", self.expected["context"]))

    def _shifted(self, scores: Tensor) -> bool:
        """Return whether scores agree but for a constant in each row, which cancels."""
        both = [settled(each) for each in (scores, self.expected["scores"])]
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


def _key(stage: str, part: str) -> str:
    """Return the name under which the scenery keeps a stage ("input_k": a part of "input")."""
    return f"{stage}_{part}" if part else stage
