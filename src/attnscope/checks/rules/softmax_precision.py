"""AS304: softmax in half precision without upcast loses what matters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.scoring.precision import lost_in_half

    for call in subject.calls:
        lost = lost_in_half(subject, call)
        if lost is None:
            continue
        what = _WHAT[lost.of]
        yield RULE.found(
            f"the softmax is computed in {lost.dtype}: {lost.high:.1%} {what} q and k say in "
            "float64 (95th "
            f"percentile of the rows; mean {lost.mean:.1%}; one rounding of {lost.dtype} is "
            f"{lost.rounding:.1%})",
            {
                "of": lost.of,
                "mean": lost.mean,
                "percentile_95": lost.high,
                "rounding": lost.rounding,
                "dtype": lost.dtype,
            },
            source=lost.source,
            call=call,
        )


_WHAT = {
    "weights": "of a query's weight goes to other keys than",
    "sums": "is what the weights of a query sum to more or less than",
    "context": "is what the context is off from what",
}

RULE = Rule(
    code="AS304",
    name="softmax-precision",
    severity="warning",
    what=(
        "Scores, their exponentials or their sum are kept in float16 or bfloat16 up to the "
        "weights, and the scores are so large that the weights are wrong by more than the type's "
        "own rounding."
    ),
    why=(
        "In bfloat16, with its 8 bits, a score of 40 is known to within 0.25, and its weight to "
        "within a quarter. Sums over hundreds of keys stop growing. Long inputs and sharp heads "
        "suffer first, and only in half precision."
    ),
    fix=(
        "Compute the product in float32 and the softmax with it: scores = q.float() @ "
        "k.float().transpose(-2, -1); weights = scores.softmax(-1).to(v.dtype); running sums in "
        "float32 too. Fused kernels do that themselves."
    ),
    proof=(
        "The recorded q and k, as they are, are taken through the same "
        "operations in float64: half the sum of |difference| of a row of weights is the weight "
        "that went elsewhere. The rule fires where that passes 3 roundings of the type in more "
        "than one row of twenty, or where as many sums of rows are off by 2. For attention in "
        "blocks the context is compared in the same way."
    ),
    limits=(
        "A softmax that is upcast to float32 is left alone, although scores that were rounded "
        "before stay rounded."
    ),
    sources=(
        "https://docs.pytorch.org/docs/stable/amp.html",
        "https://arxiv.org/abs/2205.14135",
    ),
    bad="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        nn.init.normal_(self.qkv.weight, std=0.5)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = Attention().to(torch.bfloat16).eval()
inputs = torch.randn(2, 150, 32).to(torch.bfloat16)
""",
    good="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        nn.init.normal_(self.qkv.weight, std=0.5)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q.float() @ k.float().transpose(-2, -1) * (d // self.heads) ** -0.5
        weights = scores.softmax(-1).to(v.dtype)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = Attention().to(torch.bfloat16).eval()
inputs = torch.randn(2, 150, 32).to(torch.bfloat16)
""",
    check=_check,
)  # fmt: skip
