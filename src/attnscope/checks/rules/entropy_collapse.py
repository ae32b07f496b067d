"""AS403: entropy falls towards zero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_LOW = 0.1
"""Mean entropy, relative to that of uniform weights, of a whole call."""

_RESTING = 0.5
"""Share of the rows in heads that rest on one key or on themselves: AS404 and AS405 tell those."""


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.course import course_of
    from attnscope.checks.scoring.sharpness import sharpness_of

    low = []
    for call in subject.calls:
        found = sharpness_of(subject, call)
        if found is not None and found.entropy < _LOW and found.resting < _RESTING:
            low.append((call, found.entropy))
    if not low:
        return
    call, entropy = low[0]
    course = course_of(subject, call)
    where = ", ".join(dict.fromkeys(each.module or "the model" for each, _ in low[:8]))
    yield RULE.found(
        f"the entropy of {len(low)} of {len(subject.calls)} calls is below {_LOW:g} of that "
        "of uniform weights "
        f"({entropy:.2g} in the first): {where}",
        {
            "calls": [each.index for each, _ in low],
            "relative_entropy": [value for _, value in low],
        },
        source=course.line(course.softmax) if course is not None else None,
        call=call,
        severity="note",
    )


RULE = Rule(
    code="AS403",
    name="entropy-collapse",
    severity="warning",
    what=(
        "The entropy of attention, over all heads of a call, is near zero: each query looks at one "
        "key. A single run gives a note; a fall over training steps is a warning."
    ),
    why=(
        "Entropy that falls to zero goes with oscillating losses and divergence. Trained models "
        "have single heads of this kind by right; whole layers of them are rare."
    ),
    fix=(
        "In training: a lower learning rate or longer warm-up, QK-norm or a cap on the scores. At "
        "initialisation, look for a missing scale (AS301) or too large weights (AS901)."
    ),
    proof=(
        "The mean entropy of all rows of a call that see more than one key, divided by the "
        "logarithm of the keys they see, is below 0.1."
    ),
    limits="One run can't show a trend: record training with the monitor for that.",
    sources=(
        "https://arxiv.org/abs/2303.06296",
    ),
    bad="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.temperature = nn.Parameter(torch.tensor(80.0))
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
inputs = torch.randn(2, 150, 32)
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
    explains=("AS404", "AS405"),
    as_it_starts=True,
)  # fmt: skip
