"""AS401: the head adds nothing."""

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
    from attnscope.checks.scoring.habits import dead

    heads = list(dead(subject))
    if not heads:
        return
    first = heads[0]
    course = course_of(subject, first.call)
    shown = ", ".join(f"{h.call.module or 'the model'}:{h.head}" for h in heads[:_MOST_SHOWN])
    more = f" and {len(heads) - _MOST_SHOWN} more" if len(heads) > _MOST_SHOWN else ""
    yield RULE.found(
        f"{len(heads)} heads add nothing to the output of their attention (module:head): "
        f"{shown}{more}",
        {
            "heads": [[h.call.module, h.call.index, h.head] for h in heads],
            "share_of_largest": [h.value for h in heads],
        },
        source=course.line(course.weighing) if course is not None else None,
        call=first.call,
    )


RULE = Rule(
    code="AS401",
    name="dead-head",
    severity="note",
    what=(
        "A head's context does not change what the output projection returns: its values, or its "
        "part of the projection, are zero."
    ),
    why=(
        "The head costs memory and time for nothing. In a trained or pruned model that is often "
        "meant; in a new one it points at an initialisation or a copy that went wrong."
    ),
    fix=(
        "Prune the head, or look at how its values and its columns of the output projection came "
        "to be zero."
    ),
    proof=(
        "Each head's context is set to zero in float64: the output of the attention must move by "
        "more than a millionth of what the head that matters most moves it by."
    ),
    limits=(
        "Where all heads add nothing (an output projection that starts at zero, a closed gate) "
        "none is named. At most 512 heads of a model are looked at."
    ),
    sources=(
        "https://arxiv.org/abs/1905.10650",
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
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = Attention().eval()
with torch.no_grad():
    model.out.weight[:, 8:16] = 0
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
    explains=("AS902", "AS903"),
    as_it_starts=True,
)  # fmt: skip
