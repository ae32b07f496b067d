"""AS102: attention mixes the samples of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.probes.batch_mates import BatchMates
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.batch_mates import batch_mates
    from attnscope.checks.probes.coded import coded
    from attnscope.checks.structure.landing import runs_over_samples
    from attnscope.checks.structure.splitting import line_of_axes

    mates = batch_mates(subject)
    if not mates.leaks:
        return
    for each in coded(subject):
        keys = runs_over_samples(each)
        if keys is None:
            continue
        yield RULE.found(
            _message(mates, keys.samples, keys.keys),
            {
                "changed_sample": mates.changed,
                "moved_in_other_samples": mates.largest,
                "noise": mates.noise,
                "samples_moved": mates.moved,
                "keys": keys.keys,
                "batch": keys.samples,
                "token_moves_other_tokens": mates.token_reach,
            },
            source=line_of_axes(subject, each.call),
            call=each.call,
        )
        return


def _message(mates: BatchMates, samples: int, keys: int) -> str:
    text = (
        f"the {keys} keys of each query are the {samples} samples of the batch: changing one sample "
        f"moves {mates.moved} of {samples - 1} others, by up to {mates.largest:.2g} "
        f"(noise {mates.noise:.1g})"
    )
    if mates.token_reach is None:
        return text
    if mates.token_reach == 0.0:
        return f"{text}, and changing a token moves no other token of its own sample"
    return f"{text}; changing a token moves others of its sample by {mates.token_reach:.2g}"


RULE = Rule(
    code="AS102",
    name="batch-attention",
    severity="error",
    what=(
        "Attention runs over the samples of a batch instead of the tokens of a sequence: at each "
        "position on its own, the samples attend to one another."
    ),
    why=(
        "No token ever sees another token of its sample, and every output depends on what else "
        "happens to be in the batch. Nothing raises, shapes are right and the loss falls; at batch "
        "size 1 attention is the identity."
    ),
    fix=(
        "Put the batch where the code takes it to be: pass batch_first=True (nn.MultiheadAttention, "
        "nn.TransformerEncoder and their like read (length, batch, width) by default), or split the "
        "heads of (length, batch, width) with permute(1, 2, 0, 3) so that the last two axes are tokens "
        "and features. Where the inputs really are (length, batch, width), declare "
        "expect batch_axis=1."
    ),
    proof=(
        "One sample is replaced by another one; if attention keeps samples apart, no other sample moves "
        "by more than the noise of the run (16 times its distance from the same run in float64). Then "
        "single tokens of what the projections receive are changed one at a time: the rule fires where "
        "the same position of different samples lands in different keys of one attention row."
    ),
    limits=(
        "Which axis is the batch follows from expect, from names in the code (batch, length, width = "
        "x.shape), from masks and from torch's own layers; where nothing says so it is taken to be the "
        "first, and a report says that. Attention over samples on purpose has to be declared."
    ),
    sources=(
        "https://github.com/pytorch/pytorch/issues/41508",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html",
    ),
    bad='''
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4)

    def forward(self, x):
        batch, length, width = x.shape
        attended, _ = self.attention(x, x, x)
        return x + attended


model = Encoder().eval()
inputs = torch.randn(3, 7, 32)
''',
    good='''
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x):
        batch, length, width = x.shape
        attended, _ = self.attention(x, x, x)
        return x + attended


model = Encoder().eval()
inputs = torch.randn(3, 7, 32)
''',
    check=_check,
    explains=(
        "AS101", "AS103", "AS106", "AS201", "AS202", "AS203", "AS205", "AS206", "AS209", "AS210", "AS211",
        "AS212", "AS305", "AS401", "AS402", "AS404", "AS405", "AS501", "AS502", "AS503", "AS504", "AS601",
        "AS901", "AS902",
    ),
)  # fmt: skip
