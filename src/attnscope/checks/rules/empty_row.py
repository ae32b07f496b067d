"""AS203: a query may attend to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.calls.source import Source
    from attnscope.checks.masking.empty import Empty
    from attnscope.checks.masking.seen import Seen
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.masking.empty import empty_rows
    from attnscope.checks.masking.seen import seen_by

    for call in subject.calls:
        seen = seen_by(subject, call)
        found = empty_rows(subject, seen)
        if found is not None:
            yield RULE.found(
                _message(seen, found),
                {
                    "gives": found.gives,
                    "rows": found.rows,
                    "all_rows": found.all_rows,
                    "sample": found.sample,
                    "query": found.query,
                    "reaches": found.reaches,
                    "hidden_by": [hide.operation.name for hide in seen.hides],
                },
                source=_line(seen),
                call=call,
            )


def _line(seen: Seen) -> Source:
    """Return the line of the softmax where whole samples are empty, else of the mask to mend.

    That is one that alone empties a query of every sample, where it is made of places alone; or
    the last one.
    """
    from attnscope.checks.masking.lines import line_of_hiding, line_of_softmax
    from attnscope.checks.visibility.emptied import line_of_emptying

    if seen.hidden is not None:
        empty = seen.hidden.all(-1).all(1)  # (batch, queries)
        if bool((empty.all(1) == empty.any(1)).all()):
            return line_of_softmax(seen)
    for hide in seen.hides:
        alone = seen.part(hide).all(-1).all(1)
        if bool(alone.all(0).any()) and hide.operation.source is not None:
            return line_of_emptying(seen, hide) or hide.operation.source
    return line_of_hiding(seen, seen.hides[-1] if seen.hides else None, rows=True)


def _message(seen: Seen, found: Empty) -> str:
    masks = len(seen.hides)
    by = f"{masks} masks together hide" if masks > 1 else "the mask hides"
    where = (
        f"{by} every key from {found.rows} of {found.all_rows} queries, first query "
        f"{found.query} of sample {found.sample}: "
    )
    if found.gives == "nan":
        return f"{where}its softmax is 0/0, and {found.reaches} entries of the output are NaN"
    return (
        f"{where}its weights are up to {found.weight:.2g} on keys that are all hidden, and "
        f"{found.reaches} real outputs depend on what it gives"
    )


RULE = Rule(
    code="AS203",
    name="empty-row",
    severity="warning",
    what=(
        "Masks together hide every key from some query: causal and left padding, window and "
        "padding, or a sample with nothing in it."
    ),
    why=(
        "A softmax over nothing but -inf is NaN, and one NaN spreads over its sample, the loss and "
        "all gradients. With a finite fill all keys are equally bad, so the row is an average over "
        "just what was to be hidden, and nothing says so."
    ),
    fix=(
        "Let every query see itself (mask | torch.eye(length, dtype=torch.bool)), give attention a "
        "key that is always there (add_zero_attn=True), or set the context of such rows to zero "
        "before it is read."
    ),
    proof=(
        "The keys that each query sees are read off the operations that hide them. The rule fires "
        "where a query sees none and its context is NaN and the output has NaN; or where its "
        "weights are spread over hidden keys and, when its context is changed in float64, the "
        "output of a real token or of a pooled sample moves."
    ),
    limits=(
        "Rows that nobody reads (padded queries) are left alone, and so are kernels that give "
        "zeros for such rows, and rows in which a weaker fill leaves a token to itself. Only the "
        "given inputs are looked at: another batch may have empty rows that this one has not."
    ),
    sources=(
        "https://github.com/pytorch/pytorch/issues/103749",
        "https://github.com/pytorch/pytorch/pull/131060",
        "https://github.com/lsdefine/attention-is-all-you-need-keras/issues/16",
    ),
    bad="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, attention_mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        length = x.shape[1]
        seen = torch.ones(length, length).tril().bool() & attention_mask.bool()[:, None, :]
        scores = q @ k.transpose(1, 2) / x.shape[-1] ** 0.5
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        return weights @ v


model = Attention().eval()
inputs = {"x": torch.randn(2, 6, 32), "attention_mask": torch.tensor([[1] * 6, [0, 0, 1, 1, 1, 1]])}
expect = {"causal": True, "padding": "attention_mask keep"}
""",
    good="""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, attention_mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        length = x.shape[1]
        seen = torch.ones(length, length).tril().bool() & attention_mask.bool()[:, None, :]
        seen = seen | torch.eye(length).bool()
        scores = q @ k.transpose(1, 2) / x.shape[-1] ** 0.5
        weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        return weights @ v


model = Attention().eval()
inputs = {"x": torch.randn(2, 6, 32), "attention_mask": torch.tensor([[1] * 6, [0, 0, 1, 1, 1, 1]])}
expect = {"causal": True, "padding": "attention_mask keep"}
""",
    check=_check,
    explains=("AS212", "AS801"),
)  # fmt: skip
