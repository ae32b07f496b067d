"""AS402: two heads do the same."""

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
    from attnscope.checks.scoring.averaged import averaged
    from attnscope.checks.scoring.habits import equal

    for each in averaged(subject):
        yield RULE.found(
            f"the weights of {each.call.heads} heads are averaged before they meet v, which has as "
            "many heads of its own: all give a key the same weight, where they differed by up to "
            f"{each.apart:.2g}",
            {"shared_by": each.call.heads, "apart": each.apart},
            source=each.source,
            call=each.call,
            fix="Let each head weigh its own values: scores.softmax(-1) @ v.",
        )
    heads = list(equal(subject))
    if not heads:
        return
    first = heads[0]
    course = course_of(subject, first.call)
    shown = ", ".join(
        f"{h.call.module or 'the model'}:{h.head} = {', '.join(map(str, h.others[:6]))}"
        for h in heads[:_MOST_SHOWN]
    )
    more = f" and {len(heads) - _MOST_SHOWN} more" if len(heads) > _MOST_SHOWN else ""
    yield RULE.found(
        f"{len(heads)} heads have doubles with the same context, entry by entry (module:head "
        f"= its doubles): {shown}{more}",
        {
            "heads": [[h.call.module, h.call.index, h.head] for h in heads],
            "doubles": [list(h.others) for h in heads],
        },
        source=course.line(course.weighing) if course is not None else None,
        call=first.call,
    )


RULE = Rule(
    code="AS402",
    name="duplicate-heads",
    severity="note",
    what=(
        "Two heads have the same context on all inputs: one head that was put into a list several "
        "times, or weights that were copied; or all heads have the same weights, because these are "
        "averaged before they meet v."
    ),
    why="Equal heads get equal gradients and stay equal: the model has fewer heads than it says.",
    fix=(
        "Build each head by itself: nn.ModuleList(Head() for _ in range(heads)) rather than "
        "[Head()] * heads; start grown heads from fresh weights or with noise."
    ),
    proof=(
        "The recorded contexts of all heads of an attention (of all turns of a loop over heads) "
        "are compared: two differ by no more than 1e-5 of the largest entry. Weights are averaged "
        "where the context is their mean @ v to 1e-5, and not weights @ v."
    ),
    limits=(
        "Heads that only resemble each other are left alone: trained models have many. So is a "
        "mean of weights where all heads share one v, which gives the mean of their contexts."
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
    for part in model.qkv.weight.view(3, 4, 8, 32):
        part[1] = part[0]
    for part in model.qkv.bias.view(3, 4, 8):
        part[1] = part[0]
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
