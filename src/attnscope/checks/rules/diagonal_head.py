"""AS405: each position attends only to itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_MOST_SHOWN = 12


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.course import course_of
    from attnscope.checks.scoring.habits import diagonal

    heads = list(diagonal(subject))
    if not heads:
        return
    first = heads[0]
    course = course_of(subject, first.call)
    shown = ", ".join(
        f"{h.call.module or 'the model'}:{h.head} {h.value:.0%}" for h in heads[:_MOST_SHOWN]
    )
    more = f" and {len(heads) - _MOST_SHOWN} more" if len(heads) > _MOST_SHOWN else ""
    yield RULE.found(
        f"{len(heads)} heads look at their own position alone (module:head, mean weight on "
        f"it): {shown}{more}",
        {
            "heads": [[h.call.module, h.call.index, h.head] for h in heads],
            "mean_weight": [h.value for h in heads],
        },
        source=course.line(course.softmax) if course is not None else None,
        call=first.call,
    )


RULE = Rule(
    code="AS405",
    name="diagonal-head",
    severity="note",
    what=(
        "In a head each position gives nearly all its weight to itself: it moves nothing between "
        "tokens."
    ),
    why=(
        "The head is a linear layer at the price of attention. One such head is a habit; a layer "
        "of them means that scores are too large, or that tokens are not told apart by more than "
        "themselves."
    ),
    fix=(
        "Look at the scale (AS301) and the initialisation (AS901) where it is not trained; else "
        "nothing is wrong."
    ),
    proof=(
        "The mean weight on the own position, over samples and positions from the second on, is "
        "0.9 or more."
    ),
    limits="Heads of calls whose queries and keys differ in number have no diagonal.",
    sources=(
        "https://arxiv.org/abs/1905.09418",
    ),
    bad="""
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
        own = 9.0 * torch.eye(n)
        scores = own + q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
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
    as_it_starts=True,
)  # fmt: skip
