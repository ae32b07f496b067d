"""Reads a rotary embedding from what it turned: which features, how fast, from which position.

`after = before · exp(i · angle)` for each pair of features. The angle of each position and pair is
a least-squares fit over all heads; it is a rotation only where every entry is explained by it and
all pairs keep their length (or all are stretched by one factor, as YaRN does).

Source: Su et al., RoFormer (2021), section 3.2. Pairs (i, i + width/2) are what Llama and GPT-NeoX
turn ("rotate_half"), pairs (2i, 2i + 1) what GPT-J and Meta's own code do ("interleaved").
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["PAIRINGS", "Rotation", "pairs_of", "read_rotation"]

PAIRINGS = ("half", "interleaved")
_EXACT = 1e-6
"""How far a fitted number may be from one that it is taken for, at least."""
_COARSE = 0.05
"""A fit that is off by more says nothing."""
_AROUND = 4
"""Positions up to so many lengths away from zero are looked through."""


def pairs_of(pairing: str, width: int, first: int = 0) -> tuple[Tensor, Tensor]:
    """Return the features that are the real and the imaginary part of each pair."""
    if pairing == "half":
        return torch.arange(first, first + width // 2), torch.arange(
            first + width // 2, first + width
        )
    return torch.arange(first, first + width, 2), torch.arange(first + 1, first + width, 2)


@dataclass(frozen=True)
class Rotation:
    """How a tensor (batch, heads, length, head_dim) is turned.

    pairing: "half" or "interleaved"; width: features that are turned, from `first` on; head_dim:
    features of a head. turns: exp(i · angle), (batch or 1, length, pairs); stretch: what lengths
    are multiplied with.
    """

    pairing: str
    width: int
    first: int
    head_dim: int
    turns: Tensor
    stretch: float = 1.0
    tolerance: float = _EXACT

    def apply(self, tensor: Tensor) -> Tensor:
        """Return `tensor` turned."""
        real, imaginary = pairs_of(self.pairing, self.width, self.first)
        turned = torch.complex(tensor[..., real], tensor[..., imaginary])
        turned = turned * self.turns[:, None] * self.stretch
        result = tensor.clone()
        result[..., real], result[..., imaginary] = turned.real, turned.imag
        return result

    @cached_property
    def steps(self) -> Tensor | None:
        """Angle by which each pair turns from one position to the next; None: not always alike."""
        if self.turns.shape[0] != 1 or self.turns.shape[1] < 2:
            return None
        steps = self.turns[0, 1:] * self.turns[0, :-1].conj()
        mean = steps.mean(0)
        return None if float((steps - mean).abs().max()) > 2 * self.tolerance else mean.angle()

    @property
    def begin(self) -> Tensor:
        """Angle of each pair at the first position."""
        return self.turns[0, 0].angle()

    @cached_property
    def turning(self) -> int:
        """How many pairs turn at all."""
        moving = (self.turns - 1).abs().amax((0, 1)) > self.tolerance
        return int(moving.nonzero().max()) + 1 if bool(moving.any()) else 0

    @cached_property
    def base(self) -> float | None:
        """θ in angle = position · θ^(−2i/width) / factor; None: the angles are no such row."""
        line = self._line()
        return None if line is None else line[0]

    @cached_property
    def factor(self) -> float | None:
        """What positions are divided by; None: the angles are no geometric row."""
        line = self._line()
        return None if line is None else line[1]

    def _line(self) -> tuple[float, float] | None:
        """Fit the logarithms of the angles with a straight line."""
        if self.steps is None:
            return None
        steps = self.steps.abs()[: self.turning]
        if len(steps) < 2 or float(steps.min()) <= 0:
            return None
        logs, sure = steps.log(), steps.square()  # a small angle is known less surely
        at = torch.arange(len(logs), dtype=torch.float64)
        middle, height = (
            float((at * sure).sum() / sure.sum()),
            float((logs * sure).sum() / sure.sum()),
        )
        spread = (sure * (at - middle).square()).sum()
        slope = float((sure * (at - middle) * (logs - height)).sum() / spread)
        off = (logs - height - slope * (at - middle)).abs() * steps
        if float(off.max()) > 2 * self.tolerance:
            return None
        start = height - slope * middle
        return rounded(math.exp(-slope * self.width / 2)), rounded(math.exp(-start))

    def shift(self, steps: Tensor) -> int | None:
        """Return the position of the first token where pairs turn by `steps` each position."""
        length = self.turns.shape[1]
        return _position_of(self.turns[0, 0], steps, length, self.tolerance)

    def positions(self, steps: Tensor) -> Tensor | None:
        """Return the position of every token, (batch or 1, length), under angles a position."""
        length = self.turns.shape[1]
        found = [
            [_position_of(turn, steps, length, self.tolerance) for turn in sample]
            for sample in self.turns
        ]
        if any(position is None for sample in found for position in sample):
            return None
        return torch.tensor([[float(p or 0) for p in sample] for sample in found])

    def at(self, positions: Tensor, steps: Tensor) -> Rotation:
        """Return the rotation of tokens at `positions` (batch or 1, length)."""
        angles = positions.double()[..., None] * steps
        return replace(self, turns=torch.polar(torch.ones_like(angles), angles))


def rounded(number: float) -> float:
    """Return the short number that a fitted one stands for, or the fitted one."""
    for digits, close in ((1, 1e-3), (2, 1e-3), (3, 1e-4), (5, _EXACT)):
        short = float(f"{number:.{digits}g}")
        if abs(short - number) <= close * abs(number):
            return short
    return number


def read_rotation(before: Tensor, after: Tensor, slack: float) -> Rotation | None:
    """Return the rotation that makes `after` of `before`, within `slack`; None: there is none."""
    if before.shape != after.shape or before.shape[-1] < 2:
        return None
    moved = (after - before).abs().amax((0, 1, 2)) > slack
    if not bool(moved.any()):
        return None
    found = [
        rotation
        for pairing, width, first in _choices(moved)
        if (rotation := _fit(before, after, slack, (pairing, width, first))) is not None
    ]
    plain = [each for each in found if each.steps is not None]
    return next(iter(plain or found), None)


def _choices(moved: Tensor) -> Iterator[tuple[str, int, int]]:
    """Iterate over pairings and widths that cover the features that moved."""
    size = len(moved)
    low, high = int(moved.nonzero().min()), int(moved.nonzero().max()) + 1
    for width in range(2, size + 1, 2):
        for first in dict.fromkeys((0, size - width)):
            if first <= low and first + width >= high:
                for pairing in PAIRINGS:
                    yield pairing, width, first


def _fit(
    before: Tensor, after: Tensor, slack: float, choice: tuple[str, int, int]
) -> Rotation | None:
    pairing, width, first = choice
    real, imaginary = pairs_of(pairing, width, first)
    start = torch.complex(before[..., real], before[..., imaginary])
    end = torch.complex(after[..., real], after[..., imaginary])
    size = start.abs().square().sum(1).clamp_min(1e-300)
    turns = (start.conj() * end).sum(1) / size  # (batch, length, pairs)
    read = size.sqrt().amin(-1) > 2 * slack / _COARSE  # tokens of zeros, such as padding, say none
    if not bool(read.any()):
        return None
    stretch = float(turns[read].abs().mean())
    kept = torch.ones(before.shape[-1], dtype=torch.bool)
    kept[real], kept[imaginary] = False, False
    left = (after - before).abs()[..., kept]
    wrong = max(
        float((end - turns[:, None] * start).abs().max()),
        float(left.max()) if left.numel() else 0.0,
    )
    uneven = float((turns[read].abs() - stretch).abs().max())
    tolerance = max(_EXACT, 2 * slack / float(size[read].sqrt().min()))
    if not wrong <= slack or not uneven <= tolerance:
        return None
    whole = _every_token(turns / turns.abs().clamp_min(1e-300), read, 2 * tolerance)
    if whole is None:
        return None
    return Rotation(pairing, width, first, before.shape[-1], whole, rounded(stretch), tolerance)


def _every_token(turns: Tensor, read: Tensor, tolerance: float) -> Tensor | None:
    """Return the turns of all tokens from those that were read; one sample where all are alike."""
    weights = read[..., None].double()
    mean = (turns * weights).sum(0, keepdim=True) / weights.sum(0, keepdim=True).clamp_min(1)
    if float(((turns - mean).abs() * weights).max()) <= tolerance:
        turns, read = mean / mean.abs().clamp_min(1e-300), read.any(0, keepdim=True)
    if bool(read.all()):
        return turns
    both = read[:, 1:] & read[:, :-1]
    steps = (turns[:, 1:] * turns[:, :-1].conj())[both]
    if not len(steps):
        return None
    step = steps.mean(0)
    turns, length = turns.clone(), turns.shape[1]
    for sample, known in zip(turns, read, strict=True):
        places = known.nonzero().flatten()
        for at in range(length) if len(places) else ():
            near = int(places[(places - at).abs().argmin()])
            sample[at] = sample[near] * (step / step.abs()) ** (at - near)
    return turns


def _position_of(turn: Tensor, steps: Tensor, length: int, tolerance: float) -> int | None:
    """Return the whole position, nearest to zero, at which all pairs have turned so far."""
    furthest = _AROUND * length + 64
    near = torch.arange(-furthest, furthest + 1, dtype=torch.float64)
    angles = near[:, None] * steps
    off = (torch.polar(torch.ones_like(angles), angles) - turn).abs().amax(-1)
    fitting = near[off <= 1e2 * tolerance]
    return int(fitting[fitting.abs().argmin()]) if fitting.numel() else None
