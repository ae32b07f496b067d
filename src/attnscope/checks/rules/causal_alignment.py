"""AS206: the causal mask is aligned to the wrong corner when queries and keys differ in number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.decoding.departure import Departure
    from attnscope.checks.subject.subject import Subject
    from attnscope.checks.visibility.alignment import Misalignment


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.recomputed import Intended, evidence_of
    from attnscope.checks.visibility.alignment import misaligned_in_base
    from attnscope.checks.visibility.tokens import sequence_of

    stream, told = sequence_of(subject), False
    if stream is not None and stream.sequence_axis is not None:
        for each in misaligned_in_base(subject, stream):
            told = True
            again = evidence_of(subject, each.call, Intended(masked=True))
            evidence = _evidence(each) | again
            yield RULE.found(_message(each), evidence, source=each.line, call=each.call)
    if not told:
        yield from _in_steps(subject)


def _in_steps(subject: Subject) -> Iterator[Finding]:
    """Look at the first step with a cache that departs from the full pass."""
    from attnscope.checks.decoding.locating import runs_of
    from attnscope.checks.probes.cached_steps import cached_steps
    from attnscope.checks.probes.recomputed import Intended, evidence_of
    from attnscope.checks.visibility.alignment import misaligned

    try:
        departures = [each for each in cached_steps(subject).departures if each.stepper is not None]
    except Skipped:
        return
    for found in departures[:1]:
        runs = runs_of(subject, found)
        if runs is None:
            return
        _, step, stretch = runs
        for located in step.located:
            if located.call.queries != stretch.count or located.call.keys < stretch.stop:
                continue
            each = misaligned(step, located, stretch.start)
            if each is not None:
                again = evidence_of(subject, each.call, Intended(masked=True), located)
                yield _of_step(found, each, again)


def _of_step(found: Departure, each: Misalignment, again: dict[str, Any]) -> Finding:
    return RULE.found(
        f"{_message(each)}; decoding {found.way} departs from the full pass at position "
        f"{found.position}, by up to {found.largest:.2g} (rounding {found.limit:.1g})",
        _evidence(each)
        | {
            "way": found.way,
            "position": found.position,
            "largest": found.largest,
            "rounding": found.limit,
        }
        | again,
        source=each.line,
        module=each.call.module,
    )


def _message(each: Misalignment) -> str:
    corner = "top left" if each.seen < each.own else "bottom right"
    meet = "meets" if each.queries == 1 else "meet"
    return (
        f"{each.queries} {_plural('query', each.queries)} {meet} {each.keys} "
        f"keys, and the causal mask begins at the {corner} corner: the last query is "
        f"key {each.own} itself and sees none after key {each.seen}"
    )


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else "queries"


def _evidence(each: Misalignment) -> dict[str, object]:
    return {
        "queries": each.queries,
        "keys": each.keys,
        "own_key_of_last_query": each.own,
        "last_key_it_sees": each.seen,
    }


RULE = Rule(
    code="AS206",
    name="causal-alignment",
    severity="error",
    what=(
        "A causal mask begins at the wrong corner where there are fewer queries than keys: with "
        "cached or prepended keys the last query must see the last key."
    ),
    why=(
        "A mask by is_causal=True or by tril(queries, keys) begins at the top left. With a cache "
        "the new token then sees only the first keys, not what came just before it: the same token "
        "is generated again and again, while the full pass is right."
    ),
    fix=(
        "Align to the bottom right: torch.ones(queries, keys, dtype=torch.bool).tril(keys - "
        "queries), or torch.nn.attention.bias.causal_lower_right(queries, keys); with a single new "
        "token no mask is needed."
    ),
    proof=(
        "Which key a query itself is, is known from the step of decoding, or by changing the last "
        "token and seeing which key moves. The call is run again in float64 with queries close to "
        "zero: the last key that each query sees lies on a staircase that begins at the other "
        "corner."
    ),
    limits=(
        "Steps with a cache are looked at where they depart from the full pass (see AS601); other "
        "faults of a mask there are told as AS601."
    ),
    sources=(
        "https://github.com/pytorch/pytorch/issues/108108",
        "https://github.com/pytorch/pytorch/issues/144858",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class WithMemory(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, memory):
        b, t, c = x.shape
        whole = torch.cat([memory, x], dim=1)
        q = self.q(x).view(b, t, self.heads, -1).transpose(1, 2)
        k, v = self.kv(whole).view(b, whole.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


model = WithMemory().eval()
inputs = {"x": torch.randn(2, 5, 32), "memory": torch.randn(2, 8, 32)}
expect = {"causal": True}
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class WithMemory(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, memory):
        b, t, c = x.shape
        whole = torch.cat([memory, x], dim=1)
        q = self.q(x).view(b, t, self.heads, -1).transpose(1, 2)
        k, v = self.kv(whole).view(b, whole.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        visible = torch.ones(t, whole.shape[1], dtype=torch.bool).tril(whole.shape[1] - t)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


model = WithMemory().eval()
inputs = {"x": torch.randn(2, 5, 32), "memory": torch.randn(2, 8, 32)}
expect = {"causal": True}
""",
    check=_check,
    explains=("AS201", "AS212", "AS601"),
)  # fmt: skip
