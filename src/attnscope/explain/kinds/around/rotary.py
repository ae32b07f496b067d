"""Rotary embedding: pairing, base, share, scaling, direction, and whether it is there at all.

Both sides are read: what turns the reference's tensor before its rotation into the reference's q
(k, v), and what turns the same tensor into the candidate's. The change is the candidate's reading,
applied to the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnscope.explain.change import Change
from attnscope.explain.kinds.around.turning import Difference, differences
from attnscope.explain.part import Part
from attnscope.explain.reading.levels import Level, Piece, levels, pieces
from attnscope.explain.reading.rotations import PAIRINGS, Rotation, pairs_of, read_rotation
from attnscope.explain.reading.slack import slack_of
from attnscope.explain.scene import Scene

__all__ = ["rotary"]

_STAGES = ("q", "k", "v")
_ALIKE = 1e-9
"""Share of the largest entry up to which tensors of runs in float64 are the same."""


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """A rotation of the reference: what it turns, and what is done with the result.

    piece: the features that are turned, where they are computed apart from the others.
    """

    before: Tensor
    after: Level
    rotation: Rotation
    piece: Piece | None = None


def rotary(scene: Scene) -> Iterator[Change]:
    """Propose what the candidate does instead of the reference's rotation."""
    if scene.stage not in _STAGES or scene.expected.ndim != 4:
        return
    slack = slack_of(scene)
    places = list(_places(scene, scene.stage, slack))
    if not places:
        yield from _turned_alone(scene, slack)
        return
    for place in places:
        yield from _missing(scene, place)
        for variant, permuted in _variants(place):
            for ours in _ends(scene, place):
                found = read_rotation(variant, ours, slack)
                if found is not None:
                    yield from _otherwise(scene, place, variant, found, permuted=permuted)
                yield from _along_heads(place, variant, ours, slack)
        yield from _mixed(place)


def _places(scene: Scene, stage: str, slack: float) -> Iterator[_Place]:
    """Iterate over the rotations on the reference's way to a stage, the nearest first."""
    sight = scene.reference
    if stage not in sight.stages:
        return
    whole, part = sight.stages[stage], sight.parts.get(stage)
    place = _place_on(levels(whole, part), slack)
    if place is not None:
        yield place
        return
    for piece in pieces(whole, part):
        place = _place_on(piece.way, slack)
        if place is not None:
            yield replace(place, piece=piece)


def _place_on(way: Sequence[Level], slack: float) -> _Place | None:
    """Return the rotation nearest to the end of a way; None: there is none.

    Features that are taken in pairs (2i, 2i + 1) may be given back in pairs (i, i + width/2).
    """
    for at, after in enumerate(way):
        for before in way[at + 1 :]:
            if before.tensor.shape != after.tensor.shape:
                continue
            for plain in _layouts(before.tensor, after.tensor, slack):
                rotation = read_rotation(plain, after.tensor, slack)
                if rotation is not None:
                    return _Place(plain, after, rotation)
    return None


def _layouts(before: Tensor, after: Tensor, slack: float) -> Iterator[Tensor]:
    """Iterate over a tensor as it is, and with the features that change laid out otherwise."""
    yield before
    moved = ((after - before).abs().amax((0, 1, 2)) > slack).nonzero().flatten()
    if not len(moved):
        return
    first, last = int(moved[0]), int(moved[-1]) + 1
    if (last - first) % 2 or last - first < 4:
        return
    ways = [torch.cat(pairs_of(pairing, last - first)) for pairing in PAIRINGS]
    for source, target in (ways, ways[::-1]):
        order = torch.arange(before.shape[-1])
        order[first + target] = first + source
        yield before[..., order]


def _ends(scene: Scene, place: _Place) -> Iterator[Tensor]:
    """Iterate over the candidate's tensors that may be its rotation's result."""
    if place.piece is not None:
        yield place.piece.of(scene.actual)
        return
    if scene.actual.shape == place.before.shape:
        yield scene.actual
    way = levels(scene.actual, scene.candidate.parts.get(scene.stage))
    for level in way[1:]:
        if level.tensor.shape == place.before.shape and not torch.equal(level.tensor, scene.actual):
            yield level.tensor


def _variants(place: _Place) -> Iterator[tuple[Tensor, str]]:
    """Iterate over the tensor before the rotation, its features laid out for either pairing."""
    yield place.before, ""
    turned = place.rotation
    if turned.width == 2:
        return  # one pair is laid out in one way
    half = torch.cat(pairs_of("half", turned.width))
    interleaved = torch.cat(pairs_of("interleaved", turned.width))
    for source, target, pairing in (
        (half, interleaved, "interleaved"),
        (interleaved, half, "half"),
    ):
        if pairing == turned.pairing:
            continue
        order = torch.arange(turned.head_dim)
        order[turned.first + target] = turned.first + source
        yield place.before[..., order], pairing


def _missing(scene: Scene, place: _Place) -> Iterator[Change]:
    """Propose that nothing is turned, and say whether q, k or both are not."""
    where = scene.stage
    if scene.agrees(place.after.onward(place.before)):
        where = " and ".join(_unturned(scene)) or scene.stage
    yield Change(
        "rotary-missing",
        f"no rotary embedding on {where}, where the reference turns {_features(place.rotation)}",
        lambda: place.after.onward(place.before),
    )


