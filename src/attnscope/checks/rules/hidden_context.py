"""AS212: positions that should be visible are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.subject.roles import Stream
    from attnscope.checks.subject.subject import Subject
    from attnscope.checks.visibility.hiding import Hidden


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.visibility import hiding

    told = set()
    for finding in (*_by_order(subject), *_by_readout(subject)):
        told.add(finding.call)
        yield finding
    for each in hiding.hidden_as_padding(subject):
        sample, _, key = each.first
        if each.layer.call.index not in told:
            yield _found(
                each,
                f"real token {key} of sample {sample} is hidden from every query, as if it were "
                f"padding: {each.count} pairs of real tokens are lost",
                f"token {key} is real",
            )


def _by_order(subject: Subject) -> Iterator[Finding]:
    """Iterate over what a mask hides by the order of tokens."""
    from attnscope.checks.visibility import hiding
    from attnscope.checks.visibility.tokens import sequence_of

    intent, stream = subject.causal, sequence_of(subject)
    if stream is not None and (intent is None or intent.value is False):
        yield from _rest(subject, stream)
    if stream is None or intent is None:
        return
    if intent.value is False:
        for each in hiding.hidden_later(subject, stream) if intent.sure else ():
            yield _found(
                each,
                "no position sees a later one, in a model that is meant to see both ways "
                f"({intent.why}): {each.count} pairs of real tokens are hidden",
                intent.why,
            )
        return
    for each in hiding.hidden_self(subject, stream):
        yield _found(
            each,
            f"no position sees itself: the causal mask hides the diagonal too ({each.count} "
            "pairs), so that the first one has nothing of its own to see",
            "a causal mask leaves the diagonal",
        )
    for each in hiding.hidden_prefix(subject, stream):
        yield _found(
            each,
            f"no token of the declared prefix sees a later one of it: {each.count} pairs that "
            "should see each other both ways are hidden, in every layer",
            "expect prefix declares it",
        )
    for each in hiding.hidden_memory(subject):
        yield _found(
            each,
            "a query sees the memory only up to its own position, as if the memory were the "
            f"decoder's own sequence: {each.count} pairs are hidden",
            "cross-attention reads all of the memory",
        )


def _by_readout(subject: Subject) -> Iterator[Finding]:
    """Tell a result that is read at the one position that sees nothing but itself."""
    from attnscope.checks.visibility.readout import first_alone
    from attnscope.checks.visibility.tokens import sequence_of

    stream = sequence_of(subject)
    alone = first_alone(subject, stream) if stream is not None else None
    if alone is not None:
        yield RULE.found(
            f"the result is read at the first position, which sees itself alone: changing all "
            f"{alone.hidden} tokens behind it moves no output at all"
            f"{f', changing the first one by {alone.moved:.2g}' if alone.moved else ''}",
            {"tokens_without_effect": alone.hidden, "moved_by_the_first": alone.moved},
            source=alone.source,
            call=alone.call,
            fix=_FIX_OF_READOUT,
        )


def _rest(subject: Subject, stream: Stream) -> Iterator[Finding]:
    """Tell the tokens at the end that attention in blocks leaves out."""
    from attnscope.checks.visibility.tail import tail_left_out

    tail = tail_left_out(subject, stream) if stream.sequence_axis is not None else None
    if tail is not None:
        yield RULE.found(
            f"only the first {tail.keys} of {tail.length} tokens are read as keys, and nothing "
            "masks the rest: changing them moves no other token, changing the first one moves "
            f"all others by up to {tail.moved:.2g}",
            {"keys": tail.keys, "tokens": tail.length, "moved_by_the_first": tail.moved},
            source=tail.line,
            call=tail.call,
        )


def _found(each: Hidden, message: str, why: str) -> Finding:
    _, query, key = each.first
    evidence = {"hidden_pairs": each.count, "query": query, "key": key, "visible_because": why}
    return RULE.found(message, evidence, source=each.line, call=each.layer.call)


_FIX_OF_READOUT = (
    "Read the last real position, x[:, -1] or x[range(batch), lengths - 1], or the mean of all; or "
    "leave out the causal mask, where the first position is to sum the others up."
)

RULE = Rule(
    code="AS212",
    name="hidden-context",
    severity="warning",
    what=(
        "Positions that should be visible are not: a causal mask in a model that is meant to see "
        "both ways, real tokens that are masked as padding, or a causal mask that hides each "
        "position from itself. Or a result is read where a causal mask lets nothing in."
    ),
    why=(
        "Nothing breaks; the model works with part of its context and is quietly worse. The first "
        "positions see next to nothing, and lost tokens never reach any result."
    ),
    fix=(
        "Leave out is_causal or the triangle in an encoder; compare positions with the lengths "
        "themselves (steps < lengths); fill above the diagonal alone: torch.triu(ones, "
        "diagonal=1)."
    ),
    proof=(
        "Each attention is run by itself in float64 with single tokens changed and its queries "
        "held, once as they are and once close to zero, so that a saturated softmax hides nothing: "
        "what does not move is not attended to. The rule fires where all later positions are "
        "hidden though expect or the code says causal=False, where a real token is hidden from all "
        "queries, and where a causal mask hides the diagonal and so leaves the first row empty. "
        "Also where no output moves with any token but the first, since a causal mask hides the "
        "others from it."
    ),
    limits=(
        "Sparse and windowed attention hides on purpose; nothing is said unless all later "
        "positions are hidden, nor where the best few keys are chosen by what they hold. Sequences "
        "of more than 64 tokens are not looked at pair by pair."
    ),
    sources=(
        "https://github.com/pytorch/tutorials/issues/2250",
        "https://arxiv.org/abs/2508.04925",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self, vocabulary=40, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(vocabulary, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, ids):
        b, t = ids.shape
        q, k, v = self.qkv(self.embedding(ids)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


model = Encoder().eval()
inputs = torch.randint(0, 40, (2, 9))
expect = {"causal": False}
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self, vocabulary=40, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(vocabulary, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, ids):
        b, t = ids.shape
        q, k, v = self.qkv(self.embedding(ids)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


model = Encoder().eval()
inputs = torch.randint(0, 40, (2, 9))
expect = {"causal": False}
""",
    check=_check,
    explains=("AS203",),
)  # fmt: skip
