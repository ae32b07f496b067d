"""AS302: the softmax is saturated; q and k get no gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_SENSITIVITY = 0.1
"""Mean of 1 - Σw² below which q and k get next to no gradient (uniform weights: 1 - 1/keys)."""

_ONE_HOT = 0.75
"""Share of the rows, over all heads, that must be one-hot."""

_RESTING = 0.5
"""Share of the rows in heads that rest on one key, from which sharpness is a habit and no fault."""

_LARGE = 2.0
"""Root mean square from which what q and k are made of is large: no norm was there before."""

_ROUNDED = 1.01
"""Over head_dim, that no q·k of unit entries passes: norms have an eps, and are rounded."""


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.course import course_of
    from attnscope.checks.scoring.sharpness import at_unit, sharpness_of

    for call in subject.calls:
        found = sharpness_of(subject, call)
        if found is None or found.sensitivity > _SENSITIVITY or found.one_hot < _ONE_HOT:
            continue
        if found.resting > _RESTING:
            continue
        if found.reach is not None and found.reach <= _ROUNDED * call.head_dim:
            continue
        course, unit = course_of(subject, call), at_unit(subject, call)
        large = unit is not None and unit.size > _LARGE and unit.sensitivity > _SENSITIVITY
        cause = (
            f". It is what they are made of that is large, {unit.size:.2g} in the root mean square "
            f"where a norm gives 1: with 1 it were {unit.sensitivity:.2g}"
            if large and unit is not None
            else ""
        )
        yield RULE.found(
            f"{found.one_hot:.0%} of the rows of all heads give one key nearly all weight "
            "(mean of 1 - Σw² is "
            f"{found.sensitivity:.2g}, where uniform weights have {1 - 1 / call.keys:.2g}): "
            f"the gradient of q and k has this factor{cause}",
            {
                "sensitivity": found.sensitivity,
                "one_hot_rows": found.one_hot,
                "relative_entropy": found.entropy,
                "rows": found.rows,
            },
            source=course.line(course.softmax) if course is not None else None,
            call=call,
            severity="note" if large else None,
        )


RULE = Rule(
    code="AS302",
    name="saturated",
    severity="warning",
    what=(
        "Nearly all rows of nearly all heads of a call are one-hot: the scores are so large that "
        "the softmax is an argmax."
    ),
    why=(
        "The derivative of a softmax is w(1 - w): where one weight is 1, q and k get no gradient "
        "and attention stays as it was drawn. Runs whose scores grow so far diverge."
    ),
    fix=(
        "Look for a missing scale (AS301) or too large an initialisation (AS901) first. Else "
        "normalise q and k (QK-norm), cap the scores, or bound the temperature that is learned."
    ),
    proof=(
        "From the recorded weights of rows that see more than one key: the mean of 1 - Σw², which "
        "is the trace of the softmax's derivative, is below 0.1, and at least three rows of four "
        "are below 0.05. Heads that rest on one key or on their own position (sinks, "
        "previous-token heads) must not make up half of the rows."
    ),
    limits=(
        "Single sharp heads are common in trained models and are left alone. So is QK-norm without "
        "a scale (Gemma 4): q and k of unit entries, whose scores are bounded by head_dim, and "
        "whose gains are the temperature that is learned; whether that lacks a scale is AS301's. "
        "Where it is not the weights but what they are given that is large, as embeddings times "
        "√width are before the first norm, it is a note."
    ),
    sources=(
        "https://arxiv.org/abs/2303.06296",
        "https://arxiv.org/abs/2309.14322",
    ),
    bad="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.temperature = nn.Parameter(torch.tensor(400.0))
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k = nn.functional.normalize(q, dim=-1), nn.functional.normalize(k, dim=-1)
        scores = q @ k.transpose(-2, -1) * self.temperature
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    explains=("AS403", "AS405", "AS404", "AS902"),
    as_it_starts=True,
)  # fmt: skip
