"""AS106: attention got tokens where it expects heads, or the reverse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.coded import coded
    from attnscope.checks.structure.landing import runs_over_heads
    from attnscope.checks.structure.splitting import line_of_axes

    if subject.crash is not None:
        yield from _of_strides(subject.crash)
        yield from _of_view(subject.crash)
        return
    for each in coded(subject):
        found = runs_over_heads(each)
        if found is None:
            continue
        kernel = each.call.kind != "eager"
        yield RULE.found(
            f"all {found.positions} keys of each query come from one and the same token: token "
            f"{found.token[1]} of {found.tokens} is spread over all positions of a head of its "
            "own, so attention runs over the heads of a token and no token sees another one",
            {
                "tokens": found.tokens,
                "keys": found.positions,
                "called_heads": each.call.heads,
                "kernel": each.call.kind,
            },
            source=each.call.source if kernel else line_of_axes(subject, each.call),
            call=each.call,
        )


def _of_strides(crash: Exception) -> Iterator[Finding]:
    from attnscope.checks.structure.strides import refused_strides

    found = refused_strides(crash)
    if found is None:
        return
    last = found.strides[-1]
    yield RULE.found(
        f"{found.name} {found.shape} has strides {found.strides}: neighbours of its last axis lie "
        f"{last} apart, fused kernels take only 1, and no other kernel is allowed here",
        {"operand": found.name, "shape": list(found.shape), "strides": list(found.strides)},
        source=found.source,
        fix=(
            f"Give {found.name} dense memory. contiguous() does nothing where the last axis has "
            "size 1: write clone(memory_format=torch.contiguous_format), or allow the math backend."
        ),
    )


def _of_view(crash: Exception) -> Iterator[Finding]:
    from attnscope.checks.structure.strides import refused_view

    found = refused_view(crash)
    if found is None:
        return
    yield RULE.found(
        f"a view as {found.wanted} is asked of {found.shape} with strides {found.strides}: what is "
        "to be one axis lies apart in memory, since axes were exchanged (transpose, permute)",
        {"shape": list(found.shape), "strides": list(found.strides), "wanted": found.wanted},
        source=found.source,
        module="",
        fix=(
            "Write reshape or flatten, or contiguous() before the view. Keep the transpose: "
            "without it the view works, and mixes tokens with heads."
        ),
    )


RULE = Rule(
    code="AS106",
    name="kernel-layout",
    severity="error",
    what=(
        "Attention was given (batch, length, heads, head_dim) where it reads (batch, heads, "
        "length, head_dim), or the reverse: it attends over the heads of each token instead of "
        "over the tokens."
    ),
    why=(
        "Both orders are accepted by every kernel and give outputs of the right shape; no token "
        "sees another one, so the model is a deep perceptron that still learns."
    ),
    fix=(
        "F.scaled_dot_product_attention reads (batch, heads, length, head_dim): call transpose(1, "
        "2) on q, k and v first and on the result afterwards. flash-attn and xformers read (batch, "
        "length, heads, head_dim)."
    ),
    proof=(
        "Single tokens of what the projection of k receives are changed, one at a time, in "
        "float64: the rule fires where each token moves all positions of one row and no other row, "
        "so that a row's keys are parts of one token. Where a kernel refused its operands, their "
        "strides say why; the same of a view that PyTorch refused."
    ),
    limits="A module with one head, or one token, can't show it: give inputs with several of both.",
    sources=("https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(width, 3 * width)
        self.to_out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, d // self.heads).unbind(2)
        out = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(out.reshape(b, n, d))


model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(width, 3 * width)
        self.to_out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))


model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    on_crash=True,
    explains=(
        "AS101", "AS103", "AS104", "AS201", "AS202", "AS205", "AS206", "AS208", "AS209", "AS210",
        "AS212", "AS301", "AS401", "AS402", "AS404", "AS405", "AS501", "AS503", "AS601",
    ),
)  # fmt: skip
