"""AS404: most mass rests on one key."""

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
    from attnscope.checks.scoring.habits import resting

    heads = list(resting(subject))
    if not heads:
        return
    first = heads[0]
    course = course_of(subject, first.call)
    shown = ", ".join(
        f"{h.call.module or 'the model'}:{h.head} on key {h.key} {h.value:.0%}"
        for h in heads[:_MOST_SHOWN]
    )
    more = f" and {len(heads) - _MOST_SHOWN} more" if len(heads) > _MOST_SHOWN else ""
    yield RULE.found(
        f"{len(heads)} heads give most of their weight to one key, whatever the query "
        f"(module:head): {shown}{more}",
        {
            "heads": [[h.call.module, h.call.index, h.head] for h in heads],
            "keys": [h.key for h in heads],
            "mean_weight": [h.value for h in heads],
        },
        source=course.line(course.softmax) if course is not None else None,
        call=first.call,
    )


RULE = Rule(
    code="AS404",
    name="sink-head",
    severity="note",
    what=(
        "A head gives most of its weight to one and the same key, mostly the first: an attention "
        "sink."
    ),
    why=(
        "Trained language models rest heads on the first token when they have nothing to say. That "
        "key must then not be evicted from a cache, quantised coarsely or masked."
    ),
    fix=(
        "Nothing is wrong. Keep the first tokens in a rolling cache; learned sinks or registers "
        "take the place of a real token."
    ),
    proof=(
        "The mean weight of a key over all samples and over all queries from the fourth on is 0.6 "
        "or more."
    ),
    limits="On a single batch; a key that all these inputs share looks the same.",
    sources=(
        "https://arxiv.org/abs/2309.17453",
        "https://arxiv.org/abs/2402.17762",
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
        sink = 6.0 * (torch.arange(n) == 0)
        scores = sink + q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
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
