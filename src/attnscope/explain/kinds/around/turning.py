"""What differs between two rotary embeddings, in numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.explain.reading.rotations import Rotation, rounded

__all__ = ["Difference", "differences"]

_ALIKE = 1e-6
"""How far unit vectors, powers and scales of tables kept in float32 may be apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """One way in which a candidate's rotation differs from the reference's.

    rotation: the reference's with this one thing changed to what was read as a number; None: it
    is the candidate's as it was fitted.
    """

    key: str
    text: str
    rotation: Rotation | None = None


def differences(ours: Rotation, theirs: Rotation, *, permuted: str = "") -> Iterator[Difference]:
    """Iterate over what differs, what is told apart most surely first.

    permuted: the pairing that the features were laid out for anew; "": they were not.
    """
    meant = permuted or theirs.pairing
    pairs = _pairs(ours.pairing, ours.width), _pairs(meant, theirs.width)
    if ours.pairing != meant and min(ours.width, theirs.width) > 2:
        laid = f" (the features are laid out for pairs {pairs[1]})" if permuted else ""
        told = pairs[1] if not permuted else _pairs(theirs.pairing, theirs.width)
        yield Difference(
            "rotary-pairing", f"turned in pairs {pairs[0]} where the reference has {told}{laid}"
        )
    elif permuted and ours.pairing == theirs.pairing:
        yield Difference("rotary-pairing", f"features laid out for pairs {pairs[1]}")
    share = ours.turning != theirs.turning and not (_fades(ours) or _fades(theirs))
    if share or ours.first != theirs.first or ours.width != theirs.width:
        yield _share(ours, theirs)
        same = ours.base == theirs.base or ours.base is None
        if same:
            return
    yield from _angles(ours, theirs)
    if abs(ours.stretch - theirs.stretch) > _ALIKE:
        yield Difference(
            "rotary-scaling",
            f"lengths times {ours.stretch:g} where the reference has {theirs.stretch:g}",
        )


def _fades(rotation: Rotation) -> bool:
    """Return whether the first pair that stands still would turn too little to be seen."""
    if rotation.base is None or rotation.factor is None:
        return False
    step = rotation.base ** (-2 * rotation.turning / rotation.width) / rotation.factor
    return 2 * rotation.turning < rotation.width and (
        step * rotation.turns.shape[1] <= 2 * rotation.tolerance
    )


def _share(ours: Rotation, theirs: Rotation) -> Difference:
    size = ours.head_dim
    text = (
        f"{2 * ours.turning} of {size} features turned (share {2 * ours.turning / size:g}) where "
        f"the reference has {2 * theirs.turning} (share {2 * theirs.turning / size:g})"
    )
    if ours.first != theirs.first:
        text += f", from feature {ours.first} on instead of {theirs.first}"
    return Difference("rotary-share", text)


def _angles(ours: Rotation, theirs: Rotation) -> Iterator[Difference]:
    """Iterate over what differs in the angles alone."""
    steps, known = ours.steps, theirs.steps
    if known is None:
        if ours.turns.shape != theirs.turns.shape or not _close(ours.turns, theirs.turns):
            yield Difference("rotary-scaling", _at_first(ours.turns, theirs.turns))
        return
    if known.shape == ours.turns.shape[-1:]:
        found = _positions(ours, theirs, known)
        if found is not None:
            yield from found
            return
    if steps is None:
        yield Difference("positions-shifted", "turned by angles that follow no row of positions")
        return
    if known.shape != steps.shape:
        if ours.base is not None and ours.base != theirs.base:
            yield _based(ours, theirs)
        return
    yield from _speeds(ours, theirs, steps, known)


def _positions(ours: Rotation, theirs: Rotation, known: Tensor) -> list[Difference] | None:
    """Explain the angles by other positions; None: no whole positions explain them."""
    here, there = ours.positions(known), theirs.positions(known)
    if here is None or there is None:
        return _swapped(ours, theirs, known)
    here, there = torch.broadcast_tensors(here, there)
    if torch.equal(here, there):
        return []
    turned = ours.at(here[:1] if bool((here == here[:1]).all()) else here, known)
    key, text = _told(here, there)
    return [Difference(key, text, turned)]


def _told(here: Tensor, there: Tensor) -> tuple[str, str]:
    """Name how positions `here` differ from those of the reference."""
    gap, length = here - there, here.shape[1]
    if bool((gap == gap[0, 0]).all()):
        shift = int(gap[0, 0])
        return "positions-shifted", (
            f"positions shifted by {shift:+d}: they begin at {int(here[0, 0])} where the "
            f"reference has {int(there[0, 0])}"
        )
    if torch.equal(here, -there):
        return "rotary-direction", "turned the other way round: by −position · angle"
    if torch.equal(here, 2 * there):
        return "rotary-twice", "turned twice: every angle is doubled (as by positions times 2)"
    if length > 1 and torch.equal(here, there.flip(1)):
        return "positions-shifted", f"positions reversed: {_row(here)} where it has {_row(there)}"
    if bool((gap == gap[:, :1]).all()):
        shifts = [int(row) for row in gap[:, 0]]
        return "positions-shifted", f"positions of each sample shifted by {shifts}"
    ratio = rounded(float((here[0, -1] - here[0, 0]) / (there[0, -1] - there[0, 0])))
    if ratio and torch.equal(here, there * ratio):
        return (
            "rotary-scaling",
            f"positions times {ratio:g} where the reference has them as they are",
        )
    same = bool((here == here[:, :1]).all())
    what = "all positions are the same" if same else "other positions"
    first = int(gap.abs().amax(0).nonzero()[0])
    here, there = here[:, first:], there[:, first:]
    text = f"{what}: {_row(here)} from token {first} on, where the reference has {_row(there)}"
    return "positions-shifted", text


