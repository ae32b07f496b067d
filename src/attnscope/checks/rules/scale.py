"""AS301: scores are not scaled, scaled twice, or by the wrong width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.recomputed import Intended, evidence_of
    from attnscope.checks.scoring.scaling import other_scale

    for call in subject.calls:
        found = other_scale(subject, call)
        if found is None:
            continue
        yield RULE.found(
            found.text,
            {
                "kind": found.kind,
                "scale": found.found,
                "expected": found.wanted,
                "head_dim": call.head_dim,
                "heads": call.heads,
                **found.numbers,
                **evidence_of(subject, call, Intended(scale=found.wanted)),
            },
            source=found.source,
            call=call,
            severity=None if found.certain else "note",
        )


RULE = Rule(
    code="AS301",
    name="scale",
    severity="error",
    what=(
        "Scores are q·k without 1/√head_dim, with it twice, multiplied by √head_dim, scaled after "
        "the softmax or a soft cap, or by another width than that of a head."
    ),
    why=(
        "Scores that are √head_dim too large saturate the softmax from the first step, q and k get "
        "next to no gradient; scores that are too small leave attention nearly uniform. Training "
        "makes up for some of it, so a metric rarely shows it, while loaded weights give another "
        "model."
    ),
    fix=(
        "Scale once, before the softmax: scores = q @ k.transpose(-2, -1) * head_dim ** -0.5, or "
        "leave it to F.scaled_dot_product_attention, or hand it your own scale=. Where another "
        "scale is meant, declare it: expect scale=0.125."
    ),
    proof=(
        "The scale is read off the recorded operations. It is an error where it differs (by more "
        "than 0.1 %) from what expect declares or from the scale that the module keeps and its "
        "kernel never gets; where 1/√head_dim is applied at two places; where the weights of each "
        "query sum to 1/√head_dim; and where it is 1 or √head_dim and the scores have a standard "
        "deviation of 1.5 or more, which 1/√head_dim would bring back to about 1."
    ),
    limits=(
        "Without a declaration other scales are notes: T5 (none), muP (1/d), YaRN and checkpoints "
        "with a multiplier of their own are meant so. Cosine attention, whose q and k have one "
        "length, is left alone, and so are the modules of libraries, whose configs say what is "
        "meant (see AS306)."
    ),
    sources=(
        "https://arxiv.org/abs/1706.03762",
        "https://github.com/huggingface/pytorch-image-models/pull/2280",
        "https://github.com/AI-Hypercomputer/maxtext/issues/1370",
    ),
    bad="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=64, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


model = Attention().eval()
inputs = torch.randn(3, 7, 64, generator=torch.Generator().manual_seed(0))
expect = {"scale": 32**-0.5}
""",
    good="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=64, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


model = Attention().eval()
inputs = torch.randn(3, 7, 64, generator=torch.Generator().manual_seed(0))
expect = {"scale": 32**-0.5}
""",
    check=_check,
    explains=("AS208", "AS302", "AS303", "AS403", "AS405", "AS801", "AS901", "AS902"),
)  # fmt: skip