def _unturned(scene: Scene) -> Iterator[str]:
    """Iterate over the stages that the candidate does not turn and the reference does."""
    for name in ("q", "k"):
        if name == scene.stage:
            yield name
            continue
        ours, theirs = scene.candidate.stages.get(name), scene.reference.stages.get(name)
        if ours is None or theirs is None or ours.shape != theirs.shape:
            continue
        slack = slack_of(scene)
        for place in _places(scene, name, slack):
            plain = place.after.onward(place.before)
            if plain.shape == ours.shape and float((plain - ours).abs().max()) <= slack:
                yield name


def _otherwise(
    scene: Scene, place: _Place, before: Tensor, ours: Rotation, *, permuted: str
) -> Iterator[Change]:
    """Propose the candidate's rotation, named by what differs from the reference's."""
    found: list[Difference] = list(differences(ours, place.rotation, permuted=permuted))
    if not found:
        return
    first = found[0]
    text = "; ".join(each.text for each in found)
    key = first.key
    if key == "rotary-base" and scene.stage == "v":
        key = "rotary-on-v"
    turned = first.rotation if first.rotation is not None and len(found) == 1 else ours
    yield Change(key, f"{scene.stage}: {text}", lambda: place.after.onward(turned.apply(before)))
    if turned is not ours:
        yield Change(key, f"{scene.stage}: {text}", lambda: place.after.onward(ours.apply(before)))


def _along_heads(place: _Place, before: Tensor, ours: Tensor, slack: float) -> Iterator[Change]:
    """Propose that the head takes the place of the position."""
    across = before.transpose(1, 2), ours.transpose(1, 2)
    found = read_rotation(*across, slack)
    if found is None or found.turns.shape[0] != 1:
        return
    if float((found.turns - found.turns[:, :1]).abs().max()) <= found.tolerance:
        return  # all heads are turned alike
    yield Change(
        "rotary-axis",
        f"turned by the number of the head (axis of {before.shape[1]}), where the reference turns "
        f"by the position (axis of {before.shape[2]})",
        lambda: place.after.onward(found.apply(before.transpose(1, 2)).transpose(1, 2)),
    )


def _mixed(place: _Place) -> Iterator[Change]:
    """Propose pairs of one pairing with the angles laid out for the other."""
    turned, before = place.rotation, place.before
    angles = turned.turns.angle()[:, None]
    for pairing in PAIRINGS:
        layout = torch.empty(turned.width, dtype=torch.long)
        other = PAIRINGS[1 - PAIRINGS.index(pairing)]
        for features in pairs_of(other, turned.width):
            layout[features] = torch.arange(turned.width // 2)
        full = angles[..., layout]

        def make(pairing: str = pairing, full: Tensor = full) -> Tensor:
            real, imaginary = pairs_of(pairing, turned.width)
            piece = before[..., turned.first : turned.first + turned.width]
            across = torch.empty_like(piece)
            across[..., real], across[..., imaginary] = -piece[..., imaginary], piece[..., real]
            result = before.clone()
            result[..., turned.first : turned.first + turned.width] = turned.stretch * (
                piece * full.cos() + across * full.sin()
            )
            return place.after.onward(result)

        yield Change(
            "rotary-pairing",
            f"features in pairs {_pairs(pairing, turned.width)} meet cosines and sines laid out "
            f"for pairs {_pairs(other, turned.width)}",
            make,
        )


def _turned_alone(scene: Scene, slack: float) -> Iterator[Change]:
    """Propose that the candidate turns what the reference leaves as it is."""
    part = scene.reference.parts.get(scene.stage)
    if part is not None and _knows_positions(
        part, scene.expected.shape[0], scene.expected.shape[2]
    ):
        return
    for level in levels(scene.expected, part):
        ours = read_rotation(level.tensor, scene.actual, slack)
        if ours is None:
            continue
        yield Change(
            "rotary-on-v" if scene.stage == "v" else "rotary-extra",
            f"{scene.stage} is turned ({_features(ours)}), where the reference does not turn it",
            lambda ours=ours, level=level: ours.apply(level.tensor),  # type: ignore[misc]
        )


def _knows_positions(part: Part, batch: int, length: int) -> bool:
    """Return whether a projection does other things at other positions: it may turn by itself."""
    received = None if part.origin is None else part.given.get(part.origin)
    if received is None or part.origin is None:
        return False
    backwards = part.run().flip(2)
    close = _ALIKE * float(backwards.abs().max())
    turned = list(_backwards(received, batch, length))
    made = (part.run(given={part.origin: each}) for each in turned)
    return bool(turned) and all(float((each - backwards).abs().max()) > close for each in made)


def _backwards(received: Tensor, batch: int, length: int) -> Iterator[Tensor]:
    """Iterate over a sequence with its last token first, whichever axis is the length."""
    for axis, size in enumerate(received.shape[:-1]):
        if size == length:
            yield received.flip(axis)
    if received.shape[0] == batch * length:
        for sizes, axis in (((batch, length), 1), ((length, batch), 0)):
            yield received.unflatten(0, sizes).flip(axis).reshape(received.shape)


def _pairs(pairing: str, width: int) -> str:
    return f"(i, i + {width // 2})" if pairing == "half" else "(2i, 2i + 1)"


def _features(rotation: Rotation) -> str:
    pairs = _pairs(rotation.pairing, rotation.width)
    base = "" if rotation.base is None else f" with base {rotation.base:g}"
    return f"{2 * rotation.turning} of {rotation.head_dim} features in pairs {pairs}{base}"
