"""AS207: the fill value overflows, is too weak to mask, or a 0/1 mask was added as a bias."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.masking.fills import Weak
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_USE_INF = (
    "Fill with float('-inf') where every row keeps a key, else with torch.finfo(scores.dtype).min."
)

_AS_BIAS = "torch.zeros_like(mask).masked_fill(mask == 0, float('-inf'))."


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.caller import users_line
    from attnscope.checks.masking.fills import overflow_in_crash, spoilt, weak_fills
    from attnscope.checks.masking.seen import seen_by

    crash = overflow_in_crash(subject)
    if crash is not None:
        yield RULE.found(
            f"the fill is past what {crash.dtype} can hold (float16 ends at 65504), and the "
            f"forward raises: {crash.text}",
            {"dtype": crash.dtype, "largest": 65504.0},
            source=crash.source,
            fix="Take the lowest value of the scores' own type: torch.finfo(scores.dtype).min.",
        )
        return
    if subject.crash is not None:
        return
    for call in subject.calls:
        seen = seen_by(subject, call)
        broken = spoilt(seen)
        if broken is not None:
            yield RULE.found(
                f"the mask holds NaN: {broken.text} is not a number, so positions that stay "
                "visible are lost too",
                {"operation": broken.text, "dtype": broken.dtype},
                source=broken.source,
                call=call,
                fix=f"Fill instead of multiplying: {_AS_BIAS}",
            )
            continue
        for weak in weak_fills(seen):
            message, fix = _message(weak)
            yield RULE.found(
                message,
                {
                    "kind": weak.kind,
                    "fill": weak.hide.fill if weak.kind in {"weak", "positive"} else 0.0,
                    "largest_hidden_weight": "nan" if math.isnan(weak.weight) else weak.weight,
                    "pairs": weak.pairs,
                    "hidden_pairs": weak.of,
                },
                source=users_line(subject, call.module, weak.source or call.source),
                call=call,
                fix=fix,
            )


def _message(weak: Weak) -> tuple[str, str]:
    weight = "NaN" if math.isnan(weak.weight) else f"{weak.weight:.2g}"
    share = f"{weak.pairs} of {weak.of} hidden pairs get weight, up to {weight} (0 is right)"
    if weak.kind == "positive":
        text = f"hidden keys get +{weak.hide.fill:.3g}, so that they win the softmax: {share}"
        return text, f"The fill has to be negative. {_USE_INF}"
    if weak.kind == "zero-one":
        text = (
            "a mask of zeros and ones is added to the scores, which moves them by 1 and hides none"
        )
        fix = f"Give the mask as booleans, or turn it into a bias first: {_AS_BIAS}"
        return f"{text}: {share}", fix
    if weak.kind == "times":
        text = "scores are multiplied by a mask of zeros and ones, and 0 is no low score"
        fix = f"Fill instead of multiplying: scores.masked_fill(mask == 0, fill). {_USE_INF}"
        return f"{text}: {share}", fix
    return f"a fill of {weak.hide.fill:.3g} is no lower than the scores need it: {share}", _USE_INF


RULE = Rule(
    code="AS207",
    name="mask-fill",
    severity="error",
    what=(
        "What hides a key does not hide it: the fill is not low enough, has the wrong sign, is "
        "past the range of its type or turns into NaN, or a mask of zeros and ones is added to (or "
        "multiplied with) the scores."
    ),
    why=(
        "Masked keys keep part of the weight: the future or the padding leaks, more the larger "
        "other scores are. Nothing raises, and the loss looks better for it."
    ),
    fix=_USE_INF,
    proof=(
        "The pairs that an operation is to hide are read off its mask; the weights of the run, in "
        "float64, are more than 1e-6 on some of them although their row has other keys. Or the "
        "operation makes NaN of numbers that are none; or the forward raised because the fill "
        "doesn't fit the type."
    ),
    limits=(
        "An added bias counts as a mask where it is 0 and 1 alone, or 0 and a few values from -4 "
        "down; learned biases and slopes over the distance (ALiBi, T5) never do."
    ),
    sources=(
        "https://github.com/pytorch/pytorch/issues/21518",
        "https://github.com/huggingface/diffusers/issues/14342",
        "https://github.com/TransformerLensOrg/TransformerLens/issues/385",
        "https://github.com/lucidrains/memory-compressed-attention/issues/2",
    ),
    bad="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / x.shape[-1] ** 0.5
        scores = scores + mask[:, None, :]
        return scores.softmax(-1) @ v


model = Attention().eval()
inputs = {"x": torch.randn(2, 6, 32), "mask": torch.tensor([[1.0] * 6, [1.0] * 3 + [0.0] * 3])}
""",
    good="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / x.shape[-1] ** 0.5
        scores = scores.masked_fill(mask[:, None, :] == 0, float("-inf"))
        return scores.softmax(-1) @ v


model = Attention().eval()
inputs = {"x": torch.randn(2, 6, 32), "mask": torch.tensor([[1.0] * 6, [1.0] * 3 + [0.0] * 3])}
""",
    check=_check,
    explains=(
        "AS201", "AS202", "AS203", "AS205", "AS206", "AS208", "AS209", "AS210", "AS212", "AS802",
    ),
    on_crash=True,
)  # fmt: skip
