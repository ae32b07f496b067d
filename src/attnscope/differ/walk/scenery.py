"""What both sides have at each stage of one attention, and the scene that an explanation needs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.differ.sides.aligning import Pair
from attnscope.differ.sides.layouts import Layout
from attnscope.differ.sides.seen import Seen
from attnscope.differ.sides.side import Side
from attnscope.differ.walk.stages import INSIDE, PROJECTED
from attnscope.errors import AttnscopeError
from attnscope.explain import Attention, Part, Scene, Sight

__all__ = ["Scenery"]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a stage around the attention lies on both tapes, (candidate, reference)."""

    values: tuple[int, int]
    layout: Layout

    def read(self, at: int) -> Callable[[Tensor], Tensor]:
        """Return how the value of one side becomes the stage."""
        return self.layout.read if at == 0 else _unchanged

    def write(self, at: int, stage: Tensor) -> Tensor:
        """Return the value of one side that holds the stage."""
        return self.layout.write(stage) if at == 0 else stage


class Scenery:
    """Tensors of one pair by stage, float64, in the reference's layout.

    expected: the reference's; total: the candidate's, as it ran; own: the candidate's from the
    reference's earlier stages; used: q, k and v that the candidate's later stages are made from.
    graft and base: values of either tape that hold the earlier stages.
    """

    def __init__(
        self,
        candidate: Side,
        reference: Side,
        pair: Pair,
        graft: Mapping[int, Tensor],
        base: Mapping[int, Tensor],
    ) -> None:
        self.candidate, self.reference, self.pair = candidate, reference, pair
        self.graft, self.base = graft, base
        self.own: dict[str, Tensor] = {}
        self.used: dict[str, Tensor] = {}
        self._places: dict[str, _Place] = {}
        self.expected = _stages(reference, pair.reference)
        self.total = _stages(candidate, pair.candidate)
        self._raw = {name: (self.total[name], self.expected[name]) for name in ("k", "v")}
        for name in ("k", "v"):
            if self.total[name].shape[1] != self.expected[name].shape[1]:
                self.total[name] = self.like(name, self.total[name])
                self.expected[name] = _expanded(self.expected[name], pair.reference)

    def place(self, key: str, ours: int, theirs: int, layout: Layout) -> None:
        """Say where a stage around the attention lies on both tapes."""
        self._places[key] = _Place((ours, theirs), layout)

    def like(self, name: str, tensor: Tensor) -> Tensor:
        """Return k or v with one head for each query head where the sides have other kv heads."""
        ours, theirs = self._raw.get(name, (tensor, tensor))
        if ours.shape[1] == theirs.shape[1] or name == "q":
            return tensor
        return _expanded(tensor, self.pair.candidate)

    def given(self, name: str, own: Tensor) -> Tensor | None:
        """Return the reference's q, k or v with the candidate's kv heads; None: can't be told."""
        expected = self.expected[name]
        if expected.shape == own.shape:
            return expected
        theirs = self._raw[name][1] if name in self._raw else expected
        return theirs if theirs.shape == own.shape else None

    # -- scenes ----------------------------------------------------------------------------------

    def scene(self, key: str, limit: Tensor) -> Scene:
        """Return both sides of the stage `key` ("input_k" is a stage "input")."""
        candidate = Sight(
            stages=dict(self.own),
            attention=self._attention(self.pair.candidate, self.used),
            parts=self._parts(self.candidate, self.pair.candidate, self.graft, 0),
            width=self._width(),
            call=self.pair.candidate.calls[0] if self.pair.candidate.calls else None,
        )
        reference = Sight(
            stages=dict(self.expected),
            attention=self._attention(self.pair.reference, self.expected),
            parts=self._parts(self.reference, self.pair.reference, self.base, 1),
            width=self._width(),
            call=self.pair.reference.calls[0] if self.pair.reference.calls else None,
        )
        return Scene(key, candidate, reference, limit)

    def _width(self) -> int | None:
        known = [tensor for key, tensor in self.expected.items() if key.startswith("input")]
        return int(known[0].shape[-1]) if known else None

    def _attention(self, located: Seen, tensors: Mapping[str, Tensor]) -> Attention | None:
        """Return q, k, v and the recipe."""
        q, k, v = (tensors.get(name) for name in PROJECTED)
        raw = self._raw
        side = 0 if located is self.pair.candidate else 1
        if k is None or v is None or k.shape != raw["k"][side].shape:
            k, v = raw["k"][side], raw["v"][side]
        if q is None:
            return None
        with contextlib.suppress(AttnscopeError, RuntimeError):
            return located.attention(q, k, v)
        return None

    def _reader(
        self, name: str, located: Seen, read: Callable[[Tensor], Tensor]
    ) -> Callable[[Tensor], Tensor]:
        """Return how a value becomes the stage: k and v with the heads that both sides have."""

        def joined(tensor: Tensor) -> Tensor:
            return located.join(name, [read(tensor)])

        ours, theirs = self._raw.get(name, (self.expected[name], self.expected[name]))
        if ours.shape[1] == theirs.shape[1]:
            return joined
        return lambda tensor: _expanded(joined(tensor), located)

    def _parts(
        self, side: Side, located: Seen, given: Mapping[int, Tensor], at: int
    ) -> dict[str, Part]:
        """Return what makes the stages around the attention."""
        if not side.is_faithful:
            return {}
        parts, cut = {}, dict(given)
        for key, place in self._places.items():
            if key.startswith("input"):
                parts[key] = _part(side, place.values[at], given, place.read(at))
                cut[place.values[at]] = place.write(at, self.expected[key])
        for name in PROJECTED:
            spots = located.spots.get(name, [])
            if len(spots) == 1:
                value, spot = spots[0]
                read = self._reader(name, located, spot.read)
                parts[name] = _part(side, value, cut, read, located.received.get(name))
        if "context" in located.spots:
            with contextlib.suppress(AttnscopeError, RuntimeError):
                cut.update(located.write("context", self.expected["context"]))
        if "output" in self._places:
            place = self._places["output"]
            origin = located.spots["context"][0][0] if "context" in located.spots else None
            parts["output"] = _part(side, place.values[at], cut, place.read(at), origin)
        return parts


