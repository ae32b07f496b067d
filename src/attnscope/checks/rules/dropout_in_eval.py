"""AS701: dropout is active in eval mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_SAME = 1e-6
"""Relative to the largest entry: what kernels with other orders of sums may differ by."""


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.dropouts import dropped
    from attnscope.checks.probes.repeated import repeated

    if subject.expect.get("dropout") == "on in eval":
        return
    if subject.model is None:
        raise Skipped("a function has no eval mode: give a module")
    active = list(dropped(subject.base.tape))
    if not active:
        return
    runs = repeated(subject)
    if runs.largest <= max(_SAME * runs.size, 2 * runs.again):
        return
    for each in active:
        operation = each.operation
        what = "entries are dropped by hand" if each.by_hand else f"{operation.name} drops"
        yield RULE.found(
            f"in eval mode {what} at rate {each.rate:.2g}: the same inputs with another seed move "
            f"{runs.share:.0%} of the output by up to {runs.largest:.2g} (the same seed again: "
            f"{runs.again:.1g})",
            {
                "operation": operation.name,
                "rate": each.rate,
                "largest": runs.largest,
                "moved": runs.share,
                "same_seed": runs.again,
            },
            source=operation.source,
            module="",
        )


RULE = Rule(
    code="AS701",
    name="dropout-in-eval",
    severity="error",
    what="Dropout is active although the model is in eval mode.",
    why=(
        "Inference is random: metrics are worse, the same input gives other answers, and cached "
        "decoding differs from a full pass. F.scaled_dot_product_attention and F.dropout don't "
        "know the mode of the module that calls them, and a dropout module that is no submodule "
        "never hears of eval()."
    ),
    fix=(
        "Pass the mode on: dropout_p=self.p if self.training else 0.0 for "
        "F.scaled_dot_product_attention, training=self.training for F.dropout; keep nn.Dropout in "
        "the constructor, in an nn.ModuleList where there are several. Dropout in eval on purpose "
        'is declared by expect dropout = "on in eval".'
    ),
    proof=(
        "The model is run in eval mode with two seeds; the rule fires where an operation that "
        "drops was recorded and the outputs differ by more than 1e-6 of their size, while the same "
        "seed gives the same."
    ),
    limits="Other random parts (sampled latents, added noise) are no dropout and are left alone.",
    sources=(
        "https://github.com/pytorch/pytorch/issues/124464",
        "https://github.com/huggingface/pytorch-image-models/pull/1978",
        "https://github.com/wenet-e2e/wenet/issues/2699",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=32, heads=4, dropout=0.1):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=32, heads=4, dropout=0.1):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        rate = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=rate)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    explains=("AS201", "AS202", "AS205", "AS601", "AS801", "AS803"),
)  # fmt: skip
