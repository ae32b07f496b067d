"""AS803: what a module returns as attention weights is something else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.scoring.returned import Returned
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.scoring.returned import returned_otherwise

    for found in returned_otherwise(subject):
        yield RULE.found(
            f"output{found.where} {found.shape}{found.when} is {found.what} of call "
            f"{found.call.index}, not its weights: {_apart(found)}",
            {
                "output": found.where,
                "shape": list(found.shape),
                "is": found.what,
                **({"differs_from_weights": found.error} if found.error < math.inf else {}),
                **({"differs_from_that": found.remains} if found.remains < math.inf else {}),
            },
            source=found.source,
            module="",
            call=found.call,
            severity=None if found.certain else "note",
        )


def _apart(found: Returned) -> str:
    """Return how far an output is from the weights, and from what it is; inf: of no likeness."""
    call, told = found.call, []
    if found.error < math.inf:
        told += [f"it differs from them by {found.error:.2g}"]
    else:
        told += [f"they are {(call.batch, call.heads, call.queries, call.keys)}"]
    if found.remains < math.inf:
        told += [f"it differs from what it is by {found.remains:.1g}"]
    return ", and ".join(told)


RULE = Rule(
    code="AS803",
    name="returned-weights",
    severity="error",
    what=(
        "A module returns, in the place of its attention weights, something else: scores before "
        "the softmax, weights after dropout, their mean over the heads, weights computed again "
        "without the mask or with another scale, or a log-sum-exp. Or one map stands for all "
        "heads, samples or layers."
    ),
    why="Whoever draws, prunes or explains by these weights looks at what the model did not do.",
    fix=(
        "Return the tensor that meets v, before dropout: weights = scores.softmax(-1); context = "
        "dropout(weights) @ v; return context, weights. With nn.MultiheadAttention pass "
        "average_attn_weights=False. Where a fused kernel keeps no weights, compute them with its "
        "own scale, mask and bias, or return None."
    ),
    proof=(
        "Further outputs of the model are compared with the recorded weights of each call, in "
        "every usual layout. The rule fires where an output equals no weights and does equal "
        "(within 0.1 %) another quantity of a call; or where an output named after attention has "
        "no axes of queries and keys at all."
    ),
    limits=(
        "An output that matches nothing is left alone: it may be a mean over layers, or no "
        "weights. A mean over the heads is a note unless the docstring speaks of single heads. "
        "Models of libraries are left alone."
    ),
    sources=(
        "https://github.com/huggingface/transformers/issues/36096",
        "https://github.com/pytorch/pytorch/issues/34537",
    ),
    bad="""
import torch
from torch import nn


class Attention(nn.Module):
    # returns the output and the attention weights

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, n, d)), scores


model = Attention().eval()
inputs = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
""",
    good="""
import torch
from torch import nn


class Attention(nn.Module):
    # returns the output and the attention weights

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        weights = scores.softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, d)), weights


model = Attention().eval()
inputs = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
""",
    check=_check,
)  # fmt: skip
