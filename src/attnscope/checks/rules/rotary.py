"""AS503: rotary embedding breaks relative positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.positions.rotary_faults import rotary_faults
    from attnscope.checks.positions.rotary_lines import line_of_rotary

    if not subject.base.is_faithful:
        raise Skipped("the run can't be run again in float64, so that no rotation can be read")
    for each in rotary_faults(subject):
        yield RULE.found(
            each.text,
            {"kind": each.kind, **each.numbers},
            source=line_of_rotary(subject, each),
            call=each.turning.located.call,
            fix=_FIXES.get(each.kind),
        )


_FIXES = {
    "no rotation": (
        "Lay cosines and sines out as the pairs are: cat((a, a), -1) for pairs (i, i + width/2) "
        "with rotate_half(x) = cat((-x2, x1), -1); repeat_interleave(2, -1) for pairs (2i, 2i + "
        "1). Mind the minus sign."
    ),
    "two vectors": (
        "Turn each of q and k with its own other half: k * cos + rotate_half(k) * sin, where both "
        "k are as they were before."
    ),
    "axis": "Count positions along the axis of the tokens, as the code has it at that place.",
    "one side": "Turn q and k alike.",
    "twice": "Turn q and k once: either where they are projected, or where they meet.",
}

RULE = Rule(
    code="AS503",
    name="rotary",
    severity="error",
    what=(
        "Rotary embedding doesn't make q·k depend on distance: cosines meet the wrong pairs, only "
        "one of q and k is turned, something is turned twice, or the angle follows heads instead "
        "of positions."
    ),
    why=(
        "The shapes are right and a model trains around it; lengths of q and k change with the "
        "position, distances are lost or doubled, and long contexts and loaded checkpoints go "
        "wrong."
    ),
    fix=(
        "Turn q and k once each, by position times frequency, in pairs that agree with the layout "
        "of cos and sin."
    ),
    proof=(
        "The tables that multiply q and k and differ from token to token, with cos² + sin² = 1, "
        "are found among the recorded operations. In float64 every token is put at the first place "
        "and back: a rotation, whatever its pairs, base, share or axes, keeps the lengths of all "
        "vectors in one proportion; and cosines and sines multiply the same numbers. Both sides "
        "must be turned equally often, and alike tokens must give the same q·k at the same "
        "distance."
    ),
    limits=(
        "Half-split and interleaved pairs are both right; which of them loaded weights need, only "
        "a reference tells (attnscope verify). Rotations by matrices, and those of one head of one "
        "sample, are not judged."
    ),
    sources=(
        "https://github.com/baidu/ERNIE-Image/issues/6",
        "https://arxiv.org/abs/2104.09864",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        b, t, c = x.shape
        d = c // self.heads
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d).permute(2, 0, 3, 1, 4)
        angle = torch.arange(t)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
        angle = angle.repeat_interleave(2, dim=-1)
        q = q * angle.cos() + rotate_half(q) * angle.sin()
        k = k * angle.cos() + rotate_half(k) * angle.sin()
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        b, t, c = x.shape
        d = c // self.heads
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d).permute(2, 0, 3, 1, 4)
        angle = torch.arange(t)[:, None] * 10000 ** (-torch.arange(0, d, 2) / d)
        angle = torch.cat((angle, angle), dim=-1)
        q = q * angle.cos() + rotate_half(q) * angle.sin()
        k = k * angle.cos() + rotate_half(k) * angle.sin()
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    explains=("AS501", "AS504", "AS601"),
)  # fmt: skip
