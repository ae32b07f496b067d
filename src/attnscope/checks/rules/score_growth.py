"""AS303: scores grow without sign of stopping."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_TIMES = 10.0
"""Growth from the first call to the last: layers of sound models differ by less."""

_STEEP = 20.0
"""Standard deviation of scores at which a softmax is one-hot, whatever the keys."""


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.course import course_of
    from attnscope.checks.scoring.sharpness import growing

    for growth in growing(subject, times=_TIMES, steep=_STEEP):
        spreads = growth.spreads
        course = course_of(subject, growth.call)
        shown = ", ".join(f"{each:.3g}" for each in spreads[:12])
        yield RULE.found(
            f"the standard deviation of the scores grows from {spreads[0]:.3g} to "
            f"{spreads[-1]:.3g} over "
            f"{len(spreads)} calls: {shown}",
            {"score_std": list(spreads), "growth": spreads[-1] / spreads[0]},
            source=course.line(course.product) if course is not None else None,
            call=growth.call,
        )


RULE = Rule(
    code="AS303",
    name="score-growth",
    severity="warning",
    what=(
        "Scores grow without sign of stopping: here from layer to layer (or pass to pass of a "
        "looped block), in training from step to step."
    ),
    why=(
        "Each layer adds to a residual stream that nothing brings back to size, so q and k grow "
        "with it and the last layers attend to one key. In training such growth ends in "
        "divergence, however the loss looks today."
    ),
    fix=(
        "Normalise what the projections receive (a norm before attention), or q and k themselves "
        "(QK-norm); scale down what is added to the residual stream with its depth; cap the "
        "scores."
    ),
    proof=(
        "The standard deviation of scale · q·k of at least four calls of one shape, in order: it "
        "grows at nearly every call, tenfold over all, and passes 20."
    ),
    limits=(
        "One run shows growth over depth. Growth over training steps needs several: record them "
        "with the monitor."
    ),
    sources=(
        "https://arxiv.org/abs/2309.14322",
        "https://arxiv.org/abs/2303.06296",
    ),
    bad="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        nn.init.normal_(self.qkv.weight, std=width**-0.5)
        nn.init.normal_(self.out.weight, std=3 * width**-0.5)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        return x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = nn.Sequential(*(Attention(32, 4) for _ in range(6))).eval()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        return x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = nn.Sequential(*(Attention(32, 4) for _ in range(6))).eval()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    explains=("AS302", "AS403", "AS404", "AS405", "AS902"),
    as_it_starts=True,
)  # fmt: skip
