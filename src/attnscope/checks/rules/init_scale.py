"""AS901: weights of q and k start far from a scale that trains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_LARGE = 12.0
"""Product of both gains; 1 for Xavier, 2 for Kaiming, 1/3 for nn.Linear's own."""

_SPREAD = 6.0
"""Standard deviation of scores at which a softmax gives most rows to one of a hundred keys."""

_SMALL = 5e-3
"""Gain of each projection; 0.02 · √width is above that from width 1 on."""

_FLAT = 1e-3


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.initialising import filled, loaded
    from attnscope.checks.residual.gains import gains

    if subject.model is None:
        raise Skipped("a function has no weights: give a module")
    if loaded(subject.model) is not None:
        raise Skipped("its weights were loaded, so that they are no initial ones (see AS302)")
    for each in gains(subject):
        large = each.q * each.k > _LARGE and each.scores > _SPREAD
        small = max(each.q, each.k) < _SMALL and each.scores < _FLAT
        if not (large or small):
            continue
        text = (
            "nearly every row is one-hot, and q and k get almost no gradient"
            if large
            else "all keys get the same weight, and q and k almost no gradient"
        )
        stds = ", ".join(f"{std:.2g}" for std in dict.fromkeys(each.stds))
        yield RULE.found(
            f"{', '.join(each.names)} start with a standard deviation of {stds}: the projections "
            f"multiply what they receive by {each.q:.2g} (q) and {each.k:.2g} (k), so that the "
            f"scaled scores have a standard deviation of {each.scores:.2g}: {text}",
            {
                "gain_q": each.q,
                "gain_k": each.k,
                "scores_std": each.scores,
                "parameters": list(each.names),
                "weight_std": list(each.stds),
            },
            source=filled(subject.model, each.names[0]),
            call=each.located.call,
        )


RULE = Rule(
    code="AS901",
    name="init-scale",
    severity="warning",
    what="The weights that make q and k are drawn far too large or far too small for their width.",
    why=(
        "A projection multiplies the size of its input by std · √width. With std 1 at width 64 "
        "scores have a standard deviation of 64: the softmax is one-hot at the first step and "
        "passes no gradient to q and k. With next to nothing, attention is an average that hardly "
        "learns to be anything else."
    ),
    fix=(
        "Draw with std near 1/√width (nn.init.xavier_uniform_, or torch.randn(width, width) / "
        "width**0.5), or leave nn.Linear as it is."
    ),
    proof=(
        "The rule measures what the projections of q and k do to the size of what they receive, "
        "and the scores that come of it. It speaks only of weights that are still drawn: "
        "independent entries, normal or uniform, with rows and columns of even size. It fires "
        "where the gains multiply to more than 12 and scores spread by more than 6, or both gains "
        "are below 0.005 and scores below 0.001."
    ),
    limits=(
        "Trained weights are left alone, and so are weights that are exactly zero at the start, "
        "and q and k that are normed afterwards."
    ),
    sources=("https://arxiv.org/abs/2303.06296", "https://github.com/pytorch/pytorch/issues/166378"),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.q = nn.Parameter(torch.randn(width, width))
        self.k = nn.Parameter(torch.randn(width, width))
        self.v = nn.Parameter(torch.randn(width, width))

    def forward(self, x):
        q, k, v = x @ self.q, x @ self.k, x @ self.v
        return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]


model = Attention()
inputs = torch.randn(3, 7, 64)
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.q = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.k = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.v = nn.Parameter(torch.randn(width, width) / width**0.5)

    def forward(self, x):
        q, k, v = x @ self.q, x @ self.k, x @ self.v
        return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]


model = Attention()
inputs = torch.randn(3, 7, 64)
""",
    check=_check,
    explains=("AS302", "AS403", "AS902"),
    as_it_starts=True,
)  # fmt: skip
