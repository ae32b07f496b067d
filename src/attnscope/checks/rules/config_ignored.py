"""AS306: the config names a scale, cap, sink, window or rotary setting that is not used."""

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
    from attnscope.checks.scoring.configured import unused_settings

    for unused in unused_settings(subject):
        yield RULE.found(
            unused.text,
            {
                "setting": unused.key,
                "configured": unused.wanted,
                "found": unused.found,
                **evidence_of(subject, unused.call, Intended(window=unused.window)),
            },
            source=unused.source,
            call=unused.call,
        )


RULE = Rule(
    code="AS306",
    name="config-ignored",
    severity="error",
    what=(
        "The model's config names a scale (query_pre_attn_scalar, attention_multiplier), a soft "
        "cap, a sink, a window, a rotary base or a rotary share, and attention is computed without "
        "it or with another one."
    ),
    why=(
        "Checkpoints of that config were trained with the setting. Without it the model is fluent "
        "and worse, often only at length, and no shape tells."
    ),
    fix=(
        "Hand the setting on: scaling = config.query_pre_attn_scalar ** -0.5 as scale=, the cap as "
        "cap * tanh(scores / cap) before the mask, config.rope_theta to the rotary tables. A "
        "setting that is not meant to be used should not be in the config."
    ),
    proof=(
        "Scale, cap, sinks and mask are read off the recorded operations of each call and compared "
        "with the config, the cap also with `expect` (0.1 %). The rotary base and width are fitted "
        "from the angles of the recorded tables: frequencies must be base^(-j/n) from 1 down, and "
        "the base must be the configured one within 1 %."
    ),
    limits=(
        "Known are settings by the names that public configs use, found as config, cfg, args or "
        "hparams of the model or its attention. A window shows only where the inputs are longer. "
        "Scaled rotary embeddings (rope_scaling) are left alone, and so is what a library computes "
        "from its own config."
    ),
    sources=(
        "https://github.com/huggingface/transformers/issues/31891",
        "https://github.com/sgl-project/SpecForge/issues/265",
    ),
    bad="""
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.qkv = nn.Linear(32, 3 * 32)
        self.out = nn.Linear(32, 32)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


model = Attention(SimpleNamespace(query_pre_attn_scalar=32)).eval()
inputs = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
""",
    good="""
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.qkv = nn.Linear(32, 3 * 32)
        self.out = nn.Linear(32, 32)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, 4, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, scale=self.config.query_pre_attn_scalar**-0.5)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


model = Attention(SimpleNamespace(query_pre_attn_scalar=32)).eval()
inputs = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
""",
    check=_check,
    explains=("AS208", "AS210", "AS301", "AS302", "AS503", "AS505", "AS801", "AS901", "AS903"),
)  # fmt: skip
