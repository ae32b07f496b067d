"""Rules made by hand, so that what is done with rules doesn't depend on those that there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attnscope.checks.finding import Finding, Severity
from attnscope.checks.rule import Rule


def finds_nothing(_subject: Any) -> Iterator[Finding]:
    """Run as a rule that never fires."""
    yield from ()


def made_rule(code: str, name: str, severity: Severity = "error", **more: Any) -> Rule:
    """Return a rule with a text in every part, other ones where they are given."""
    texts = {
        "what": f"The {name} of a `mask | bias`, e.g. Q*K. It is a second sentence.",
        "why": "The model learns what it will not have when it is used.",
        "fix": "Mask it before the softmax: `scores.masked_fill(~mask, -math.inf)`.",
        "proof": "Later tokens are changed; what moves more than 64 units of rounding is seen.",
        "bad": "\n    import torch\n\n    model = torch.nn.Identity()\n",
        "good": "from torch import nn\nmodel = nn.Linear(2, 2)\n",
        "limits": "It can't tell a prefix <from> a leak.",
    }
    return Rule(code, name, severity, **{**texts, "check": finds_nothing, **more})


LEAK = made_rule(
    "AS201",
    "future-leak",
    explains=("AS202", "AS999"),
    sources=("https://arxiv.org/abs/1706.03762", "https://github.com/pytorch/pytorch/issues/1"),
)
PADDING = made_rule("AS202", "padding-leak")
EMPTY = made_rule("AS203", "empty-row", "warning", limits="")
SINK = made_rule("AS404", "sink-head", "note")

BY_HAND = (LEAK, PADDING, EMPTY, SINK)
