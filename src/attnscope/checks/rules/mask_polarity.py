"""AS205: the mask keeps what it should drop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.checks.masking.hides import Hide
    from attnscope.checks.masking.polarity import Inverted
    from attnscope.checks.masking.seen import Seen
    from attnscope.checks.subject.roles import Padding
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.masking.polarity import (
        inverted_bits,
        inverted_input,
        inverted_marks,
        inverted_padding,
        only_later,
        upside_down,
    )
    from attnscope.checks.masking.seen import seen_by

    yield from _of_unrecorded(subject)
    all_seen = [seen_by(subject, call) for call in subject.calls]
    for seen in all_seen:
        if any(hide.raises for hide in seen.hides):
            continue  # a fill of the wrong sign: AS207
        bits = inverted_bits(seen)
        if bits is not None:
            yield _of_bits(seen, bits[0])
            continue
        for padding in subject.roles.padding:
            found = inverted_padding(subject, seen, padding)
            if found is not None:
                yield _of_padding(subject, seen, found, padding)
                break
        else:
            named = inverted_input(subject, seen) or inverted_marks(subject, seen)
            if named is not None:
                yield _of_input(seen, *named)
                continue
            found, why = None, "none sees itself, and some see nothing"
            if subject.causal is not None and subject.causal.value:
                found, why = upside_down(subject, seen), subject.causal.why
            found = found or only_later(seen)
            if found is not None and not _goes_both_ways(all_seen):
                yield _of_triangle(subject, seen, found, why)


def _of_unrecorded(subject: Subject) -> Iterator[Finding]:
    """Additive scores: padded keys share the weight, and real ones get none."""
    from attnscope.checks.probes.padding_fills import padding_fills

    try:
        fills = padding_fills(subject)
    except Skipped:
        return
    for fill in fills:
        found = fill.unrecorded
        if not fill.leaks or found is None or not found.inverted:
            continue
        yield RULE.found(
            "padded keys share all of the weight, and real ones get none: what "
            f"{fill.padding.name} marks as padding is just what is left visible",
            {
                "padding": f"{fill.padding.name} {fill.padding.meaning}",
                "sample": found.sample,
                "weight_on_padding": found.weight,
            },
            source=found.additive.line,
            module="",
        )


def _goes_both_ways(all_seen: list[Seen]) -> bool:
    """Return whether some call of the model looks back alone, so that another may look ahead."""
    import torch

    for seen in all_seen:
        hidden, call = seen.effective, seen.call
        if hidden is None or call.queries != call.keys or call.queries < 2:
            continue
        ones = torch.ones(call.queries, call.keys, dtype=torch.bool)
        if bool((~hidden & ones.tril(-1)).any()) and not bool((~hidden & ones.triu(1)).any()):
            return True
    return False


def _of_input(seen: Seen, found: Inverted, name: str) -> Finding:
    from attnscope.checks.masking.lines import line_of_hiding

    return RULE.found(
        f"queries see {found.shown} pairs that {name} says are to be hidden, and none of the "
        f"{found.hidden} that it says are to be seen",
        {"input": name, "visible": found.shown, "hidden": found.hidden},
        source=line_of_hiding(seen, found.hide),
        call=seen.call,
    )


def _of_padding(subject: Subject, seen: Seen, found: Inverted, padding: Padding) -> Finding:
    from attnscope.checks.masking.lines import line_of_hiding
    from attnscope.checks.masking.named import line_made_inverted
    from attnscope.checks.probes.recomputed import Intended, evidence_of

    made = None
    if found.hide is not None:
        names = (padding.name, padding.stream.name)
        inputs = [subject.input_value(n) for n in names if n in subject.given.values]
        made = line_made_inverted(seen, found.hide, inputs, padding.real(subject.given).cpu())
    return RULE.found(
        f"queries see {found.shown} pairs with padded keys and none of {found.hidden} with real "
        f"ones: what {padding.name} marks as padding is just what is left visible",
        {
            "padding": f"{padding.name} {padding.meaning}",
            "visible_padded": found.shown,
            "hidden_real": found.hidden,
            "sample": found.sample,
            **evidence_of(subject, seen.call, Intended(masked=True)),
        },
        source=made or line_of_hiding(seen, found.hide),
        call=seen.call,
    )


def _of_triangle(subject: Subject, seen: Seen, found: Inverted, why: str) -> Finding:
    from attnscope.checks.masking.lines import line_of_hiding
    from attnscope.checks.probes.recomputed import Intended, evidence_of

    return RULE.found(
        f"the causal mask is upside down: queries see {found.shown} pairs with later keys and "
        f"none of the earlier ones ({why})",
        {
            "visible_later": found.shown,
            "hidden_not_later": found.hidden,
            "causal": why,
            **evidence_of(subject, seen.call, Intended(masked=True)),
        },
        source=line_of_hiding(seen, found.hide),
        call=seen.call,
    )


def _of_bits(seen: Seen, hide: Hide) -> Finding:
    from attnscope.checks.masking.lines import line_of_hiding

    return RULE.found(
        "~ of a mask of integers gives -1 and -2, which are both true: all "
        f"{seen.call.queries * seen.call.keys} pairs of queries and keys count as hidden",
        {"hidden_share": 1.0, "queries": seen.call.queries, "keys": seen.call.keys},
        source=line_of_hiding(seen, hide),
        call=seen.call,
        fix="Make it boolean first: ~mask.bool(), or mask == 0.",
    )


RULE = Rule(
    code="AS205",
    name="mask-polarity",
    severity="error",
    what=(
        "The mask is read the wrong way round: queries attend to exactly what it was to hide. True "
        "means hidden to nn.MultiheadAttention, nn.Transformer and masked_fill, and visible to "
        "F.scaled_dot_product_attention and in Hugging Face's attention_mask (1)."
    ),
    why=(
        "Both conventions have the same shapes, nothing raises and the loss still falls. A causal "
        "model sees only the future, an encoder only the padding."
    ),
    fix=(
        "Negate it where it meets the scores: attn_mask=~key_padding_mask[:, None, None, :] for "
        "F.scaled_dot_product_attention, key_padding_mask=~keep for nn.MultiheadAttention, "
        "scores.masked_fill(~keep, -inf), triu(1) to hide and tril() to keep."
    ),
    proof=(
        "The keys that each query sees are read off the operations that hide them, and checked "
        "against the weights in float64: the rule fires where they are exactly the padded ones, in "
        "every sample that has both, or exactly those at and after the query in a model that is "
        "meant to be causal. It also fires, whatever is meant, where queries see later keys alone, "
        "none itself, and some nothing at all; and where a mask of anything else than tokens, of "
        "pixels say, hides all keys when nothing is marked as padding, and none when all is."
    ),
    limits=(
        "Needs to know which tokens are padding, or that the model is causal. Where some layers "
        "look back and others ahead, looking ahead is taken to be meant."
    ),
    sources=(
        "https://github.com/rasbt/LLMs-from-scratch/issues/1061",
        "https://github.com/pytorch/pytorch/pull/170415",
        "https://github.com/pytorch/pytorch/pull/86353",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(50, 32, padding_idx=0)
        self.places = nn.Embedding(20, 32)
        self.qkv = nn.Linear(32, 96)

    def forward(self, ids):
        key_padding_mask = ids == 0
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=key_padding_mask[:, None, :])


model = Encoder().eval()
inputs = torch.tensor([[5, 9, 3, 8, 0, 0], [4, 6, 1, 0, 0, 0]])
expect = {"padding": "ids pad=0"}
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(50, 32, padding_idx=0)
        self.places = nn.Embedding(20, 32)
        self.qkv = nn.Linear(32, 96)

    def forward(self, ids):
        key_padding_mask = ids == 0
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~key_padding_mask[:, None, :])


model = Encoder().eval()
inputs = torch.tensor([[5, 9, 3, 8, 0, 0], [4, 6, 1, 0, 0, 0]])
expect = {"padding": "ids pad=0"}
""",
    check=_check,
    explains=(
        "AS201", "AS202", "AS203", "AS206", "AS208", "AS209", "AS210", "AS212", "AS601", "AS801",
        "AS802",
    ),
)  # fmt: skip
