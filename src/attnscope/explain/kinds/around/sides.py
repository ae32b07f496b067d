"""The recorded parts of both sides of a scene, for changes that are edits of either."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.explain.change import Change
from attnscope.explain.kinds.around.rewriting import replaced
from attnscope.explain.part import Part
from attnscope.explain.reading.flow import CONTRACTIONS, Flow, Segment, flow_of
from attnscope.explain.reading.levels import with_heads
from attnscope.explain.scene import Scene

__all__ = ["AROUND", "BETWEEN", "Edit", "Edits", "Kind", "OwnPart", "on_candidate", "on_reference"]

_NUMBER = re.compile(r"\d+")

BETWEEN = ("input", "input_q", "input_k", "input_v", "output", "model")
"""Stages around the attention, where the model does more than project."""

AROUND = ("q", "k", "v", *BETWEEN)
"""Stages that a recorded part makes."""


@dataclass(frozen=True)
class OwnPart:
    """The part of one side. mends: it is the candidate's, to be edited into the reference."""

    scene: Scene
    part: Part
    mends: bool

    @property
    def flow(self) -> Flow:
        """The part as a graph."""
        return flow_of(self.part)

    @property
    def other(self) -> Part | None:
        """The part of the other side."""
        sight = self.scene.reference if self.mends else self.scene.candidate
        return sight.parts.get(self.scene.stage)

    def matrices(self) -> Iterator[tuple[int, str]]:
        """Iterate over the parameters that activations are multiplied with."""
        for value, name in self.part.parameters.items():
            if value in self.flow.leaves and self.flow.values[value].ndim == 2:
                users = {op.name for op in self.flow.operations if value in op.needs}
                if not users.isdisjoint({*CONTRACTIONS, "t", "transpose", "chunk", "split"}):
                    yield value, name

    def given(
        self, key: str, text: str, value: int, tensor: Tensor, *, at: str = "", way: str = ""
    ) -> Edit:
        """Propose `tensor` in the place of a value."""
        return Edit(key, text, {}, {value: tensor}, at, way)

    def edited(
        self, key: str, text: str, *operations: Operation, at: str = "", way: str = ""
    ) -> Edit:
        """Propose operations in the place of those that define the same values."""
        return Edit(key, text, {op.defines[0]: op for op in operations}, {}, at, way)

    def instead(
        self, segment: Segment, function: Callable[[Tensor], Tensor], key: str, text: str, way: str
    ) -> Edit:
        """Propose another function in the place of a segment."""
        last = segment.operations[-1]
        operation = replaced(last, segment.start, function)
        if operation.defines[0] != segment.end:  # one of several outputs, such as of `native_…`
            operation = dataclasses.replace(operation, defines=(segment.end,))
        return self.edited(key, text, operation, at=segment.place, way=way)

    def without(self, segment: Segment, key: str, text: str, way: str) -> Edit:
        """Propose that a segment does nothing."""
        return self.instead(segment, lambda tensor: tensor, key, text, way)

    def change(self, edit: Edit) -> Change:
        """Return the change that an edit of this side is."""

        def make() -> Tensor:
            made = self.flow.run(edit.operations, edit.given)
            stage = self.scene.expected
            return with_heads(made, stage.shape[1]) if stage.ndim == made.ndim > 1 else made

        return Change(edit.key, edit.text, make, self.mends)


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """What is done to a part.

    operations: run instead of those that define the same values, by the first of these; given:
    tensors in the place of values. at: the place, way: what is done there; edits of one way are
    also tried at all places together, since a block is written once and used in every layer.
    """

    key: str
    text: str
    operations: Mapping[int, Operation]
    given: Mapping[int, Tensor]
    at: str = ""
    way: str = ""


Edits = Callable[[OwnPart], Iterator[Edit]]
Kind = Callable[[Scene], Iterator[Change]]


def on_reference(edits: Edits, stages: tuple[str, ...]) -> Kind:
    """Return the kind that edits the reference's part into the candidate's stage."""

    def kind(scene: Scene) -> Iterator[Change]:
        part = scene.reference.parts.get(scene.stage)
        if scene.stage in stages and part is not None:
            yield from _changes(OwnPart(scene, part, mends=False), edits)

    return kind


def on_candidate(edits: Edits, stages: tuple[str, ...]) -> Kind:
    """Return the kind that edits the candidate's part into the reference's stage."""

    def kind(scene: Scene) -> Iterator[Change]:
        part = scene.candidate.parts.get(scene.stage)
        if scene.stage in stages and part is not None:
            yield from _changes(OwnPart(scene, part, mends=True), edits)

    return kind


def _changes(side: OwnPart, edits: Edits) -> Iterator[Change]:
    """Iterate over single edits, then, where none agrees, over those of one way together."""
    ways: dict[str, list[Edit]] = defaultdict(list)
    found = False
    for edit in edits(side):
        change = side.change(edit)
        agrees: list[bool] = []
        yield dataclasses.replace(change, make=partial(_judged, side, change, agrees))
        found = found or any(agrees)
        if edit.way:
            ways[edit.way].append(edit)
            ways[f"{edit.way} at {_NUMBER.sub('#', edit.at)}"].append(edit)
    sets: list[frozenset[int]] = []
    for group in ways.values():
        places = frozenset(map(id, group))
        if len(group) > 1 and places not in sets and not found:
            sets.append(places)
            yield side.change(_joined(group))


def _judged(side: OwnPart, change: Change, agrees: list[bool]) -> Tensor:
    """Return what a change makes, and note whether it agrees."""
    made = change.make()
    agrees.append(side.scene.agrees(made, mends=side.mends))
    return made


def _joined(group: list[Edit]) -> Edit:
    """Return edits of one way as one."""
    operations = {value: op for edit in group for value, op in edit.operations.items()}
    given = {value: tensor for edit in group for value, tensor in edit.given.items()}
    more = len(group) - 1
    text = f"{group[0].text}, and at {more} more place{'s' if more > 1 else ''}"
    return Edit(group[0].key, text, operations, given)