def model_scene(
    sides: tuple[Side, Side],
    values: tuple[int, int],
    tensors: tuple[Tensor, Tensor],
    given: tuple[Mapping[int, Tensor], Mapping[int, Tensor]],
    limit: Tensor,
) -> Scene:
    """Return both sides of the models' own output; pairs are (candidate, reference)."""
    sights = [
        Sight(
            stages={"model": tensor},
            parts={"model": _part(side, value, cut, _unchanged)} if side.is_faithful else {},
        )
        for side, value, tensor, cut in zip(sides, values, tensors, given, strict=True)
    ]
    return Scene("model", sights[0], sights[1], limit)


def _part(
    side: Side,
    value: int,
    given: Mapping[int, Tensor],
    read: Callable[[Tensor], Tensor],
    origin: int | None = None,
) -> Part:
    cut = {number: tensor for number, tensor in given.items() if number != value}
    return Part(side.tape.exact, value, cut, read, side.parameters, origin)


def _unchanged(tensor: Tensor) -> Tensor:
    return tensor


def _expanded(tensor: Tensor, located: Seen) -> Tensor:
    """Give every query head its kv head."""
    if tensor.shape[1] == located.shape[1]:
        return tensor
    return tensor[:, list(located.kv_head_of(tensor.shape[1]))]


def _stages(side: Side, located: Seen) -> dict[str, Tensor]:
    """Return q to context of one side, as it ran, in float64 where it can be run so."""
    found = {name: side.stage_of(located, name) for name in PROJECTED}
    for stage in INSIDE:
        with contextlib.suppress(AttnscopeError, RuntimeError):
            found[stage] = located.rerun(stage, *(found[name] for name in PROJECTED))
    if "context" not in found or not torch.isfinite(found["context"]).any():
        found["context"] = located.value("context").double()
    return found
