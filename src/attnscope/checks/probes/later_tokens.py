"""Later tokens are changed: in a causal model, nothing before them may move."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attnscope.checks.comparing import gap_along
from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along, other_tokens

__all__ = ["LaterTokens", "Leak", "later_tokens"]

MODES = {
    "eval mode": {"train": False, "graded": False},
    "eval mode with gradients": {"train": False, "graded": True},
    "train mode": {"train": True, "graded": True},
}
"""Modes in which kernels and masks are chosen differently."""


@dataclass(frozen=True, slots=True)
class Leak:
    """What moved in one mode: by how much at most, at which earlier position, in how many of them."""

    mode: str
    largest: float
    position: int
    moved: int


@dataclass(frozen=True, slots=True)
class LaterTokens:
    """Outputs before a cut, when the tokens from the cut on are others.

    cut: the first token that was changed; noise: what an entry may move by rounding. own: how far
    outputs from the cut on moved (0: the change did nothing). leaks: the modes in which earlier
    outputs moved; modes: all that were run.
    """

    stream: Stream
    cut: int
    noise: float
    own: float
    leaks: tuple[Leak, ...]
    modes: tuple[str, ...]


@probe
def later_tokens(subject: Subject) -> LaterTokens:
    """Change the second half of the main sequence and compare the outputs of the first half.

    Raises:
        Skipped: there is no sequence, or the output has no axis of tokens.
    """
    stream = subject.roles.main
    if stream is None or stream.sequence_axis is None:
        raise Skipped("no input is a sequence of tokens: give inputs that are")
    length = stream.length(subject.given)
    if length < 2:
        raise Skipped(f"{stream.name} has {length} token: give inputs with more")
    _, token_axis = along(subject, subject.output)
    if token_axis is None:
        raise Skipped("the output has no axis of tokens, so that none can be said to move")
    cut = length // 2
    where = torch.arange(length).ge(cut).expand(stream.batch(subject.given), length)
    changed = other_tokens(subject, stream, where)
    leaks, modes, own = [], [], 0.0
    for mode, how in MODES.items():
        try:
            before = subject.main_output(**how)
            after = subject.main_output(changed, **how)
        except Skipped:
            continue
        modes.append(mode)
        gap = gap_along(before, after, token_axis)
        own = max(own, float(gap[cut:].max()))
        early = gap[:cut]
        if float(early.max()) > subject.noise:
            worst = int(early.argmax())
            count = int((early > subject.noise).sum())
            leaks.append(Leak(mode, float(early.max()), worst, count))
    return LaterTokens(stream, cut, subject.noise, own, tuple(leaks), tuple(modes))
