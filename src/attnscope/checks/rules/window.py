"""AS210: the sliding window differs from what is declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject
    from attnscope.checks.visibility.reach import Misfit


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.visibility.reach import windows_missed
    from attnscope.checks.visibility.tokens import sequence_of

    window, stream = subject.expect.get("window"), sequence_of(subject)
    if window is None:
        raise Skipped("no window is declared: where there is one, declare expect window")
    if stream is None or stream.sequence_axis is None:
        raise Skipped("no input is a sequence of tokens: give inputs that are")
    length = stream.length(subject.given)
    widest = max(
        [w for w in ([window] if isinstance(window, int) else window) if w is not None] or [0]
    )
    if length <= widest:
        raise Skipped(f"{length} tokens are no more than the window of {widest}: give more")
    for each in windows_missed(subject, stream, window):
        yield RULE.found(
            _message(each),
            {
                "layer": each.number,
                "declared_window": each.window,
                "keys_seen_at_most": each.reach,
                "query": each.query,
                "key": each.key,
            },
            source=each.line,
            call=each.layer.call,
        )


def _message(each: Misfit) -> str:
    declared = f"{each.window} keys" if each.window is not None else "all keys before it"
    verb = "attends to" if each.far else "does not attend to"
    return (
        f"layer {each.number} sees up to {each.reach} keys, itself counted, where {declared} are "
        f"declared: position {each.query} {verb} {each.key}"
    )


RULE = Rule(
    code="AS210",
    name="window",
    severity="error",
    what=(
        "The sliding window of an attention is wider or narrower than declared, missing, or in the "
        "wrong layers."
    ),
    why=(
        "A checkpoint that was trained with another window gets worse with length, and a cache "
        "that keeps as many keys as declared drops some that are still read, or keeps some that "
        "never are."
    ),
    fix=(
        "A query sees itself and window - 1 keys before it: visible = (j <= i) & (i - j < window). "
        "Give each layer its own window, None where it sees everything."
    ),
    proof=(
        "Each attention is run by itself in float64 with single tokens changed and its queries "
        "held, which gives the pairs that really attend, whatever blocks they are computed in; the "
        "rule fires where a pair further apart than the window is seen, or a nearer one is hidden."
    ),
    limits=(
        "Runs where expect window declares one (a number, or one for each layer). Without a causal "
        "edge a window may count to each side or to both together; either is accepted. Up to eight "
        "leading tokens may be visible to all."
    ),
    sources=(
        "https://github.com/huggingface/transformers/issues/39408",
        "https://github.com/huggingface/transformers/issues/35896",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class Local(nn.Module):
    def __init__(self, vocabulary=40, width=32, heads=4, window=3):
        super().__init__()
        self.heads, self.window = heads, window
        self.embedding = nn.Embedding(vocabulary, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, ids):
        b, t = ids.shape
        q, k, v = self.qkv(self.embedding(ids)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        i, j = torch.arange(t)[:, None], torch.arange(t)
        visible = (j <= i) & (i - j <= self.window)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


model = Local().eval()
inputs = torch.randint(0, 40, (2, 9))
expect = {"causal": True, "window": 3}
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class Local(nn.Module):
    def __init__(self, vocabulary=40, width=32, heads=4, window=3):
        super().__init__()
        self.heads, self.window = heads, window
        self.embedding = nn.Embedding(vocabulary, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, ids):
        b, t = ids.shape
        q, k, v = self.qkv(self.embedding(ids)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        i, j = torch.arange(t)[:, None], torch.arange(t)
        visible = (j <= i) & (i - j < self.window)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


model = Local().eval()
inputs = torch.randint(0, 40, (2, 9))
expect = {"causal": True, "window": 3}
""",
    check=_check,
    explains=("AS208", "AS306"),
)  # fmt: skip