def _swapped(ours: Rotation, theirs: Rotation, known: Tensor) -> list[Difference] | None:
    """Explain the angles by sine and cosine in each other's place: by π/2 − angle."""
    quarter = torch.polar(torch.ones_like(known), torch.full_like(known, math.pi / 2))
    if ours.turns.shape == theirs.turns.shape and _close(ours.turns, quarter * theirs.turns.conj()):
        return [Difference("rotary-direction", "sine and cosine stand in each other's place")]
    return None


def _speeds(ours: Rotation, theirs: Rotation, steps: Tensor, known: Tensor) -> Iterator[Difference]:
    """Iterate over what differs in how fast the pairs turn."""
    sign = -1.0 if _close(steps.sign(), -known.sign()) else 1.0
    if sign < 0:
        yield Difference("rotary-direction", "turned the other way round: by −position · angle")
    if _close(steps * sign, known):
        text = _at_first(ours.turns, theirs.turns)
        yield Difference("positions-shifted", f"other angles at the first position: {text}")
        return
    begin = ours.shift(steps), theirs.shift(known)
    ratio = steps * sign / known
    if _close(ratio, ratio[:1].expand_as(ratio)):
        yield _divided(rounded(float(1 / ratio[0])))
    elif ours.base is not None and theirs.base is not None:
        if ours.base != theirs.base:
            yield _based(ours, theirs)
        if ours.factor != theirs.factor:
            yield _divided(rounded((ours.factor or 1.0) / (theirs.factor or 1.0)))
    else:
        at = int((ratio - 1).abs().argmax())
        yield Difference(
            "rotary-scaling",
            f"pairs turn by other angles a position: pair {at} by {float(steps[at]):.6g} where the "
            f"reference has {float(known[at]):.6g} ({int(((ratio - 1).abs() > _ALIKE).sum())} of "
            f"{len(ratio)} pairs differ)",
        )

    if None not in begin and begin[0] != begin[1]:
        yield Difference(
            "positions-shifted", f"positions begin at {begin[0]} where the reference has {begin[1]}"
        )


def _divided(factor: float) -> Difference:
    if factor < 1:
        text = f"positions times {rounded(1 / factor):g} where the reference has them as they are"
    else:
        text = f"positions divided by {factor:g} where the reference has them as they are"
    return Difference("rotary-scaling", text)


def _based(ours: Rotation, theirs: Rotation) -> Difference:
    """Name both bases; where NTK-aware scaling gives the same base, that too."""
    if ours.base is None or theirs.base is None:
        known = "none" if theirs.base is None else f"{theirs.base:g}"
        return Difference("rotary-base", f"base {ours.base or 0:g} where the reference has {known}")
    text = f"base {ours.base:g} where the reference has {theirs.base:g}"
    width = theirs.width
    if width > 2 and ours.base > theirs.base:
        scale = rounded((ours.base / theirs.base) ** ((width - 2) / width))
        if scale > 1 and abs(scale - round(scale)) < _ALIKE:
            text += f" (the same as NTK-aware scaling by {scale:g})"
    exponent = math.log(ours.base) / math.log(theirs.base)
    for name, power in (("√base", 0.5), ("base²", 2.0), ("1/base", -1.0)):
        if abs(exponent - power) < _ALIKE:
            text += f" ({name})"
    return Difference("rotary-base", text)


def _at_first(ours: Tensor, theirs: Tensor) -> str:
    """Return the first angle that differs, on both sides."""
    if ours.shape != theirs.shape:
        return f"angles {tuple(ours.shape)} where the reference has {tuple(theirs.shape)}"
    sample, at, pair = ((ours - theirs).abs() > _ALIKE).nonzero()[0].tolist()
    here, there = ours[sample, at, pair].angle(), theirs[sample, at, pair].angle()
    return (
        f"{float(here):.6g} where the reference has {float(there):.6g}, first at position {at}, "
        f"pair {pair}"
    )


def _close(first: Tensor, second: Tensor) -> bool:
    return bool(((first - second).abs() <= _ALIKE).all())


def _row(positions: Tensor) -> str:
    shown = ", ".join(str(int(p)) for p in positions[0, :4])
    return f"{shown}, …" if positions.shape[1] > 4 else shown


def _pairs(pairing: str, width: int) -> str:
    return f"(i, i + {width // 2})" if pairing == "half" else "(2i, 2i + 1)"
