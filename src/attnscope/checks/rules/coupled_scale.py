"""AS305: the scale of one row depends on other samples or on later tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.calls.call import Call
    from attnscope.checks.scoring.prepared import Prepared
    from attnscope.checks.scoring.steered import Steered
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.scoring.coupling import coupled
    from attnscope.checks.scoring.prepared import prepared
    from attnscope.checks.scoring.steered import steered

    for call in subject.calls:
        before = prepared(subject, call)
        if before is not None:
            yield _of_preparing(call, before)
            continue
        found = coupled(subject, call)
        if found is None:
            turned = steered(subject, call)
            if turned is not None:
                yield _of_number(call, turned)
            continue
        others = "earlier tokens" if found.what == "a later token" else "all other samples"
        yield RULE.found(
            f"the {found.of} of {others} depend on {found.what}: changing it, with their own q "
            "and k as they were, "
            f"moves their {found.of} by up to {found.largest:.2g} (the largest is "
            f"{found.before:.2g}; in float64, so "
            "that rounding moves none)",
            {
                "changed": found.what,
                "of": found.of,
                "moved_by": found.largest,
                "largest": found.before,
                "noise": 0.0,
            },
            source=found.source,
            call=call,
        )


def _of_preparing(call: Call, found: Prepared) -> Finding:
    others = "earlier tokens" if found.what == "a later token" else "all other samples"
    return RULE.found(
        f"{found.side} of {others} depends on {found.what}: {found.by} is taken over more than the "
        f"features of one token, and with {found.what} changed {found.side} of {others} moves by "
        f"up to {found.largest:.2g} (the largest is {found.before:.2g}; in float64, so that "
        "rounding moves none)",
        {
            "changed": found.what,
            "of": found.side,
            "by": found.by,
            "moved_by": found.largest,
            "largest": found.before,
            "noise": 0.0,
        },
        source=found.source,
        call=call,
    )


def _of_number(call: Call, found: Steered) -> Finding:
    others = "earlier tokens" if found.what == "a later token" else "all other samples"
    return RULE.found(
        f"the scores of {others} depend on {found.what}: in a run in which it is another one, with "
        f"their own q and k as they were, the scale is {found.after:.6g} instead of "
        f"{found.before:.6g}, which moves their scores by up to {found.largest:.2g} (largest "
        f"score {found.scores:.2g})",
        {
            "changed": found.what,
            "moved_by": found.largest,
            "largest_score": found.scores,
            "scale": found.before,
            "scale_then": found.after,
        },
        source=found.source,
        call=call,
    )


RULE = Rule(
    code="AS305",
    name="coupled-scale",
    severity="error",
    what=(
        "Scores, or q or k before them, are scaled (or shifted) by a statistic over more than "
        "their own row: the standard deviation or the largest entry of the whole tensor, a norm "
        "over the tokens under a causal mask, or a count over the batch."
    ),
    why=(
        "What a sample gets depends on what else is in the batch, and under a causal mask on "
        "tokens that come later: a model that is evaluated one by one, or generates token by "
        "token, is another one than was trained."
    ),
    fix=(
        "Divide by a constant, head_dim ** 0.5. A scale that adapts may be learned, or follow from "
        "one row alone: a statistic with dim=-1 and keepdim=True, of visible keys only."
    ),
    proof=(
        "In float64, q and k of one sample (then of the last token of a causal call, then all "
        "inputs of one sample) are changed: the scores of other samples, or of earlier tokens with "
        "one another, must not move at all. The line is that of the first operation between q·k "
        "and the softmax whose result moves where it should not. Weights must not move by 0.001: "
        "where a shift of the scores (one maximum for all) does not cancel in the normaliser, the "
        "line is that of the division. A scale that is a plain number (as of .item()) is compared "
        "between runs in which another sample, or a later token, is another one, to 1e-5 of "
        "itself. Likewise what the projections of q and k receive is changed for the last sample "
        "(in a causal call also for the last token): q and k of others must not move; where they "
        "do, the first operation that lets it in has to be a statistic."
    ),
    limits=(
        "Statistics over the heads or the keys of one query are not looked at: normalised rows are "
        "a design."
    ),
    sources=(
        "https://arxiv.org/abs/1706.03762",
    ),
    bad="""
import torch
from torch import nn


class AdaptiveAttention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1)
        scores = scores / scores.std()
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


model = AdaptiveAttention().eval()
inputs = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
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
        scores = q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


model = Attention().eval()
inputs = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
""",
    check=_check,
    explains=("AS102", "AS201", "AS202", "AS301", "AS302", "AS303", "AS403", "AS601"),
)  # fmt: skip
