"""AS702: dropout on scores, or on q, k or v, instead of on the weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.calls.call import Call
    from attnscope.checks.residual.dropping import Misplaced
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.train_drops import train_drops
    from attnscope.checks.probes.train_mode import train_mode
    from attnscope.checks.residual.dropping import misplaced

    if not train_drops(subject):
        return
    side = train_mode(subject)
    for located in side.located:
        for each in misplaced(side, located):
            yield _finding(each, located.call)


def _finding(each: Misplaced, call: Call) -> Finding:
    operation = each.dropped.operation
    if each.place == "scores":
        effect = (
            "a dropped score is 0, not hidden: its key keeps the weight exp(0), and what is left "
            f"is divided by {1 - each.dropped.rate:.3g}, which sharpens the softmax"
        )
    else:
        effect = "single features are dropped, while no weight ever is"
    return RULE.found(
        f"in train mode {operation.name} drops {each.dropped.rate:.2g} of the entries of "
        f"{each.place}: {effect}",
        {"place": each.place, "rate": each.dropped.rate, "zeros": each.zeros},
        source=operation.source,
        call=call,
        module=call.module,
    )


RULE = Rule(
    code="AS702",
    name="dropout-place",
    severity="warning",
    what="Attention dropout acts on the scores, or on q, k or v, where it belongs on the weights.",
    why=(
        "A score that is dropped becomes 0, which is an ordinary score: the key isn't removed, and "
        "keys with negative scores even gain weight. The rescaling by 1/(1 - p) changes the "
        "temperature. A mask that is added before is dropped too. It only shows as noise in "
        "training."
    ),
    fix=(
        "Drop the weights: weights = dropout(softmax(scores)), or hand the rate to the kernel as "
        "dropout_p. Residual dropout belongs behind the output projection."
    ),
    proof=(
        "The model is run in train mode and every operation written down; the rule fires where an "
        "active dropout lies between q·k and the softmax, or between a projection and q, k or v, "
        "and none acts on the weights."
    ),
    limits=(
        "Dropout on q, k or v beside dropout on the weights is left alone (graph attention does "
        "so), as is dropout on what the projections receive and on what attention returns."
    ),
    sources=(
        "https://github.com/arghosh/AKT/issues/11",
        "https://github.com/nikhilbarhate99/min-decision-transformer/issues/2",
    ),
    bad="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(-2, -1) / x.shape[-1] ** 0.5
        weights = self.drop(scores).softmax(dim=-1)
        return weights @ self.v(x)


model = Attention()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(-2, -1) / x.shape[-1] ** 0.5
        weights = self.drop(scores.softmax(dim=-1))
        return weights @ self.v(x)


model = Attention()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
)  # fmt: skip
