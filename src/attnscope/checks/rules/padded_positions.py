"""AS504: left padding shifts the positions of real tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_SAME = 1e-3
"""Relative difference of what attention receives that is rounding, or other orders of sums."""


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.positions.counting import line_of_counting
    from attnscope.checks.probes.left_padding import left_padding

    if subject.model is None or subject.expect.get("positions") is False:
        raise Skipped("the subject has no positions of its own")
    found = left_padding(subject)
    if found.received <= _SAME or found.output <= found.noise or found.reads_padding > found.noise:
        return
    yield RULE.found(
        f"{found.pads} padded tokens on the left move the positions of sample {found.sample}: "
        f"without them its real tokens reach attention changed by {found.received:.2g} of the "
        f"largest entry, and its output changes by {found.output:.2g} (noise {found.noise:.1g}), "
        f"although other padded tokens change it by no more than {found.reads_padding:.1g}",
        {
            "sample": found.sample,
            "pads": found.pads,
            "received": found.received,
            "output": found.output,
            "noise": found.noise,
            "moved_by_padding": found.reads_padding,
        },
        source=line_of_counting(subject),
        module="",
        severity="note" if _is_guessed(subject) else None,
    )


def _is_guessed(subject: Subject) -> bool:
    """Return whether nothing but the model's own reading of token ids tells of the padding.

    Such a model always pads to the end, and may count places from there on purpose.
    """
    padding = subject.roles.padding_of(subject.roles.main)
    return padding is not None and padding.meaning == "pad" and not padding.declared


RULE = Rule(
    code="AS504",
    name="padded-positions",
    severity="error",
    what=(
        "Positions are counted from the first padded token: in a sample that is padded on the "
        "left, every real token stands at another position than it would alone."
    ),
    why=(
        "Short prompts of a batch are answered wrongly, the longest one rightly, and results "
        "depend on batch mates. One report has the loss of GPT-2 go from 4.5 to 13.6 by a single "
        "padded token."
    ),
    fix=(
        "Count real tokens: position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0), row by "
        "row, and pass them on to the model (Hugging Face models take position_ids)."
    ),
    proof=(
        "A left-padded sample of the inputs is run again without its padding. The rule fires where "
        "what the first attention receives differs at real tokens by more than 1e-3, the output by "
        "more than the noise, and the content of the padding moves nothing, so that only the place "
        "can have done it. A note where the model itself tells padding by a token id and no expect "
        "declares it: histories that always end at the last place may be counted from there."
    ),
    limits=(
        "Needs inputs with a sample that is padded on the left, and a mask or padding id that says "
        "so. Relative and rotary positions are unharmed by a shift, and stay silent."
    ),
    sources=(
        "https://github.com/huggingface/transformers/issues/18478",
        "https://github.com/ndif-team/nnsight/pull/673",
        "https://github.com/unslothai/unsloth/pull/4078",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class Decoder(nn.Module):
    def __init__(self, vocabulary=50, width=32):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, input_ids, attention_mask):
        length = input_ids.shape[1]
        x = self.tokens(input_ids) + self.places(torch.arange(length))
        q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
        seen = torch.ones(length, length).tril().bool() & attention_mask[:, None, None].bool()
        seen = seen | torch.eye(length).bool()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)[:, 0]


model = Decoder().eval()
attention_mask = torch.ones(3, 7, dtype=torch.long)
attention_mask[1, :3] = 0
inputs = {"input_ids": torch.randint(0, 50, (3, 7)), "attention_mask": attention_mask}
expect = {"causal": True, "padding": "attention_mask keep"}
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class Decoder(nn.Module):
    def __init__(self, vocabulary=50, width=32):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, input_ids, attention_mask):
        length = input_ids.shape[1]
        positions = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        x = self.tokens(input_ids) + self.places(positions)
        q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
        seen = torch.ones(length, length).tril().bool() & attention_mask[:, None, None].bool()
        seen = seen | torch.eye(length).bool()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)[:, 0]


model = Decoder().eval()
attention_mask = torch.ones(3, 7, dtype=torch.long)
attention_mask[1, :3] = 0
inputs = {"input_ids": torch.randint(0, 50, (3, 7)), "attention_mask": attention_mask}
expect = {"causal": True, "padding": "attention_mask keep"}
""",
    check=_check,
)  # fmt: skip
