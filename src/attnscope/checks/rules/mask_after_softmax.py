"""AS204: masked after the softmax, so that rows no longer sum to one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.calls.call import Call
    from attnscope.checks.masking.after import Zeroed
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.masking.after import zeroed_after, zeroed_outside
    from attnscope.checks.masking.seen import seen_by

    for call in subject.calls:
        found = zeroed_after(seen_by(subject, call))
        if found is not None:
            yield _of(found, call)
    for found in zeroed_outside(subject):
        yield _of(found, None)


def _of(found: Zeroed, call: Call | None) -> Finding:
    deed = (
        f"zeroes {found.zeroed} weights after the softmax, which held up to "
        f"{1 - found.least:.2g} of their row"
        if found.least >= 0
        else f"puts a fill that is meant for scores on {found.zeroed} weights after the softmax"
    )
    return RULE.found(
        f"{found.operation.spoken} {deed}: {found.rows} of {found.all_rows} rows now sum to less "
        f"than 1, the least one to {found.least:.2g}, and nothing divides by that sum",
        {
            "zeroed": found.zeroed,
            "rows": found.rows,
            "all_rows": found.all_rows,
            "least_sum": found.least,
            "mean_sum": found.mean,
        },
        source=found.operation.source,
        call=call,
        module=None if call is not None else "",
    )


RULE = Rule(
    code="AS204",
    name="mask-after-softmax",
    severity="error",
    what=(
        "The mask is applied to the weights, after the softmax has already shared them out over "
        "all keys, and the rows are not divided by what is left of them."
    ),
    why=(
        "Each row sums to less than one by a different amount, so outputs shrink with padding or "
        "with position; and what was masked still shapes the rest, through the sum that the "
        "softmax divided by: the future leaks into a causal model."
    ),
    fix=(
        "Mask the scores before the softmax: scores.masked_fill(~mask, float('-inf')).softmax(-1). "
        "Or divide by what is left: weights / weights.sum(-1, keepdim=True)."
    ),
    proof=(
        "In float64, an operation between the softmax and the product with v turns weights of more "
        "than 1e-6 into 0 in rows that sum to 1 and keep others, by a mask that the weights "
        "themselves did not make; and the sums that are left are not 1 by the time the weights "
        "meet v, nor divided by afterwards."
    ),
    limits=(
        "Thresholds on the weights themselves (top-k, sparse attention) and rows that are zeroed "
        "whole are designs of their own."
    ),
    sources=(
        "https://github.com/huggingface/pytorch-image-models/pull/2236",
        "https://github.com/lucidrains/memory-compressed-attention/issues/2",
        "https://github.com/abisee/pointer-generator/issues/88",
    ),
    bad="""
import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / x.shape[-1] ** 0.5
        weights = scores.softmax(-1)
        weights = weights.tril()
        return weights @ self.v(x)


model = CausalAttention().eval()
inputs = torch.randn(2, 7, 32)
""",
    good="""
import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2) / x.shape[-1] ** 0.5
        weights = scores.softmax(-1)
        weights = weights.tril()
        weights = weights / weights.sum(-1, keepdim=True)
        return weights @ self.v(x)


model = CausalAttention().eval()
inputs = torch.randn(2, 7, 32)
""",
    check=_check,
    explains=("AS201", "AS202", "AS206", "AS209", "AS210", "AS305", "AS803"),
)  # fmt: skip
