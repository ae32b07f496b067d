"""AS903: a parameter of the attention takes no part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.calls.source import Source
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_MOST_NAMED = 4


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.toggled_parameters import moved_by_parameters
    from attnscope.checks.residual.cancelling import cancelling_parameters
    from attnscope.checks.residual.idle import idle_parameters

    if subject.model is None:
        raise Skipped("a function has no parameters: give a module")
    if not subject.base.is_faithful:
        raise Skipped(
            "the run can't be written down whole, so that nothing can be said to reach no output"
        )
    for name, line in cancelling_parameters(subject):
        yield _of_cancelling(name, line)
    found = list(idle_parameters(subject))
    if not found:
        return
    if moved_by_parameters(subject, [name for each in found for name in each.names]) > 0.0:
        found = [each for each in found if moved_by_parameters(subject, each.names) == 0.0]
    for each in found:
        shown = ", ".join(each.names[:_MOST_NAMED])
        more = len(each.names) - _MOST_NAMED
        tail = f" and {more} more" if more > 0 else ""
        how = "is read, but what is made of it reaches no output" if each.read else "is never read"
        yield RULE.found(
            f"{shown}{tail} {how}: with other values the output moves by exactly 0",
            {"parameters": list(each.names), "read": each.read, "moved": 0.0},
            source=each.source,
            module=each.owner,
            severity="note" if each.last or each.stock else "warning",
        )


def _of_cancelling(name: str, line: Source | None) -> Finding:
    return RULE.found(
        f"{name} is added to all scores of a row alike, and the softmax takes that out again: with "
        "other values every weight stays what it was",
        {"parameters": [name], "read": True, "moved": 0.0},
        source=line,
        module=name.rpartition(".")[0],
        fix="A sink is one more column of the scores; a bias has to differ from key to key.",
    )


RULE = Rule(
    code="AS903",
    name="idle-parameter",
    severity="warning",
    what="A parameter of an attention module takes no part in what it computes.",
    why=(
        "A projection, norm, temperature or bias that was meant to be there is not; it never "
        "learns, weight decay shrinks it, and a checkpoint loads without complaint."
    ),
    fix="Use it in the forward, or remove it; build an optional one only where it is used.",
    proof=(
        "Every operation of a run is written down: the rule fires where no way leads from a "
        "parameter to any output. The parameters are then given other values, and the output must "
        "move by exactly 0."
    ),
    limits=(
        "Only the modules that attended in this run are looked at. Left alone: frozen parameters "
        "beside trained ones, experts, poolers, heads, copies of what is used in fused form, and "
        "what the code uses only where an argument is given. The last layers of a stack of which "
        "an earlier layer's output is taken, and attention that a library wrote and "
        "computed with no line of the author's own, give a note."
    ),
    sources=(
        "https://github.com/huggingface/diffusers/issues/11903",
        "https://github.com/INK-USC/RE-Net/issues/6",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        return F.scaled_dot_product_attention(q, k, v)


model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        return self.out(F.scaled_dot_product_attention(q, k, v))


model = Attention().eval()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    explains=("AS501",),
    as_it_starts=True,
)  # fmt: skip
